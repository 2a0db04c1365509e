"""What steps are charged under the present kappa, for batches of them, in plain arrays.

The penalty is that of `scrl.penalty`; nothing of it is repeated here. Batches are compiled once for
each of their sizes, and cost nothing while every kappa is 0.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from scrl.density import standard_error
from scrl.penalty import Atoms
from scrl.rules import AtomTable, RuleSet
from scrl.training.config import configure
from scrl.violation import clause_violation, signed_violation


class Charges:
    """The rules, a kappa for each of their atoms, and what a step pays for them."""

    def __init__(self, rules: RuleSet, penalty: str, seed: int, **drawing: Any):
        self.rules = rules
        self.table = AtomTable.of(rules)
        self.kappa = np.zeros(len(self.table.bounds))
        self.price_unit = 1.0
        """A price of this size is a large one: the mean reward of a step, without its sign."""
        self.rate = 1.0
        """Units that a step of service gives out: labels count in these when they are charged."""
        self._random = np.random.default_rng(seed)
        self._atoms = Atoms.of(self.table)
        rule = configure(penalty=penalty, settings=drawing).penalty_rule
        self._update = jax.jit(rule.update)
        self._charge = jax.jit(jax.vmap(rule.charge, in_axes=(None, 0, 0, 0)))
        self._price = jax.jit(jax.vmap(rule.price, in_axes=(None, 0)))

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
        return np.asarray(self._charge(self._atoms, kappas, served, uniform))

    def prices(self, kappas: Float[np.ndarray, "lane atom"]) -> Float[np.ndarray, "lane region"]:
        """What a step that serves one region alone earns, as a share of the price unit."""
        if not self.kappa.any():
            return np.zeros((len(kappas), len(self.rules.regions)), np.float32)
        return np.asarray(self._price(self._atoms, kappas)) / np.float32(self.price_unit)

    def moved(
        self,
        density: Float[np.ndarray, " region"],
        rate: Float[np.ndarray, " atom"],
        inset: Float[np.ndarray, " atom"],
    ) -> Float[np.ndarray, " atom"]:
        """Kappa after one move, aiming so far inside each bound."""
        signed = signed_violation(self.table.coefficients, self.table.bounds - inset, density)
        return np.asarray(self._update(self._atoms, self.kappa, signed, rate), float)

    def standard_error(
        self, amounts: Float[np.ndarray, "episode region"]
    ) -> Float[np.ndarray, " atom"]:
        """Of the mean of a . amounts over the episodes."""
        return standard_error(amounts @ self.table.coefficients.T)

    def violation(
        self, density: Float[np.ndarray, " region"], inset: Float[np.ndarray, " atom"]
    ) -> float:
        """Cons.Vio with each bound drawn in by `inset`."""
        signed = signed_violation(self.table.coefficients, self.table.bounds - inset, density)
        return float(clause_violation(self.table.listed, signed).sum())
