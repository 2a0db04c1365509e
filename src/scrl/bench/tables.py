"""The tables: their methods and problems, and the numbers printed in the paper."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from types import MappingProxyType
from typing import Any, NamedTuple

from scrl.errors import ScrlError, did_you_mean
from scrl.problems import load
from scrl.rules import disjuncts
from scrl.training.methods import METHODS, find_method

PAPER_SCALE = 10.0
"""The paper's tables hold amounts and returns divided by this."""


class Published(NamedTuple):
    """Mean and, where printed, standard deviation over ten seeds."""

    violation: float
    violation_std: float | None
    return_: float
    return_std: float | None


PUBLISHED: dict[tuple[str, str], Published] = {
    ("med-situational", "ddpg"): Published(4.84, 0.28, -2.09, 0.01),
    ("med-situational", "rcpo"): Published(5.07, 0.33, -2.09, 0.01),
    ("med-situational", "cal"): Published(16.84, 13.13, -4.05, 2.16),
    ("med-situational", "dcrl-1"): Published(0.0, 0.0, -14.65, 1.02),
    ("med-situational", "dcrl-2"): Published(10.15, 9.17, -11.65, 13.94),
    ("med-situational", "scrl"): Published(0.0, 0.0, -13.12, 3.86),
    ("med-priority", "ddpg"): Published(30.16, 10.61, -2.74, 2.03),
    ("med-priority", "rcpo"): Published(33.36, 0.75, -2.1, 0.01),
    ("med-priority", "cal"): Published(13.31, 7.37, -4.67, 1.90),
    ("med-priority", "dcrl-1"): Published(32.15, 4.44, -3.38, 4.06),
    ("med-priority", "dcrl-2"): Published(7.95, 14.14, -29.77, 19.75),
    ("med-priority", "scrl"): Published(0.0, 0.0, -18.52, 13.17),
    ("med-priority", "scrl-min"): Published(0.7, 2.3, -16.0, 12.0),
    ("med-joint", "ddpg"): Published(54.04, 0.23, -2.09, 0.01),
    ("med-joint", "rcpo"): Published(54.04, 0.22, -2.1, 0.01),
    ("med-joint", "cal"): Published(36.18, 0.4, -5.02, 3.02),
    ("med-joint", "dcrl-1"): Published(41.03, 7.9, -29.97, 18.16),
    ("med-joint", "scrl"): Published(37.17, 8.85, -9.62, 4.17),
    ("agri-situational", "ddpg"): Published(4.85, 0.17, -2.1, 0.0),
    ("agri-situational", "rcpo"): Published(11.49, 1.55, -3.2, 0.3),
    ("agri-situational", "cal"): Published(6.71, 3.95, -3.79, 3.34),
    ("agri-situational", "dcrl-1"): Published(3.52, 4.76, -13.69, 3.15),
    ("agri-situational", "dcrl-2"): Published(4.69, 4.93, -19.15, 14.76),
    ("agri-situational", "scrl"): Published(0.01, 0.03, -45.37, 9.76),
    ("agri-priority", "ddpg"): Published(10.37, 0.3, -2.1, 0.02),
    ("agri-priority", "rcpo"): Published(1.26, 0.67, -3.22, 0.18),
    ("agri-priority", "cal"): Published(7.64, 2.35, -3.74, 3.36),
    ("agri-priority", "dcrl-1"): Published(0.0, 0.0, -31.29, 16.37),
    ("agri-priority", "dcrl-2"): Published(3.88, 4.9, -15.22, 19.15),
    ("agri-priority", "scrl"): Published(0.0, 0.0, -9.46, 1.20),
    ("agri-priority", "scrl-min"): Published(0.3, 0.8, -13.6, 8.2),
    ("agri-joint", "ddpg"): Published(19.54, 0.15, -2.1, 0.01),
    ("agri-joint", "rcpo"): Published(13.22, 0.92, -3.04, 0.21),
    ("agri-joint", "cal"): Published(18.61, 1.23, -2.39, 0.23),
    ("agri-joint", "dcrl-1"): Published(20.3, 10.66, -24.0, 11.82),
    ("agri-joint", "scrl"): Published(4.31, 2.38, -24.53, 5.07),
    ("agri-multi", "ddpg"): Published(8.6, None, -2.1, None),
    ("agri-multi", "rcpo"): Published(10.8, None, -4.2, None),
    ("agri-multi", "cal"): Published(10.0, None, -2.3, None),
    ("agri-multi", "dcrl-1"): Published(9.3, None, -2.1, None),
    ("agri-multi", "dcrl-2"): Published(9.4, None, -14.2, None),
    ("agri-multi", "dcrl-3"): Published(0.0, None, -16.7, None),
    ("agri-multi", "dcrl-4"): Published(0.0, None, -48.3, None),
    ("agri-multi", "scrl"): Published(0.0, None, -11.8, None),
}
"""Published numbers by problem and method; DCRL on joint tasks, which have one disjunct, is
`dcrl-1`."""

