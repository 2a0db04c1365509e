"""The penalty of Sec. 4: turns violations into the charge of each step.

    kappa(phi) <- max(0, kappa(phi) + beta Vio(phi))           the penalty factor of an atom
    w(phi, s)   = sum_i a_i 1{i in L(s)} / sum_i |a_i|         how much a step in s bears on it
    sigma(phi, s) = kappa(phi) w(phi, s)                       what the step is charged for it

A clause (a disjunction) charges for one of its atoms, and only while every kappa in it is above 0:
for an atom drawn with probability proportional to 1 / kappa (SCRL, Algorithm 3), or for the one
that charges least (SCRL-min). A rule set charges for all its clauses: r' = r - sigma(Psi, s).

In expectation the draw charges every atom of a clause equally, kappa_j p_j = 1 / sum(1 / kappa),
including atoms that will never hold. A sharpness s above 1 draws with p_j proportional to
kappa_j^-s, so that an atom with a large kappa is charged less.
"""

from __future__ import annotations

from abc import abstractmethod

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, Shaped

from scrl.rules import AtomTable

OUT_OF_REACH = 1e30
"""A bound that is never reached; finite, so that 0 times it is 0."""


class Atoms(eqx.Module):
    """The atoms of a rule set on the device."""

    coefficients: Float[Array, "atom region"]
    bounds: Float[Array, " atom"]
    listed: Int[Array, "clause place"]
    """The atoms of each clause, padded with -1."""
    opposite: Int[Array, " atom"]
    """The atom that bounds the same sum from the other side, else the atom itself."""
    groups: Float[Array, "group clause"]
    """1 where a clause belongs to a group of clauses that must hold together."""
    asked: Float[Array, " group"]
    """The share of single runs in which all of a group must hold; 0: on average."""

    @classmethod
    def of(cls, table: AtomTable) -> Atoms:
        groups = table.groups
        return cls(
            jnp.asarray(table.coefficients, float),
            jnp.asarray(table.bounds, float),
            jnp.asarray(table.listed, int),
            jnp.asarray(table.opposites, int),
            jnp.asarray(groups.members, float),
            jnp.asarray(groups.shares, float),
        )

    @property
    def size(self) -> Float[Array, " atom"]:
        """d = sum_i |a_i|."""
        return jnp.abs(self.coefficients).sum(axis=1)

    @property
    def share(self) -> Float[Array, " atom"]:
        """The share of single runs in which each atom must hold; 0: on average.

        The share of runs that may break a group is divided among its clauses.
        """
        broken = (1.0 - self.asked) / jnp.maximum(self.groups.sum(axis=1), 1.0)
        of_group = jnp.where(self.asked > 0.0, 1.0 - broken, 0.0)
        of_clause = (self.groups * of_group[:, None]).max(axis=0, initial=0.0)
        is_member = (self.listed[..., None] == jnp.arange(len(self.bounds))).any(axis=1)
        return (is_member * of_clause[:, None]).max(axis=0, initial=0.0)

    def with_violations(self) -> Atoms:
        """The atoms over more labels: the violation of each in a single run.

        An atom that must hold in single runs is charged for its own. There both sides of an
        equality may be violated, in different runs, so neither has an opposite.
        """
        is_of_run = self.share > 0.0
        alone = jnp.where(is_of_run, jnp.arange(len(self.bounds)), self.opposite)
        of_regions = jnp.where(is_of_run[:, None], 0.0, self.coefficients)
        of_violations = jnp.diag(is_of_run.astype(float))
        labels = jnp.concatenate([of_regions, of_violations], axis=1)
        return eqx.tree_at(
            lambda atoms: (atoms.coefficients, atoms.opposite), self, (labels, alone)
        )

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Number of atoms, clauses, atoms in the longest clause, and groups."""
        clauses, places = self.listed.shape
        return len(self.bounds), clauses, places, len(self.asked)

    def padded(self, atoms: int, clauses: int, places: int, groups: int) -> Atoms:
        """Padded with atoms and clauses that always hold, so that several tasks share one shape.

        The bound of a padding atom is never reached, so its kappa stays 0.
        """
        if self.shape == (atoms, clauses, places, groups):
            return self
        more, rows, wider, apart = np.subtract((atoms, clauses, places, groups), self.shape)
        listed = jnp.pad(self.listed, ((0, rows), (0, wider)), constant_values=-1)
        return Atoms(
            jnp.pad(self.coefficients, ((0, more), (0, 0)), constant_values=1.0),
            jnp.pad(self.bounds, (0, more), constant_values=OUT_OF_REACH),
            listed.at[len(self.listed) :, 0].set(atoms - 1),
            jnp.concatenate([self.opposite, jnp.arange(len(self.bounds), atoms)]),
            jnp.pad(self.groups, ((0, apart), (0, rows))),
            jnp.pad(self.asked, (0, apart)),
        )

    def in_clauses(self, values: Shaped[Array, "atom ..."]) -> Shaped[Array, "clause place ..."]:
        """Values per atom, arranged by clause; padded places hold arbitrary values."""
        if not self.listed.size or not len(self.bounds):
            return jnp.zeros((*self.listed.shape, *values.shape[1:]), values.dtype)
        return values[self.listed]

    def kappa_in_clauses(self, kappa: Float[Array, " atom"]) -> Float[Array, "clause place"]:
        """Kappa arranged by clause, infinite in padded places, so that these are never drawn."""
        return jnp.where(self.listed >= 0, self.in_clauses(kappa), jnp.inf)


def next_kappa(
    kappa: Float[Array, " atom"],
    signed: Float[Array, " atom"],
    rate: float | Float[Array, ""] | Float[Array, " atom"],
) -> Float[Array, " atom"]:
    """kappa <- max(0, kappa + beta Vio), with one beta or one for each atom."""
    return jnp.maximum(kappa + rate * signed, 0.0)


def netted(kappa: Float[Array, " atom"], opposite: Int[Array, " atom"]) -> Float[Array, " atom"]:
    """Kappa with the common part of opposite atoms subtracted: a mean violates only one of them."""
    is_pair = opposite != jnp.arange(len(kappa))
    return jnp.where(is_pair, kappa - jnp.minimum(kappa, kappa[opposite]), kappa)


def weights(atoms: Atoms) -> Float[Array, "atom region"]:
    """w(phi, s) = a . labels / sum |a| for a step that serves a single region."""
    return atoms.coefficients / atoms.size[:, None]


def sigmas(
    atoms: Atoms, kappa: Float[Array, "clause place"], labels: Float[Array, " region"]
) -> Float[Array, "clause place"]:
    """sigma(phi, s) = kappa(phi) w(phi, s); infinite in padded places."""
    # Weights are arranged by clause before the product with the labels: once for all steps.
    weighed = atoms.in_clauses(weights(atoms)) @ labels
    return jnp.where(jnp.isinf(kappa), jnp.inf, kappa * weighed)


def is_charged(kappa: Float[Array, "clause place"]) -> Bool[Array, " clause"]:
    """A clause charges only while every kappa in it is above 0; otherwise a disjunct holds."""
    return jnp.all(kappa > 0, axis=1)


def draw_shares(
    kappa: Float[Array, "clause place"], sharpness: float | Float[Array, ""] = 1.0
) -> Float[Array, "clause place"]:
    """p_j = kappa_j^-s / sum_i kappa_i^-s; all 0 in a clause that charges nothing."""
    is_live = is_charged(kappa)[:, None]
    log_odds = jnp.where(jnp.isinf(kappa), -jnp.inf, -sharpness * jnp.log(kappa))
    return jnp.where(is_live, jax.nn.softmax(jnp.where(is_live, log_odds, 0.0), axis=1), 0.0)


def drawn_sigma(
    shares: Float[Array, "clause place"],
    sigma: Float[Array, "clause place"],
    uniform: Float[Array, " clause"],
) -> Float[Array, ""]:
    """Algorithm 3, summed over clauses: sigma of the atom drawn with these shares.

    `uniform` is a number from [0, 1) for each clause; the atom is drawn by inverting the
    cumulative shares.
    """
    above = jnp.cumsum(shares, axis=1)
    place = (uniform * above[:, -1])[:, None]
    is_drawn = (above - shares <= place) & (place < above)
    return jnp.sum(jnp.where(is_drawn, sigma, 0.0))


def smallest_sigma(
    kappa: Float[Array, "clause place"], sigma: Float[Array, "clause place"]
) -> Float[Array, ""]:
    """SCRL-min, summed over clauses: the smallest sigma of each clause that charges."""
    return jnp.sum(jnp.where(is_charged(kappa), jnp.min(sigma, axis=1), 0.0))


class Penalty(eqx.Module):
    """How kappa is updated, what a step is charged, and the prices that charges amount to."""

    is_netted: bool = eqx.field(static=True, default=False, kw_only=True)
    """Whether the kappas of opposite atoms are netted after every update."""

    @property
    def is_for_any_rules(self) -> bool:
        """Whether prices are drawn and no rule decides which policy is the best: the last one."""
        return False

    def kappas_of_worlds(
        self,
        kappa: Float[Array, " atom"],
        count: int,
        *,
        unit: float | Float[Array, " region"],
        key: PRNGKeyArray,
    ) -> Float[Array, "lane atom"]:
        """The kappa that each world is driven under: the present one.

        `unit` is the price at which a typical label is worth a typical reward.
        """
        del unit, key
        return jnp.broadcast_to(kappa, (count, len(kappa)))

    def update(
        self,
        atoms: Atoms,
        kappa: Float[Array, " atom"],
        signed: Float[Array, " atom"],
        rate: float | Float[Array, ""] | Float[Array, " atom"],
    ) -> Float[Array, " atom"]:
        """Kappa after one move by these violations."""
        kappa = next_kappa(kappa, signed, self.rates(atoms, rate))
        return netted(kappa, atoms.opposite) if self.is_netted else kappa

    def rates(
        self, atoms: Atoms, rate: float | Float[Array, ""] | Float[Array, " atom"]
    ) -> Float[Array, " atom"]:
        """How far each kappa moves per unit of violation, for this beta."""
        return rate * jnp.ones(len(atoms.bounds))

    @abstractmethod
    def charge(
        self,
        atoms: Atoms,
        kappa: Float[Array, " atom"],
        labels: Float[Array, " region"],
        uniform: Float[Array, " clause"],
    ) -> Float[Array, ""]:
        """sigma(Psi, s); `uniform` is a number from [0, 1) for each clause."""

    @abstractmethod
    def price(self, atoms: Atoms, kappa: Float[Array, " atom"]) -> Float[Array, " region"]:
        """-E sigma: the expected gain of a step that serves a single region."""


class Drawn(Penalty):
    """SCRL, Algorithm 3: one atom of each clause is drawn for every transition."""

    sharpness: float | Float[Array, ""] = 1.0

    def charge(
        self, atoms: Atoms, kappa: Float[Array, " atom"], labels: Float[Array, " region"],
        uniform: Float[Array, " clause"],
    ) -> Float[Array, ""]:  # fmt: skip
        by_clause = atoms.kappa_in_clauses(kappa)
        shares = draw_shares(by_clause, self.sharpness)
        return drawn_sigma(shares, sigmas(atoms, by_clause, labels), uniform)

    def price(self, atoms: Atoms, kappa: Float[Array, " atom"]) -> Float[Array, " region"]:
        shares = draw_shares(atoms.kappa_in_clauses(kappa), self.sharpness)
        expected = shares * atoms.in_clauses(kappa)
        return -jnp.tensordot(expected, atoms.in_clauses(weights(atoms)), axes=2)


class Expected(Drawn):
    """What the draw charges in expectation, for every transition."""

    def charge(
        self, atoms: Atoms, kappa: Float[Array, " atom"], labels: Float[Array, " region"],
        uniform: Float[Array, " clause"],
    ) -> Float[Array, ""]:  # fmt: skip
        del uniform
        return -self.price(atoms, kappa) @ labels


class Smallest(Penalty):
    """SCRL-min: the smallest sigma of each clause."""

    def charge(
        self, atoms: Atoms, kappa: Float[Array, " atom"], labels: Float[Array, " region"],
        uniform: Float[Array, " clause"],
    ) -> Float[Array, ""]:  # fmt: skip
        del uniform
        by_clause = atoms.kappa_in_clauses(kappa)
        return smallest_sigma(by_clause, sigmas(atoms, by_clause, labels))

    def price(self, atoms: Atoms, kappa: Float[Array, " atom"]) -> Float[Array, " region"]:
        alone = jnp.eye(atoms.coefficients.shape[1])
        by_clause = atoms.kappa_in_clauses(kappa)
        return -jax.vmap(lambda one: smallest_sigma(by_clause, sigmas(atoms, by_clause, one)))(
            alone
        )


class Lagrangian(Penalty):
    """sum_j lambda_j a_j . labels: every atom charges; disjunctions are ignored.

    The rate of lambda is beta / d, so that for a single atom the charges equal those of SCRL.
    """

    def rates(
        self, atoms: Atoms, rate: float | Float[Array, ""] | Float[Array, " atom"]
    ) -> Float[Array, " atom"]:
        return rate / atoms.size

    def charge(
        self, atoms: Atoms, kappa: Float[Array, " atom"], labels: Float[Array, " region"],
        uniform: Float[Array, " clause"],
    ) -> Float[Array, ""]:  # fmt: skip
        del uniform
        return kappa @ (atoms.coefficients @ labels)

    def price(self, atoms: Atoms, kappa: Float[Array, " atom"]) -> Float[Array, " region"]:
        return -kappa @ atoms.coefficients


class NoPenalty(Penalty):
    """No step is charged: the unconstrained learner."""

    def update(
        self, atoms: Atoms, kappa: Float[Array, " atom"], signed: Float[Array, " atom"],
        rate: float | Float[Array, ""] | Float[Array, " atom"],
    ) -> Float[Array, " atom"]:  # fmt: skip
        del atoms, signed, rate
        return kappa

    def rates(
        self, atoms: Atoms, rate: float | Float[Array, ""] | Float[Array, " atom"]
    ) -> Float[Array, " atom"]:
        del rate
        return jnp.zeros(len(atoms.bounds))

    def charge(
        self, atoms: Atoms, kappa: Float[Array, " atom"], labels: Float[Array, " region"],
        uniform: Float[Array, " clause"],
    ) -> Float[Array, ""]:  # fmt: skip
        del atoms, kappa, labels, uniform
        return jnp.zeros(())

    def price(self, atoms: Atoms, kappa: Float[Array, " atom"]) -> Float[Array, " region"]:
        del kappa
        return jnp.zeros(atoms.coefficients.shape[1])


class OwnMultipliers(NoPenalty):
    """Charged inside the learner, which moves kappa itself: the policy sees what a step earns."""

    def price(self, atoms: Atoms, kappa: Float[Array, " atom"]) -> Float[Array, " region"]:
        return -kappa @ weights(atoms)


class AnyPrices(NoPenalty):
    """Prices from a wide range, drawn for each world and rollout, whatever the rules will be.

    The kappas of worlds are the prices themselves. Outside of rollouts there are none: all are 0.
    """

    @property
    def is_for_any_rules(self) -> bool:
        return True

    def kappas_of_worlds(
        self, kappa: Float[Array, " atom"], count: int, *, unit: float | Float[Array, " region"],
        key: PRNGKeyArray,
    ) -> Float[Array, "lane region"]:  # fmt: skip
        del kappa
        return random_prices(jnp.asarray(unit), count, key=key)

    def charge(
        self, atoms: Atoms, kappa: Float[Array, " atom"], labels: Float[Array, " region"],
        uniform: Float[Array, " clause"],
    ) -> Float[Array, ""]:  # fmt: skip
        del uniform
        return -self.price(atoms, kappa) @ labels

    def price(self, atoms: Atoms, kappa: Float[Array, " atom"]) -> Float[Array, " region"]:
        regions = atoms.coefficients.shape[1]
        return kappa if len(kappa) == regions else jnp.zeros(regions)


LEAST_PRICE, LARGEST_PRICE = 0.05, 20.0
"""The range of prices that are drawn, in units."""


def random_prices(
    unit: Float[Array, " region"], count: int, *, key: PRNGKeyArray
) -> Float[Array, "lane region"]:
    """Prices of any size and sign: the logarithm is uniform, and a random share of them is 0."""
    size_key, sign_key, share_key, zero_key = jax.random.split(key, 4)
    shape = (count, len(unit))
    low, high = np.log(LEAST_PRICE), np.log(LARGEST_PRICE)
    size = jnp.exp(jax.random.uniform(size_key, shape, minval=low, maxval=high))
    sign = jnp.where(jax.random.bernoulli(sign_key, shape=shape), 1.0, -1.0)
    share = jax.random.uniform(share_key, (count, 1))
    is_zero = jax.random.uniform(zero_key, shape) < share**2
    return jnp.where(is_zero, 0.0, sign * size * unit)


PENALTIES: dict[str, type[Penalty]] = {
    "scrl": Drawn,
    "scrl-expected": Expected,
    "scrl-min": Smallest,
    "lagrangian": Lagrangian,
    "own": OwnMultipliers,
    "none": NoPenalty,
    "any-prices": AnyPrices,
}
"""The penalties by name."""
