"""Rule errors with rule, line, column, carets under the mistake, and what was expected."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Set
from difflib import get_close_matches

from lark import Token, UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from scrl.errors import RuleError
from scrl.rules.show import KEYWORDS, show_name
from scrl.rules.syntax import ONCE, Span

WINDOW = 78
"""A longer line is cut to this many characters around the place."""
_BEFORE = 30


class PlacedRuleError(RuleError):
    """A rule error with its line and column, both counted from 1."""

    def __init__(self, message: str, line: int | None = None, column: int | None = None) -> None:
        super().__init__(message)
        self.line = line
        self.column = column


class Misplaced(Exception):  # noqa: N818 - never leaves this package
    """A mistake at a span of the text; `placed` turns it into the error that the user sees."""

    def __init__(self, message: str, span: Span) -> None:
        super().__init__(message)
        self.message = message
        self.span = span


def placed(mistake: Misplaced, text: str, rule: str | None) -> PlacedRuleError:
    """The error that is shown to the user, with its place in the text."""
    line, column = line_and_column(text, mistake.span.start)
    header = f"{where(text, mistake.span, rule)}: {mistake.message}"
    return PlacedRuleError(f"{header}\n{_picture(text, mistake.span)}", line, column)


def where(text: str, span: Span, rule: str | None) -> str:
    """The place as text: rule 'equity', line 1, column 4."""
    line, column = line_and_column(text, span.start)
    prefix = "" if rule is None else f"rule '{rule}', "
    return f"{prefix}line {line}, column {column}"


def line_and_column(text: str, offset: int) -> tuple[int, int]:
    """Line and column of an offset, counted from 1."""
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


def _picture(text: str, span: Span) -> str:
    """The line of the span, cut to a window, and carets under the span."""
    first = text.rfind("\n", 0, span.start) + 1
    last = text.find("\n", span.start)
    last = len(text) if last < 0 else last
    left, right = _window(first, last, span.start)
    head, tail = "..." * (left > first), "..." * (right < last)
    before = head + printable(text[left : span.start])
    piece = printable(text[span.start : max(span.start, min(span.end, right))])
    after = printable(text[span.start + len(piece) : right]) + tail
    carets = "^" * max(1, _width(piece))
    return f"  {before}{piece}{after}\n  {' ' * _width(before)}{carets}"


def _window(first: int, last: int, start: int) -> tuple[int, int]:
    if last - first <= WINDOW:
        return first, last
    left = max(first, min(start - _BEFORE, last - WINDOW))
    return left, min(last, left + WINDOW)


def no_area(dose: str) -> str:
    """Why a rule cannot name this dose."""
    return f"{dose}: the region has no known area here, and a dose is an amount per area"


def printable(text: str) -> str:
    """The text with one printable character for each character."""
    return "".join(char if char.isprintable() else " " for char in text)


def _width(text: str) -> int:
    """Columns that the text takes on a terminal."""
    return sum(
        0 if unicodedata.combining(char) else 1 + (unicodedata.east_asian_width(char) in "WF")
        for char in text
    )


_SPELLINGS = {
    "&": "write 'and'",
    "|": "write 'or'",
    "!": "write 'not (...)'",
    "'": 'write a name in "double quotes"',
    '"': 'the quoted name does not end, or holds a backslash that is not \\\\ or \\"',
    "=>": "write '->' for implies, or '>='",
    "=<": "write '<='",
    "<>": "write 'not (... == ...)'",
    "!=": "write 'not (... == ...)'",
    "**": "a rule is linear, without powers",
}
_ORPHANS = {"THEN": "there is no 'if' before it", "RPAR": "there is no '(' before it"}
_END = "$END"
_CHOICES = (
    ("LPAR", "'('"),
    ("COMMA", "','"),
    ("AND", "'and'"),
    ("OR", "'or'"),
    ("ARROW", "'->'"),
    ("THEN", "'then'"),
    ("RPAR", "')'"),
    ("NUMBER", "a number"),
    ("PERCENT", "'%', as in 'in 95 %'"),
    ("AVERAGE", "'average'"),
    (_END, "the end of the rule"),
)
_CALLS = ("total", "average", "max", "min", "dose")
_SHARES = ("IN", "ON", "SURELY")
_SEPARATOR = re.compile(r"[_,]\d\d\d")
_FACTOR = re.compile(r"(?:\d|(?:^|[-+(,]|\b(?:and|or|not|if|then))\s*[\d.]+\s+)\Z")
"""Matches a factor before a region: 2S4, or S1 + 2 S4 (but not S1 <= 3 S4)."""
_LAST_WORD = re.compile(r"([^\W\d]\w*)\s*\Z")
_BOUND = re.compile(r"(?:[<>=≤≥]|\bwithin)\s*[-+\d.eE]+\s*\Z")
"""Matches a bound, such as <= 3, before the mistake."""
_WORDS = re.compile(r"\w+(?:[ \t]+\w+)+")


def mistake(error: UnexpectedInput, text: str, regions: Collection[str] | None = None) -> Misplaced:
    """The parser's error as a readable message at its place; `regions` are the known names."""
    if isinstance(error, UnexpectedCharacters):
        return _bad_character(text, error.pos_in_stream)
    if isinstance(error, UnexpectedToken):
        token, accepted = error.token, error.accepts or set()
        if token.type == _END:
            message = f"the rule ends too early: expected {_expected(accepted)}"
            return Misplaced(message, Span(token.end_pos or 0, token.end_pos or 0))
        return _bad_token(token, accepted, text, token in (regions or ()))
    raise error


