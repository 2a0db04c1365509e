"""Small windy corridors as finite MDPs whose states hold what was given: an exact yardstick.

Without inertia and with gusts that do not persist, a state of the sweep world is a place on the
path. Places are multiples of a small length, and a step ends at the nearest one; the chance of each
is the integral of the gust's normal distribution. Where rules must hold in single runs, the state
also counts the steps of service that each region had, up to one more than any bound asks for: a run
beyond a bound stays beyond it. A share of single runs is then the expectation of a label, which is
1 at the end of a run that keeps every rule.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int
from scipy import sparse
from scipy.special import ndtr

from scrl.problems import Problem
from scrl.reference.checks import MdpError
from scrl.reference.finite import FiniteMDP
from scrl.reference.solve_finite import FiniteSolution, solve_mdp
from scrl.violation import cons_vio

KEPT = "kept"
"""The label of runs that keep every rule; no region may have this name."""
PLACES = 8
"""Of a cell."""
THROTTLES = np.linspace(0.0, 1.0, 13) ** 2
"""From the crawl to 1."""
FURTHEST = 4.0
"""Gusts that are looked at, in standard deviations."""


@dataclass(frozen=True)
class Corridor:
    """A corridor of places, and counts of service where rules are about single runs."""

    problem: Problem
    places: int = PLACES

    def __post_init__(self) -> None:
        spec = self.problem.world_spec
        reasons = {
            "inertia": spec.vehicle.inertia != 0.0,
            "gusts that persist": spec.wind.persistence != 0.0,
            "a random start": spec.vehicle.start_noise != 0.0,
            "poured service": spec.is_poured,
            "a discount": self.problem.discount != 1.0,
            "a crawl of less than a place": spec.vehicle.max_speed * spec.vehicle.crawl
            < 1.0 / self.places,
        }
        if found := [reason for reason, is_so in reasons.items() if is_so]:
            raise MdpError(f"{self.problem.name} is no finite MDP: it has {' and '.join(found)}")
        several = (self.problem.atoms.coefficients != 0.0).sum(axis=1) > 1
        if self.share is not None and several.any():
            raise MdpError("rules on single runs must name one region in each atom")

    @property
    def share(self) -> float | None:
        """Of the single runs that must keep every rule; None: on average."""
        share = self.problem.rules.largest_share
        return None if share is None else float(share)

    @cached_property
    def region_of_place(self) -> Float[np.ndarray, "place region"]:
        """The share of a step that each region receives."""
        service = self.problem.world_spec.service
        return np.repeat(service.kinds[service.on_path].astype(float), self.places, axis=0)

    @cached_property
    def most(self) -> Int[np.ndarray, " region"]:
        """The counts that are told apart, of each region."""
        table = self.problem.atoms
        if self.share is None:
            return np.zeros(len(self.problem.regions), int)
        size = np.divide(
            np.abs(table.bounds)[:, None],
            np.abs(table.coefficients),
            out=np.full(table.coefficients.shape, -1.0),
            where=table.coefficients != 0.0,
        )
        rate = self.problem.world_spec.vehicle.rate
        return np.floor(size.max(axis=0, initial=-1.0) / rate).astype(int) + 1

    @cached_property
    def counts(self) -> Int[np.ndarray, "count region"]:
        """All counts of service."""
        return np.indices((self.most + 1).tolist()).reshape(len(self.most), -1).T

    @property
    def states(self) -> int:
        return len(self.region_of_place) * len(self.counts)

    def _steps(self, throttle: float) -> tuple[Int[np.ndarray, " k"], Float[np.ndarray, " k"]]:
        """Places that a step goes on, and their chances."""
        spec = self.problem.world_spec
        vehicle = spec.vehicle
        speed = vehicle.max_speed * (vehicle.crawl + (1.0 - vehicle.crawl) * throttle)
        spread = spec.wind.strength
        reach = np.maximum(1.0 + spread * FURTHEST * np.array([-1.0, 1.0]), 0.05) * speed
        first, last = np.round(reach * self.places).astype(int)
        steps = np.arange(max(first, 1), max(last, 1) + 1)
        if spread == 0.0 or len(steps) == 1:
            return steps[:1], np.ones(1)
        edges = (np.append(steps, steps[-1] + 1) - 0.5) / self.places
        below = ndtr((edges / speed - 1.0) / spread)
        below[[0, -1]] = 0.0, 1.0
        return steps, np.diff(below)

    def mdp(self) -> FiniteMDP:
        """The corridor as a finite MDP."""
        spec, served, counts = self.problem.world_spec, self.region_of_place, self.counts
        places, of_place, actions = len(served), len(counts), len(THROTTLES)
        states = places * of_place
        place, count = np.divmod(np.arange(states), of_place)
        amounts = spec.vehicle.rate * counts.astype(float)
        is_kept = np.asarray(cons_vio(self.problem.atoms, amounts)) <= self.problem.tolerance
        rewards = np.zeros((states, actions))
        regions = len(self.most)
        labels = np.zeros((states, actions, regions + (self.share is not None)))
        entries: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        radix = np.append(np.cumprod((self.most + 1)[::-1])[::-1][1:], 1)
        for action, throttle in enumerate(THROTTLES):
            for step, chance in zip(*self._steps(float(throttle)), strict=True):
                rewards[:, action] -= chance * spec.vehicle.effort / (1.0 + step / self.places)
                then = place + step
                is_there = then < places
                row = served[np.minimum(then, places - 1)] * is_there[:, None]
                labels[:, action, :regions] += chance * spec.vehicle.rate * row
                ends_well = chance * (~is_there & is_kept[count])
                labels[:, action, regions:] += ends_well[:, None]
                after = np.minimum(counts[count] + row.astype(int), self.most) @ radix
                target = then * of_place + after
                here = np.flatnonzero(is_there)
                entries.append((here * actions + action, target[here], np.full(len(here), chance)))
        rows, columns, chances = (np.concatenate(each) for each in zip(*entries, strict=True))
        shape = states * actions, states
        return FiniteMDP(
            transitions=sparse.csr_array((chances, (rows, columns)), shape=shape),
            rewards=rewards,
            labels=labels,
            start=np.arange(states) == 0,
            regions=(*self.problem.regions, *(() if self.share is None else (KEPT,))),
        )

    def solve(self, *, time_limit_s: float = 60.0) -> FiniteSolution:
        """The best policy that keeps the rules as surely as they must hold."""
        rules = self.problem.rules
        asked = rules if self.share is None else {"runs": f"{KEPT} >= {self.share}"}
        return solve_mdp(self.mdp(), asked, time_limit_s=time_limit_s)
