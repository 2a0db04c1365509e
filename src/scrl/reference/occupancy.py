"""Occupancy measures: everything that policies of a finite MDP can do, as a linear model.

x[s, a] >= 0 is the expected (discounted) number of times that action a is taken in state s. The
flow
sum_a x[s, a] - discount sum_{s', a'} P(s | s', a') x[s', a'] = start[s]
holds for every policy's x, and every x that keeps it is some policy's.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from scipy import sparse

from scrl.reference.core import Core
from scrl.reference.finite import FiniteMDP
from scrl.reference.model import LinearModel


@dataclass(frozen=True, eq=False)
class Occupancy:
    """The linear model of an MDP, and the way back from its points to policies."""

    mdp: FiniteMDP
    model: LinearModel
    rows: Int[np.ndarray, " variable"]
    """The row of the MDP's core, reached state * actions + action, of each variable."""

    def policy_of(self, point: Float[np.ndarray, " variable"]) -> Float[np.ndarray, "state action"]:
        """pi(a | s) = x[s, a] / sum_a' x[s, a']; uniform where s is not visited."""
        core = self.mdp.core
        table = np.zeros(core.available.size)
        table[self.rows] = np.maximum(point, 0.0)
        table = table.reshape(core.available.shape)
        visits = table.sum(axis=1, keepdims=True)
        is_visited = visits > 1e-14 * max(1.0, float(visits.max()))
        uniform = core.available / core.available.sum(axis=1, keepdims=True)
        return self.mdp.lift(np.where(is_visited, table / np.where(is_visited, visits, 1), uniform))


def occupancy_of(mdp: FiniteMDP) -> Occupancy:
    """The linear model of an MDP over the states that can be reached."""
    core = mdp.core
    rows = np.flatnonzero(core.available.ravel())
    count = len(core.states)
    leaves = sparse.csr_array(
        (np.ones(len(rows)), (rows // core.available.shape[1], np.arange(len(rows)))),
        shape=(count, len(rows)),
    )
    model = LinearModel(
        reward=core.rewards[rows],
        density=sparse.csr_array(core.labels[rows].T),
        lower=np.zeros(len(rows)),
        upper=np.full(len(rows), np.inf),
        equal=sparse.csr_array(leaves - core.discount * core.transitions[rows].T),
        equal_to=core.start,
        total=core.longest,
    )
    return Occupancy(mdp, model, rows)


def ranges(
    core: Core, coefficients: Float[np.ndarray, "atom region"]
) -> tuple[Float[np.ndarray, " atom"], Float[np.ndarray, " atom"]]:
    """The smallest and largest a . density over all policies, proven, by dynamic programming."""
    distinct, which = np.unique(
        np.vstack([coefficients, -coefficients]), axis=0, return_inverse=True
    )
    most = np.array([core.best_policy(core.labels @ each).bound for each in distinct])
    high = most[which.ravel()]
    return -high[len(coefficients) :], high[: len(coefficients)]
