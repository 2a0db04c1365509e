"""Small random MDPs, and the slow truth about them: every deterministic policy, one by one."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from scipy.optimize import linprog

from scrl.reference.finite import FiniteMDP
from scrl.rules import AtomTable, RuleSet

REGIONS = ("X", "Y")


@dataclass(frozen=True)
class Small:
    """A small MDP, the (return, density) of all its deterministic policies, and its rules."""

    mdp: FiniteMDP
    corners: np.ndarray
    rules: tuple[str, ...]


def small_mdp(seed: int, discount: float) -> FiniteMDP:
    """2-4 states, 2-3 actions; undiscounted: every step may end the episode."""
    random = np.random.default_rng(seed)
    states, actions = random.integers(2, 5), random.integers(2, 4)
    transitions = random.dirichlet(np.full(states, 0.5), (states, actions))
    if discount == 1:
        transitions *= random.uniform(0.3, 0.9, (states, actions, 1))
    available = random.random((states, actions)) < 0.8
    available[:, 0] = True
    shape = (states, 2) if random.random() < 0.5 else (states, actions, 2)
    return FiniteMDP(
        transitions=transitions,
        rewards=random.normal(size=(states, actions)),
        labels=random.random(shape),
        start=random.dirichlet(np.ones(states)),
        discount=discount,
        regions=REGIONS,
        available=available,
    )


def corners_of(mdp: FiniteMDP) -> np.ndarray:
    """[policy, (return, X, Y)]: the occupancy polytope is their hull."""
    choices = [np.flatnonzero(each) for each in mdp.available]
    found = []
    for actions in itertools.product(*choices):
        values = mdp.values(np.eye(mdp.actions)[list(actions)])
        found.append([values.return_, *values.density])
    return np.array(found)


def some_rules(seed: int, corners: np.ndarray) -> tuple[str, ...]:
    """Three rules with bounds near what the policies give: some bite, some cannot hold."""
    random = np.random.default_rng(seed)
    middle, spread = corners.mean(axis=0), corners.std(axis=0)
    x = np.round(middle[1] + spread[1] * random.normal(size=4), 3)
    y = np.round(middle[2] + spread[2] * random.normal(size=4), 3)
    return (
        f"X >= {x[0]} or Y <= {y[0]}",
        f"if X > {x[1]} then X + Y <= {x[2] + y[1]:.3f}",
        f"Y >= {y[2]} or X <= {x[3]} or X - Y <= {x[2] - y[3]:.3f}",
    )


def small(seed: int, discount: float) -> Small:
    """A small MDP with rules."""
    mdp = small_mdp(seed, discount)
    corners = corners_of(mdp)
    return Small(mdp, corners, some_rules(seed, corners))


def best_by_force(small: Small, *, loosen: float = 0.0) -> float:
    """The best mixture of deterministic policies over all branches; -inf if there is none."""
    table = AtomTable.of(RuleSet.of(small.rules, REGIONS))
    best = -np.inf
    for combination in itertools.product(*map(np.flatnonzero, table.members)):
        chosen = sorted(set(combination))
        result = linprog(
            -small.corners[:, 0],
            A_ub=table.coefficients[chosen] @ small.corners[:, 1:].T,
            b_ub=table.bounds[chosen] + loosen,
            A_eq=np.ones((1, len(small.corners))),
            b_eq=[1.0],
        )
        best = max(best, -result.fun) if result.status == 0 else best
    return best


def is_knife_edge(small: Small) -> bool:
    """Whether a rounding error of the bounds decides between possible and impossible."""
    ends = [best_by_force(small, loosen=loosen) for loosen in (-1e-5, 1e-5)]
    return bool(np.isfinite(ends[0]) != np.isfinite(ends[1])) or abs(ends[0] - ends[1]) > 0.01


@dataclass(frozen=True)
class Force:
    """The slow truth, for tests that cannot import this file."""

    best: Callable[..., float]
    is_knife_edge: Callable[[Small], bool]
    small: Callable[[int, float], Small]


@pytest.fixture(scope="session")
def force() -> Force:
    return Force(best_by_force, is_knife_edge, small)
