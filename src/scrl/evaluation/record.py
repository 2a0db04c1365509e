"""The record of an evaluation: what a policy does, and which rules hold, as text and as JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from typing import Any

from scrl.problems.problem import MOST_SHOWN, html_table
from scrl.worlds.sweep.spec import COUNTED


@dataclass(frozen=True)
class RuleResult:
    """One rule: whether it holds as surely as it must, and its margin (negative if violated).

    The margin of a rule with a share p is one that at least a share p of single runs has.
    """

    name: str
    text: str
    is_satisfied: bool
    margin: float
    asked: float | None = None
    """The share of single runs in which it must hold; none: on average."""
    share: float | None = None
    """The share of single runs that keep it; none in results of earlier versions."""
    share_low: float | None = None
    """The ends of its 95 % interval; none for a single run."""
    share_high: float | None = None

    def margin_text(self, form: str = "+.1f") -> str:
        """The margin with its sign, without a minus on a rule that holds and never -0."""
        if self.is_satisfied:
            return format(max(self.margin, 0.0) + 0.0, form)
        text = format(self.margin, form)
        return text if float(text.replace(",", "")) else f"{self.margin:+.1g}"

    @property
    def asked_text(self) -> str:
        """How surely it must hold."""
        return "on average" if self.asked is None else asked_text(self.asked)

    @property
    def share_text(self) -> str:
        """The share of single runs that keep it, with its interval; empty where none is known."""
        if self.share is None:
            return ""
        text = f"{percentage(self.share)} %"
        if self.share_low is None or self.share_high is None:
            return text
        return f"{text} ({percentage(self.share_low)} to {percentage(self.share_high)})"

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "text": self.text,
            "satisfied": self.is_satisfied,
            "margin": self.margin,
            "asked": self.asked,
            "share": self.share,
            "share_low": self.share_low,
            "share_high": self.share_high,
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> RuleResult:
        return cls(
            name=document["name"],
            text=document["text"],
            is_satisfied=document["satisfied"],
            margin=document["margin"],
            asked=document.get("asked"),
            share=document.get("share"),
            share_low=document.get("share_low"),
            share_high=document.get("share_high"),
        )


def percentage(share: float) -> str:
    """A share in percent, with as many decimals as tell it from 0 and 100."""
    rest = 100.0 * min(share, 1.0 - share)
    decimals = 1 if rest <= 0.0 else max(1, math.ceil(-math.log10(2.0 * rest)))
    return f"{100.0 * share:.{min(decimals, MOST_DECIMALS)}f}"


MOST_DECIMALS = 6


def asked_text(share: float) -> str:
    """How surely rules must hold, as text: in 95 %, surely."""
    return "surely" if share == 1.0 else f"in {100.0 * share:.10g} %"


@dataclass(frozen=True, repr=False)
class Evaluation:
    """The result of a policy on a problem, in raw units of resource and raw return."""

    problem: str
    policy: str
    unit: str
    return_: float
    density: dict[str, float]
    density_se: dict[str, float]
    cons_vio: float
    is_satisfied: bool
    rules: tuple[RuleResult, ...]
    episodes: int
    episodes_satisfied: int
    episodes_truncated: int
    """Episodes that the horizon cut off before the end of the path."""
    steps: float
    is_horizon_an_end: bool = False
    """Whether an episode may end at the horizon, without a path to finish."""
    given_out: float | None = None
    """Units given out in all, summed like the densities; None without a map."""
    outside: float | None = None
    """Units that no region received."""
    overlap: float = 0.0
    """Units that are counted twice or more, where regions overlap: what all regions and none
    received, less what was given out. 0 where no two regions overlap: the numbers add up."""
    off_dose: float | None = None
    """Cells of the path whose dose is beyond the limits of the vehicle, because its pump cannot
    follow the speed; None where it can at any speed."""
    units: Mapping[str, str] = field(default_factory=dict)
    """The unit of each region, where these differ."""
    cost: Mapping[str, float] = field(default_factory=dict)
    """What an episode costs in minutes, in units of product and in money, as far as known."""
    confidence: float | None = None
    """The share of single episodes that must keep all rules together."""
    share_low: float | None = None
    """The ends of the 95 % interval of the share of single episodes that keep every rule; none for
    a single episode."""
    share_high: float | None = None
    broken_violation: float | None = None
    """The mean Cons.Vio of the episodes that break a rule; none if none does."""

    @property
    def is_on_average(self) -> bool:
        """Whether all rules must hold on average, and none in a share of single episodes."""
        return self.confidence is None and all(rule.asked is None for rule in self.rules)

    @property
    def share(self) -> float:
        """The share of single episodes that keep every rule."""
        return self.episodes_satisfied / self.episodes

    @property
    def summary(self) -> str:
        """Whether the rules hold and, with several episodes, in which share of single ones."""
        text = "every rule holds" if self.is_satisfied else f"violated by {self.cons_vio:,.2f}"
        if self.episodes == 1:
            is_mixed = self.is_satisfied and not self.episodes_satisfied
            return f"{text} on average over several plans, not by each alone" if is_mixed else text
        how = f" {self.how}" if self.is_satisfied or self.is_on_average else ""
        return f"{text}{how}; {self.single_episodes}"

    @property
    def how(self) -> str:
        """How the rules are judged."""
        return "on average" if self.is_on_average else "as asked"

    @property
    def single_episodes(self) -> str:
        """How many single episodes keep every rule, what was asked, and how far others are off."""
        asked = "" if self.confidence is None else f", {100.0 * self.confidence:.10g} % asked"
        text = (
            f"{self.episodes_satisfied:,} of {self.episodes:,} single episodes "
            f"({percentage(self.share)} %{asked}) keep every rule"
        )
        if self.broken_violation is None:
            return text
        return f"{text}, the others break them by {self.broken_violation:,.2f} on average"

    @property
    def total(self) -> str | None:
        """What was given out in all and outside of all regions, as text; None without a map."""
        if self.given_out is None or self.outside is None:
            return None
        share = 100.0 * self.outside / self.given_out if self.given_out else 0.0
        text = (
            f"given out: {self.shown_total:,.2f} {self.unit}, {self.outside:,.2f} of them "
            f"({share:.1f} %) outside all regions"
        )
        if self.overlap >= 0.005:  # less is rounding
            text += f"; {self.overlap:,.2f} count for more than one region, where these overlap"
        if self.off_dose:
            text += (
                f"; on {self.off_dose:,.2f} cells of the path the dose is beyond its limits, "
                "because the pump cannot follow the speed"
            )
        return text

    @property
    def cost_text(self) -> str | None:
        """What an episode costs, as text; None where its units are not known."""
        if not self.cost:
            return None
        told = {**self.cost, **({self.unit: self.shown_total} if self.unit in self.cost else {})}
        return "cost: " + ", ".join(f"{each:,.2f} {name}" for name, each in told.items())

    @property
    def shown_total(self) -> float:
        """What was given out, such that numbers with two decimals add up where they should."""
        total, outside = self.given_out or 0.0, self.outside or 0.0
        parts = [
            amount for name, amount in self.density.items()
            if name not in self.units or name not in COUNTED
        ]  # fmt: skip
        shown = math.fsum(round(each, 2) for each in (*parts, outside))
        return shown if abs(shown - total) <= 0.01 * (1 + len(parts)) else total

    def to_json(self) -> dict[str, Any]:
        """The fields of the command contract."""
        return {
            "problem": self.problem,
            "policy": self.policy,
            "unit": self.unit,
            "return": self.return_,
            "density": self.density,
            "density_se": self.density_se,
            "cons_vio": self.cons_vio,
            "satisfied": self.is_satisfied,
            "rules": [rule.to_json() for rule in self.rules],
            "confidence": self.confidence,
            "episodes": self.episodes,
            "episodes_satisfied": self.episodes_satisfied,
            "share": self.share,
            "share_low": self.share_low,
            "share_high": self.share_high,
            "broken_violation": self.broken_violation,
            "episodes_truncated": self.episodes_truncated,
            "steps": self.steps,
            "horizon_is_an_end": self.is_horizon_an_end,
            "given_out": self.given_out,
            "outside": self.outside,
            "overlap": self.overlap,
            **({} if self.off_dose is None else {"off_dose": self.off_dose}),
            **({"units": dict(self.units)} if self.units else {}),
            **({"cost": dict(self.cost)} if self.cost else {}),
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Evaluation:
        """The evaluation that `to_json` wrote."""
        rules = tuple(map(RuleResult.from_json, document["rules"]))
        renamed = {"return_": document["return"], "is_satisfied": document["satisfied"]}
        same = (
            "problem", "policy", "unit", "density", "density_se", "cons_vio", "episodes",
            "episodes_satisfied", "episodes_truncated", "steps",
        )  # fmt: skip
        is_end = bool(document.get("horizon_is_an_end", False))
        names = (
            "given_out", "outside", "confidence", "share_low", "share_high", "broken_violation",
            "off_dose",
        )  # fmt: skip
        later: dict[str, Any] = {name: document.get(name) for name in names}
        later |= {name: document.get(name, {}) for name in ("units", "cost")}
        later["overlap"] = document.get("overlap", 0.0)
        return cls(
            rules=rules, is_horizon_an_end=is_end, **renamed, **later,
            **{name: document[name] for name in same},
        )  # fmt: skip

    @property
    def headline(self) -> str:
        """Problem, policy, return and verdict in one line."""
        return f"{self.problem} with {self.policy}: return {self.return_:.2f}, {self.summary}"

    def __repr__(self) -> str:
        return f"<Evaluation {self.headline}>"

    def _repr_html_(self) -> str:
        """Amounts and rules as tables, for notebooks."""
        amounts = [(name, f"{amount:,.1f}") for name, amount in self.density.items()]
        rules = [
            (rule.name, "holds" if rule.is_satisfied else "broken", rule.margin_text(), rule.text)
            for rule in self.rules
        ]
        tables = [
            html_table(("region", self.unit), amounts[:MOST_SHOWN]),
            html_table(("rule", "", "margin", "text"), rules[:MOST_SHOWN]),
        ]
        return f"<b>{escape(self.headline)}</b>" + "".join(tables)

    def __str__(self) -> str:
        amounts = ", ".join(
            f"{name} {amount:.1f}" + (f" {self.units[name]}" if self.units else "")
            for name, amount in self.density.items()
        )
        rules = [f"  {rule.name}: {rule.text} (margin {rule.margin_text()})" for rule in self.rules]
        lines = [self.headline, f"  {self.unit}: {amounts}", *rules]
        lines[2:2] = [f"  {text}" for text in (self.total, self.cost_text) if text is not None]
        return "\n".join([*lines, *self.warnings()])

    def warnings(self) -> list[str]:
        """Warnings about these numbers, such as truncated episodes."""
        if self.episodes_truncated == 0 or self.is_horizon_an_end:
            return []
        return [
            f"{self.episodes_truncated} of {self.episodes} episodes were cut off by horizon_steps "
            "before the end of the path; raise it to see them whole"
        ]
