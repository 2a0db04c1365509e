"""Several plans as one: along the path, now one of them is followed, now another.

Prices only matter a little way ahead, so changing plans costs next to nothing. There are two ways
to choose. A *splice* imitates a mixture: going from part to part, the plan is taken that keeps what
was given so far nearest to what the mixture would have given (error diffusion), so the sums at the
end are those of the mixture too, to within a part's difference. A *patchwork* takes on each part
the plan that does the rules most good for its cost: a linear program.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int
from scipy import sparse
from scipy.optimize import linprog

TRIED = 48
STEADINESS = (0.0, 4.0)
"""How many steps nearer to the mixture another plan must bring it, to be changed to."""
WASTED, CHANGED = 0.3, 0.1
"""What a step given in vain, and a change of plans, count for against a step that is missing."""
START_ERROR = 1.0
"""Spread of the error that a walk begins with, in steps: each ends elsewhere."""


def splices(
    given: Float[np.ndarray, "plan part atom"],
    weights: Float[np.ndarray, " plan"],
    room: Float[np.ndarray, " atom"],
    *,
    count: int,
    rng: np.random.Generator,
) -> Int[np.ndarray, "splice part"]:
    """Which plan drives each part, in `count` ways that should keep within the mixture and room.

    `given` and `room` are counted in steps of service, so that all atoms weigh the same.
    """
    wanted = np.tensordot(weights, given, axes=1)
    atoms = given.shape[2]
    start = START_ERROR * rng.standard_normal((TRIED, atoms))
    steadiness = rng.uniform(*STEADINESS, TRIED)
    error, taken = start, np.zeros((TRIED, given.shape[1]), int)
    current = rng.choice(len(weights), p=weights / weights.sum(), size=TRIED)
    for part, (of_plan, target) in enumerate(zip(given.swapaxes(0, 1), wanted, strict=True)):
        after = error[:, None] + of_plan - target
        distance = np.linalg.norm(after, axis=2)
        distance[np.arange(TRIED), current] -= steadiness
        current = distance.argmin(axis=1)
        error, taken[:, part] = after[np.arange(TRIED), current], current
    off = error - start
    missed = (np.maximum(off - room, 0.0) + WASTED * np.maximum(-off, 0.0)).sum(axis=1)
    changes = (np.diff(taken, axis=1) != 0).sum(axis=1)
    _, first = np.unique(taken, axis=0, return_index=True)
    best = first[np.argsort(missed[first] + CHANGED * changes[first], kind="stable")]
    return taken[best[:count]]


def patchwork(
    returns: Float[np.ndarray, "plan part"],
    over: Float[np.ndarray, "plan part atom"],
    at_most: Float[np.ndarray, " atom"],
    dear: float,
) -> Int[np.ndarray, " part"] | None:
    """The plan for each part with the best return such that `over` sums to at most so much.

    An atom that cannot be kept is broken at the price `dear`. Few parts are left undecided by the
    program, one for each atom at most; they get the plan that has most of them.
    """
    plans, parts, atoms = over.shape
    columns = plans * parts
    one_each = sparse.hstack(
        [
            sparse.kron(np.ones((1, plans)), sparse.eye_array(parts)),
            sparse.csr_array((parts, atoms)),
        ]
    )
    sums = sparse.hstack([over.reshape(columns, atoms).T, -sparse.eye_array(atoms)])
    found = linprog(
        np.concatenate([-returns.ravel(), np.full(atoms, dear)]),
        A_ub=sums.tocsr(), b_ub=at_most, A_eq=one_each.tocsr(), b_eq=np.ones(parts), method="highs",
    )  # fmt: skip
    if found.status != 0:
        return None
    return found.x[:columns].reshape(plans, parts).argmax(axis=0)
