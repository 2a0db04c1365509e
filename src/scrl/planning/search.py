"""Rules -> prices: multipliers at which drives keep some atoms at the least cost.

The fluid proposes multipliers; the true world does not quite do what the fluid says, so plans are
driven, and a small linear program mixes those driven so far to keep the atoms at the least cost
(column generation with the best drive at given prices as the oracle). Its multipliers, points
between those of the plans it mixes, and those plans made one, are driven next. The best single plan
that keeps every rule is the answer; where there is none, and mixtures are allowed, the mixture.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
from jaxtyping import Float, Int

from scrl.errors import ScrlError
from scrl.planning.drives import PriceDriver
from scrl.planning.feedback import Aims, FeedbackPolicy
from scrl.planning.margins import Reacting
from scrl.planning.polish import Polish
from scrl.planning.pool import DrivenPlan, Pool, SearchSettings
from scrl.planning.proposals import Proposals, Timetable
from scrl.planning.timetable import with_shorter_stops
from scrl.policies import Schedule
from scrl.problems import Problem
from scrl.reference.columns import Mixture
from scrl.reference.priced import PricedBranch
from scrl.worlds.contract import Column
from scrl.worlds.sweep.spec import SweepSpec

CONTENT = 8
"""Rounds after which twice as much is good enough."""
CORRECTIONS, CAUTION = 6, 1.1
"""How often an averaged plan is corrected in a round, and by how many times what it missed."""
FAR = 0.02
"""A single plan this share of the return from the best mixture is tried with shorter stops."""
MOST_ANSWERS = 8
"""Single plans that are offered."""
POLISHED, DEAR, ROOM = 2, 3.0, 0.02
"""How many single plans are polished, what a missed unit then costs, in multipliers, and how far
inside the bounds they aim, in steps of service."""
SETTLED = 1 / 3
"""Share of what is good enough by which the mixture may still improve when plans are polished."""
ENOUGH, ENOUGH_COARSE = 0.005, 0.02
"""After polishing the search goes on if no single plan is within this share of the return from the
best mixture. On a coarse lattice it hardly finds more."""
HARD = 8
"""From this round on, plans that were set aside help where no mixture keeps the branch."""
MOST_BROKEN_ROUNDS = 16
"""Where no mixture keeps the branch after so many rounds, it is given up."""


class NoPlanError(ScrlError):
    """No plan came to the end of the path."""


@dataclass(frozen=True)
class Found:
    """One plan, or several with weights."""

    prices: Float[np.ndarray, "plan part region"]
    """In return per step, on each part of the path."""
    weights: Float[np.ndarray, " plan"]
    throttles: tuple[Float[np.ndarray, "step ..."], ...]
    """Of each plan; none of one that reacts."""
    reacting: Reacting | None = None
    """The plan in a random world."""

    @classmethod
    def of(cls, reacting: Reacting, spec: SweepSpec) -> Found:
        """A plan that reacts, with the prices that it begins with."""
        return cls(reacting.prices(spec)[None, None], np.ones(1), (), reacting)

    @property
    def aims(self) -> Aims | None:
        """What a plan that reacts aims at."""
        return None if self.reacting is None else self.reacting.aims

    @property
    def policies(self) -> list[FeedbackPolicy | Schedule]:
        """The policy of each plan."""
        if self.reacting is not None:
            return [self.reacting.policy]
        return [Schedule.of(each) for each in self.throttles]


class PlanSearch:
    """Drives plans for one branch until one is good enough."""

    def __init__(
        self,
        problem: Problem,
        branch: PricedBranch,
        driver: PriceDriver,
        settings: SearchSettings,
        *,
        seed: int = 0,
        before: PlanSearch | None = None,
    ) -> None:
        self.settings = settings
        self.pool = Pool(problem, branch, driver, settings)
        self.proposals = Proposals(self.pool, seed=seed)
        self.pool.most_steps = self.proposals.patience()
        self.spare: list[Column[DrivenPlan]] = []
        self.plans, self.is_stuck = 0, False
        """Plans so far, and whether none of the last round came to the end of the path in time."""
        spec = problem.world_spec
        self.can_polish = spec.is_poured and self.pool.lattice is not None and settings.by_rules
        self.is_polished = False
        self.starts = self.proposals.first() if before is None else before.pool.best()

    def run(self) -> Iterator[Found]:
        """Drive until a single plan is good enough; then what may be answered, best first.

        A plan is a chain of choices, and the last bit of a number may tip one of them. So a plan is
        its throttles, and not the prices that led to them.
        """
        mixture = self._drive()
        self._shorten_stops(mixture)
        kept = self.pool.kept()[:MOST_ANSWERS]
        yield from (self._alone(plan) for plan in kept)
        if self.settings.may_mix:
            yield from (self._mixed(mixed) for mixed in (mixture, self.pool.mix(inset=0.0)))
        elif not len(kept):
            yield self._alone(self.pool.least_violating())

    def mixture(self) -> Found | None:
        """The best mixture so far that keeps the branch; none where there is none."""
        mixed = self.pool.mix(inset=0.0)
        return None if self.pool.is_broken(mixed).any() else self._mixed(mixed)

    def broken(self) -> Int[np.ndarray, " broken"]:
        """The atoms, by their numbers in the problem, that no mixture so far keeps."""
        return self.pool.branch.atoms[self.pool.is_broken(self.pool.mix(inset=0.0))]

    def _alone(self, plan: int) -> Found:
        return self._found(np.array([plan]), np.ones(1))

    def _mixed(self, mixture: Mixture) -> Found:
        weights = mixture.weights[mixture.used]
        return self._found(mixture.used, weights / weights.sum())

    def _found(self, plans: Int[np.ndarray, " plan"], weights: Float[np.ndarray, " plan"]) -> Found:
        throttles = tuple(self.pool.plans[plan].throttles for plan in plans)
        return Found(self.pool.rate * self.pool.prices(plans), weights, throttles)

    def _drive(self) -> Mixture:
        """Column generation with further proposals; a single plan decides when it is enough."""
        generation = self.pool.generation
        generation.columns += self._by_fluid_times()
        if self._is_settled():
            return generation.mix()
        # They have no prices that lead to them, so they are mixed with others only if need be.
        self.spare, generation.columns = generation.columns, self._driven(self.starts)
        if not generation.columns:
            generation.columns = self._spare()
        if not generation.columns:
            raise NoPlanError(
                "no plan came to the end of the path in time; raise horizon_steps in [world]"
            )
        mixture = self._generate()
        if self.can_polish:
            self._polish(mixture)
            kept = self.pool.kept()[:1]
            enough = ENOUGH_COARSE if self.settings.is_coarse else ENOUGH
            if not (generation.returns[kept] >= self._limit(mixture, enough)).any():
                mixture = self._generate()
                self._polish(mixture)
        if not len(self.pool.kept()) or self.pool.lattice is None:
            generation.columns += self._spare()
        return mixture

    def _generate(self) -> Mixture:
        return self.pool.generation.run(
            self._propose, rounds=self.settings.rounds, tolerance=-np.inf, is_enough=self._is_enough
        )

    def _spare(self) -> list[Column[DrivenPlan]]:
        """The plans that were set aside, once."""
        spare, self.spare = self.spare, []
        return spare

    def _is_settled(self) -> bool:
        """Whether a first plan is good enough: one that nearly keeps impossible rules, or one near
        the fluid, which is a bound where service is poured."""
        pool, kept = self.pool, self.pool.kept()[:1]
        if not len(kept) or not self.settings.by_rules:
            return bool(len(kept))
        fluid, returns = pool.branch.return_, pool.generation.returns[kept]
        is_near = returns[0] >= fluid - self.settings.good_enough * abs(fluid)
        return pool.problem.world_spec.is_poured and bool(is_near)

    def _driven(self, prices: Float[np.ndarray, "plan part region"]) -> list[Column[DrivenPlan]]:
        """The plans for these prices that came to the end of the path."""
        found = self.pool.respond(prices)
        return [each.column for each in found if each.column is not None]

    def _propose(self, mixture: Mixture, round_: int) -> list[list[Column[DrivenPlan]]]:
        pool, is_broken = self.pool, self.pool.is_broken(mixture).any()
        if pool.was_broken_off and is_broken:
            pool.most_steps = float("inf")  # perhaps some cells can only be served at a crawl
        is_hard = is_broken and (self.is_stuck or round_ >= HARD)
        spare = self._spare() if is_hard else []
        return [[*spare, *self._averaged(), *self._driven(self.proposals.next(mixture))]]

    def _averaged(self) -> list[Column[DrivenPlan]]:
        """The mixture as one plan by the mean of its timetables, where there is such a plan."""
        pool = self.pool

        def proposed(room: Float[np.ndarray, " atom"]) -> Timetable | None:
            mixture = pool.mix(inset=room / np.maximum(pool.step, 1e-300))
            return None if pool.is_broken(mixture).any() else self.proposals.averaged(mixture)

        return self._corrected(proposed)

    def _by_fluid_times(self) -> list[Column[DrivenPlan]]:
        """Plans that spend the fluid's time in each cell."""
        return self._corrected(self.proposals.by_fluid_times)

    def _corrected(
        self, proposed: Callable[[Float[np.ndarray, " atom"]], Timetable | None]
    ) -> list[Column[DrivenPlan]]:
        """Plans by a timetable, proposed for so much room inside each bound.

        Inertia may keep a drive from doing quite the same, so bounds are moved by what it missed.
        """
        pool, columns = self.pool, []
        room = np.zeros(len(pool.step))
        for _ in range(CORRECTIONS):
            one = proposed(room)
            if one is None:
                break
            found = pool.follow(one[0][None], [one[1]])[0].column
            if found is None:
                break
            columns.append(found)
            if found.policy.is_kept:
                break
            room += CAUTION * np.maximum(
                found.amounts @ pool.branch.coefficients.T - pool.branch.bounds, 0.0
            )
        return columns

    def _shorten_stops(self, mixture: Mixture) -> None:
        """Better single plans from the best one, where it is far from the mixture."""
        pool = self.pool
        for _ in range(CORRECTIONS):
            kept = pool.kept()[:1]
            returns = pool.generation.returns[kept]
            if not len(kept) or pool.lattice is None or returns[0] >= self._limit(mixture, FAR):
                return
            best = pool.plans[kept[0]]
            vehicle = pool.problem.world_spec.vehicle
            drives = with_shorter_stops(vehicle, best.throttles)
            if not drives:
                return
            found = pool.follow(np.repeat(best.prices[None], len(drives), axis=0), drives)
            pool.generation.columns += [each.column for each in found if each.column is not None]
            if pool.generation.returns[pool.kept()[0]] <= returns[0]:
                return

    def _polish(self, mixture: Mixture) -> None:
        """The single plans that come nearest to an answer, made better."""
        pool, settings = self.pool, self.settings
        self.is_polished = True
        least = pool.effort / pool.rate
        penalty = DEAR * max(float(mixture.multipliers.max(initial=0.0)), least)
        branch = pool.branch
        polish = Polish(
            pool.problem.world_spec, branch.coefficients, branch.bounds - ROOM * pool.step, penalty
        )
        over = np.maximum(pool.generation.over(pool.generation.columns), 0.0)
        nearest = np.argsort(penalty * over.sum(axis=1) - pool.generation.returns)
        # What misses a rule by little may be too far from a plan that keeps it.
        best = dict.fromkeys([*nearest[:1].tolist(), *pool.kept()[:1].tolist(), *nearest.tolist()])
        for number in islice(best, POLISHED):
            plan = pool.plans[number]
            throttles = polish.better(plan.throttles, settings.deadline)
            found = pool.follow(plan.prices[None], [throttles])[0].column
            if found is None:
                continue
            pool.generation.columns.append(found)
            if found.policy.is_kept and found.return_ >= self._limit(mixture, settings.good_enough):
                return

    def _limit(self, mixture: Mixture, share: float) -> float:
        return mixture.return_ - share * abs(mixture.return_)

    def _is_enough(self, mixture: Mixture, round_: int) -> bool:
        """Whether a single plan that keeps every rule is nearly as good as the mixture, or none
        is to be hoped for."""
        if time.monotonic() > self.settings.deadline:
            return True
        before, self.plans = self.plans, len(self.pool.plans)
        self.is_stuck = self.plans == before and self.pool.most_steps == float("inf")
        if self.is_stuck and not self.spare:
            return True
        if round_ >= MOST_BROKEN_ROUNDS and self.pool.is_broken(mixture).any():
            return True
        enough = self.settings.good_enough * 2.0 ** (round_ / CONTENT)
        kept = self.pool.kept()[:1]
        limit = self._limit(mixture, enough)
        little = enough * (SETTLED if self.can_polish else 1.0) * abs(limit)
        if self.pool.lattice is not None and self.pool.generation.gain > little:
            return False  # the best responses still improve the mixture
        if self.can_polish and not self.is_polished and not self.pool.is_broken(mixture).any():
            return True
        return bool((self.pool.generation.returns[kept] >= limit).any())
