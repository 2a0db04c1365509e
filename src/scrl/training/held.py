"""How far measured runs are from atoms, and where runs must aim to keep them.

A rule that must hold in a share of single runs is violated by a quantile of what single runs miss.
A policy is charged for what the forecast of a run misses of an aim some way inside each bound
(`scrl.single_runs`). How far inside it must lie depends on what can still be corrected at the end
of a run and on how often rules are broken together. So after learning the aims move by quantiles of
what the measured runs miss or have in excess: the policy sees how far it is from its aims.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from scrl.density import standard_error
from scrl.penalty import Atoms
from scrl.violation import clause_violation, signed_violation

LEVELS = 9
"""Shares that are tried between that of an atom alone and that of its group."""
FEWER = (0.95, 0.9, 0.8, 0.65, 0.5)
"""Parts of the latter that are tried where none of them is enough."""
NEAR = 10.0
"""Steps of service. What is missed by more is for kappa to mend."""
OUTSIDE = 1.0
"""The most steps of service by which an aim lies outside its bound, where whole steps are
counted."""
ROUNDING = 1e-3
"""95 % of 100 runs are 95 of them, whatever 0.95 times 100 is in single precision."""


class HeldAgainst(NamedTuple):
    """How far runs are from atoms that must hold on average or in a share of single runs."""

    violation: Float[Array, ""]
    excess: Float[Array, " atom"]


def held_against(
    atoms: Atoms,
    amounts: Float[Array, "run region"],
    *,
    is_in_runs: bool,
    deviations: float,
    tolerance: float = 0.0,
) -> HeldAgainst:
    """Cons.Vio, and a . density - b of each atom, some standard errors more surely.

    Of runs that keep a group in the share that is asked, but not so surely, only the share counts
    that is lacking, beyond the tolerance: they are nearer to what is asked than runs that do not.
    """
    error = standard_error(amounts @ atoms.coefficients.T)
    bounds = atoms.bounds - deviations * error
    of_mean = signed_violation(atoms.coefficients, bounds, amounts.mean(axis=0))
    on_average = clause_violation(atoms.listed, of_mean)
    if not is_in_runs:
        return HeldAgainst(on_average.sum(), of_mean)
    of_runs = signed_violation(atoms.coefficients, atoms.bounds, amounts)
    of_group = clause_violation(atoms.listed, of_runs) @ atoms.groups.T
    in_runs = _quantile(of_group, atoms.asked, deviations=deviations)
    kept = (of_group <= tolerance).mean(axis=0)
    lacking = jnp.maximum(_more(atoms.asked, len(amounts), deviations) - kept, 0.0)
    lacking = jnp.where(lacking > 0.0, tolerance + lacking, 0.0)
    in_runs = jnp.where(kept >= atoms.asked - ROUNDING, jnp.minimum(in_runs, lacking), in_runs)
    violation = jnp.where(atoms.asked > 0.0, in_runs, atoms.groups @ on_average).sum()
    of_atoms = _quantile(_needed(atoms, of_runs), atoms.share, deviations=deviations)
    return HeldAgainst(violation, jnp.where(atoms.share > 0.0, of_atoms, of_mean))


def _needed(atoms: Atoms, sides: Float[Array, "run atom"]) -> Float[Array, "run atom"]:
    """The side of each atom; of one whose clauses are kept in a run, what these leave of room.

    Different runs may keep a clause by different atoms, and then none of them is to be blamed.
    """
    of_clause = jnp.where(atoms.listed >= 0, sides[:, atoms.listed], jnp.inf).min(axis=2)
    is_of = _is_of_clause(atoms)
    worst = jnp.where(is_of, of_clause[..., None], -jnp.inf).max(axis=1, initial=-jnp.inf)
    return jnp.where(worst <= 0.0, worst, sides)


def _is_of_clause(atoms: Atoms) -> Bool[Array, "clause atom"]:
    """Which atoms are listed in each clause."""
    return (atoms.listed[..., None] == jnp.arange(len(atoms.bounds))).any(axis=1)


def missed_together(
    atoms: Atoms,
    amounts: Float[Array, "run region"],
    insets: Float[Array, " atom"],
    *,
    deviations: float,
    tolerance: float,
) -> Float[Array, " atom"]:
    """How far each atom must move so that the runs keep every group in the share that is asked.

    All atoms of a group move by the same quantile of their sides, as if a run moved with its aims.
    Of the atoms of a clause one counts in each run, the one that it keeps best. Minus infinity
    where an atom counts in hardly any run. Of all quantiles that keep the share, the smallest one
    is taken; where none does, the one that keeps most runs.
    """
    sides = signed_violation(atoms.coefficients, atoms.bounds, amounts)
    numbers = jnp.arange(len(atoms.bounds))
    of_clause = jnp.where(atoms.listed >= 0, sides[:, atoms.listed], jnp.inf)
    best = jnp.take_along_axis(atoms.listed[None], of_clause.argmin(axis=2)[..., None], axis=2)
    counts = (best == numbers).any(axis=1)
    counted = jnp.where(counts, sides, -jnp.inf)
    is_in = (atoms.groups @ _is_of_clause(atoms)) > 0.0
    together = jnp.where(is_in, atoms.asked[:, None], 0.0).max(axis=0, initial=0.0)
    asked = _more(atoms.asked, len(amounts), deviations) - ROUNDING
    levels = atoms.share + jnp.linspace(0.0, 1.0, LEVELS)[:, None] * (together - atoms.share)
    found, most = jnp.full(numbers.shape, -jnp.inf), jnp.full(numbers.shape, -jnp.inf)
    for share in (*levels, *(part * together for part in FEWER)):
        move = _quantile(counted, share, deviations=deviations)
        move = jnp.where(_meets(atoms, insets), _shift(atoms, move), move)
        is_kept = (jnp.where(counts, sides - move, -jnp.inf) <= tolerance) | ~counts
        of_group = (is_kept[:, None] | ~is_in).all(axis=2).mean(axis=0)
        kept = jnp.where(is_in, jnp.minimum(of_group, asked)[:, None], -jnp.inf).max(axis=0)
        found, most = jnp.where(kept >= most, move, found), jnp.maximum(kept, most)
    return found


def _meets(atoms: Atoms, insets: Float[Array, " atom"]) -> Bool[Array, " atom"]:
    """Which atoms are sides of a band whose two aims are one place, so that they move as one."""
    other = atoms.opposite
    width = atoms.bounds + atoms.bounds[other]
    is_one = insets + insets[other] >= width - ROUNDING * (1.0 + jnp.abs(width))
    return (other != jnp.arange(len(other))) & is_one


def _shift(atoms: Atoms, move: Float[Array, " atom"]) -> Float[Array, " atom"]:
    """Between the moves of the two sides of a band; that of a side alone if the other has none."""
    both = 0.5 * (move - move[atoms.opposite])
    return jnp.where(jnp.isfinite(both), both, move)


class Latitude(NamedTuple):
    """The most steps of service by which an aim moves in a round."""

    inwards: float
    outwards: float


LEARNING, SETTLING = Latitude(0.05, 0.05), Latitude(2.0, 0.6)
"""Few episodes tell little while the policy learns; after that all rounds measure the same ones."""


def moved_insets(
    atoms: Atoms,
    insets: Float[Array, " atom"],
    missed: Float[Array, " atom"],
    step: Float[Array, " atom"],
    *,
    may_widen: Bool[Array, " atom"],
    latitude: Latitude,
) -> Float[Array, " atom"]:
    """How far inside its bound each atom aims after a round; outwards only where that may be.

    Where the two sides of a band would cross, both aim at the middle between them; from then on
    they move as one.
    """
    back = jnp.where(may_widen, -latitude.outwards, 0.0)
    meets = _meets(atoms, insets)
    back = jnp.where(meets, -latitude.inwards, back)
    move = jnp.clip(missed, back * step, latitude.inwards * step)
    move = jnp.where(jnp.where(meets, jnp.abs(missed), missed) < NEAR * step, move, 0.0)
    moved = jnp.maximum(insets + move, -OUTSIDE * step)
    other = atoms.opposite
    is_band = other != jnp.arange(len(other))
    crossed = moved + moved[other] - (atoms.bounds + atoms.bounds[other])
    return moved - jnp.where(is_band, jnp.maximum(crossed, 0.0) / 2.0, 0.0)


def _quantile(
    values: Float[Array, "run column"], share: Float[Array, " column"], *, deviations: float
) -> Float[Array, " column"]:
    """For each column the smallest value that at least this share of the runs does not exceed.

    The share is drawn up by half as many standard errors as bounds are drawn in by: it is one-sided
    and must be exceeded by chance in no more than a few of the measurements that are compared.
    """
    runs = len(values)
    more = _more(share, runs, deviations)
    place = jnp.ceil(more * runs - ROUNDING).astype(int) - 1
    chosen = jnp.clip(place, 0, runs - 1)[None]
    return jnp.take_along_axis(jnp.sort(values, axis=0), chosen, axis=0)[0]


def _more(share: Float[Array, " any"], runs: int, deviations: float) -> Float[Array, " any"]:
    """A share of so many runs, on the safe side."""
    return jnp.minimum(share + 0.5 * deviations * jnp.sqrt(share * (1.0 - share) / runs), 1.0)
