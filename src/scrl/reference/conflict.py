"""Why it is impossible: a smallest set of rules that cannot hold together.

Every conflict must hit every correction set (rules whose removal makes the rest possible). So:
take a smallest set that hits all correction sets found so far; if its rules cannot hold together it
is a smallest conflict; else let it grow to a largest possible set, whose complement is a new
correction set.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp

from scrl.reference.quiet import stdout_closed_to_c

IsPossible = Callable[[Collection[int]], bool]
"""Whether the rules with these indices can all hold."""


def smallest_conflict(rules: int, is_possible: IsPossible) -> list[int] | None:
    """The indices of a smallest conflicting set of rules; None if all can hold."""
    if is_possible(range(rules)):
        return None
    corrections: list[set[int]] = []
    while True:
        candidate = _smallest_hitting_set(rules, corrections)
        if not is_possible(candidate):
            return sorted(candidate)
        corrections.append(set(range(rules)) - _grown(candidate, rules, is_possible))


def _smallest_hitting_set(rules: int, sets: list[set[int]]) -> set[int]:
    """A smallest set that shares a member with each of the sets."""
    if not sets:
        return set()
    rows = np.array([[float(rule in each) for rule in range(rules)] for each in sets])
    with stdout_closed_to_c():
        result = milp(
            np.ones(rules),
            integrality=np.ones(rules),
            bounds=Bounds(0, 1),
            constraints=LinearConstraint(rows, 1, np.inf),
        )
    return set(np.flatnonzero(result.x > 0.5).tolist())


def _grown(start: Collection[int], rules: int, is_possible: IsPossible) -> set[int]:
    """Add rules one by one while they can still all hold."""
    kept = set(start)
    for rule in range(rules):
        if rule not in kept and is_possible({*kept, rule}):
            kept.add(rule)
    return kept
