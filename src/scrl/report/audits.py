"""An audit as text: outcomes of rules, and amounts that are known only up to a limit."""

from __future__ import annotations

import math
from collections.abc import Iterator

from scrl.audit import Audit
from scrl.audit.audit import RuleAudit
from scrl.report.words import RuleDescriber, Said, amount


def outcome_text(result: Audit, rule: RuleAudit) -> str:
    """What decides a rule: the facts that are not met, or what is unknown."""
    if rule.status == "unknown":
        return f"{rule.text}: gaps in the log leave it open"
    said = said_of(result, rule)
    missed = "; ".join(_missed(said)) if rule.status == "broken" else ""
    return missed or said.text


def said_of(result: Audit, rule: RuleAudit) -> Said:
    """A rule in words, by the amounts that are certain."""
    formula = next(each.formula for each in result.problem.rules.rules if each.name == rule.name)
    return RuleDescriber.of(result.problem, result.density).say(formula)


def _missed(said: Said) -> Iterator[str]:
    if said.is_held or not said.is_used:
        return
    if not said.parts:
        yield said.text
    for part in said.parts:
        yield from _missed(part)


def margin_text(rule: RuleAudit) -> str:
    """The margin of a rule, or the range in which it lies."""
    low, high = rule.margin, rule.margin_at_most
    if low == high:
        return _signed(low)
    return f"{_signed(low)} to {_signed(high)}"


def _signed(value: float) -> str:
    if math.isinf(value):
        return "no limit"
    return f"{value:+,.2f}" if round(value, 2) else f"{value + 0.0:+.2g}"


def limit_text(received: float, at_most: float) -> str:
    """The largest possible amount, where it is not the one that is certain."""
    if at_most == received:
        return ""
    return "no limit" if math.isinf(at_most) else amount(at_most)
