"""A problem: a world and the rules that hold in it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrl.errors import ProblemError, RuleError
from scrl.rules import AtomTable, Conventions, Rule, RuleSet, Statement, d, show_share
from scrl.rules.linear import exact
from scrl.settings import check_settings, setting
from scrl.statistics import least_runs
from scrl.worlds.sweep.keep_out import KeepOut
from scrl.worlds.sweep.maps import MapOptions
from scrl.worlds.sweep.spec import TIMES, USED, SweepSpec, cell_on_map
from scrl.worlds.sweep.vehicle import Units, Vehicle

if TYPE_CHECKING:
    from scrl.worlds.sweep.world import SweepWorld


@dataclass(frozen=True)
class ProblemOptions:
    """Name of the problem and the settings by which its rules are read and judged."""

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
        "Discount per step of densities and returns (1: plain sums).",
        low=0.0,
        is_low_open=True,
        high=1.0,
    )

    confidence: float | None = setting(
        None,
        "Share of single runs that must keep all rules together (none: each as surely as it says).",
        low=0.0,
        is_low_open=True,
        high=1.0,
        is_high_open=True,
    )

    def __post_init__(self) -> None:
        check_settings(self)

    @property
    def conventions(self) -> Conventions:
        return Conventions(margin=self.margin, equality_band=self.equality_band)


MOST_RUNS = 100_000
"""Shares of single runs that more runs than this would be needed to show are refused."""


def check_shares(rules: RuleSet, *, is_random: bool, unbounded: str) -> None:
    """Raise for rules that nobody can show to hold as surely as they must.

    `unbounded` says why chance knows no bounds here; it is empty where it does.
    """
    if not is_random:
        return
    for name, share in zip([rule.name for rule in rules.rules], rules.shares, strict=True):
        if share == 1 and unbounded:
            raise RuleError(
                f"rule '{name}' must hold surely, and nobody can promise that here: {unbounded}; "
                "write 'in 99 %' instead"
            )
        if share is not None and share < 1 and (needed := least_runs(share)) > MOST_RUNS:
            raise RuleError(
                f"rule '{name}' must hold {show_share(share)} of single runs: to show that takes "
                f"{needed:,} runs, and at most {MOST_RUNS:,} are made; ask for less"
            )


MOST_SHOWN = 40
"""Largest number of rules that a notebook shows."""


def _rules_text(rules: RuleSet) -> str:
    count = len(rules.rules)
    return f"{count} rule{'' if count == 1 else 's'}"


def html_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A plain table of texts, for notebooks."""
    lines = [("th", head), *(("td", row) for row in rows)]
    cells = ("".join(f"<{tag}>{escape(str(text))}</{tag}>" for text in row) for tag, row in lines)
    return f"<table>{''.join(f'<tr>{row}</tr>' for row in cells)}</table>"


