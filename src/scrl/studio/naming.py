"""Names of regions in the texts of rules: which rules fit a map, and another name in all."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

from scrl.errors import ScrlError
from scrl.rules import Rule
from scrl.rules.show import TOTALS, dose_name, show_region
from scrl.studio.document import RuleText

_NAME = re.compile(r'"(?:[^"\\\n]|\\.)*"|#[^\n]*|(?P<function>region(?=\s*\())|[^\W\d]\w*')
"""Matches names and comments, so that no name inside a comment or a quoted name is found."""


def fits(rule: RuleText, regions: Sequence[str]) -> bool:
    """Whether a rule can be read on a map with these regions."""
    try:
        known = dict.fromkeys([*TOTALS, *map(dose_name, regions)])
        Rule.read(rule.name, rule.text, regions, known)
    except ScrlError:
        return False
    return True


def switched_off(rules: Sequence[RuleText], regions: Sequence[str]) -> tuple[RuleText, ...]:
    """The rules, with those off that name regions which the map does not have."""
    return tuple(
        dataclasses.replace(rule, is_on=rule.is_on and fits(rule, regions)) for rule in rules
    )


def with_region_renamed(
    rules: Sequence[RuleText], name: str, to: str, regions: Sequence[str]
) -> tuple[RuleText, ...]:
    """The rules that can be read, with another name for a region; the others as they are."""
    written, quoted, new = show_region(name), f'"{name}"', show_region(to)

    def renamed(found: re.Match[str]) -> str:
        is_name = found["function"] is None and found[0] in (written, quoted)
        return new if is_name else found[0]

    return tuple(
        dataclasses.replace(rule, text=_NAME.sub(renamed, rule.text))
        if fits(rule, regions)
        else rule
        for rule in rules
    )
