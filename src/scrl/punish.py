"""The punitive mechanism of Sec. 4: from violations to what each step is charged.

    kappa(phi) <- max(0, kappa(phi) + beta Vio(phi))           the penalty factor of an atom
    w(phi, s)   = sum_i a_i 1{i in L(s)} / sum_i |a_i|         how much a step in s bears on it
    sigma(phi, s) = kappa(phi) w(phi, s)                       what the step is charged for it

A clause (a disjunction) charges for one of its atoms, and only while every kappa in it is above 0:
for an atom drawn with probability proportional to 1 / kappa (SCRL, Algorithm 3), or for the one
that charges least (SCRL-min). A rule set charges for all its clauses: r' = r - sigma(Psi, s).

In expectation the draw charges every atom of a clause alike, kappa_j p_j = 1 / sum(1 / kappa), also
those that will never hold. A sharpness s above 1 draws with p_j proportional to kappa_j^-s: the
larger kappa has grown, the less its atom is still pushed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from scrl.penalty import signed_violation
from scrl.rules import AtomTable

OUT_OF_REACH = 1e30
"""A bound that nothing ever comes near; finite, so that 0 times it is 0."""


class Atoms(eqx.Module):
    """The atoms of a rule set on the device."""

    coefficients: Float[Array, "atom region"]
    bounds: Float[Array, " atom"]
    members: Bool[Array, "clause atom"]
    opposite: Int[Array, " atom"]
    """The atom that bounds the same sum from the other side; itself where there is none."""

    @classmethod
    def of(cls, table: AtomTable) -> Atoms:
        return cls(
            jnp.asarray(table.coefficients, float),
            jnp.asarray(table.bounds, float),
            jnp.asarray(table.members),
            jnp.asarray(table.opposites, int),
        )

    @property
    def size(self) -> Float[Array, " atom"]:
        """d = sum_i |a_i|."""
        return jnp.abs(self.coefficients).sum(axis=1)

    @property
    def shape(self) -> tuple[int, int]:
        """How many atoms and how many clauses there are."""
        clauses, atoms = self.members.shape
        return atoms, clauses

    def padded(self, atoms: int, clauses: int) -> Atoms:
        """With atoms and clauses added that always hold, so that several tasks have one shape.

        Their bound is out of reach: their kappa stays 0, and no clause with them ever charges.
        """
        if (atoms, clauses) == self.shape:
            return self
        more, rows = atoms - len(self.bounds), clauses - len(self.members)
        members = jnp.pad(self.members, ((0, rows), (0, more)))
        return Atoms(
            jnp.pad(self.coefficients, ((0, more), (0, 0)), constant_values=1.0),
            jnp.pad(self.bounds, (0, more), constant_values=OUT_OF_REACH),
            members.at[len(self.members) :, -1].set(True),
            jnp.concatenate([self.opposite, jnp.arange(len(self.bounds), atoms)]),
        )


def next_kappa(
    kappa: Float[Array, " atom"], signed: Float[Array, " atom"], rate: float | Float[Array, ""]
) -> Float[Array, " atom"]:
    """kappa <- max(0, kappa + beta Vio)."""
    return jnp.maximum(kappa + rate * signed, 0.0)


def netted(kappa: Float[Array, " atom"], opposite: Int[Array, " atom"]) -> Float[Array, " atom"]:
    """What two opposite atoms both have is taken off both: at most one of them can be broken."""
    is_pair = opposite != jnp.arange(len(kappa))
    return jnp.where(is_pair, kappa - jnp.minimum(kappa, kappa[opposite]), kappa)


def weights(atoms: Atoms, labels: Float[Array, " region"]) -> Float[Array, " atom"]:
    """w(phi, s) = a . labels / sum |a|."""
    return atoms.coefficients @ labels / atoms.size


def is_charged(members: Bool[Array, "clause atom"], kappa: Float[Array, " atom"]) -> Array:
    """A clause charges only while every kappa in it is above 0: else a disjunct holds already."""
    return jnp.all(~members | (kappa > 0), axis=1)


def draw_shares(
    members: Bool[Array, "clause atom"], kappa: Float[Array, " atom"], sharpness: float = 1.0
) -> Float[Array, "clause atom"]:
    """p_j = kappa_j^-s / sum; all 0 in a clause that charges nothing."""
    if members.size == 0:
        return jnp.zeros(members.shape)
    is_live = is_charged(members, kappa)[:, None]
    log_odds = jnp.where(members, -sharpness * jnp.log(kappa), -jnp.inf)
    return jnp.where(is_live, jax.nn.softmax(jnp.where(is_live, log_odds, 0.0), axis=1), 0.0)


def drawn_sigma(
    shares: Float[Array, "clause atom"],
    sigma: Float[Array, " atom"],
    luck: Float[Array, " clause"],
) -> Float[Array, ""]:
    """Algorithm 3, summed over clauses: sigma of the atom drawn with these shares.

    `luck` is a number from [0, 1) for each clause: the shares cut [0, 1) into pieces, and the one
    in which it falls is drawn.
    """
    above = jnp.cumsum(shares, axis=1)
    place = (luck * above[:, -1] if shares.size else luck)[:, None]
    is_drawn = (above - shares <= place) & (place < above)
    return jnp.sum(jnp.where(is_drawn, sigma, 0.0))


def smallest_sigma(
    members: Bool[Array, "clause atom"],
    kappa: Float[Array, " atom"],
    sigma: Float[Array, " atom"],
) -> Float[Array, ""]:
    """SCRL-min, summed over clauses: the smallest sigma, under the same guard."""
    least = jnp.min(jnp.where(members, sigma, jnp.inf), axis=1, initial=jnp.inf)
    return jnp.sum(jnp.where(is_charged(members, kappa), least, 0.0))


class Mechanism(NamedTuple):
    """How violations become charges: what is kept per atom, how it moves, what a step pays."""

    update: Callable[..., Float[Array, " atom"]]
    """(atoms, kappa, density, rate) -> kappa."""
    charge: Callable[..., Float[Array, ""]]
    """(atoms, kappa, labels, luck) -> sigma(Psi, s); luck: from [0, 1), one for each clause."""
    price: Callable[..., Float[Array, " region"]]
    """(atoms, kappa) -> what a step that serves one region alone earns in expectation: -E sigma."""


def scrl(sharpness: float = 1.0) -> Mechanism:
    """Algorithm 3: one atom of each clause is drawn for every transition."""

    def charge(
        atoms: Atoms, kappa: Float[Array, " atom"], labels: Float[Array, " region"], luck: Array
    ) -> Float[Array, ""]:
        shares = draw_shares(atoms.members, kappa, sharpness)
        return drawn_sigma(shares, kappa * weights(atoms, labels), luck)

    def price(atoms: Atoms, kappa: Float[Array, " atom"]) -> Float[Array, " region"]:
        expected = draw_shares(atoms.members, kappa, sharpness).sum(axis=0) * kappa
        return -(expected / atoms.size) @ atoms.coefficients

    return Mechanism(_kappa_by_violation, charge, price)


def scrl_min() -> Mechanism:
    """SCRL-min: the smallest sigma of each clause."""

    def charge(
        atoms: Atoms, kappa: Float[Array, " atom"], labels: Float[Array, " region"], luck: Array
    ) -> Float[Array, ""]:
        del luck
        return smallest_sigma(atoms.members, kappa, kappa * weights(atoms, labels))

    def price(atoms: Atoms, kappa: Float[Array, " atom"]) -> Float[Array, " region"]:
        alone = jnp.eye(atoms.coefficients.shape[1])
        sigma = jax.vmap(lambda labels: kappa * weights(atoms, labels))(alone)
        return -jax.vmap(lambda each: smallest_sigma(atoms.members, kappa, each))(sigma)

    return Mechanism(_kappa_by_violation, charge, price)


def lagrangian() -> Mechanism:
    """sum_j lambda_j a_j . labels: every atom charges, disjunctions unheeded.

    Its rate is beta / d, so that for one atom it and SCRL take the same steps.
    """

    def update(
        atoms: Atoms, kappa: Float[Array, " atom"], density: Float[Array, " region"], rate: float
    ) -> Float[Array, " atom"]:
        signed = signed_violation(atoms.coefficients, atoms.bounds, density)
        return next_kappa(kappa, signed, rate / atoms.size)

    def charge(
        atoms: Atoms, kappa: Float[Array, " atom"], labels: Float[Array, " region"], luck: Array
    ) -> Float[Array, ""]:
        del luck
        return kappa @ (atoms.coefficients @ labels)

    def price(atoms: Atoms, kappa: Float[Array, " atom"]) -> Float[Array, " region"]:
        return -kappa @ atoms.coefficients

    return Mechanism(update, charge, price)


def no_penalty() -> Mechanism:
    """Nothing is charged: the learner on its own."""

    def update(
        atoms: Atoms, kappa: Float[Array, " atom"], density: Float[Array, " region"], rate: float
    ) -> Float[Array, " atom"]:
        del atoms, density, rate
        return kappa

    def charge(
        atoms: Atoms, kappa: Float[Array, " atom"], labels: Float[Array, " region"], luck: Array
    ) -> Float[Array, ""]:
        del atoms, kappa, labels, luck
        return jnp.zeros(())

    def price(atoms: Atoms, kappa: Float[Array, " atom"]) -> Float[Array, " region"]:
        del kappa
        return jnp.zeros(atoms.coefficients.shape[1])

    return Mechanism(update, charge, price)


def _kappa_by_violation(
    atoms: Atoms, kappa: Float[Array, " atom"], density: Float[Array, " region"], rate: float
) -> Float[Array, " atom"]:
    return next_kappa(kappa, signed_violation(atoms.coefficients, atoms.bounds, density), rate)


def netting(mechanism: Mechanism) -> Mechanism:
    """The same, but the kappas of opposite atoms are netted after every move."""

    def update(
        atoms: Atoms, kappa: Float[Array, " atom"], density: Float[Array, " region"], rate: float
    ) -> Float[Array, " atom"]:
        return netted(mechanism.update(atoms, kappa, density, rate), atoms.opposite)

    return mechanism._replace(update=update)


MECHANISMS: dict[str, Callable[[], Mechanism]] = {
    "scrl": scrl,
    "scrl-min": scrl_min,
    "lagrangian": lagrangian,
    "none": no_penalty,
}
"""The penalties by name."""