PUBLISHED_SPLIT: dict[tuple[str, str], tuple[float, float]] = {
    ("med-priority", "ddpg"): (7.0, 125.1),
    ("med-priority", "scrl"): (24.8, 0.0),
    ("med-joint", "ddpg"): (7.0, 50.0),
    ("med-joint", "scrl"): (9.6, 23.1),
    ("agri-priority", "ddpg"): (6.9, 22.9),
    ("agri-priority", "scrl"): (15.7, 0.0),
    ("agri-joint", "ddpg"): (6.9, 22.9),
    ("agri-joint", "scrl"): (3.8, 0.0),
}
"""Table 2: violations of equity and of adequacy. Its rows called situational are priority tasks."""


EVERY_DISJUNCT = "dcrl"
"""Stands for dcrl-1, dcrl-2, ... up to the number of disjuncts that a problem has."""
BEST_BRANCH = "best-branch"
"""The best of dcrl-1, dcrl-2, ..., which share one budget: a row for several runs."""
BUDGET = 3_700_000
"""Environment steps of each seed, for every method, unless a table is asked for with others."""
ALL_OFF: Mapping[str, Any] = MappingProxyType(
    {
        "sees_prices": False, "settle": 0, "inset": 0.0, "sharpness": 1.0, "is_netted": False,
    }
)  # fmt: skip
ABLATION: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "scrl": {},
        "prices not seen": {"sees_prices": False},
        "no settling": {"settle": 0},
        "no inset": {"inset": 0.0},
        "the paper's draw": {"sharpness": 1.0},
        "expected charge": {"penalty": "scrl-expected"},
        "no netting": {"is_netted": False},
        "discount 0.99": {"discount": 0.99},
        "ddpg": {"learner": "ddpg"},
        "all off": ALL_OFF,
        "the paper's settings": {"preset": "paper"},
    }
)
"""SCRL without one of its parts at a time, without any, and as the paper describes it."""


@dataclass(frozen=True)
class Terms:
    """What all runs of a table have in common."""

    preset: str | None = None
    wind: float | None = None
    """Strength of the gusts; None leaves those of the problem."""
    steps: int | None = None
    """Budget of each seed in environment steps; None: `BUDGET`."""

    @property
    def prefix(self) -> str:
        """The beginning of the folders of runs on these terms."""
        named = {"preset": self.preset, "wind": self.wind, "steps": self.steps}
        return "".join(f"{name}-{value}-" for name, value in named.items() if value is not None)


EQUAL = Terms()
"""Default settings, the problem's own wind, and the same budget for all."""


@dataclass(frozen=True)
class Table:
    """One row for each problem and method."""

    name: str
    title: str
    problems: tuple[str, ...]
    methods: tuple[str, ...]
    is_split: bool = False
    """Whether violations of equity and of adequacy are separate columns."""
    variants: tuple[tuple[str, Mapping[str, Any]], ...] = (("", MappingProxyType({})),)
    """Rows of each method: names, and the settings that they change."""


