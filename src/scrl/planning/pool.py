"""The plans driven so far for one branch: what they did, which come nearest, how they mix."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float, Int

from scrl.planning.drives import PARTS, Driven, PriceDriver
from scrl.planning.lattice_policy import HIGHEST_PRICE
from scrl.problems import Problem
from scrl.reference.columns import ColumnGeneration, Mixture
from scrl.reference.priced import PricedBranch
from scrl.rollout import unused_keys
from scrl.violation import cons_vio, largest_step
from scrl.worlds.contract import Column, Response


@dataclass(frozen=True)
class SearchSettings:
    """How long to search, and what is enough."""

    plans: int = 8
    """In each round."""
    rounds: int = 40
    """At most, as long as no single plan keeps the rules."""
    may_mix: bool = False
    """Whether a mixture is an answer."""
    by_rules: bool = True
    """Whether plans are judged by the rules, or by the branch alone: impossible rules cannot."""
    good_enough: float = 0.003
    """A single plan this share of the return from the best mixture ends the search; later rounds
    are content with more."""
    levels: int = 48
    """Speeds on the lattice, at least."""
    is_coarse: bool = False
    """Whether drives on the lattice are polished, so that no finer one is needed."""
    deadline: float = float("inf")
    """By the monotonic clock, when the search ends with what it has."""


INSET = 0.5
"""How far inside each bound mixtures aim, in steps of service: a single plan cannot hit it."""
PRICE_OF_A_STOP = 5.0
"""The same where braking is seen ahead: a stop in a small region may cost more than its steps."""
BOX, LEAST_PENALTY = 2.0, 0.1
"""Penalties at first: relative to the fluid's multipliers, and at least, in efforts for a step."""
NEAREST = 3
"""How many single plans count as near to an answer."""


@dataclass(frozen=True)
class DrivenPlan:
    """Prices to drive by, and what came of it on each part of the path."""

    prices: Float[np.ndarray, "part region"]
    """In return for one unit."""
    earned: Float[np.ndarray, " part"]
    given: Float[np.ndarray, "part atom"]
    """What was added to each atom's side."""
    is_kept: bool
    """Whether every rule is kept."""
    throttles: Float[np.ndarray, "step ..."]