class BaseProblem(ABC):
    """What training, reports and comparisons need of a problem, on a map or an environment."""

    rules: RuleSet
    options: ProblemOptions

    @property
    @abstractmethod
    def units(self) -> Units:
        """What densities count, and how long a step is."""

    @property
    @abstractmethod
    def is_random(self) -> bool:
        """Whether two episodes of the same policy can differ."""

    @property
    @abstractmethod
    def return_text(self) -> str:
        """What the return sums up, and what one more unit of it means."""

    @abstractmethod
    def parts(self) -> dict[str, Any]:
        """The named parts that identify the problem; its own name is not one of them."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}: {self._extent()}, {_rules_text(self.rules)}>"

    def _extent(self) -> str:
        """The size of the world, as text."""
        return f"{len(self.regions)} regions"

    def _repr_html_(self) -> str:
        """The rules as a table, for notebooks."""
        head = f"<b>{escape(self.name)}</b>: {escape(self._extent())}"
        rows = [(rule.name, rule.text) for rule in self.rules.rules[:MOST_SHOWN]]
        if (more := len(self.rules.rules) - len(rows)) > 0:
            rows.append(("", f"... and {more} more"))
        return head + html_table(("rule", "text"), rows)

    def expected_episode_steps(self, last: float) -> float:
        """How long the next episodes may be, if the last ones took so many steps on average."""
        return last

    @property
    def transit_steps(self) -> float:
        """Duration of all transits in steps; episodes do not count these."""
        return 0.0

    @property
    def name(self) -> str:
        return self.options.name

    @property
    def regions(self) -> tuple[str, ...]:
        """The names of the amounts: regions, then totals that the rules name."""
        return tuple(self.rules.regions)

    @property
    def unit(self) -> str:
        """What densities count."""
        return self.units.unit

    def unit_of(self, regions: Iterable[str]) -> str:
        """The common unit of these regions; `units` if they differ."""
        del regions
        return self.unit

    def unit_of_rules(self, rules: Collection[str] | None = None) -> str:
        """The common unit of all amounts that these rules name, by default all rules; `units` if
        they differ."""
        named = {
            name
            for clause in self.rules.clauses
            for atom in clause.atoms
            if rules is None or atom.origin.rule in rules
            for name, _ in atom.coefficients
        }
        return self.unit_of(named or self.regions)

    @property
    def tolerance(self) -> float:
        return self.options.tolerance

    @property
    def discount(self) -> float:
        """The discount of densities and returns; a learner has its own discount setting."""
        return self.options.discount

    @cached_property
    def atoms(self) -> AtomTable:
        """The rules as matrices."""
        return AtomTable.of(self.rules)

    def judged_by(self) -> dict[str, Any]:
        """The parts of every problem: rules, tolerance and discount."""
        formulas = tuple(rule.formula for rule in self.rules.rules)
        shares = self.rules.shares, self.rules.confidence
        return {
            "rules": (formulas, shares, self.rules.conventions),
            "tolerance": self.tolerance,
            "discount": self.discount,
        }


def difference_between(one: BaseProblem, other: BaseProblem) -> list[str]:
    """The parts in which two problems differ; names of problems are not compared."""
    first, second = one.parts(), other.parts()
    if first.keys() != second.keys():
        return ["world"]
    return [name for name, part in first.items() if part != second[name]]


NEARLY = 0.03
"""Relative difference up to which `cell` agrees with the cell size of the map."""


@dataclass(frozen=True)
class MapSource:
    """The file that a map was read from, and the options for reading it."""

    path: Path
    options: MapOptions
    keep_out: KeepOut | None = None
    quantities: Mapping[str, Any] = field(default_factory=dict)
    """The keys of [vehicle] as they are written, such as "12 km/h"."""


RuleInput = str | Statement | Mapping[str, str | Statement] | Sequence[str | Statement]
"""Rules as a caller gives them: one, several, or a named mapping; as text or as formulas."""


KEEP_OUT = "keep_out"
"""The rule that nothing is given in the keep-out area."""


def _check_can_close(vehicle: Vehicle) -> None:
    """Raise if the vehicle gives something out wherever it goes."""
    if vehicle.least_flow > 0.0 or vehicle.least_dose > 0.0:
        raise ProblemError(
            "[keep_out] needs a pump that can close: flow = [0.0, most] in [vehicle], and a dose "
            "from 0 on; this vehicle gives something out wherever it goes"
        )


@dataclass(frozen=True, repr=False)
class Problem(BaseProblem):
    """A world, a rule set over its regions, and how to judge it."""

    world_spec: SweepSpec
    rules: RuleSet
    options: ProblemOptions = field(default_factory=ProblemOptions)
    source: MapSource | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if tuple(self.rules.regions) != self.world_spec.amounts:
            raise ProblemError("the rules are written over other regions than those of the map")
        said, asked = self.rules.confidence, self.options.confidence
        if said != (None if asked is None else exact(asked)):
            raise ProblemError(
                f"confidence = {asked} in the options, but the rules were made with "
                f"{said and float(said)}"
            )
        spec = self.world_spec
        unbounded = "" if spec.wind.is_calm else "gusts of wind have no largest strength"
        if not spec.vehicle.supply.is_calm:
            unbounded = "the rate may stay low for any number of steps"
        check_shares(self.rules, is_random=spec.is_random, unbounded=unbounded)

    @classmethod
    def create(
        cls, world_spec: SweepSpec, rules: RuleInput = (), options: ProblemOptions | None = None
    ) -> Problem:
        """A problem from a world and rules given as text or formulas.

        That nothing is given in the keep-out area of its map is one more rule.
        """
        options = options or ProblemOptions(name="problem")
        names = world_spec.regions.names
        rule_set = RuleSet.of(
            rules, names, options.conventions, options.confidence, world_spec.known_totals
        )
        if (kept := world_spec.regions.keep_out) is not None:
            _check_can_close(world_spec.vehicle)
            rule = Rule.read(KEEP_OUT, d[kept] <= 0, names, world_spec.known_totals)
            others = [each for each in rule_set.rules if each != rule]
            rule_set = replace(rule_set, rules=(*others, rule))
        return cls(world_spec.with_totals(rule_set.regions[len(names) :]), rule_set, options)

    @property
    def own_rules(self) -> tuple[Rule, ...]:
        """The rules without that of the keep-out area, where the map's file brings it."""
        is_made = self.source is not None and self.source.keep_out is not None
        return tuple(rule for rule in self.rules.rules if not (is_made and rule.name == KEEP_OUT))

    def _extent(self) -> str:
        rows, columns = self.world_spec.regions.shape
        return f"{len(self.regions)} regions on {rows} x {columns} cells"

    @property
    def units(self) -> Units:
        return self.world_spec.units

    def unit_of(self, regions: Iterable[str]) -> str:
        spec = self.world_spec
        units = {spec.unit_of_total(name) if name in spec.totals else self.unit for name in regions}
        return self.unit if not units else units.pop() if len(units) == 1 else "units"

    @property
    def is_random(self) -> bool:
        return self.world_spec.is_random

    @property
    def return_text(self) -> str:
        vehicle = self.world_spec.vehicle
        saved = self.units.duration((1.0 + vehicle.max_speed) / vehicle.effort)
        weighed = (
            ""
            if self.discount == 1.0
            else f", each weighing {self.discount:g} times the one before"
        )
        mean = ", on average over episodes" if self.is_random else ""
        cost, unit = vehicle.product_cost, self.units.unit
        product = f", less {cost:g} for each of the {unit} given out" if cost else ""
        return (
            f"the sum over all steps{weighed} of -{vehicle.effort:g} / (1 + speed in cells per "
            f"step){product}{mean}; 1 more saves what {saved} at top speed cost"
        )

    def expected_episode_steps(self, last: float) -> float:
        """How long the next episodes may be, if the last ones took so many steps on average."""
        return last

    @property
    def transit_steps(self) -> float:
        return self.world_spec.transit_steps

    def parts(self) -> dict[str, Any]:
        spec = self.world_spec
        return {
            # The georeference of the map does not matter.
            "map": replace(spec.regions, georeference=None),
            "vehicle": spec.vehicle,
            "wind": spec.wind,
            "route": spec.route,
            **({"step": spec.units.step} if set(TIMES) & {*spec.totals} else {}),
            **self.judged_by(),
        }

    @cached_property
    def world(self) -> SweepWorld:
        """The world in JAX (built on first use: reading a problem needs no JAX)."""
        import jax

        from scrl.worlds.sweep.world import SweepWorld

        # It is cached: built during tracing, its arrays must not be tracers.
        with jax.ensure_compile_time_eval():
            return SweepWorld.from_spec(self.world_spec)

    def warnings(self) -> list[str]:
        """Settings that are allowed but probably not intended."""
        found = [*self.world_spec.regions.warnings, *self.rules.warnings()]
        if missed := self.world_spec.path.missed_cells:
            found.append(
                f"{missed} cells of the field are not covered: no pass of the swath fits between "
                "cells that must not be entered (a smaller swath would reach them)"
            )
        spec = self.world_spec
        fastest = len(spec.path.cells) / spec.vehicle.max_speed
        if fastest > spec.route.horizon_steps:
            found.append(
                f"even at full speed the path takes {fastest:,.0f} steps, and horizon_steps cuts "
                f"it off at {spec.route.horizon_steps:,}; raise horizon_steps in [world]"
            )
        on_map = cell_on_map(spec.regions, spec.route)
        if on_map and spec.units.cell and abs(spec.units.cell / on_map - 1.0) > NEARLY:
            found.append(
                f"cell = {spec.units.cell:g} in [world], but a cell of the map is {on_map:.4g} m "
                "long: speeds and lengths in metres follow the former (without it, the map)"
            )
        if USED in spec.totals and not spec.vehicle.has_flow:
            found.append(
                f"rules name 'used', and the rate is fixed at {spec.vehicle.rate:g} a step: so "
                "'used' follows from the time alone"
            )
        if not self.rules.rules:
            found.append("there are no rules: every policy satisfies this problem")
        return found

    def with_rules(self, rules: RuleInput) -> Problem:
        """A problem with this world and other rules."""
        return replace(Problem.create(self.world_spec, rules, self.options), source=self.source)

    def with_confidence(self, confidence: float | None) -> Problem:
        """The same rules, all of them together in this share of single runs."""
        options = replace(self.options, confidence=confidence)
        asked = None if confidence is None else exact(confidence)
        return replace(self, rules=replace(self.rules, confidence=asked), options=options)
