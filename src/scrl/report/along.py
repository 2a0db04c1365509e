"""Amounts along the path over many episodes, and where episodes that break a rule differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import jax
import numpy as np
from jaxtyping import Bool, Float, Int

from scrl.evaluation import REPORT_EPISODES, of_runs
from scrl.policies import PlacedPolicy, Policy
from scrl.problems import Problem
from scrl.rollout import service_along
from scrl.rules import AtomTable
from scrl.violation import clause_violation, rule_margins, rule_violation, signed_violation

MOST_PLACES = 100
"""Amounts are sampled at so many places of the path, or at fewer if there are many regions."""
MOST_NUMBERS = 8_000_000
"""Largest number of amounts that are stored: episodes times places times regions."""
ARISES = (0.1, 0.9)
"""A difference arises between the places where it stays above these shares of its final value."""


@dataclass(frozen=True, eq=False)
class AmountsAlong:
    """What the regions that rules name have received along the path, in many episodes."""

    table: AtomTable
    """The rules over these regions alone."""
    tolerance: float
    progress: Float[np.ndarray, " place"]
    """Shares of the path, from 0 to 1."""
    amounts: Float[np.ndarray, "episode place region"]

    @property
    def final(self) -> Float[np.ndarray, "episode region"]:
        return self.amounts[:, -1]

    @cached_property
    def is_broken(self) -> Bool[np.ndarray, "episode rule"]:
        """Which episodes break which rules."""
        table = self.table
        return of_runs(table, self.final, lambda part: rule_violation(table, part)) > self.tolerance

    @property
    def margins(self) -> Float[np.ndarray, " rule"]:
        """The smallest margin of each rule among the episodes."""
        table, rules = self.table, len(self.table.rules)
        return of_runs(table, self.final, lambda part: rule_margins(table, part, rules)).min(axis=0)

    @cached_property
    def risks(self) -> tuple[RuleRisk, ...]:
        """The rules that episodes break, by the share of these, the largest first."""
        found = (self._risk(rule) for rule in np.flatnonzero(self.is_broken.any(axis=0)).tolist())
        return tuple(sorted(found, key=lambda risk: -risk.share))

    def _risk(self, rule: int) -> RuleRisk:
        is_broken = self.is_broken[:, rule]
        atom = self._broken_atom(rule, is_broken)
        coefficients, bounds = self.table.coefficients[[atom]], self.table.bounds[[atom]]
        over = signed_violation(coefficients, bounds, self.final)[:, 0]
        fails = is_broken & (over > self.tolerance)
        share, failing = float(is_broken.mean()), float(fails[is_broken].mean())
        if share == 1.0 or not failing:
            return RuleRisk(rule, share, atom, failing, None)
        side = self.amounts @ self.table.coefficients[atom]
        difference = side[fails].mean(axis=0) - side[~is_broken].mean(axis=0)
        return RuleRisk(rule, share, atom, failing, _arising(self.progress, difference))

    def _broken_atom(self, rule: int, is_broken: Bool[np.ndarray, " episode"]) -> int:
        """The atom that fails: of the clause violated most, the one violated least."""
        table = self.table
        signed = signed_violation(table.coefficients, table.bounds, self.final[is_broken])
        own = table.listed[table.clause_rule == rule]
        worst = own[clause_violation(own, signed).mean(axis=0).argmax()]
        atoms = worst[worst >= 0]
        return int(atoms[signed[:, atoms].mean(axis=0).argmin()])


@dataclass(frozen=True)
class Arising:
    """Where the difference between episodes that break a rule and those that keep it arises."""

    begin: float
    """The share of the path after which the difference stays above 10 % of its final value."""
    end: float
    """The share of the path from which it stays above 90 %."""
    difference: float
    """Its final value, in units."""


@dataclass(frozen=True)
class RuleRisk:
    """A rule that some episodes break."""

    rule: int
    share: float
    """The share of episodes that break it."""
    atom: int
    """An atom that these fail: of the clause violated most, the one violated least."""
    failing: float
    """The share of these that fail it; the others fail another atom."""
    arising: Arising | None
    """None if no episode keeps the rule, or if those that do are not farther inside the atom."""


def _arising(
    progress: Float[np.ndarray, " place"], difference: Float[np.ndarray, " place"]
) -> Arising | None:
    """The difference of means is a sum over the path, so every stretch has its share of it."""
    final = float(difference[-1])
    if final <= 0.0:
        return None
    first, last = (int(np.flatnonzero(difference <= share * final)[-1]) for share in ARISES)
    return Arising(float(progress[first]), float(progress[last + 1]), final)


def amounts_along(
    problem: Problem,
    drivers: Sequence[tuple[float, Policy | PlacedPolicy]],
    *,
    seed: int,
    episodes: int = REPORT_EPISODES,
) -> AmountsAlong:
    """Drive the first of the episodes that `evaluate` runs with the same seed.

    Each of several drivers drives its share of the episodes.
    """
    columns = np.flatnonzero((problem.atoms.coefficients != 0.0).any(axis=0))
    cells = _places(problem.world.length, episodes * len(columns))
    keys = jax.random.split(jax.random.key(seed), episodes)
    ends = np.rint(np.cumsum([0.0, *(weight for weight, _ in drivers)]) * episodes).astype(int)
    service = [
        service_along(
            problem.world, policy, keys=keys[begin:end], cells=cells, columns=columns,
            discount=problem.discount,
        )
        for (_, policy), begin, end in zip(drivers, ends[:-1], ends[1:], strict=True)
        if end > begin
    ]  # fmt: skip
    amounts = problem.world_spec.vehicle.rate * np.concatenate(service).astype(float)
    return AmountsAlong(
        replace(
            problem.atoms,
            regions=tuple(problem.regions[column] for column in columns),
            coefficients=problem.atoms.coefficients[:, columns],
        ),
        problem.tolerance,
        np.concatenate([[0.0], cells / problem.world.length]),
        np.pad(amounts, ((0, 0), (1, 0), (0, 0))),
    )


def _places(length: int, numbers: int) -> Int[np.ndarray, " place"]:
    """Path cells at even distances, up to the end of the path."""
    count = min(MOST_PLACES, length, max(MOST_NUMBERS // max(numbers, 1), 1))
    return np.rint(np.arange(1, count + 1) * (length / count)).astype(int)
