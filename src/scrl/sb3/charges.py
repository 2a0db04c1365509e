"""What steps are charged under the present kappa, for batches of them, in plain arrays.

The penalty is that of `scrl.penalty`; nothing of it is repeated here. Where rules must hold in a
share of single runs, the violations of a run are labels too (`scrl.single_runs`). Batches are
compiled once for each of their sizes, and cost nothing while every kappa is 0.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from scrl.penalty import Atoms
from scrl.rules import AtomTable, RuleSet
from scrl.single_runs import RunAtoms, SeenRun, added_violations
from scrl.training.config import configure
from scrl.training.held import HeldAgainst, held_against


class Charges:
    """The rules, a kappa for each of their atoms, and what a step pays for them."""

    def __init__(
        self, rules: RuleSet, penalty: str, seed: int, *, is_in_runs: bool = False, **drawing: Any
    ):
        self.rules, self.is_in_runs = rules, is_in_runs
        self.table = AtomTable.of(rules)
        self.kappa = np.zeros(len(self.table.bounds))
        self.price_unit = 1.0
        """A price of this size is a large one: the mean reward of a step, without its sign."""
        self.rate = 1.0
        """Units that a step of service gives out: labels count in these when they are charged."""
        self._random = np.random.default_rng(seed)
        self._atoms = Atoms.of(self.table)
        self._charged = self._atoms.with_violations() if is_in_runs else self._atoms
        self.of_runs: RunAtoms | None = None
        """Atoms of single runs, with their forecasts, as soon as an episode was seen."""
        config = configure(penalty=penalty, settings=drawing)
        rule = config.penalty_rule(is_in_runs=is_in_runs)
        self._update = jax.jit(rule.update)
        self._charge = jax.jit(jax.vmap(rule.charge, in_axes=(None, 0, 0, 0)))
        self._price = jax.jit(jax.vmap(rule.price, in_axes=(None, 0)))
        self._needs = jax.jit(jax.vmap(_needs, in_axes=(None, 0, None)))
        self._added = jax.jit(added_violations)
        self._held = jax.jit(
            partial(held_against, is_in_runs=is_in_runs),
            static_argnames=("deviations", "tolerance"),
        )

    @property
    def labels(self) -> int:
        """Amounts, and where runs are counted a violation of each atom."""
        return self._charged.coefficients.shape[1]

    @property
    def run_features(self) -> int:
        """What is seen of a run beside an observation."""
        return len(self.rules.regions) + 1 + 2 * len(self.kappa) if self.is_in_runs else 0

    def follow(self, amounts: Float[np.ndarray, "run region"], steps: float) -> None:
        """Forecasts of single runs go halfway to what runs of a policy gave on average."""
        if not self.is_in_runs:
            return
        mean, cells = jnp.asarray(amounts.mean(axis=0)), jnp.full(amounts.shape[1], steps)
        before = self.of_runs
        if before is None:
            table, typical = self._atoms, jnp.abs(mean) / steps
            unit = jnp.where(typical > 0.0, typical, self.rate)
            before = RunAtoms.of(table.coefficients, table.bounds, mean, cells, unit)
        self.of_runs = before.following(mean, cells)

    def needs(self, runs: Float[np.ndarray, "lane amounts_and_steps"]) -> np.ndarray:
        """What runs had so far and still need, as policies see it."""
        if self.of_runs is None:
            return np.zeros((len(runs), self.run_features), np.float32)
        return np.asarray(self._needs(self.of_runs, runs, np.float32(self.rate)))

    def added(
        self,
        before: Float[np.ndarray, "lane amounts_and_steps"],
        after: Float[np.ndarray, "lane amounts_and_steps"],
        is_over: Bool[np.ndarray, " lane"],
    ) -> Float[np.ndarray, "lane atom"]:
        """What steps add to the violations of their runs, by their forecasts."""
        if not self.is_in_runs:
            return np.zeros((len(before), 0), np.float32)
        if self.of_runs is None:
            return np.zeros((len(before), len(self.kappa)), np.float32)
        return np.asarray(self._added(self.of_runs, before, after, is_over))

    def kappas_of_worlds(self, count: int) -> Float[np.ndarray, "lane atom"]:
        """The present kappa for each of some worlds."""
        return np.broadcast_to(self.kappa.astype(np.float32), (count, len(self.kappa)))

    def of(
        self, labels: Float[np.ndarray, "step region"], kappas: Float[np.ndarray, "step atom"]
    ) -> Float[np.ndarray, " step"]:
        """sigma(Psi, s) of every step from its labels, in units.

        Where the penalty draws a disjunct, each step draws for itself.
        """
        if not self.kappa.any():
            return np.zeros(len(labels), np.float32)
        uniform = self._random.random((len(labels), len(self.table.members)), np.float32)
        served = (labels / self.rate).astype(np.float32)
        return np.asarray(self._charge(self._charged, kappas, served, uniform))

    def prices(self, kappas: Float[np.ndarray, "lane atom"]) -> Float[np.ndarray, "lane region"]:
        """What a step that gives one label alone earns, as a share of the price unit."""
        if not self.kappa.any():
            return np.zeros((len(kappas), self.labels), np.float32)
        return np.asarray(self._price(self._charged, kappas)) / np.float32(self.price_unit)

    def moved(
        self, excess: Float[np.ndarray, " atom"], rate: Float[np.ndarray, " atom"]
    ) -> Float[np.ndarray, " atom"]:
        """Kappa after one move by the signed violation of each atom."""
        return np.asarray(self._update(self._charged, self.kappa, excess, rate), float)

    def held_against(
        self, amounts: Float[np.ndarray, "episode region"], deviations: float, tolerance: float
    ) -> HeldAgainst:
        """How far episodes are from the rules, some standard errors more surely."""
        return self._held(
            self._atoms, np.float32(amounts), deviations=deviations, tolerance=tolerance
        )


def _needs(
    atoms: RunAtoms, run: Float[Array, " amounts_and_steps"], rate: Float[Array, ""]
) -> Float[Array, " input"]:
    return SeenRun.of(atoms, run).needs(atoms, jnp.full(atoms.bounds.shape, rate))