class Pool:
    """The plans driven so far for one branch: the columns of a program."""

    def __init__(
        self,
        problem: Problem,
        branch: PricedBranch,
        driver: PriceDriver,
        settings: SearchSettings,
    ) -> None:
        self.problem, self.branch, self.driver, self.settings = problem, branch, driver, settings
        vehicle, self.in_step = problem.world_spec.vehicle, problem.world_spec.in_step
        self.effort, self.rate, self.product = vehicle.effort, vehicle.rate, vehicle.product
        self.dear = 50.0 * (branch.multipliers.max(initial=0.0) + self.effort / self.rate)
        """What breaking an atom costs, for one unit."""
        self.step = largest_step(branch.coefficients * self.in_step, self.rate)
        """What a step of service can do to each atom's side."""
        self.most_steps, self.was_broken_off = float("inf"), False
        prices = -self.rate * branch.multipliers @ branch.coefficients
        self.lattice = driver.lattice(prices, settings.levels, is_polished=settings.is_coarse)
        """On which the best responses are found; none where the world is random or too large."""
        # A unit of time is not a unit of what is given out.
        plain = largest_step(branch.coefficients, self.rate)
        units = np.divide(self.step, plain, out=np.ones(len(plain)), where=plain > 0.0)
        penalties = np.full(len(self.step), self.dear) / units
        if self.lattice is not None:
            # Just above the fluid's multipliers, which keeps the search near them; they grow where
            # no mixture keeps an atom at that price.
            least = LEAST_PENALTY * self.effort / self.rate / units
            penalties = np.maximum(BOX * branch.multipliers, least)
        self.generation = ColumnGeneration(
            self.respond, branch.coefficients, branch.bounds, penalties,
            inset=(0.0 if problem.world_spec.is_poured else INSET) * self.step,
        )  # fmt: skip

    @property
    def plans(self) -> list[DrivenPlan]:
        return [each.policy for each in self.generation.columns]

    def respond(self, prices: Float[np.ndarray, "plan *part region"]) -> list[Response[DrivenPlan]]:
        """The best drives at these prices, the same everywhere or one vector for each part."""
        if prices.ndim == 2:
            prices = np.repeat(prices[:, None], PARTS, axis=1)
        highest = HIGHEST_PRICE if self.lattice is None else PRICE_OF_A_STOP
        prices = np.minimum(prices, self.price_of(highest))
        driven = self.driver.drive(
            self.rate * prices,
            most_steps=self.most_steps,
            keys=unused_keys(1),
            discount=self.problem.discount,
            lattice=self.lattice,
        )
        self.was_broken_off |= not driven.is_finished.all()
        return self._responses(driven, prices)

    def price_of(self, efforts: float) -> Float[np.ndarray, " region"]:
        """The price of a unit at which a step of service is worth so many efforts, and its cost."""
        return (efforts * self.effort + self.product) / self.rate / self.in_step

    def follow(
        self,
        prices: Float[np.ndarray, "plan part region"],
        throttles: Sequence[Float[np.ndarray, "step ..."]],
    ) -> list[Response[DrivenPlan]]:
        """Plans with given throttles; their prices say where they come from."""
        return self._responses(self.driver.follow(throttles), prices)

    def _responses(
        self, driven: Driven, prices: Float[np.ndarray, "plan part region"]
    ) -> list[Response[DrivenPlan]]:
        given = driven.amounts_of_part @ self.branch.coefficients.T
        returns, amounts = driven.returns[:, 0], driven.amounts[:, 0]
        is_kept = self._is_kept(amounts)

        def column(plan: int) -> Column[DrivenPlan]:
            done = DrivenPlan(
                prices[plan], driven.returns_of_part[plan], given[plan], bool(is_kept[plan]),
                driven.throttles[plan],
            )  # fmt: skip
            return Column(done, float(returns[plan]), amounts[plan])

        return [
            Response(column(plan) if ended else None)
            for plan, ended in enumerate(driven.is_finished)
        ]

    def _is_kept(self, amounts: Float[np.ndarray, "plan region"]) -> Bool[np.ndarray, " plan"]:
        """Whether the rules hold, by whichever disjunct, or else the branch, nearly."""
        if self.settings.by_rules:
            return np.asarray(cons_vio(self.problem.atoms, amounts)) <= self.problem.tolerance
        return (amounts @ self.branch.coefficients.T <= self.branch.bounds + self.step).all(axis=1)

    def mix(self, inset: float | Float[np.ndarray, " atom"] = INSET) -> Mixture:
        """The best mixture of the plans so far, so many steps of service inside each bound."""
        return replace(self.generation, inset=inset * self.step).mix()

    def is_broken(self, mixture: Mixture) -> Bool[np.ndarray, " atom"]:
        """The atoms that the mixture exceeds: no mixture of these plans keeps them."""
        return mixture.excess > 1e-6 * self.step

    def nearly_kept(self) -> Int[np.ndarray, " plan"]:
        """The single plans that come nearest to an answer: violations cost twice their price."""
        generation = self.generation
        over = np.maximum(generation.over(generation.columns) - generation.inset, 0.0)
        least = 0.2 * self.effort / np.maximum(self.step, 1e-300)
        merit = generation.returns - over @ (2.0 * np.maximum(self.branch.multipliers, least))
        return np.argsort(-merit)[:NEAREST]

    def least_violating(self) -> int:
        """The single plan that breaks the rules least, by the branch alone where that is judged."""
        if not self.settings.by_rules:
            return int(self.nearly_kept()[0])
        amounts = np.array([each.amounts for each in self.generation.columns])
        violation = cons_vio(self.problem.atoms, amounts)
        return int(np.lexsort((-self.generation.returns, violation))[0])

    def kept(self) -> Int[np.ndarray, " plan"]:
        """The plans that keep every rule, the best return first."""
        kept = np.flatnonzero([plan.is_kept for plan in self.plans])
        return kept[np.argsort(-self.generation.returns[kept])]

    def prices(self, plans: Iterable[int]) -> Float[np.ndarray, "plan part region"]:
        """The prices of some plans."""
        return np.array([self.generation.columns[plan].policy.prices for plan in plans])

    def best(self) -> Float[np.ndarray, "plan part region"]:
        """The plans that are mixed, and the single ones that come nearest: to go on from."""
        return self.prices(dict.fromkeys([*self.mix().used, *self.nearly_kept()]))