_SIX = ("med-situational", "med-priority", "med-joint",
        "agri-situational", "agri-priority", "agri-joint")  # fmt: skip
_RIVALS = ("ddpg", "rcpo", "cal", "cpo", "pcpo", "pid-lagrangian", EVERY_DISJUNCT, BEST_BRANCH,
           "scrl")  # fmt: skip


TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        Table("table1", "All methods on the six tasks", _SIX, _RIVALS),
        Table(
            "table2",
            "Equity against adequacy",
            ("med-priority", "med-joint", "agri-priority", "agri-joint"),
            ("ddpg", "scrl"),
            is_split=True,
        ),
        Table("table3", "A rule with four disjuncts", ("agri-multi",), _RIVALS),
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
            (*_RIVALS[:-1], "ppo-lagrangian", "sac-lagrangian", "scrl-min", "scrl"),
        ),
        Table(
            "ablation",
            "SCRL without one of its parts",
            (*_SIX, "agri-multi"),
            ("scrl",),
            variants=tuple(ABLATION.items()),
        ),
    )
}


@dataclass(frozen=True)
class Cell:
    """One row: all seeds of a method on a problem."""

    problem: str
    method: str
    terms: Terms = EQUAL
    name: str = ""
    """The name of a variant of the method."""
    changes: tuple[tuple[str, Any], ...] = ()
    """The settings of that variant: names and values."""
    swept: tuple[tuple[str, Any], ...] = ()
    """The swept settings of this cell: names and values."""

    @property
    def label(self) -> str:
        """The method, or the name of its variant, and the swept settings, as text."""
        swept = (f"{key}={value}" for key, value in self.swept)
        return " ".join([self.name or self.method, *swept])

    @property
    def folder(self) -> str:
        words = re.sub(r"[^\w.=-]+", "-", self.label.replace("'", ""))
        return f"{self.terms.prefix}{self.problem}-{words}"

    @property
    def budget(self) -> int:
        """Environment steps of each seed."""
        return self.terms.steps or BUDGET

    def runs(self) -> tuple[Cell, ...]:
        """The cells that are trained for this one: itself, or one for each branch."""
        if self.method != BEST_BRANCH:
            return (self,)
        count = _disjuncts(self.problem)
        terms = self.terms if count == 1 else replace(self.terms, steps=self.budget // count)
        return tuple(
            replace(self, method=f"dcrl-{number}", terms=terms) for number in range(1, count + 1)
        )


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
    terms: Terms = EQUAL,
) -> list[Cell]:
    """The cells of a table, or of the requested part of it.

    `sweep` names settings and their values: every method gets a row for each combination.
    """
    for name in problems or ():
        if name not in table.problems:
            raise ScrlError(
                f"{table.name} has no task '{name}'{did_you_mean(name, table.problems)}"
            )
    for name in methods or ():
        if name not in (EVERY_DISJUNCT, BEST_BRANCH) and find_method(name) is None:
            raise ScrlError(f"unknown method '{name}'{did_you_mean(name, list(METHODS))}")
    return [
        Cell(
            problem,
            method,
            terms,
            name,
            tuple(changes.items()),
            tuple(zip(sweep, values, strict=True)),
        )
        for problem in table.problems
        if not problems or problem in problems
        for method in _spelled_out(methods or table.methods, problem)
        for name, changes in table.variants
        for values in product(*sweep.values())
    ]


def _spelled_out(methods: Sequence[str], problem: str) -> list[str]:
    found: dict[str, None] = {}
    for method in methods:
        if method == EVERY_DISJUNCT:
            found.update((f"dcrl-{k}", None) for k in range(1, _disjuncts(problem) + 1))
        else:
            found[method] = None
    return list(found)


def _disjuncts(problem: str) -> int:
    """The largest number of disjuncts that a rule of the problem has."""
    return max(len(disjuncts(rule)) for rule in load(problem).rules.positive)
