"""What the tables hold: which methods on which problems. The paper's tables, and our own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from types import MappingProxyType
from typing import Any

from scrl.errors import ScrlError, did_you_mean
from scrl.problems import load
from scrl.roster import METHODS, find_method
from scrl.rules import disjuncts

EVERY_DISJUNCT = "dcrl"
"""Stands for dcrl-1, dcrl-2, ... up to the number of disjuncts that a problem has."""


@dataclass(frozen=True)
class Variant:
    """What is changed in every run of a table."""

    gusts: float | None = None
    """Strength of the wind; none: as the problem has it."""
    preset: str | None = None


VARIANTS: dict[str, Variant] = {
    "": Variant(),
    "wind": Variant(gusts=0.1),
    "paper": Variant(preset="paper"),
}


@dataclass(frozen=True)
class Table:
    """One row for each problem and method."""

    name: str
    title: str
    problems: tuple[str, ...]
    methods: tuple[str, ...]
    is_split: bool = False
    """Whether violations are told apart: equity and adequacy."""
    variant: str = ""
    """A name out of `VARIANTS`."""


_SIX = ("med-situational", "med-priority", "med-joint",
        "agri-situational", "agri-priority", "agri-joint")  # fmt: skip


TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        Table(
            "table1",
            "All methods on the six tasks",
            _SIX,
            ("ddpg", "rcpo", "cal", EVERY_DISJUNCT, "scrl"),
        ),
        Table(
            "table2",
            "Equity against adequacy",
            ("med-priority", "med-joint", "agri-priority", "agri-joint"),
            ("ddpg", "scrl"),
            is_split=True,
        ),
        Table(
            "table3",
            "A rule with four disjuncts",
            ("agri-multi",),
            ("ddpg", "rcpo", "cal", EVERY_DISJUNCT, "scrl"),
        ),
        Table(
            "table4",
            "The draw against the smallest penalty",
            ("med-priority", "agri-priority"),
            ("scrl-min", "scrl"),
        ),
        Table(
            "all",
            "Every method on every task",
            (*_SIX, "agri-multi"),
            ("ddpg", "rcpo", "cal", "ppo-lagrangian", "sac-lagrangian", EVERY_DISJUNCT,
             "scrl-min", "scrl"),
        ),
        Table(
            "wind",
            "SCRL in gusts of 10 %",
            ("agri-situational", "agri-priority", "agri-joint"),
            ("scrl",),
            variant="wind",
        ),
        Table(
            "preset",
            "SCRL with the paper's own settings",
            (*_SIX, "agri-multi"),
            ("scrl",),
            variant="paper",
        ),
    )
}  # fmt: skip


@dataclass(frozen=True)
class Cell:
    """One run: all seeds of a method on a problem."""

    problem: str
    method: str
    variant: str = ""
    swept: tuple[tuple[str, Any], ...] = ()
    """Settings of its own: names and values."""

    @property
    def label(self) -> str:
        """The method, and what is swept."""
        return " ".join([self.method, *(f"{key}={value}" for key, value in self.swept)])

    @property
    def folder(self) -> str:
        return "-".join(filter(None, (self.variant, self.problem, self.label.replace(" ", "-"))))


def find_table(name: str) -> Table:
    if name not in TABLES:
        raise ScrlError(f"unknown table '{name}'{did_you_mean(name, list(TABLES))}")
    return TABLES[name]


def cells_of(
    table: Table,
    *,
    methods: Sequence[str] | None = None,
    problems: Sequence[str] | None = None,
    sweep: Mapping[str, Sequence[Any]] = MappingProxyType({}),
) -> list[Cell]:
    """The runs behind a table, or behind the part of it that was asked for.

    `sweep` names settings and their values: every method gets a run for each combination.
    """
    for name in problems or ():
        if name not in table.problems:
            raise ScrlError(
                f"{table.name} has no task '{name}'{did_you_mean(name, table.problems)}"
            )
    for name in methods or ():
        if name != EVERY_DISJUNCT and find_method(name) is None:
            raise ScrlError(f"unknown method '{name}'{did_you_mean(name, list(METHODS))}")
    return [
        Cell(problem, method, table.variant, tuple(zip(sweep, values, strict=True)))
        for problem in table.problems
        if not problems or problem in problems
        for method in _spelled_out(methods or table.methods, problem)
        for values in product(*sweep.values())
    ]


def _spelled_out(methods: Sequence[str], problem: str) -> list[str]:
    found: dict[str, None] = {}
    for method in methods:
        if method == EVERY_DISJUNCT:
            most = max(len(disjuncts(rule)) for rule in load(problem).rules.positive)
            found.update((f"dcrl-{number}", None) for number in range(1, most + 1))
        else:
            found[method] = None
    return list(found)
