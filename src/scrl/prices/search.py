"""Rules -> prices: multipliers that make the price policy keep some atoms at the least cost.

The fluid proposes multipliers; the true world does not quite do what the fluid says, so plans are
driven, and a small linear program mixes those driven so far to keep the atoms at the least cost
(column generation with the policy as the oracle). Its multipliers, points between those of the
plans it mixes, and those plans spliced along the path, are driven next. The best single plan that
keeps every rule is the answer; where there is none, the mixture.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import jax
import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.stats import norm

from scrl.errors import ScrlError
from scrl.penalty import clause_violation, signed_violation
from scrl.prices.drives import PARTS, Driven, Driver
from scrl.prices.splice import patchwork, splices
from scrl.problems import Problem
from scrl.reference.dual import BranchDual
from scrl.reference.master import elastic_mixture
from scrl.reference.priced import PricedBranch

SPLICES = 0.5
"""Share of each round's plans that are the mixture as one plan. Three are as above; the rest lie
around the single plans that come nearest."""
NEAREST, NEARBY = 3, 0.01
"""How many those are, and how far around them, as a share."""
FIRST_SHARES = (1.0, 0.97, 0.94, 0.9, 1.03, 0.8, 0.6, 0.0)
"""Multipliers that are driven first, as shares of the fluid's."""
GOOD_ENOUGH, GOOD_ENOUGH_BY_CHANCE = 0.003, 0.01
"""A single plan this share of the return from the best mixture ends the search; later rounds are
content with more. Where chance plays a part a round takes much longer."""
CONTENT = 4
"""Rounds after which twice as much is good enough."""
INSET = 0.5
"""How far inside each bound mixtures aim, in steps of service: a single plan cannot hit it."""
TOO_DEAR = 0.05
"""A single plan that costs this share more than the best mixture is no answer while that is."""
MOST_ANSWERS = 8
"""Single plans that are offered."""
MOST_STEPS_PER_CELL = 20.0
HIGHEST_PRICE = 0.998
"""In efforts per step: at 1 it would be best to stand still for ever."""
PATIENCE = 3.0
"""Plans that take so many times as long as the fluid are broken off, at first."""
MOST_BROKEN_ROUNDS = 30
"""Where no mixture keeps the branch after so many rounds, it is given up."""


@dataclass(frozen=True)
class Mixture:
    """Weights of the plans driven so far."""

    return_: float
    weights: Float[np.ndarray, " plan"]
    multipliers: Float[np.ndarray, " atom"]
    is_broken: Bool[np.ndarray, " atom"]
    """Atoms that no mixture of these plans keeps."""

    @property
    def used(self) -> Int[np.ndarray, " used"]:
        return np.flatnonzero(self.weights > 1e-6)


@dataclass(frozen=True)
class Found:
    """One plan, or several with weights."""

    prices: Float[np.ndarray, "plan part region"]
    """In return per step, on each part of the path."""
    weights: Float[np.ndarray, " plan"]
    throttles: tuple[Float[np.ndarray, " step"], ...]
    """Of each plan in the first episode of the search."""


@dataclass(frozen=True)
class Aim:
    """What counts as kept where chance plays a part."""

    episodes: int = 1
    """Behind each plan."""
    plans: int = 8
    """In each round."""
    rounds: int = 40
    """At most, as long as no single plan keeps the rules."""
    deviations: float = 0.0
    """Standard errors that the measured densities must lie inside their bounds."""
    confidence: float | None = None
    """Share of single episodes that must keep every rule; none: it is enough in expectation."""
    may_mix: bool = True
    """Whether a mixture is an answer, and a single plan that is too dear."""
    by_rules: bool = True
    """Whether plans are judged by the rules, or by the branch alone: impossible rules cannot."""


