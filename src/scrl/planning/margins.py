"""The margins of a plan that reacts, by simulation: as small as what is asked allows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import jax
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from scrl.density import standard_error
from scrl.planning.feedback import Aims, FeedbackPolicy
from scrl.problems import Problem
from scrl.reference.priced import PricedBranch
from scrl.rollout import run_episodes
from scrl.violation import clause_violation, cons_vio, largest_step
from scrl.worlds.sweep.spec import SweepSpec

EPISODES, MOST_EPISODES, CELLS = 500, 4_000, 2_500
"""Behind each choice of margins, more on paths of fewer cells; the plan is judged by others."""
FIRST_EPISODES, CLEARLY = 250, 3.0
"""Episodes after which a plan is driven no more if it misses the share by so many standard
errors."""
DEVIATIONS = 2.0
"""Standard errors that a measured mean or share must be on the safe side."""
FIRST_INSET, CORRECTIONS = 0.25, 8
"""Steps of service that a plan for means first aims inside its bounds, and how many plans are
driven at most."""
OVERSHOOT = 1.5
"""What the means miss moves a bound by so many times as much, and more each time in a row: a plan
cannot always follow."""
ROUNDS = 8
"""Plans for single runs that are driven at most; more where they take less than this many of
`EPISODES` on paths of `CELLS`."""
RESERVES = (0.0, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0)
"""Reserves that are tried one after the other, where they are of use; going on by two at a time
finds worse plans."""
FURTHER, BACK = 2.0, 1.0
"""The most steps of service by which an inset for single runs grows and shrinks at once."""
MOST_WORSE, LESS = 2, 0.9
"""Plans in a row that miss more than this part of what the best one before misses, after which no
other is tried."""
MANY, LEAST = 0.01, 0.1
"""Where so many more of the runs than must keep the rules, insets shrink by at least so many steps
of service: runs do not quite move with their aims."""
LEVELS = 40
"""Shares of the runs between the one that is asked and 1 that an atom may be kept in."""
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
        return self._steps_of(self.branch.atoms)

    @property
    def _episodes(self) -> int:
        times = CELLS // len(self.problem.world_spec.path.cells)
        return min(EPISODES * max(times, 1), MOST_EPISODES)

    @property
    def _rounds(self) -> int:
        driven = self._episodes * len(self.problem.world_spec.path.cells)
        return max(ROUNDS * EPISODES * CELLS // driven, ROUNDS)

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
            returns, amounts = self._driven(policy, self._keys)
            return_ = float(returns.mean())
            missed = _safe_mean(amounts @ self.branch.coefficients.T) - self._bounds
            missing = np.maximum(missed, 0.0).sum()
            if self.branch.loosened is None:
                table = self.problem.atoms
                sides = _safe_mean(amounts @ table.coefficients.T) - table.bounds
                missing = clause_violation(table.listed, sides).sum() - self.problem.tolerance
            yield Reacting(aims, policy, return_, float(missing), missed > 0.0)
            price = self._effort * np.asarray(policy.multipliers, float)[0, : len(step)]
            in_excess = price @ np.maximum(-missed / np.where(step > 0.0, step, 1.0), 0.0)
            if missing > 0.0:
                inset, pace = inset + pace * np.maximum(missed, 0.0), OVERSHOOT * pace
            elif was_moved_back or in_excess <= WORTH * abs(return_):
                return
            else:
                inset = inset + np.where(price > 0.0, missed, 0.0)
                pace, was_moved_back = OVERSHOOT, True

    def _for_runs(self, share: float) -> Iterator[Reacting]:
        """Insets are moved by quantiles of what single runs miss or have in excess.

        Where a reserve is of use it grows as well, while too few runs keep the rules.
        """
        atoms, step = self._switched, self._steps_of(self._switched)
        inset, reserve, least_missing, worse = FIRST_INSET * step, 0, np.inf, 0
        kept, broken = None, None
        for _ in range(self._rounds):
            aims, policy = self._switching(inset, RESERVES[reserve])
            found, amounts = self._in_runs(share, aims, policy)
            yield found
            if found.missing <= 0.0:
                kept = inset, found.return_
            elif kept is not None:
                broken = inset, found.return_
            if kept is not None and broken is not None:
                if broken[1] - kept[1] <= WORTH * abs(kept[1]):
                    return
                inset = (kept[0] + broken[0]) / 2.0
                continue
            price = self._effort * np.asarray(policy.multipliers, float)[found.first, : len(atoms)]
            worth = price / np.where(step > 0.0, step, 1.0)
            move = self._by_quantiles(self._asked(share), amounts)[atoms]
            if found.missing > 0.0:
                worse = 0 if found.missing < LESS * least_missing else worse + 1
                if worse == MOST_WORSE:
                    return
                least_missing = min(least_missing, found.missing)
                inset = np.minimum(inset + np.clip(move, 0.0, FURTHER * step), aims.half_widths)
                is_of_use = self._switching(inset, 1.0)[1].reserve.any()
                reserve = min(reserve + int(is_of_use), len(RESERVES) - 1)
                continue
            least = LEAST * step if found.missing < -MANY else 0.0
            move = np.where(price > 0.0, np.clip(-move, least, BACK * step), 0.0)
            if worth @ move <= WORTH * abs(found.return_):
                return
            inset = inset - move

    def _by_quantiles(
        self, share: float, amounts: Float[np.ndarray, "episode region"]
    ) -> Float[np.ndarray, " atom"]:
        """How far each atom must move so that this share of the runs keeps every rule.

        All atoms move by the same quantile of their sides, as if a run moved with its aims. Of the
        atoms of a clause one counts in each run, the one that it keeps best.
        """
        table = self.problem.atoms
        sides = amounts @ table.coefficients.T - table.bounds
        if not self.problem.world_spec.is_poured:
            # Whole steps are counted: any part of one may have been too much.
            part = np.random.default_rng(0).uniform(size=sides.shape)
            within = sides - part * self._steps_of(np.arange(len(table.bounds)))
            sides = np.where(sides > 0.0, np.maximum(within, 1e-9), within)
        of_clause = np.where(table.listed >= 0, sides[:, table.listed], np.inf)
        best = np.take_along_axis(table.listed[None], of_clause.argmin(axis=2)[..., None], axis=2)[
            ..., 0
        ]
        counts = np.zeros(sides.shape, bool)
        np.put_along_axis(counts, best, True, axis=1)
        of_run = np.sort(np.where(counts, sides, -np.inf), axis=0)
        move = of_run[-1]
        for level in np.linspace(1.0, share, LEVELS):
            less = of_run[min(int(np.ceil(level * len(sides))), len(sides)) - 1]
            kept = (np.where(counts, sides - less, -np.inf) <= self.problem.tolerance).all(axis=1)
            if kept.mean() < share:
                break
            move = less
        return move

    def _asked(self, share: float) -> float:
        """The share of the runs that must keep the rules, on the safe side."""
        return share + DEVIATIONS * np.sqrt(share * (1.0 - share) / self._episodes)

    def _in_runs(
        self, share: float, aims: Aims, policy: FeedbackPolicy
    ) -> tuple[Reacting, Float[np.ndarray, "episode region"]]:
        """What a plan does in single runs; in a few of them, if these clearly keep too few."""
        table, tolerance = self.problem.atoms, self.problem.tolerance
        returns, amounts = self._driven(policy, self._keys[:FIRST_EPISODES])
        kept = np.asarray(cons_vio(table, amounts)) <= tolerance
        if kept.mean() + CLEARLY * np.sqrt(share * (1.0 - share) / len(kept)) >= share:
            others = self._driven(policy, self._keys[FIRST_EPISODES:])
            returns, amounts = (
                np.concatenate(parts) for parts in zip((returns, amounts), others, strict=True)
            )
            kept = np.asarray(cons_vio(table, amounts)) <= tolerance
        missing = self._asked(share) - kept.mean()
        sides = amounts[~kept] @ self.branch.coefficients.T
        is_broken = (sides > self._bounds).sum(axis=0) > (1.0 - share) / 2.0 * len(amounts)
        first = int(policy.first(self.problem.world))
        return Reacting(
            aims, policy, float(returns.mean()), float(missing), is_broken, first
        ), amounts

    def _plan(
        self, inset: Float[np.ndarray, " atom"], reserve: float
    ) -> tuple[Aims, FeedbackPolicy]:
        """The plan for the branch alone."""
        return self._of(Aims(self.branch.coefficients, self._bounds, inset, reserve))

    @property
    def _switched(self) -> Int[np.ndarray, " atom"]:
        """The atoms of the branch and of the others."""
        return np.unique(np.concatenate([each.atoms for each in (self.branch, *self.others)]))

    def _steps_of(self, atoms: Int[np.ndarray, " atom"]) -> Float[np.ndarray, " atom"]:
        """What a step of service can do to each of these atoms' sides."""
        spec = self.problem.world_spec
        coefficients = self.problem.atoms.coefficients[atoms]
        return largest_step(coefficients * spec.in_step, spec.vehicle.rate)

    def _switching(
        self, inset: Float[np.ndarray, " atom"], reserve: float
    ) -> tuple[Aims, FeedbackPolicy]:
        """The plan for the branch and the others."""
        atoms, table = self._switched, self.problem.atoms
        branches = (self.branch, *self.others)
        is_in = np.array([np.isin(atoms, each.atoms) for each in branches])
        coefficients, bounds = table.coefficients[atoms], table.bounds[atoms]
        return self._of(Aims(coefficients, bounds, inset, reserve, is_in))

    def _of(self, aims: Aims) -> tuple[Aims, FeedbackPolicy]:
        return aims, FeedbackPolicy.of(self.problem.world_spec, self.problem.world, aims)

    @property
    def _keys(self) -> Key[Array, " episode"]:
        """The episodes behind each choice."""
        return jax.random.split(jax.random.key(self.seed), self._episodes)

    def _driven(
        self, policy: FeedbackPolicy, keys: Key[Array, " episode"]
    ) -> tuple[Float[np.ndarray, " episode"], Float[np.ndarray, "episode region"]]:
        """The returns and the amounts of single runs."""
        world, discount = self.problem.world, self.problem.discount
        ran = run_episodes(world, policy, keys=keys, discount=discount)
        rate = self.problem.world_spec.vehicle.rate
        return np.asarray(ran.return_, float), rate * np.asarray(ran.service, float)


def _safe_mean(sides: Float[np.ndarray, "episode atom"]) -> Float[np.ndarray, " atom"]:
    return sides.mean(axis=0) + DEVIATIONS * standard_error(sides)
