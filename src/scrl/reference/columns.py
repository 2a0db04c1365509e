"""Column generation over one branch: the best mixture of policies, from answers to prices alone.

A branch is a set of atoms a . amounts <= b that must all hold. The restricted master program mixes
the policies known so far (the columns); where it may, it exceeds an atom at a penalty:

    max  returns . w - penalties . excess   over distributions w and excess >= 0
    with  over' w <= excess,   over = a . amounts - b of each column

Its multipliers price the next columns: at prices -multipliers . a, `respond` gives a policy that
earns (nearly) the most. A column can improve the mixture only if its reduced cost is above 0,
return - multipliers . over > value, and by weak duality no mixture that keeps the atoms returns
more than multipliers . b + what any policy earns at those prices. Nothing is known here of the
world or its policies; whoever asks brings `respond`, and further proposals if there are any.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Generic

import numpy as np
from jaxtyping import Float, Int
from scipy import sparse
from scipy.optimize import linprog

from scrl.reference.linear import NumericalTroubleError
from scrl.worlds.contract import Column, Policy, Respond

LARGEST = 1e12
"""HiGHS refuses numbers from 1e15 on: atoms with larger ones are divided until they fit."""
USED = 1e-9
"""Columns with a smaller weight are not used."""


@dataclass(frozen=True)
class Mixture:
    """The best mixture of some columns."""

    weights: Float[np.ndarray, " column"]
    return_: float
    value: float
    """The return less the penalties."""
    multipliers: Float[np.ndarray, " atom"]
    """What one unit more of room would add to the value."""
    excess: Float[np.ndarray, " atom"]
    """By how much each atom is exceeded."""

    @property
    def used(self) -> Int[np.ndarray, " used"]:
        """The numbers of the columns that are mixed."""
        return np.flatnonzero(self.weights > USED)


def best_mixture(
    returns: Float[np.ndarray, " column"],
    over: Float[np.ndarray, "column atom"],
    penalties: Float[np.ndarray, " atom"],
    groups: Int[np.ndarray, " column"] | None = None,
) -> Mixture:
    """The master program; an infinite penalty means that the atom must hold.

    With `groups` there is a distribution for the columns of each group, numbered from 0, and what
    they do adds up.
    """
    columns, atoms = over.shape
    of_group = np.zeros(columns, int) if groups is None else groups
    distributions = int(of_group.max()) + 1
    # HiGHS allows each row and each reduced cost 1e-7, whatever its units.
    size = np.abs(over).max(axis=0, initial=0.0)
    scale = np.maximum(size / LARGEST, np.where(size > 0.0, np.minimum(size, 1.0), 1.0))
    # A power of two loses no digit.
    unit = 2.0 ** np.floor(np.log2(np.abs(returns).max(initial=0.0) or 1.0))
    soft = np.flatnonzero(np.isfinite(penalties))
    loosen = sparse.csr_array(
        (-np.ones(len(soft)), (soft, np.arange(len(soft)))), (atoms, len(soft))
    )
    one_each = sparse.csr_array(
        (np.ones(columns), (of_group, np.arange(columns))),
        (distributions, columns + len(soft)),
    )
    result = linprog(
        np.concatenate([-returns, (penalties * scale)[soft]]) / unit,
        A_ub=sparse.csr_array(sparse.hstack([(over / scale).T, loosen])) if atoms else None,
        b_ub=np.zeros(atoms) if atoms else None,
        A_eq=one_each,
        b_eq=np.ones(distributions),
        method="highs-ds",
    )
    if result.status != 0:
        raise NumericalTroubleError(f"a mixture of policies was not found: {result.message}")
    found = np.maximum(result.x, 0.0)
    weights = found[:columns] / np.bincount(of_group, found[:columns])[of_group]
    excess, price = np.zeros(atoms), np.zeros(atoms)
    excess[soft] = found[columns:]
    if atoms:
        price = np.clip(-np.asarray(result.ineqlin.marginals) * unit / scale, 0.0, penalties)
    return_ = float(weights @ returns)
    fined = float(penalties[soft] @ (excess * scale)[soft])
    return Mixture(weights, return_, return_ - fined, price, excess * scale)


Propose = Callable[[Mixture, int], Iterable[Sequence[Column[Policy]]]]
"""From a mixture and the number of the round to batches of columns, the likeliest first."""


@dataclass
class ColumnGeneration(Generic[Policy]):
    """The columns of one branch so far, the best mixture of them, and how to come by more."""

    respond: Respond[Policy]
    coefficients: Float[np.ndarray, "atom region"]
    bounds: Float[np.ndarray, " atom"]
    penalties: Float[np.ndarray, " atom"]
    """For one unit of each atom; infinite where it must hold."""
    columns: list[Column[Policy]] = field(default_factory=list)
    inset: Float[np.ndarray, " atom"] | float = 0.0
    """How far inside its bound the mixture must keep each atom."""
    return_weight: float = 1.0
    """0: how near the atoms can come to their bounds, whatever the return."""
    bound: float = field(default=float("inf"), init=False)
    """The least value of the dual so far: no mixture that keeps the atoms returns more, as surely
    as `respond` knows it."""
    dual: tuple[Float[np.ndarray, " atom"], Column[Policy] | None] | None = field(
        default=None, init=False
    )
    """The multipliers behind the bound, and the column that they led to."""
    gain: float = field(default=float("inf"), init=False)
    """The largest reduced cost of the last round: what new columns promised, at most."""

    def price(self, multipliers: Float[np.ndarray, "response atom"]) -> list[Column[Policy]]:
        """The columns for some vectors of multipliers."""
        found = self.respond(-multipliers @ self.coefficients)
        for each, response in zip(multipliers, found, strict=True):
            bound = response.at_most + float(each @ self.bounds)
            if bound < self.bound:
                self.bound, self.dual = bound, (each, response.column)
        return [each.column for each in found if each.column is not None]

    @property
    def returns(self) -> Float[np.ndarray, " column"]:
        return np.array([each.return_ for each in self.columns])

    def over(self, columns: Sequence[Column[Policy]]) -> Float[np.ndarray, "column atom"]:
        """By how much some columns exceed each atom, less the inset."""
        amounts = np.array([each.amounts for each in columns])
        sides = amounts.reshape(len(columns), self.coefficients.shape[1]) @ self.coefficients.T
        return sides - self.bounds + self.inset

    def mix(self) -> Mixture:
        """The best mixture of the columns so far."""
        returns = self.return_weight * self.returns
        return best_mixture(returns, self.over(self.columns), self.penalties)

    def run(
        self,
        propose: Propose[Policy],
        *,
        rounds: int,
        tolerance: float,
        size: float = 1.0,
        is_enough: Callable[[Mixture, int], bool] | None = None,
    ) -> Mixture:
        """Mix and propose in turn; the last mixture.

        It ends when the mixture is enough; when no proposed column has a reduced cost as high as
        the tolerance, relative to size + |value|, and no atom is exceeded; or after so many rounds.
        A later batch of a round is asked for only where the earlier ones brought nothing.
        """
        mixture = self.mix()
        for round_ in range(rounds):
            if is_enough is not None and is_enough(mixture, round_):
                break
            self.gain = -np.inf
            for batch in propose(mixture, round_):
                self.gain = max(self.gain, self._gain(batch, mixture))
                if self.gain >= tolerance * (size + abs(mixture.value)):
                    break
            else:
                if not mixture.excess.any():
                    break
            mixture = self.mix()
        return mixture

    def _gain(self, batch: Sequence[Column[Policy]], mixture: Mixture) -> float:
        """Add columns; the largest of their reduced costs."""
        self.columns += batch
        returns = self.return_weight * np.array([each.return_ for each in batch])
        reduced = returns - self.over(batch) @ mixture.multipliers
        return float(reduced.max(initial=-np.inf)) - mixture.value
