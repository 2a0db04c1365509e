"""Which states can be reached, and whether every policy ends: questions about the graph alone."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float
from scipy import sparse
from scipy.sparse.csgraph import breadth_first_order

NO_WAY_OUT = 1e-12
"""A row that sums to 1 up to this does not end the episode."""


def reachable_states(
    transitions: sparse.csr_array, start: Float[np.ndarray, " state"]
) -> Bool[np.ndarray, " state"]:
    """The states that some policy visits with positive probability."""
    states = len(start)
    rows, nexts = transitions.nonzero()
    actions = (len(transitions.indptr) - 1) // states
    first = np.flatnonzero(start)
    heads = np.concatenate([rows // actions, np.full(len(first), states)])
    tails = np.concatenate([nexts, first])
    graph = sparse.csr_array((np.ones(len(heads)), (heads, tails)), shape=(states + 1, states + 1))
    order = breadth_first_order(graph, states, return_predecessors=False)
    reached = np.zeros(states + 1, bool)
    reached[order] = True
    return reached[:states]


def endless_state(
    transitions: sparse.csr_array,
    reached: Bool[np.ndarray, " state"],
    available: Bool[np.ndarray, "state action"],
) -> int | None:
    """A reachable state that a policy can go on from for ever with probability one, if any.

    The largest set C in which every state has an action that never leaves C or ends: states
    without such an action are taken out until none is left to take. C is empty exactly if
    there is no end component, and then every policy ends with probability one.
    """
    states, actions = available.shape
    sums = np.asarray(transitions.sum(axis=1)).ravel()
    stays = (sums >= 1 - NO_WAY_OUT) & available.ravel() & np.repeat(reached, actions)
    ways = stays.reshape(states, actions).sum(axis=1)
    inside = reached.copy()
    into = sparse.csc_array(transitions)
    leaving = np.flatnonzero(inside & (ways == 0))
    while len(leaving):
        inside[leaving] = False
        rows = np.concatenate([_rows_into(into, state) for state in leaving])
        lost = np.unique(rows[stays[rows]])
        stays[lost] = False
        np.subtract.at(ways, lost // actions, 1)
        touched = np.unique(lost // actions)
        leaving = touched[inside[touched] & (ways[touched] == 0)]
    return int(np.argmax(inside)) if inside.any() else None


def _rows_into(into: sparse.csc_array, state: np.integer) -> np.ndarray:
    """The rows [(state action)] that lead to a state."""
    return into.indices[into.indptr[state] : into.indptr[state + 1]]
