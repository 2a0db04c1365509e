"""Branches one by one: the twin of the mixed-integer program."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import ArrayLike
from scipy import sparse

from scrl.reference.branches import TooManyBranchesError, best_branch_by_enumeration
from scrl.reference.certificate import certify, require
from scrl.reference.disjunctive import BoundedAtoms, choose_branch
from scrl.reference.linear import Status
from scrl.reference.model import LinearModel
from scrl.reference.solve_finite import solve_mdp

from .conftest import Force

MODEL = LinearModel(
    reward=np.array([3.0, 2.0]),
    density=sparse.csr_array(np.eye(2)),
    lower=np.zeros(2),
    upper=np.full(2, 10.0),
)


def atoms(rows: ArrayLike, members: ArrayLike) -> BoundedAtoms:
    """Rows (a, b, bound) for a x + b y <= bound, with unknown ranges: none are needed."""
    table = np.array(rows, float)
    unknown = np.full(len(table), np.inf)
    return BoundedAtoms(table[:, :2], table[:, 2], np.array(members, bool), -unknown, unknown)


def test_clauses_by_hand():
    # As in test_disjunctive: x <= 4 with y >= 8 gives 32, y <= 5 with x + y <= 9 gives 27.
    rules = atoms([(1, 0, 4), (0, 1, 5), (1, 1, 9), (0, -1, -8)], [[1, 1, 0, 0], [0, 0, 1, 1]])
    choice = best_branch_by_enumeration(MODEL, rules)
    assert choice.status is Status.OPTIMAL
    assert choice.branch is not None
    assert choice.optimum is not None
    assert choice.branch.tolist() == [0, 3]
    assert choice.optimum.return_ == pytest.approx(32)
    assert choice.bound == pytest.approx(32)


def test_no_branch_holds():
    choice = best_branch_by_enumeration(MODEL, atoms([(-1, 0, -11), (0, -1, -11)], [[1, 1]]))
    assert choice.status is Status.INFEASIBLE
    assert choice.bound == -np.inf


def test_too_many_branches_is_an_error():
    rules = atoms([(1, 0, 4), (0, 1, 5), (1, 1, 9), (0, -1, -8)], [[1, 1, 0, 0], [0, 0, 1, 1]])
    with pytest.raises(TooManyBranchesError, match="2 sets of atoms were tried"):
        best_branch_by_enumeration(MODEL, rules, most_nodes=2)


def test_no_time_says_so():
    rules = atoms([(1, 0, 4), (0, 1, 5)], [[1, 1]])
    choice = best_branch_by_enumeration(MODEL, rules, time_limit_s=0.0)
    assert choice.status is Status.TIME_LIMIT
    assert choice.optimum is None


@given(st.integers(0, 2**31))
@settings(deadline=None, max_examples=30)
def test_the_mixed_integer_program_agrees(seed: int) -> None:
    # A random box model with 5 clauses over 8 atoms, each in several clauses.
    random = np.random.default_rng(seed)
    model = LinearModel(
        reward=random.normal(size=6),
        density=sparse.csr_array(random.random((3, 6))),
        lower=np.zeros(6),
        upper=random.uniform(1, 3, size=6),
    )
    coefficients = np.round(random.normal(size=(8, 3)), 2)
    reach = coefficients @ model.density.toarray()
    high = np.maximum(reach, 0) @ model.upper
    low = np.minimum(reach, 0) @ model.upper
    bounds = low + (high - low) * random.uniform(0.1, 0.6, size=8)
    members = random.random((5, 8)) < 0.35
    members[np.arange(5), random.integers(0, 8, 5)] = True
    rules = BoundedAtoms(coefficients, bounds, members, low, high)
    one, other = choose_branch(model, rules), best_branch_by_enumeration(model, rules)
    assert one.status is other.status
    if one.optimum is None:
        return
    assert other.optimum is not None
    assert one.optimum.return_ == pytest.approx(other.optimum.return_, rel=1e-6, abs=1e-6)
    for choice in (one, other):
        force = choice.in_force
        assert choice.optimum is not None
        require(certify(model, coefficients[force], bounds[force], choice.optimum))
        held = coefficients @ choice.optimum.density <= bounds + 1e-7
        assert held[choice.branch].all()
        assert members[np.arange(5), choice.branch].all()


@given(st.integers(0, 2**31), st.sampled_from([0.5, 0.9, 1.0]))
@settings(deadline=None, max_examples=30)
def test_finite_mdps_agree_with_brute_force(force: Force, seed: int, discount: float) -> None:
    small = force.small(seed, discount)
    assume(not force.is_knife_edge(small))
    best = force.best(small)
    solution = solve_mdp(small.mdp, list(small.rules), method="branches")
    assert (solution.status is Status.INFEASIBLE) == (best == -np.inf)
    if solution.return_ is not None:
        assert solution.return_ == pytest.approx(best, rel=1e-6, abs=1e-6)
