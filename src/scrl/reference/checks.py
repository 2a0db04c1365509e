"""Checks of a finite MDP: shapes, finite numbers, probabilities, and termination."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy import sparse
from scipy.sparse.csgraph import breadth_first_order

from scrl.errors import ScrlError

ROUNDING = 1e-9
"""Tolerated error of a sum of probabilities, which are then normalised."""

Shape = tuple[int, int]
"""States and actions."""


class MdpError(ScrlError):
    """A finite MDP cannot be used: shape, NaN, probabilities, a loop without end, a policy."""


def checked_discount(discount: float) -> float:
    """A number above 0 and at most 1."""
    if not 0 < discount <= 1:
        raise MdpError(f"discount is {discount}: it must be above 0 and at most 1")
    return float(discount)


def checked_regions(regions: Iterable[str]) -> tuple[str, ...]:
    """Distinct names."""
    if isinstance(regions, str):
        raise MdpError(f"regions is the text '{regions}': give a list of names")
    names = tuple(regions)
    for name in names:
        if names.count(name) > 1:
            raise MdpError(f"the region '{name}' occurs twice")
    return names


def checked_transitions(transitions: Any, start: Any) -> tuple[Shape, sparse.csr_array]:
    """The transitions as [(state action) next], and how many states and actions there are."""
    if sparse.issparse(transitions):
        rows = sparse.csr_array(transitions, dtype=float, copy=True)
        states = int(np.size(start))
        count, width = _size(rows)
        if width != states or states == 0 or count == 0 or count % states:
            raise MdpError(
                f"transitions has shape {count} x {width}: with {states} states in start it must "
                f"be (states * actions) x {states}"
            )
        actions = count // states
    else:
        dense = _numbers("transitions", transitions)
        if dense.ndim != 3 or dense.shape[0] != dense.shape[2] or 0 in dense.shape:
            raise MdpError(
                f"transitions has shape {dense.shape}: it must be [state action next], "
                "or sparse [(state action) next]"
            )
        states, actions = dense.shape[:2]
        rows = sparse.csr_array(dense.reshape(states * actions, states))
    rows.sum_duplicates()
    return (states, actions), rows


def _size(matrix: Any) -> tuple[int, int]:
    rows, columns = matrix.shape
    return int(rows), int(columns)


def checked_available(available: Any, shape: Shape) -> Bool[np.ndarray, "state action"]:
    """Which actions each state has; by default all."""
    if available is None:
        return np.ones(shape, bool)
    array = np.asarray(available)
    if array.dtype != bool or array.shape != shape:
        raise MdpError(
            f"available has shape {array.shape} and type {array.dtype}: it must be true or false "
            f"for each of {shape[0]} states and {shape[1]} actions"
        )
    return array.copy()


def checked_rows(
    rows: sparse.csr_array,
    available: Bool[np.ndarray, "state action"],
    discount: float,
    shape: Shape,
) -> sparse.csr_array:
    """Probabilities that sum to 1 (undiscounted: to at most 1); none for unavailable actions."""
    rows = sparse.csr_array(sparse.diags_array(available.ravel() * 1.0) @ rows)
    row_of = np.repeat(np.arange(len(rows.indptr) - 1), np.diff(rows.indptr))
    wrong = ~(np.isfinite(rows.data) & (rows.data >= 0))
    if wrong.any():
        first = int(np.argmax(wrong))
        raise MdpError(
            f"{_place(row_of[first], shape)}: the probability of going to state "
            f"{rows.indices[first]} is {rows.data[first]:g}: it must be 0 or more"
        )
    sums = np.asarray(rows.sum(axis=1)).ravel()
    is_full = np.abs(sums - 1) <= ROUNDING
    wrong = ~is_full & available.ravel() & ((sums > 1) | (discount < 1))
    if wrong.any():
        first = int(np.argmax(wrong))
        asked = "1" if discount < 1 else "at most 1 (what is missing ends the episode)"
        raise MdpError(
            f"{_place(first, shape)}: probabilities sum to {sums[first]:.12g}: it must be {asked}"
        )
    rows.data /= np.where(is_full, sums, 1.0)[row_of]
    rows.eliminate_zeros()
    return rows


def _place(row: int, shape: Shape) -> str:
    state, action = divmod(int(row), shape[1])
    return f"state {state}, action {action}"


def checked_rewards(rewards: Any, shape: Shape) -> Float[np.ndarray, "state action"]:
    """[state action]; [state] is the same for every action."""
    array = _numbers("rewards", rewards)
    if array.shape == shape[:1]:
        array = array[:, None]
    elif array.shape != shape:
        raise MdpError(f"rewards has shape {array.shape}: it must be {shape} or {shape[:1]}")
    return np.broadcast_to(array, shape)


def checked_labels(
    labels: Any, shape: Shape, regions: int
) -> Float[np.ndarray, "state action region"]:
    """[state action region]; [state region] is the same for every action."""
    array = _numbers("labels", labels)
    if array.shape == (shape[0], regions):
        array = array[:, None, :]
    elif array.shape != (*shape, regions):
        raise MdpError(
            f"labels has shape {array.shape}: it must be {(shape[0], regions)} or "
            f"{(*shape, regions)}, with one column for each of the {regions} regions"
        )
    return np.broadcast_to(array, (*shape, regions))


def checked_start(start: Any, states: int) -> Float[np.ndarray, " state"]:
    """A distribution over states."""
    array = _numbers("start", start)
    if array.shape != (states,):
        raise MdpError(f"start has shape {array.shape}: it must be ({states},)")
    if (array < 0).any():
        state = int(np.argmax(array < 0))
        raise MdpError(f"start: the probability of state {state} is {array[state]:g}")
    if abs(array.sum() - 1) > ROUNDING:
        raise MdpError(f"start: probabilities sum to {array.sum():.12g}: it must be 1")
    return array / array.sum()


def checked_policy(
    policy: Any, available: Bool[np.ndarray, "state action"], states: Int[np.ndarray, " reached"]
) -> Float[np.ndarray, "state action"]:
    """Probabilities of available actions in each state that can be reached."""
    array = _numbers("policy", policy)
    if array.shape != available.shape:
        raise MdpError(f"policy has shape {array.shape}: it must be {available.shape}")
    part = array[states]
    wrong = (np.abs(part.sum(axis=1) - 1) > 1e-6) | (part < 0).any(axis=1)
    wrong |= ((part > 0) & ~available[states]).any(axis=1)
    if wrong.any():
        state = states[np.argmax(wrong)]
        raise MdpError(
            f"policy: state {state} has {array[state].tolist()}: it must be a distribution over "
            f"its actions {np.flatnonzero(available[state]).tolist()}"
        )
    array[states] = part / part.sum(axis=1, keepdims=True)
    return array


def _numbers(name: str, values: Any) -> np.ndarray:
    """A new array of finite numbers."""
    try:
        array = np.array(values, dtype=float)
    except (TypeError, ValueError) as error:
        raise MdpError(f"{name} is not an array of numbers: {error}") from error
    if not np.isfinite(array).all():
        place = tuple(int(axis) for axis in np.argwhere(~np.isfinite(array))[0])
        raise MdpError(f"{name} is {array[place]} at {list(place)}: every number must be finite")
    return array


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
    """A reachable state from which a policy can avoid the end with probability one, if any.

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