def _bad_character(text: str, start: int) -> Misplaced:
    char = text[start]
    hint = _SPELLINGS.get(text[start : start + 2]) or _SPELLINGS.get(char)
    hint = hint or "it has no meaning in a rule"
    shown = char if char.isprintable() else f"U+{ord(char):04X}"
    return Misplaced(f"unexpected character '{shown}': {hint}", Span(start, start + 1))


def _bad_token(token: Token, accepted: Set[str], text: str, is_region: bool) -> Misplaced:
    start, end = token.start_pos or 0, token.end_pos or 0
    slip = _slip_before(text, start)
    if slip is not None:
        word = text[slip.start : slip.end]
        return Misplaced(f"unexpected '{word}': did you mean '{word.lower()}'?", slip)
    shown = printable(token if len(token) <= 40 else token[:37] + "...")
    before, here = text[max(0, start - 60) : start], text[start : start + 5]
    hint = _hint(token, accepted, before, here, is_region)
    return Misplaced(f"unexpected '{shown}': {hint}", Span(start, end))


def _slip_before(text: str, start: int) -> Span | None:
    """A keyword in upper case just before, which was read as a region: IF S1 > 3 then ..."""
    window = max(0, start - 60)
    found = _LAST_WORD.search(text[window:start])
    if found is None or found[1] in KEYWORDS or found[1].lower() not in KEYWORDS:
        return None
    return Span(window + found.start(1), window + found.end(1))


def _hint(token: Token, accepted: Set[str], before: str, here: str, is_region: bool) -> str:
    if before[-1:].isdigit() and _SEPARATOR.match(here):
        return "write a number without separators, as in 1000"
    if before[-1:] + token[:1] in _SPELLINGS:
        return _SPELLINGS[before[-1:] + token[:1]]
    if (shares := _share_hint(token, accepted)) is not None:
        return shares
    if token.type in _ORPHANS and _END in accepted:
        return _ORPHANS[token.type]
    if _FACTOR.search(before) and token.type in ("NAME", "QUOTED", "LPAR"):
        return "between a number and a region write '*', as in 2*S4"
    if token.type == "NAME":
        word = token[:40].lower()
        words = [each for each in KEYWORDS if each.upper() in accepted]
        # Two letters resemble too much; in95 is meant as in 95.
        short = [each for each in words if len(each) == 2 and word.rstrip("0123456789") == each]
        words = [each for each in words if len(each) > 2 or each == "or"]
        near = short or get_close_matches(word, words, n=1, cutoff=0.65)
        if near:
            return f"did you mean '{near[0]}'?"
        last = None if is_region else _LAST_WORD.search(before)
        if last is not None and last[1] not in KEYWORDS:
            return f'write a name with spaces in double quotes, as in "{last[1]} {token[:40]}"'
        if _BOUND.search(before) and not is_region:
            return f"write the number without a unit (then follows {_expected(accepted)})"
    return f"expected {_expected(accepted)}"


def _share_hint(token: Token, accepted: Set[str]) -> str | None:
    """The hint for a share in a part of a rule, for words behind one, and for a lone `%`."""
    if accepted == {_END} and token.type in (*_SHARES, "AND", "OR", "ARROW", "IMPLIES"):
        return f"{ONCE}; write several rules, or (... and ...) in 95 %"
    if token.type in _SHARES and "RELATION" not in accepted and {"AND", "THEN", "RPAR"} & accepted:
        return ONCE
    if token.type == "PERCENT" and "AND" in accepted:
        return "a share of single runs is written 'in 95 %'"
    return None


def unquoted(mistake: Misplaced, text: str, regions: Collection[str]) -> Misplaced | None:
    """The mistake of a region's name without the quotes it needs; None if that is not the cause."""
    start = mistake.span.start
    names = [name for name in regions if show_name(name) != name]
    for name in sorted((name for name in names if name in text), key=len, reverse=True):
        window = max(0, start - len(name) + 1)
        spelled = re.compile(rf'(?<![\w"]){re.escape(name)}(?!\w)')
        found = spelled.search(text, window, start + len(name))
        if found is not None and found.start() <= start:
            message = f"a name with spaces or signs is quoted: write {show_name(name)}"
            return Misplaced(message, Span(*found.span()))
    before = _LAST_WORD.search(text[:start])
    if before is not None and before[1] in names and before[1] in _CALLS:
        message = f"a region with the name of a function is quoted: write {show_name(before[1])}"
        return Misplaced(message, Span(*before.span(1)))
    words = _WORDS.match(text, start)
    if words is None:
        return None
    near = get_close_matches(words[0][:80], names, n=1, cutoff=0.75)
    if not near:
        return None
    message = f"unknown region '{words[0]}': did you mean '{show_name(near[0])}'?"
    return Misplaced(message, Span(*words.span()))


def _expected(accepted: Collection[str]) -> str:
    """The accepted tokens as readable text."""
    if "NAME" in accepted and "NUMBER" not in accepted:
        return "a region"
    if "NAME" in accepted:
        words = [f"'{word}'" for word in ("not", "if") if word.upper() in accepted]
        return _listed(["a region", "a number", *words, "'('"])
    choices = [word for name, word in _CHOICES if name in accepted]
    if "RELATION" in accepted and "AND" not in accepted:
        choices.append("a comparison such as <= or >=")
    return _listed(choices)


def _listed(choices: list[str]) -> str:
    return " or ".join(filter(None, (", ".join(choices[:-1]), choices[-1])))