class PlanSearch:
    """The plans driven so far for one branch.

    Multipliers are in efforts for one unit of an atom's side, prices in efforts per step.
    """

    def __init__(
        self,
        problem: Problem,
        branch: PricedBranch,
        driver: Driver,
        aim: Aim,
        *,
        seed: int = 0,
        before: PlanSearch | None = None,
    ) -> None:
        self.problem, self.branch, self.driver, self.aim = problem, branch, driver, aim
        self.keys = jax.random.split(jax.random.key(seed), aim.episodes)
        self.rng = np.random.default_rng(seed)
        vehicle = problem.world_spec.vehicle
        self.rate, self.effort = vehicle.rate, vehicle.effort
        self.first = branch.multipliers / vehicle.effort
        self.fluid = replace(branch.fluid, effort=1.0)
        self.dear = 50.0 * self.effort * (self.first.max(initial=0.0) + 1.0 / self.rate)
        """What breaking an atom costs, for one unit."""
        self.rows = branch.coefficients @ self.fluid.amount
        self.step = vehicle.rate * np.abs(branch.coefficients).max(axis=1, initial=0.0)
        times = self._dual(branch.bounds).at(self.first).times
        self.most_steps, self.was_broken_off = self._patience(times), False
        atoms = len(branch.bounds)
        regions = branch.coefficients.shape[1]
        self.prices = np.zeros((0, PARTS, regions))
        self.given, self.earned = np.zeros((0, PARTS, atoms)), np.zeros((0, PARTS))
        self.returns, self.is_kept = np.zeros(0), np.zeros(0, bool)
        self.sides, self.room = np.zeros((0, atoms)), np.zeros((0, atoms))
        self.throttles: list[Float[np.ndarray, " step"]] = []
        first = self._prices(np.outer(FIRST_SHARES, self.first))
        self.starts = first if before is None else before.best()

    def best(self) -> Float[np.ndarray, "plan part region"]:
        """The plans that are mixed, and the single ones that come nearest: to go on from."""
        chosen = [*self._mix(INSET * self.step).used, *self._nearly_kept()]
        return self.prices[list(dict.fromkeys(chosen))]

    def run(self) -> Iterator[Found]:
        """Drive until a single plan is good enough; then what may be answered, best first.

        A plan is a chain of choices, and the last bit of a number may tip one of them. So where
        nothing is left to chance a plan is its throttles, and not the prices that led to them.
        """
        self._drive()
        mixture = self._mix(INSET * self.step)
        limit = mixture.return_ - TOO_DEAR * abs(mixture.return_)
        kept = np.flatnonzero(self.is_kept)
        kept = kept[np.argsort(-self.returns[kept])][:MOST_ANSWERS]
        is_fair = self.returns[kept] >= limit
        yield from (self._found(np.array([plan]), np.ones(1)) for plan in kept[is_fair])
        if not self.aim.may_mix:
            return
        singles = [self._found(np.array([plan]), np.ones(1)) for plan in kept[~is_fair]]
        mixtures = [
            self._found(mixed.used, mixed.weights[mixed.used] / mixed.weights[mixed.used].sum())
            for mixed in (mixture, self._mix(np.zeros_like(self.step)))
        ]
        # A mixture keeps rules in expectation; where single episodes count, a dear plan does more.
        yield from [*mixtures, *singles] if self.aim.confidence is None else [*singles, *mixtures]

    def _found(self, plans: Int[np.ndarray, " plan"], weights: Float[np.ndarray, " plan"]) -> Found:
        throttles = tuple(self.throttles[plan] for plan in plans)
        return Found(self.effort * self.prices[plans], weights, throttles)

    def _drive(self) -> None:
        self._add(self.starts)
        round_ = 0
        while round_ < self.aim.rounds:
            mixture = self._mix(INSET * self.step)
            best = self._best_kept()
            enough = GOOD_ENOUGH if self.aim.episodes == 1 else GOOD_ENOUGH_BY_CHANCE
            enough *= 2.0 ** (round_ / CONTENT)
            limit = mixture.return_ - enough * abs(mixture.return_)
            if best is not None and self.returns[best] >= limit:
                break
            if mixture.is_broken.any():
                if round_ >= MOST_BROKEN_ROUNDS:
                    break
                if self.was_broken_off:  # perhaps some cells can only be served at a crawl
                    self.most_steps = float("inf")
            round_ += 1
            self._add(self._next(mixture))

    def _patience(self, times: Float[np.ndarray, " group"]) -> float:
        return PATIENCE * float(self.fluid.weight @ times) + 100.0

    def broken(self) -> Int[np.ndarray, " broken"]:
        """The atoms, by their numbers in the problem, that no mixture so far keeps."""
        return self.branch.atoms[self._mix(np.zeros_like(self.step)).is_broken]

    def _best_kept(self) -> int | None:
        """The plan with the best return among those that keep every rule."""
        if not self.is_kept.any():
            return None
        return int(np.argmax(np.where(self.is_kept, self.returns, -np.inf)))

    def _prices(self, multipliers: Float[np.ndarray, "plan atom"]) -> np.ndarray:
        """What multipliers come to in each region, the same on every part of the path."""
        of_region = -self.rate * multipliers @ self.branch.coefficients
        return np.repeat(of_region[:, None], PARTS, axis=1)

    def _add(self, prices: Float[np.ndarray, "plan part region"]) -> None:
        """Drive by these prices and remember what came of it."""
        prices = np.minimum(prices, HIGHEST_PRICE)
        driven = self.driver.drive(
            self.effort * prices,
            most_steps=self.most_steps,
            keys=self.keys,
            discount=self.problem.discount,
        )
        ended = driven.is_finished
        self.was_broken_off |= not ended.all()
        sides = driven.amounts @ self.branch.coefficients.T
        given = driven.amounts_of_part @ self.branch.coefficients.T
        self.prices = np.concatenate([self.prices, prices[ended]])
        self.given = np.concatenate([self.given, given[ended]])
        self.earned = np.concatenate([self.earned, driven.returns_of_part[ended]])
        self.returns = np.concatenate([self.returns, driven.returns.mean(axis=1)[ended]])
        self.sides = np.concatenate([self.sides, sides.mean(axis=1)[ended]])
        self.room = np.concatenate([self.room, self._room(sides)[ended]])
        self.is_kept = np.concatenate([self.is_kept, self._is_kept(driven)[ended]])
        self.throttles += [driven.throttles[plan] for plan in np.flatnonzero(ended)]

    def _room(
        self, sides: Float[np.ndarray, "plan episode atom"]
    ) -> Float[np.ndarray, "plan atom"]:
        """How far inside each bound the mean must lie."""
        room = self.aim.deviations * self._error(sides)
        if self.aim.confidence is None or self.aim.episodes == 1:
            return room
        spread = sides.std(axis=1, ddof=1)
        # Each atom may fail as often as if all failed apart.
        share = 1.0 - (1.0 - self.aim.confidence) / max(sides.shape[2], 1)
        return np.maximum(room, norm.ppf(share) * spread)

    def _error(
        self, sides: Float[np.ndarray, "plan episode atom"]
    ) -> Float[np.ndarray, "plan atom"]:
        """Standard errors of the means; 0 where one episode tells everything."""
        if self.aim.episodes == 1:
            return np.zeros(sides[:, 0].shape)
        return sides.std(axis=1, ddof=1) / np.sqrt(self.aim.episodes)

    def _is_kept(self, driven: Driven) -> Bool[np.ndarray, " plan"]:
        """Whether the rules hold, by whichever disjunct."""
        if not self.aim.by_rules:
            sides = driven.amounts @ self.branch.coefficients.T
            return (sides.mean(axis=1) <= self.branch.bounds + self.step).all(axis=1)
        table = self.problem.atoms
        sides = driven.amounts @ table.coefficients.T
        signed = sides.mean(axis=1) - table.bounds + self.aim.deviations * self._error(sides)
        kept = clause_violation(table.members, signed).sum(axis=-1) <= self.problem.tolerance
        if self.aim.confidence is None:
            return kept
        single = signed_violation(table.coefficients, table.bounds, driven.amounts)
        alone = clause_violation(table.members, single).sum(axis=-1) <= self.problem.tolerance
        share = alone.mean(axis=1)
        error = np.sqrt(share * (1.0 - share) / self.aim.episodes)
        return kept & (share - self.aim.deviations * error >= self.aim.confidence)

    def _mix(self, inset: Float[np.ndarray, " atom"]) -> Mixture:
        """The best mixture of the plans so far that keeps the atoms, with room to spare."""
        plans, atoms = self.sides.shape
        if plans == 0:
            raise ScrlError(
                "no plan came to the end of the path in time; raise horizon_steps in [world]"
            )
        over = self.sides + self.room - self.branch.bounds + inset
        mixed = elastic_mixture(self.returns, over, np.full(atoms, self.dear))
        return Mixture(
            float(mixed.weights @ self.returns), mixed.weights, mixed.of_atom / self.effort,
            mixed.slack > 1e-6 * self.step,
        )  # fmt: skip

    def _next(self, mixture: Mixture) -> Float[np.ndarray, "plan part region"]:
        """What to drive next: by the program's multipliers, by the fluid's once its bounds are
        moved, the mixture as one plan, and around single plans."""
        by_fluid = self._by_fluid(self._moved_bounds(mixture), mixture.multipliers)
        chosen = [*self._prices(np.array([mixture.multipliers, by_fluid]))]
        between = np.tensordot(mixture.weights[mixture.used], self.prices[mixture.used], axes=1)
        if mixture.is_broken.any():
            dearer = self._dearer(mixture)
            chosen += [dearer, *(self._one_sided(dearer) for _ in range(self.aim.plans // 4))]
            chosen += self._patched(mixture)
        else:
            chosen.append(between)
        chosen += self._spliced(mixture)
        near = self.prices[self._nearly_kept()]
        while len(chosen) < self.aim.plans:
            start = near[len(chosen) % len(near)]
            chosen.append(start * (1.0 + NEARBY * self.rng.standard_normal(start.shape[1])))
        return np.array(chosen)

    def _moved_bounds(self, mixture: Mixture) -> Float[np.ndarray, " atom"]:
        """Bounds at which the fluid should do what the mixture is meant to do, or nearly so."""
        plans, weights = mixture.used, mixture.weights[mixture.used]
        real = weights @ (self.sides[plans] + self.room[plans])
        off = real - self._sides_by_fluid(mixture.multipliers)
        return self.branch.bounds - INSET * self.step - off + self._some_steps()

    def _spliced(self, mixture: Mixture) -> list[Float[np.ndarray, "part atom"]]:
        """The mixture as one plan, in some ways; nothing where it is one plan already."""
        used, weights = mixture.used, mixture.weights[mixture.used]
        if len(used) < 2:
            return []
        taken = splices(
            self.given[used] / self.step, weights / weights.sum(), np.full(len(self.step), INSET),
            count=int(SPLICES * self.aim.plans), rng=self.rng,
        )  # fmt: skip
        return list(self.prices[used][taken, np.arange(PARTS)])

    def _patched(self, mixture: Mixture) -> list[Float[np.ndarray, "part region"]]:
        """The best of the plans on each part of the path."""
        extremes = [*self.sides.argmin(axis=0), int(self.returns.argmax())]
        plans = list(dict.fromkeys([*mixture.used, *self._nearly_kept(), *extremes]))
        room = self.room[plans].max(axis=0, initial=0.0) + INSET * self.step
        taken = patchwork(
            self.earned[plans], self.given[plans], self.branch.bounds - room, self.dear
        )
        return [] if taken is None else [self.prices[plans][taken, np.arange(PARTS)]]

    def _some_steps(self) -> Float[np.ndarray, " atom"]:
        return 2.0 * self.step * self.rng.standard_normal(len(self.step))

    def _nearly_kept(self) -> Int[np.ndarray, " plan"]:
        """The single plans that come nearest to an answer: violations cost twice their price."""
        over = np.maximum(self.sides + self.room - self.branch.bounds, 0.0)
        dear = 2.0 * np.maximum(self.first, 0.2 / np.maximum(self.step, 1e-300))
        merit = self.returns - self.effort * over @ dear
        return np.argsort(-merit)[:NEAREST]

    def _dearer(self, mixture: Mixture) -> Float[np.ndarray, "part region"]:
        """More for atoms that none has kept yet: the fluid may not know that they are at risk."""
        least = 0.3 / np.maximum(self.step, 1e-300)
        grown = np.maximum(self.first, least) * np.exp(self.rng.uniform(0.0, 1.5))
        return self._prices(np.where(mixture.is_broken, grown, self.first)[None])[0]

    def _one_sided(
        self, prices: Float[np.ndarray, "part region"]
    ) -> Float[np.ndarray, "part region"]:
        """What earns alone, or nearly: what costs may keep the vehicle from braking in time."""
        slowest = np.exp(self.rng.uniform(0.0, np.log(MOST_STEPS_PER_CELL)))
        highest = 1.0 - (1.0 + slowest) ** -2
        earning = np.minimum(prices, highest)
        costing = self.rng.uniform() ** 3 * prices
        # On a few parts or on many: a rule may be kept best by standing still in one place.
        is_there = self.rng.uniform(size=(PARTS, 1)) < self.rng.uniform() ** 2
        return np.where(is_there, np.where(prices > 0.0, earning, costing), prices)

    def _dual(self, bounds: Float[np.ndarray, " atom"]) -> BranchDual:
        return BranchDual(self.fluid, self.rows, bounds)

    def _sides_by_fluid(
        self, multipliers: Float[np.ndarray, " atom"]
    ) -> Float[np.ndarray, " atom"]:
        """What the fluid says that a . density comes to."""
        return self.rows @ self._dual(self.branch.bounds).at(multipliers).times

    def _by_fluid(
        self, bounds: Float[np.ndarray, " atom"], start: Float[np.ndarray, " atom"]
    ) -> Float[np.ndarray, " atom"]:
        """The fluid's multipliers for other bounds; the start where it has none."""
        found = self._dual(bounds).maximise(start).multipliers
        # No price above 1 is ever needed.
        highest = 2.0 / np.maximum(self.step, 1e-300)
        return found if (found <= highest).all() else start
