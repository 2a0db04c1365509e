"""Two plans beside each other: what is drawn of each, and a table of their differences."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from scrl.evaluation import Evaluation, RuleResult
from scrl.problems import Problem
from scrl.report.words import amount

NOT_ASKED, NO_REGION = "not asked for", "not on the map"


@dataclass(frozen=True, eq=False)
class ShownPlan:
    """A plan or a trained policy, with what is drawn of it."""

    label: str
    problem: Problem
    evaluation: Evaluation
    verdict: str
    map: dict[str, Any]
    route: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        """What the page draws."""
        return {"label": self.label, "verdict": self.verdict, "map": self.map, "route": self.route}


@dataclass(frozen=True)
class ComparedRow:
    """One row: what it is about, the two values, and the second less the first."""

    name: str
    first: str
    second: str
    difference: str


def differences(first: ShownPlan, second: ShownPlan) -> dict[str, list[dict[str, str]]]:
    """Tables of whole drives, regions and rules; all rows of both are there."""
    tables = {
        "The whole drive": _whole(first, second),
        "What each region receives": _regions(first.evaluation, second.evaluation),
        "The rules": _rules(first, second),
    }
    return {title: [asdict(row) for row in rows] for title, rows in tables.items()}


def _row(name: str, first: float | None, second: float | None, missing: str = "") -> ComparedRow:
    one, other = (missing if each is None else amount(each) for each in (first, second))
    difference = "" if first is None or second is None else _signed(second - first)
    return ComparedRow(name, one, other, difference)


def _signed(value: float) -> str:
    text = amount(value)
    return text if text == "0" or text.startswith("-") else f"+{text}"


def _whole(first: ShownPlan, second: ShownPlan) -> list[ComparedRow]:
    a, b = first.evaluation, second.evaluation
    return [
        _row("Cost (the negative of the return)", -a.return_, -b.return_),
        _row("Steps", a.steps, b.steps),
        _row(f"Given out, in {first.problem.unit}", a.given_out, b.given_out),
        _row("Rules broken by, in all", a.cons_vio, b.cons_vio),
    ]


def _regions(a: Evaluation, b: Evaluation) -> list[ComparedRow]:
    names = [*a.density, *(name for name in b.density if name not in a.density)]
    return [_row(name, a.density.get(name), b.density.get(name), NO_REGION) for name in names]


def _rules(first: ShownPlan, second: ShownPlan) -> list[ComparedRow]:
    """The text of a rule is shown where it differs, and else its margin."""
    a, b = ({each.name: each for each in plan.evaluation.rules} for plan in (first, second))
    rows = []
    for name in [*a, *(name for name in b if name not in a)]:
        one, other = a.get(name), b.get(name)
        if one is not None and other is not None and one.text == other.text:
            by = _signed(other.margin - one.margin)
            rows.append(ComparedRow(name, _judged(one), _judged(other), by))
        else:
            rows.append(ComparedRow(name, _in_full(one), _in_full(other), ""))
    return rows


def _in_full(rule: RuleResult | None) -> str:
    return NOT_ASKED if rule is None else f"{rule.text}: {_judged(rule)}"


def _judged(rule: RuleResult) -> str:
    margin = amount(abs(rule.margin))
    return f"kept, {margin} to spare" if rule.is_satisfied else f"broken by {margin}"
