"""From a rule's text to what it says, or to an error that shows the place and what was expected."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import cache
from pathlib import Path
from typing import cast

from lark import Lark, UnexpectedInput

from scrl.errors import control_character, describe_control
from scrl.rules.errors import Misplaced, PlacedRuleError, mistake, placed, unquoted
from scrl.rules.syntax import Span, Statement
from scrl.rules.transform import FormulaTransformer, Known, Piece, known_names

MAX_TEXT = 200_000
"""A rule's text has at most this many characters."""
MAX_PIECES = 20_000
"""A rule has at most this many tokens, so that parsing takes less than a second."""
MAX_EFFORT = 200_000
"""Limit on tokens, each counted once more for every parenthesis around it."""
MAX_PARENTHESES = 100
"""Parentheses nested deeper than this are refused."""

_COMMENT = re.compile(r"#[^\n]*")
_RULE = re.compile(r'(?:"(?:[^"\\\n]|\\.)*"|#[^\n]*|[^;])+')
"""Matches up to the next ; that is neither in a quoted name nor in a comment."""
_PIECES = re.compile(r'"(?:[^"\\\n]|\\.)*"|#[^\n]*|\w+|\S')
_NESTING = {"(": 1, ")": -1}


def split_rules(text: str) -> list[str]:
    """The rules of a text, separated by `;`; empty pieces are left out."""
    return [rule.strip() for rule in _RULE.findall(text) if says_something(rule)]


def says_something(text: str) -> bool:
    """Whether the text holds more than comments."""
    return bool(_COMMENT.sub("", text).strip())


def parse(
    text: str,
    *,
    regions: Collection[str] | None = None,
    totals: Collection[str] = (),
    rule: str | None = None,
) -> Statement:
    """What the text means: a formula, or one with how surely it must hold.

    `regions` and `totals` are the known names, `rule` its own name.
    """
    prefix = "" if rule is None else f"rule '{rule}': "
    if not isinstance(text, str):
        raise PlacedRuleError(f"{prefix}a rule is text, not {type(text).__name__}")
    if len(text) > MAX_TEXT:
        raise PlacedRuleError(f"{prefix}the text is longer than {MAX_TEXT:,} characters")
    if not says_something(text):
        raise PlacedRuleError(f"{prefix}the text is empty: write a rule such as S1 <= 300")
    known = None if regions is None else Known(dict.fromkeys(regions), totals)
    token = known_names.set(known)
    try:
        _check_limits(text)
        return _read(text, regions)
    except Misplaced as error:
        raise placed(unquoted(error, text, regions or ()) or error, text, rule) from None
    finally:
        known_names.reset(token)


def _read(text: str, regions: Collection[str] | None) -> Statement:
    try:
        piece = cast("Piece", _parser().parse(text))
    except UnexpectedInput as error:
        raise mistake(error, text, regions) from None
    return cast("Statement", piece.value)


@cache
def _parser() -> Lark:
    """The parser, built once, when the first rule is read."""
    grammar = Path(__file__).with_name("grammar.lark").read_text(encoding="utf-8")
    return Lark(grammar, parser="lalr", lexer="basic", transformer=FormulaTransformer())


def _check_limits(text: str) -> None:
    """Refuse control characters and texts that would be slow to parse."""
    if (found := control_character(text, may_break=True)) is not None:
        raise Misplaced(describe_control(found), Span(*found.span()))
    depth = effort = 0
    for count, piece in enumerate(_PIECES.finditer(text), start=1):
        depth += _NESTING.get(piece[0], 0)
        effort += 1 + max(depth, 0)
        message = None
        if depth > MAX_PARENTHESES:
            message = f"parentheses nested deeper than {MAX_PARENTHESES} levels"
        elif count > MAX_PIECES:
            message = f"the rule has more than {MAX_PIECES:,} words and signs"
        elif effort > MAX_EFFORT:
            message = "the rule is too large for so many nested parentheses"
        if message is not None:
            raise Misplaced(message, Span(*piece.span()))
