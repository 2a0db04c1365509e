"""A problem: a world and the rules that hold in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrl.errors import ProblemError
from scrl.problems.terms import ProblemOptions, Terms
from scrl.rules import Formula, RuleSet
from scrl.worlds.maps import MapOptions
from scrl.worlds.spec import SweepSpec, cell_on_map
from scrl.worlds.units import Units

if TYPE_CHECKING:
    from scrl.worlds.sweep import SweepWorld

NEARLY = 0.03
"""A `cell` that is off by a smaller share than this agrees with its map."""


@dataclass(frozen=True)
class MapSource:
    """The file that a map was read from, and how."""

    path: Path
    options: MapOptions


RuleInput = str | Formula | Mapping[str, str | Formula] | Sequence[str | Formula]
"""Rules as people give them: one, several, or several with names; as text or as formulas."""


@dataclass(frozen=True, repr=False)
class Problem(Terms):
    """A world, a rule set over its regions, and how to judge it."""

    world_spec: SweepSpec
    rules: RuleSet
    options: ProblemOptions = field(default_factory=ProblemOptions)
    source: MapSource | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if tuple(self.rules.regions) != tuple(self.world_spec.regions.names):
            raise ProblemError("the rules are written over other regions than those of the map")

    @classmethod
    def create(
        cls, world_spec: SweepSpec, rules: RuleInput = (), options: ProblemOptions | None = None
    ) -> Problem:
        """A problem from a world and rules given as text or formulas."""
        options = options or ProblemOptions(name="problem")
        rule_set = RuleSet.of(rules, world_spec.regions.names, options.conventions)
        return cls(world_spec, rule_set, options)

    def _extent(self) -> str:
        rows, columns = self.world_spec.regions.shape
        return f"{len(self.regions)} regions on {rows} x {columns} cells"

    @property
    def units(self) -> Units:
        return self.world_spec.units

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
        return (
            f"the sum over all steps{weighed} of -{vehicle.effort:g} / (1 + speed in cells per "
            f"step){mean}; 1 more saves what {saved} at top speed cost"
        )

    @property
    def transit_steps(self) -> float:
        return self.world_spec.transit_steps

    def parts(self) -> dict[str, Any]:
        spec = self.world_spec
        return {
            # Where on Earth the map lies makes no difference.
            "map": replace(spec.regions, georeference=None),
            "vehicle": spec.vehicle,
            "wind": spec.wind,
            "route": spec.route,
            **self.judged_by(),
        }

    @cached_property
    def world(self) -> SweepWorld:
        """The world in JAX (built on first use: reading a problem needs no JAX)."""
        import jax

        from scrl.worlds.sweep import SweepWorld

        # It is kept: were it first asked for while something is compiled, the arrays must be real.
        with jax.ensure_compile_time_eval():
            return SweepWorld.from_spec(self.world_spec)

    def warnings(self) -> list[str]:
        """What is allowed but probably not meant."""
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
        if not self.rules.rules:
            found.append("there are no rules: every policy satisfies this problem")
        return found

    def with_rules(self, rules: RuleInput) -> Problem:
        """The same world with other rules."""
        return replace(Problem.create(self.world_spec, rules, self.options), source=self.source)
