"""The margins of a plan that reacts, by simulation: as small as what is asked allows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import jax
import numpy as np
from jaxtyping import Bool, Float

from scrl.density import standard_error
from scrl.planning.feedback import Aims, FeedbackPolicy
from scrl.problems import Problem
from scrl.reference.priced import PricedBranch
from scrl.rollout import run_episodes
from scrl.violation import clause_violation, cons_vio, largest_step
from scrl.worlds.sweep.spec import SweepSpec

EPISODES = 500
"""Behind each choice of margins; the plan is judged by others."""
DEVIATIONS = 2.0
"""Standard errors that a measured mean or share must be on the safe side."""
FIRST_INSET, CORRECTIONS = 0.25, 8
"""Steps of service that a plan for means first aims inside its bounds, and how many plans are
driven at most."""
OVERSHOOT = 1.5
"""What the means miss moves a bound by so many times as much, and more each time in a row: a plan
cannot always follow."""
LEVELS = ((0.25, 0.0), (0.5, 2.0), (1.0, 3.0), (1.0, 4.0), (1.5, 6.0), (2.5, 8.0), (4.0, 10.0))
"""Margins for single runs, narrow to wide: steps of service inside the bounds, and the reserve."""
NARROWER = (0.15, 0.05, -0.1, -0.25, -0.4)
"""Insets below the first, tried where a quarter of a step is worth it: where whole steps are
counted, the last one goes beyond the bound anyway."""
WORTH = 0.003
"""The share of the return for which it is worth moving a margin again."""


@dataclass(frozen=True)
class Reacting:
    """A plan that reacts, and what it does in some runs."""

    aims: Aims
    policy: FeedbackPolicy
    return_: float
    missing: float
    """Of what is asked: units of the means, or a share of the runs; at most 0 where it is kept."""
    is_broken: Bool[np.ndarray, " atom"]
    """The atoms of the branch that are in the way."""
    first: int = 0
    """The branch that it begins with."""

    def prices(self, spec: SweepSpec) -> Float[np.ndarray, " region"]:
        """What a step in each region is worth before the first one, in return."""
        policy = self.policy
        multipliers = np.asarray(policy.multipliers[self.first], float)
        return -spec.vehicle.effort * multipliers @ np.asarray(policy.effect_of_region, float)


@dataclass(frozen=True)
class MarginSearch:
    """Margins for a branch, so that the rules hold on average or in a share of single runs."""

    problem: Problem
    branch: PricedBranch
    others: Sequence[PricedBranch]
    """Branches that a single run may keep instead."""
    confidence: float | None
    seed: int

    def best(self) -> Reacting:
        """The best plan that keeps what is asked; else the one that misses least."""
        is_for_means = self.confidence is None or self.branch.loosened is not None
        found = list(self._for_means() if is_for_means else self._for_runs(self.confidence or 0.0))
        return min(found, key=lambda each: (max(each.missing, 0.0), -each.return_))

    @property
    def _bounds(self) -> Float[np.ndarray, " atom"]:
        return self.branch.bounds if self.branch.loosened is None else self.branch.loosened

    @property
    def _step(self) -> Float[np.ndarray, " atom"]:
        """What a step of service can do to each atom's side."""
        spec = self.problem.world_spec
        return largest_step(self.branch.coefficients * spec.in_step, spec.vehicle.rate)

    @property
    def _effort(self) -> float:
        return self.problem.world_spec.vehicle.effort

    def _for_means(self) -> Iterator[Reacting]:
        """Bounds are moved by what the means miss, and once by what they have in excess.

        While anything is missed no bound is moved back: where whole steps are counted, means jump.
        """
        step = self._step
        inset, pace, was_moved_back = FIRST_INSET * step, OVERSHOOT, False
        for _ in range(CORRECTIONS):
            aims, policy = self._plan(inset, 0.0)
            returns, amounts = self._driven(policy)
            missed = _safe_mean(amounts @ self.branch.coefficients.T) - self._bounds
            missing = np.maximum(missed, 0.0).sum()
            if self.branch.loosened is None:
                table = self.problem.atoms
                sides = _safe_mean(amounts @ table.coefficients.T) - table.bounds
                missing = clause_violation(table.listed, sides).sum() - self.problem.tolerance
            yield Reacting(aims, policy, returns, float(missing), missed > 0.0)
            price = self._effort * np.asarray(policy.multipliers, float)[0, : len(step)]
            in_excess = price @ np.maximum(-missed / np.where(step > 0.0, step, 1.0), 0.0)
            if missing > 0.0:
                inset, pace = inset + pace * np.maximum(missed, 0.0), OVERSHOOT * pace
            elif was_moved_back or in_excess <= WORTH * abs(returns):
                return
            else:
                inset = inset + np.where(price > 0.0, missed, 0.0)
                pace, was_moved_back = OVERSHOOT, True

    def _for_runs(self, share: float) -> Iterator[Reacting]:
        """Wider and wider margins; those that differ by a reserve only where it is of use."""
        tried = set()
        for inset, reserve in LEVELS:
            aims, policy = self._switching(inset, reserve)
            margins = inset, reserve if np.asarray(policy.reserve).any() else 0.0
            if margins in tried:
                continue
            found = self._in_runs(share, aims, policy)
            yield found
            if found.missing <= 0.0:
                if not tried:
                    yield from self._narrower(share, found)
                return
            tried.add(margins)

    def _narrower(self, share: float, found: Reacting) -> Iterator[Reacting]:
        """Plans with insets below the first, while they keep the rules and are worth it."""
        for inset in NARROWER:
            price = self._effort * float(np.asarray(found.policy.multipliers[found.first]).sum())
            if found.missing > 0.0 or price / 4.0 < WORTH * abs(found.return_):
                return
            found = self._in_runs(share, *self._switching(inset, 0.0))
            yield found

    def _in_runs(self, share: float, aims: Aims, policy: FeedbackPolicy) -> Reacting:
        """What a plan does in single runs."""
        returns, amounts = self._driven(policy)
        kept = np.asarray(cons_vio(self.problem.atoms, amounts)) <= self.problem.tolerance
        error = np.sqrt(share * (1.0 - share) / EPISODES)
        missing = share + DEVIATIONS * error - kept.mean()
        sides = amounts[~kept] @ self.branch.coefficients.T
        is_broken = (sides > self._bounds).sum(axis=0) > (1.0 - share) / 2.0 * EPISODES
        first = int(policy.first(self.problem.world))
        return Reacting(aims, policy, returns, float(missing), is_broken, first)

    def _plan(
        self, inset: Float[np.ndarray, " atom"], reserve: float
    ) -> tuple[Aims, FeedbackPolicy]:
        """The plan for the branch alone."""
        return self._of(Aims(self.branch.coefficients, self._bounds, inset, reserve))

    def _switching(self, inset: float, reserve: float) -> tuple[Aims, FeedbackPolicy]:
        """The plan for the branch and the others; the inset is in steps of service."""
        branches = [self.branch.atoms, *(each.atoms for each in self.others)]
        atoms = np.unique(np.concatenate(branches))
        table, is_in = self.problem.atoms, np.array([np.isin(atoms, each) for each in branches])
        coefficients = table.coefficients[atoms]
        spec = self.problem.world_spec
        insets = inset * largest_step(coefficients * spec.in_step, spec.vehicle.rate)
        return self._of(Aims(coefficients, table.bounds[atoms], insets, reserve, is_in))

    def _of(self, aims: Aims) -> tuple[Aims, FeedbackPolicy]:
        return aims, FeedbackPolicy.of(self.problem.world_spec, self.problem.world, aims)

    def _driven(self, policy: FeedbackPolicy) -> tuple[float, Float[np.ndarray, "episode region"]]:
        """The mean return, and the amounts of single runs."""
        keys = jax.random.split(jax.random.key(self.seed), EPISODES)
        world, discount = self.problem.world, self.problem.discount
        ran = run_episodes(world, policy, keys=keys, discount=discount)
        rate = self.problem.world_spec.vehicle.rate
        return float(np.mean(ran.return_)), rate * np.asarray(ran.service, float)


def _safe_mean(sides: Float[np.ndarray, "episode atom"]) -> Float[np.ndarray, " atom"]:
    return sides.mean(axis=0) + DEVIATIONS * standard_error(sides)
