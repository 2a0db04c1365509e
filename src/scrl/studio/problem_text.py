"""Changes the text of a problem file and keeps the rest of it, such as its comments."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from scrl.problems.save import key_text, value_text
from scrl.studio.document import RuleText
from scrl.studio.errors import StudioError

OFF = "#off "
"""Begins the line of a rule that is switched off; other commands read it as a comment."""
_TABLE = re.compile(r"\s*\[")


def read_rules(text: str) -> tuple[RuleText, ...]:
    """The rules of a file in their order, with those that are switched off."""
    lines = text.split("\n")
    begin, end = _section(lines, "rules")
    if begin == end:
        return ()
    found = [RuleText(name, each) for name, each in tomllib.loads(text)["rules"].items()]
    for index in range(begin, end):
        if lines[index].startswith(OFF) and (rule := _switched_off(lines[index])) is not None:
            if any(each.name == rule.name for each in found):
                continue
            found.insert(_rules_before(lines[begin:index], found), rule)
    return tuple(found)


def _switched_off(line: str) -> RuleText | None:
    try:
        ((name, text),) = tomllib.loads(line.removeprefix(OFF)).items()
    except ValueError:
        return None
    return RuleText(name, text, is_on=False) if isinstance(text, str) else None


def _rules_before(lines: Sequence[str], found: Sequence[RuleText]) -> int:
    """The place after the rules of these lines, on or off."""
    try:
        names = set(tomllib.loads("\n".join(lines)).get("rules", {}))
    except tomllib.TOMLDecodeError:
        return len(found)
    names |= {rule.name for line in lines if line.startswith(OFF) and (rule := _switched_off(line))}
    return sum(rule.name in names for rule in found)


def with_rules(text: str, rules: Sequence[RuleText]) -> str:
    """The text with these rules in place of its own."""
    lines = text.split("\n")
    begin, end = _section(lines, "rules")
    if begin == end:
        lines = [*_trimmed(lines), "", "[rules]", ""]
        begin, end = _section(lines, "rules")
    body = lines[begin + 1 : end]
    as_written = _single_lines(body)
    blank = len(body) - len(_trimmed(body))
    comments = [line for line in body if line.lstrip().startswith("#") and not _is_off(line)]
    new = [as_written.get(rule, rule_line(rule)) for rule in rules]
    after = [""] * max(blank, 1)
    changed = "\n".join([*lines[: begin + 1], *comments, *new, *after, *lines[end:]])
    _check(text, changed, {"rules": {rule.name: rule.text for rule in rules if rule.is_on}})
    return changed


def rule_line(rule: RuleText) -> str:
    """The line of a rule; one that is switched off is a comment."""
    return f"{'' if rule.is_on else OFF}{key_text(rule.name)} = {value_text(rule.text)}"


def _is_off(line: str) -> bool:
    return line.startswith(OFF) and _switched_off(line) is not None


def _single_lines(lines: Sequence[str]) -> dict[RuleText, str]:
    """Rules that take one line, as they are written, with their comments."""
    found = {}
    for line in lines:
        try:
            pairs = list(tomllib.loads(line).items())
        except ValueError:
            continue
        if len(pairs) == 1 and isinstance(pairs[0][1], str):
            found[RuleText(*pairs[0])] = line
    return found


def with_values(text: str, table: str, values: Mapping[str, Any], known: Sequence[str]) -> str:
    """The text with these values in a table; other keys among the `known` ones are removed."""
    had = tomllib.loads(text).get(table, {})
    kept = {key: value for key, value in had.items() if key not in known}
    if {**kept, **values} == had:
        return text
    lines = text.split("\n")
    begin, end = _section(lines, table)
    if begin == end:
        lines = [*_trimmed(lines), "", f"[{table}]", ""]
        begin, end = _section(lines, table)
    for key in known:
        if had.get(key) != values.get(key):
            lines[begin:end] = _with_value(lines[begin:end], key, values.get(key))
            begin, end = _section(lines, table)
    changed = "\n".join(lines)
    _check(text, changed, {table: {**kept, **values}})
    return changed


def _with_value(lines: list[str], key: str, value: Any) -> list[str]:
    """The lines of a table with one key set, or removed for None."""
    pattern = re.compile(
        rf"(?P<off>#\s*)?{re.escape(key)}\s*=\s*(?:\"[^\"]*\"|'[^']*'|[^#\"']*?)(?P<tail>\s+#.*)?"
    )
    places = [index for index, line in enumerate(lines) if pattern.fullmatch(line)]
    active = [index for index in places if not lines[index].startswith("#")]
    if value is None:
        return [line for index, line in enumerate(lines) if index not in active]
    new = f"{key} = {value_text(value)}"
    for index in [*active, *places][:1]:
        found = pattern.fullmatch(lines[index])
        tail = (found["tail"] if found else None) or ""
        return [*lines[:index], new + tail, *lines[index + 1 :]]
    return [lines[0], new, *lines[1:]]


def _section(lines: Sequence[str], table: str) -> tuple[int, int]:
    """The lines of a table with its heading; an empty range where there is none."""
    heading = re.compile(rf"\s*\[\s*{table}\s*\]\s*(#.*)?")
    for begin, line in enumerate(lines):
        if heading.fullmatch(line):
            rest = range(begin + 1, len(lines))
            return begin, next((at for at in rest if _TABLE.match(lines[at])), len(lines))
    return len(lines), len(lines)


def _trimmed(lines: Sequence[str]) -> list[str]:
    """Without the blank lines at the end."""
    kept = list(lines)
    while kept and not kept[-1].strip():
        kept.pop()
    return kept


def _check(before: str, after: str, changes: Mapping[str, Any]) -> None:
    """Raise unless the text reads back as the old one with these tables."""
    wanted = {**tomllib.loads(before), **changes}
    try:
        found = tomllib.loads(after)
    except ValueError:
        found = {}
    empty: dict[str, Any] = {table: {} for table in changes}
    if {**empty, **found} != {**empty, **wanted}:
        tables = ", ".join(f"[{table}]" for table in changes)
        raise StudioError(
            f"{tables} of the problem file cannot be changed without touching the rest of it: "
            "use Save as, which writes a new one"
        )
