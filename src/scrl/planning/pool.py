"""The plans driven so far for one branch: what they did, which come nearest, how they mix."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import jax
import numpy as np
from jaxtyping import Bool, Float, Int

from scrl.density import standard_error
from scrl.errors import ScrlError
from scrl.planning.drives import PARTS, Driven, PriceDriver
from scrl.problems import Problem
from scrl.reference.columns import elastic_mixture
from scrl.reference.priced import PricedBranch
from scrl.violation import clause_violation, largest_step, signed_violation


@dataclass(frozen=True)
class SearchSettings:
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

    def slack(
        self, sides: Float[np.ndarray, "plan episode atom"]
    ) -> Float[np.ndarray, "plan atom"]:
        """How far inside each bound the mean must lie."""
        slack = self.deviations * standard_error(sides, axis=1)
        if self.confidence is None or self.episodes == 1:
            return slack
        spread = sides.std(axis=1, ddof=1)
        # Each atom may fail as often as if all failed apart.
        share = 1.0 - (1.0 - self.confidence) / max(sides.shape[2], 1)
        return np.maximum(slack, NormalDist().inv_cdf(share) * spread)

    def keeps_rules(
        self, problem: Problem, amounts: Float[np.ndarray, "plan episode region"]
    ) -> Bool[np.ndarray, " plan"]:
        """Whether the rules hold, by whichever disjunct."""
        table = problem.atoms
        sides = amounts @ table.coefficients.T
        signed = sides.mean(axis=1) - table.bounds + self.deviations * standard_error(sides, axis=1)
        kept = clause_violation(table.listed, signed).sum(axis=-1) <= problem.tolerance
        if self.confidence is None:
            return kept
        single = signed_violation(table.coefficients, table.bounds, amounts)
        alone = clause_violation(table.listed, single).sum(axis=-1) <= problem.tolerance
        share = alone.mean(axis=1)
        error = np.sqrt(share * (1.0 - share) / self.episodes)
        return kept & (share - self.deviations * error >= self.confidence)


INSET = 0.5
"""How far inside each bound mixtures aim, in steps of service: a single plan cannot hit it."""
NEAREST = 3
"""How many single plans count as near to an answer."""
HIGHEST_PRICE = 0.998
"""In efforts per step: at 1 it would be best to stand still for ever."""


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


class Pool:
    """The plans driven so far for one branch.

    Multipliers are in efforts for one unit of an atom's side, prices in efforts per step.
    """

    def __init__(
        self,
        problem: Problem,
        branch: PricedBranch,
        driver: PriceDriver,
        settings: SearchSettings,
        *,
        seed: int,
    ) -> None:
        self.problem, self.branch, self.driver, self.settings = problem, branch, driver, settings
        self.keys = jax.random.split(jax.random.key(seed), settings.episodes)
        vehicle = problem.world_spec.vehicle
        self.effort = vehicle.effort
        self.multipliers = branch.multipliers / vehicle.effort
        """The fluid's, to begin with."""
        self.dear = 50.0 * self.effort * (self.multipliers.max(initial=0.0) + 1.0 / vehicle.rate)
        """What breaking an atom costs, for one unit."""
        self.step = largest_step(branch.coefficients, vehicle.rate)
        """What a step of service can do to each atom's side."""
        self.most_steps, self.was_broken_off = float("inf"), False
        atoms, regions = branch.coefficients.shape
        self.prices = np.zeros((0, PARTS, regions))
        self.given, self.earned = np.zeros((0, PARTS, atoms)), np.zeros((0, PARTS))
        self.returns, self.is_kept = np.zeros(0), np.zeros(0, bool)
        self.sides, self.slack = np.zeros((0, atoms)), np.zeros((0, atoms))
        self.throttles: list[Float[np.ndarray, " step"]] = []

    def add(self, prices: Float[np.ndarray, "plan part region"]) -> None:
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
        self.slack = np.concatenate([self.slack, self.settings.slack(sides)[ended]])
        self.is_kept = np.concatenate([self.is_kept, self._is_kept(driven, sides)[ended]])
        self.throttles += [driven.throttles[plan] for plan in np.flatnonzero(ended)]

    def _is_kept(
        self, driven: Driven, sides: Float[np.ndarray, "plan episode atom"]
    ) -> Bool[np.ndarray, " plan"]:
        if self.settings.by_rules:
            return self.settings.keeps_rules(self.problem, driven.amounts)
        return (sides.mean(axis=1) <= self.branch.bounds + self.step).all(axis=1)

    def mix(self, inset: float = INSET) -> Mixture:
        """The best mixture of the plans so far that keeps the atoms, with slack to spare."""
        plans, atoms = self.sides.shape
        if plans == 0:
            raise ScrlError(
                "no plan came to the end of the path in time; raise horizon_steps in [world]"
            )
        over = self.sides + self.slack - self.branch.bounds + inset * self.step
        mixed = elastic_mixture(self.returns, over, np.full(atoms, self.dear))
        return Mixture(
            float(mixed.weights @ self.returns), mixed.weights, mixed.of_atom / self.effort,
            mixed.slack > 1e-6 * self.step,
        )  # fmt: skip

    def nearly_kept(self) -> Int[np.ndarray, " plan"]:
        """The single plans that come nearest to an answer: violations cost twice their price."""
        over = np.maximum(self.sides + self.slack - self.branch.bounds, 0.0)
        dear = 2.0 * np.maximum(self.multipliers, 0.2 / np.maximum(self.step, 1e-300))
        merit = self.returns - self.effort * over @ dear
        return np.argsort(-merit)[:NEAREST]

    def kept(self) -> Int[np.ndarray, " plan"]:
        """The plans that keep every rule, the best return first."""
        kept = np.flatnonzero(self.is_kept)
        return kept[np.argsort(-self.returns[kept])]

    def best(self) -> Float[np.ndarray, "plan part region"]:
        """The plans that are mixed, and the single ones that come nearest: to go on from."""
        chosen = [*self.mix().used, *self.nearly_kept()]
        return self.prices[list(dict.fromkeys(chosen))]
