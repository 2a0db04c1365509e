"""What every problem says, whatever world it has: rules over regions, and how they are judged."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import Any

from scrl.rules import AtomTable, Conventions, RuleSet
from scrl.worlds.settings import check_settings, setting
from scrl.worlds.units import Units


@dataclass(frozen=True)
class ProblemOptions:
    """How rules are read and judged."""

    name: str = setting("", "Short name, used in tables and run folders.")
    description: str = setting("", "One sentence for people.", may_break=True)
    equality_band: float = setting(
        0.0, "Band of an equality that has no `within` of its own.", unit="units", low=0.0
    )
    margin: float = setting(
        0.0, "How far past its bound a negated comparison must be.", unit="units", low=0.0
    )
    tolerance: float = setting(
        1e-6, "Violation up to which the rules count as satisfied.", unit="units", low=0.0
    )
    discount: float = setting(
        1.0,
        "Weight of a step against the one before it (1: plain sums).",
        low=0.0,
        is_low_open=True,
        high=1.0,
    )

    def __post_init__(self) -> None:
        check_settings(self)

    @property
    def conventions(self) -> Conventions:
        return Conventions(margin=self.margin, equality_band=self.equality_band)


MOST_SHOWN = 40
"""Rules that a notebook shows."""


def _rules_text(rules: RuleSet) -> str:
    count = len(rules.rules)
    return f"{count} rule{'' if count == 1 else 's'}"


def html_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A plain table of texts, for notebooks."""
    lines = [("th", head), *(("td", row) for row in rows)]
    cells = ("".join(f"<{tag}>{escape(str(text))}</{tag}>" for text in row) for tag, row in lines)
    return f"<table>{''.join(f'<tr>{row}</tr>' for row in cells)}</table>"


class Terms(ABC):
    """A problem as training, reports and comparisons see it: a map, or somebody's environment."""

    rules: RuleSet
    options: ProblemOptions

    @property
    @abstractmethod
    def units(self) -> Units:
        """What densities count, and how long a step is."""

    @property
    @abstractmethod
    def is_random(self) -> bool:
        """Whether chance plays a part."""

    @property
    @abstractmethod
    def return_text(self) -> str:
        """What a return is made of, and what 1 more of it means."""

    @abstractmethod
    def parts(self) -> dict[str, Any]:
        """All that makes it this problem and no other, by name; names of problems do not."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}: {self._extent()}, {_rules_text(self.rules)}>"

    def _extent(self) -> str:
        """How large its world is, in a few words."""
        return f"{len(self.regions)} regions"

    def _repr_html_(self) -> str:
        """The rules as a table, for notebooks."""
        head = f"<b>{escape(self.name)}</b>: {escape(self._extent())}"
        rows = [(rule.name, rule.text) for rule in self.rules.rules[:MOST_SHOWN]]
        if (more := len(self.rules.rules) - len(rows)) > 0:
            rows.append(("", f"... and {more} more"))
        return head + html_table(("rule", "text"), rows)

    @property
    def transit_steps(self) -> float:
        """How long the vehicle is in transit, in steps, which episodes do not count."""
        return 0.0

    @property
    def name(self) -> str:
        return self.options.name

    @property
    def regions(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(self.rules.regions)

    @property
    def unit(self) -> str:
        """What densities count."""
        return self.units.unit

    def unit_of(self, regions: Iterable[str]) -> str:
        """What the amounts of these regions count; the neutral word where that differs."""
        del regions
        return self.unit

    @property
    def tolerance(self) -> float:
        return self.options.tolerance

    @property
    def discount(self) -> float:
        """Of densities and returns; what a learner discounts by is a setting of its own."""
        return self.options.discount

    @cached_property
    def atoms(self) -> AtomTable:
        """The rules as matrices."""
        return AtomTable.of(self.rules)

    def judged_by(self) -> dict[str, Any]:
        """The parts that all problems have."""
        formulas = tuple(rule.formula for rule in self.rules.rules)
        return {
            "rules": (formulas, self.rules.conventions),
            "tolerance": self.tolerance,
            "discount": self.discount,
        }


def difference_between(one: Terms, other: Terms) -> list[str]:
    """In what two problems differ; nothing where they are the same but for their names."""
    first, second = one.parts(), other.parts()
    if first.keys() != second.keys():
        return ["world"]
    return [name for name, part in first.items() if part != second[name]]
