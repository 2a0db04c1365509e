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
from scrl.prices.splice import splices
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
PATIENCE = 3.0
"""Plans that take so many times as long as the fluid are broken off."""


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

    Multipliers are in efforts for one unit of an atom's side.
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
        self.rows = branch.coefficients @ self.fluid.amount
        self.step = vehicle.rate * np.abs(branch.coefficients).max(axis=1, initial=0.0)
        times = self._dual(branch.bounds).at(self.first).times
        self.most_steps = PATIENCE * float(self.fluid.weight @ times) + 100.0
        atoms = len(branch.bounds)
        self.multipliers = np.zeros((0, PARTS, atoms))
        self.given = np.zeros((0, PARTS, atoms))
        self.returns, self.is_kept = np.zeros(0), np.zeros(0, bool)
        self.sides, self.room = np.zeros((0, atoms)), np.zeros((0, atoms))
        self.throttles: list[Float[np.ndarray, " step"]] = []
        first = _everywhere(np.outer(FIRST_SHARES, self.first))
        self.starts = first if before is None else before.best()

    def best(self) -> Float[np.ndarray, "plan part atom"]:
        """The plans that are mixed, and the single ones that come nearest: to go on from."""
        chosen = [*self._mix(INSET * self.step).used, *self._nearly_kept()]
        return self.multipliers[list(dict.fromkeys(chosen))]

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
        for mixed in (mixture, self._mix(np.zeros_like(self.step))):
            weights = mixed.weights[mixed.used]
            yield self._found(mixed.used, weights / weights.sum())
        yield from (self._found(np.array([plan]), np.ones(1)) for plan in kept[~is_fair])

    def _found(self, plans: Int[np.ndarray, " plan"], weights: Float[np.ndarray, " plan"]) -> Found:
        throttles = tuple(self.throttles[plan] for plan in plans)
        return Found(self._prices(self.multipliers[plans]), weights, throttles)

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
            round_ += 1
            self._add(self._next(mixture))

    def _best_kept(self) -> int | None:
        """The plan with the best return among those that keep every rule."""
        if not self.is_kept.any():
            return None
        return int(np.argmax(np.where(self.is_kept, self.returns, -np.inf)))

    def _prices(self, multipliers: Float[np.ndarray, "plan part atom"]) -> np.ndarray:
        """Return per step in each region."""
        return -self.rate * self.effort * multipliers @ self.branch.coefficients

    def _add(self, multipliers: Float[np.ndarray, "plan part atom"]) -> None:
        """Drive by these multipliers and remember what came of it."""
        driven = self.driver.drive(
            self._prices(multipliers), most_steps=self.most_steps, keys=self.keys
        )
        ended = driven.is_finished
        sides = driven.amounts @ self.branch.coefficients.T
        given = driven.amounts_of_part @ self.branch.coefficients.T
        self.multipliers = np.concatenate([self.multipliers, multipliers[ended]])
        self.given = np.concatenate([self.given, given[ended]])
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
        dear = 50.0 * self.effort * (self.first.max(initial=0.0) + 1.0 / self.rate)
        mixed = elastic_mixture(self.returns, over, np.full(atoms, dear))
        return Mixture(
            float(mixed.weights @ self.returns), mixed.weights, mixed.of_atom / self.effort,
            mixed.slack > 1e-6 * self.step,
        )  # fmt: skip

    def _next(self, mixture: Mixture) -> Float[np.ndarray, "plan part atom"]:
        """What to drive next: the program's multipliers, points between and around plans, and
        the mixture as one plan."""
        used, rng = mixture.used, self.rng
        plans, weights = self.multipliers[used].mean(axis=1), mixture.weights[used]
        between = weights @ plans
        # How far the true world is from what the fluid says there.
        off = weights @ (self.sides[used] + self.room[used] - self._sides_by_fluid(plans))
        aim = self.branch.bounds - INSET * self.step - off
        proposed = [
            mixture.multipliers,
            self._dearer(between, mixture.is_broken) if mixture.is_broken.any() else between,
            self._by_fluid(aim + self._some_steps(), between),
        ]
        driven_next = [*_everywhere(np.array(proposed)), *self._spliced(mixture)]
        near = self.multipliers[self._nearly_kept()]
        while len(driven_next) < self.aim.plans:
            start = near[len(driven_next) % len(near)]
            driven_next.append(start * (1.0 + NEARBY * rng.standard_normal(start.shape[1])))
        return np.maximum(np.array(driven_next), 0.0)

    def _spliced(self, mixture: Mixture) -> list[Float[np.ndarray, "part atom"]]:
        """The mixture as one plan, in some ways; nothing where it is one plan already."""
        used, weights = mixture.used, mixture.weights[mixture.used]
        if len(used) < 2:
            return []
        taken = splices(
            self.given[used] / self.step, weights / weights.sum(), np.full(len(self.step), INSET),
            count=int(SPLICES * self.aim.plans), rng=self.rng,
        )  # fmt: skip
        return list(self.multipliers[used][taken, np.arange(PARTS)])

    def _some_steps(self) -> Float[np.ndarray, " atom"]:
        return 2.0 * self.step * self.rng.standard_normal(len(self.step))

    def _nearly_kept(self) -> Int[np.ndarray, " plan"]:
        """The single plans that come nearest to an answer: violations cost twice their price."""
        over = np.maximum(self.sides + self.room - self.branch.bounds, 0.0)
        dear = 2.0 * np.maximum(self.first, 0.2 / np.maximum(self.step, 1e-300))
        merit = self.returns - self.effort * over @ dear
        return np.argsort(-merit)[:NEAREST]

    def _dearer(
        self, multipliers: Float[np.ndarray, " atom"], is_broken: Bool[np.ndarray, " atom"]
    ) -> Float[np.ndarray, " atom"]:
        """More for atoms that none has kept yet: the fluid may not know that they are at risk."""
        least = 0.3 / np.maximum(self.step, 1e-300)
        grown = np.maximum(multipliers, least) * np.exp(self.rng.uniform(0.0, 1.5))
        return np.where(is_broken, grown, multipliers)

    def _dual(self, bounds: Float[np.ndarray, " atom"]) -> BranchDual:
        return BranchDual(self.fluid, self.rows, bounds)

    def _sides_by_fluid(self, multipliers: Float[np.ndarray, "plan atom"]) -> np.ndarray:
        """What the fluid says that a . density comes to."""
        dual = self._dual(self.branch.bounds)
        return np.array([self.rows @ dual.at(each).times for each in multipliers])

    def _by_fluid(
        self, bounds: Float[np.ndarray, " atom"], start: Float[np.ndarray, " atom"]
    ) -> Float[np.ndarray, " atom"]:
        """The fluid's multipliers for other bounds; the start where it has none."""
        found = self._dual(bounds).maximise(start).multipliers
        # No price above 1 is ever needed.
        highest = 2.0 / np.maximum(self.step, 1e-300)
        return found if (found <= highest).all() else start


def _everywhere(multipliers: Float[np.ndarray, "plan atom"]) -> np.ndarray:
    """The same on every part of the path."""
    return np.repeat(multipliers[:, None], PARTS, axis=1)
