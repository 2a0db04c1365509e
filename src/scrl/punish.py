"""The punitive mechanism of Sec. 4: from violations to what each step is charged.

    kappa(phi) <- max(0, kappa(phi) + beta Vio(phi))           the penalty factor of an atom
    w(phi, s)   = sum_i a_i 1{i in L(s)} / sum_i |a_i|         how much a step in s bears on it
    sigma(phi, s) = kappa(phi) w(phi, s)                       what the step is charged for it

A clause (a disjunction) charges for one of its atoms, and only while every kappa in it is above 0:
for an atom drawn with probability proportional to 1 / kappa (SCRL, Algorithm 3), or for the one
that charges least (SCRL-min). A rule set charges for all its clauses: r' = r - sigma(Psi, s).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from scrl.penalty import signed_violation
from scrl.rules import AtomTable


class Atoms(eqx.Module):
    """The atoms of a rule set on the device."""

    coefficients: Float[Array, "atom region"]
    bounds: Float[Array, " atom"]
    members: Bool[Array, "clause atom"]

    @classmethod
    def of(cls, table: AtomTable) -> Atoms:
        return cls(
            jnp.asarray(table.coefficients, float),
            jnp.asarray(table.bounds, float),
            jnp.asarray(table.members),
        )

    @property
    def size(self) -> Float[Array, " atom"]:
        """d = sum_i |a_i|."""
        return jnp.abs(self.coefficients).sum(axis=1)


def next_kappa(
    kappa: Float[Array, " atom"], signed: Float[Array, " atom"], rate: float | Float[Array, ""]
) -> Float[Array, " atom"]:
    """kappa <- max(0, kappa + beta Vio)."""
    return jnp.maximum(kappa + rate * signed, 0.0)


def weights(atoms: Atoms, labels: Float[Array, " region"]) -> Float[Array, " atom"]:
    """w(phi, s) = a . labels / sum |a|."""
    return atoms.coefficients @ labels / atoms.size


def is_charged(members: Bool[Array, "clause atom"], kappa: Float[Array, " atom"]) -> Array:
    """A clause charges only while every kappa in it is above 0: else a disjunct holds already."""
    return jnp.all(~members | (kappa > 0), axis=1)


def drawn_sigma(
    members: Bool[Array, "clause atom"],
    kappa: Float[Array, " atom"],
    sigma: Float[Array, " atom"],
    *,
    key: PRNGKeyArray,
) -> Float[Array, ""]:
    """Algorithm 3, summed over clauses: sigma of the atom drawn with p_j = kappa_j^-1 / sum."""
    if members.size == 0:
        return jnp.zeros(())
    is_live = is_charged(members, kappa)
    log_share = jnp.where(members & is_live[:, None], -jnp.log(kappa), -jnp.inf)
    # A clause that charges nothing still draws, from anything: its draw is not used.
    log_share = jnp.where(is_live[:, None], log_share, 0.0)
    drawn = jax.random.categorical(key, log_share, axis=1)
    return jnp.sum(jnp.where(is_live, sigma[drawn], 0.0))


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

    update: Callable[[Atoms, Float[Array, " atom"], Float[Array, " region"], float], Array]
    """(atoms, kappa, density, rate) -> kappa."""
    charge: Callable[..., Float[Array, ""]]
    """(atoms, kappa, labels, key) -> sigma(Psi, s)."""


def _kappa_by_violation(
    atoms: Atoms, kappa: Float[Array, " atom"], density: Float[Array, " region"], rate: float
) -> Float[Array, " atom"]:
    return next_kappa(kappa, signed_violation(atoms.coefficients, atoms.bounds, density), rate)


def _charge_by_draw(
    atoms: Atoms, kappa: Float[Array, " atom"], labels: Float[Array, " region"], key: PRNGKeyArray
) -> Float[Array, ""]:
    return drawn_sigma(atoms.members, kappa, kappa * weights(atoms, labels), key=key)


def _charge_smallest(
    atoms: Atoms, kappa: Float[Array, " atom"], labels: Float[Array, " region"], key: PRNGKeyArray
) -> Float[Array, ""]:
    del key
    return smallest_sigma(atoms.members, kappa, kappa * weights(atoms, labels))


def _lambda_by_violation(
    atoms: Atoms, kappa: Float[Array, " atom"], density: Float[Array, " region"], rate: float
) -> Float[Array, " atom"]:
    signed = signed_violation(atoms.coefficients, atoms.bounds, density)
    return next_kappa(kappa, signed, rate / atoms.size)


def _charge_all(
    atoms: Atoms, kappa: Float[Array, " atom"], labels: Float[Array, " region"], key: PRNGKeyArray
) -> Float[Array, ""]:
    """sum_j lambda_j c_j(s) with c_j(s) = a_j . labels: every atom, disjunctions unheeded."""
    del key
    return kappa @ (atoms.coefficients @ labels)


def _no_update(
    atoms: Atoms, kappa: Float[Array, " atom"], density: Float[Array, " region"], rate: float
) -> Float[Array, " atom"]:
    del atoms, density, rate
    return kappa


def _no_charge(
    atoms: Atoms, kappa: Float[Array, " atom"], labels: Float[Array, " region"], key: PRNGKeyArray
) -> Float[Array, ""]:
    del atoms, kappa, labels, key
    return jnp.zeros(())


MECHANISMS: dict[str, Mechanism] = {
    "scrl": Mechanism(_kappa_by_violation, _charge_by_draw),
    "scrl-min": Mechanism(_kappa_by_violation, _charge_smallest),
    "lagrangian": Mechanism(_lambda_by_violation, _charge_all),
    "none": Mechanism(_no_update, _no_charge),
}
"""The penalties by name. The Lagrangian's rate is beta / d, so that it and SCRL move alike."""
