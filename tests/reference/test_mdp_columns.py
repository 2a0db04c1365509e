"""Column generation: the same optimum as the linear program, with its own proof."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from scrl.reference import mdp_columns
from scrl.reference.certificate import certify, require
from scrl.reference.finite import FiniteMDP
from scrl.reference.linear import NumericalTroubleError, Status
from scrl.reference.mdp_columns import solve_columns
from scrl.reference.occupancy import occupancy_of
from scrl.reference.solve_finite import atoms_of, solve_mdp
from scrl.rules import AtomTable, RuleSet

# As in test_finite: each step in the hall costs 1; "go" leaves, "linger" leaves half of the time.
HALL = FiniteMDP(
    transitions=[[[0.0], [0.5]]], rewards=[-1.0], labels=[[1.0]], start=[1.0], regions=["hall"]
)


def test_a_mixture_by_hand():
    # Going stays 1 step, lingering 2. hall >= 1.5 needs half of each: -1.5. As one policy the
    # occupancies (1/2, 1) of go and linger: linger with probability 2/3.
    atoms = atoms_of(HALL, AtomTable.of(RuleSet.of("hall >= 1.5", ["hall"])), is_ranged=False)
    solution = solve_columns(HALL, atoms)
    assert solution.choice.status is Status.OPTIMAL
    optimum = solution.choice.optimum
    assert optimum is not None
    assert optimum.return_ == pytest.approx(-1.5)
    assert optimum.point == pytest.approx([0.5, 1])
    assert solution.mixture is not None
    assert sorted(solution.mixture.policies[:, 0]) == [0, 1]
    assert solution.mixture.weights == pytest.approx([0.5, 0.5])
    assert optimum.of_atom == pytest.approx([1])


@pytest.mark.parametrize("bound", [2 + 1e-6, 3, 1e6])
def test_infeasible_is_proven(bound):
    # Nobody stays longer than 2 steps: also a millionth more is too much.
    solution = solve_mdp(HALL, f"hall >= {bound}", method="columns")
    assert solution.status is Status.INFEASIBLE


def test_the_very_edge_is_feasible():
    # Two steps exactly are what lingering gives.
    solution = solve_mdp(HALL, "hall >= 2", method="columns")
    assert solution.status is Status.OPTIMAL
    assert solution.return_ == pytest.approx(-2)


def test_a_miss_of_a_millionth_is_not_forgiven():
    # With a reward for staying, the first column is to linger: it misses by a millionth only.
    mdp = FiniteMDP(
        transitions=[[[0.0], [0.5]]], rewards=[1.0], labels=[[1.0]], start=[1.0], regions=["hall"]
    )
    solution = solve_mdp(mdp, f"hall >= {2 + 1e-6}", method="columns")
    assert solution.status is Status.INFEASIBLE


def test_no_time_says_so(force):
    small = force.small(5, 0.9)
    solution = solve_mdp(small.mdp, list(small.rules), method="columns", time_limit_s=0.0)
    assert solution.status in (Status.TIME_LIMIT, Status.OPTIMAL)
    assert solution.bound >= small.corners[:, 0].max() - 1e-9
    free = solve_mdp(small.mdp, list(small.rules), method="columns")
    assert free.return_ is None or free.return_ <= solution.bound + 1e-9


def test_a_gap_that_does_not_close_is_an_error(monkeypatch):
    monkeypatch.setattr(mdp_columns, "STOP", -1.0)
    with pytest.raises(NumericalTroubleError, match="leave a gap"):
        solve_mdp(HALL, "hall >= 1.5", method="columns")


@given(st.integers(0, 2**31), st.sampled_from([0.5, 0.9, 1.0]))
@settings(deadline=None, max_examples=30)
def test_columns_agree_with_brute_force(force, seed, discount):
    small = force.small(seed, discount)
    assume(not force.is_knife_edge(small))
    best = force.best(small)
    solution = solve_mdp(small.mdp, list(small.rules), method="columns")
    assert (solution.status is Status.INFEASIBLE) == (best == -np.inf)
    if solution.return_ is None:
        return
    assert solution.return_ == pytest.approx(best, rel=1e-6, abs=1e-6)
    assert solution.bound >= best - 1e-9 * (1 + abs(best))
    assert solution.policy is not None
    assert solution.density is not None
    assert solution.mixture is not None
    values = small.mdp.values(solution.policy)
    assert values.return_ == pytest.approx(solution.return_, abs=1e-6)
    assert values.density == pytest.approx(list(solution.density.values()), abs=1e-6)
    assert solution.mixture.weights.sum() == pytest.approx(1)


@given(st.integers(0, 2**31), st.sampled_from([0.5, 0.9, 1.0]))
@settings(deadline=None, max_examples=20)
def test_a_corrupted_solution_is_found_out(force, seed, discount):
    small = force.small(seed, discount)
    atoms = atoms_of(small.mdp, AtomTable.of(RuleSet.of(list(small.rules), ("X", "Y"))))
    choice = solve_columns(small.mdp, atoms).choice
    assume(choice.optimum is not None)
    assert choice.optimum is not None
    rows = atoms.coefficients[choice.in_force], atoms.bounds[choice.in_force]
    model = occupancy_of(small.mdp).model
    require(certify(model, *rows, choice.optimum))
    wrong = replace(choice.optimum, point=choice.optimum.point * 1.01)
    with pytest.raises(NumericalTroubleError):
        require(certify(model, *rows, wrong))


def test_a_larger_world_agrees_with_the_linear_program():
    # 310 states take the iterative solves (more than 300 states), the linear program does not.
    random = np.random.default_rng(7)
    mdp = FiniteMDP(
        transitions=random.dirichlet(np.full(310, 0.01), (310, 3)),
        rewards=random.normal(size=(310, 3)),
        labels=(random.random((310, 2)) < 0.3) * 1.0,
        start=np.full(310, 1 / 310),
        discount=0.9,
        regions=["X", "Y"],
    )
    rules = ["X >= 3.6", "Y <= 2.6 or X + Y <= 6"]
    found = [solve_mdp(mdp, rules, method=each).return_ for each in ("milp", "branches", "columns")]
    assert found == pytest.approx([found[0]] * 3, rel=1e-6)
