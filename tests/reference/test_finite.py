"""Finite MDPs: what is refused and in which words, exact values, the best policy under rules."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import sparse

from scrl.errors import RuleError, ScrlError
from scrl.reference.finite import FiniteMDP, MdpError
from scrl.reference.linear import Status
from scrl.reference.occupancy import occupancy_of, ranges
from scrl.reference.solve_finite import Method, solve_mdp
from scrl.rules import RuleSet

from .conftest import Force
from .sampling import sample

SEEDS = st.integers(0, 2**31)
DISCOUNTS = st.sampled_from([0.5, 0.9, 1.0])

# A lamp that is off or on. Off: wait (reward 0) or switch on. On: stay (reward 1) or switch off.
# "lit" receives 2 units for each step that the lamp is on.
LAMP = {
    "transitions": [[[1.0, 0], [0, 1]], [[0, 1], [1, 0]]],
    "rewards": [[0.0, 0], [1, 1]],
    "labels": [[0.0], [2]],
    "start": [1.0, 0],
    "discount": 0.5,
    "regions": ["lit"],
}
# Two doors. Each step in the hall costs 1; "go" leaves, "linger" leaves with probability 1/2.
HALL = {
    "transitions": [[[0.0], [0.5]]],
    "rewards": [-1.0],
    "labels": [[1.0]],
    "start": [1.0],
    "regions": ["hall"],
}


def lamp_with(row: list[float]) -> list:
    """The lamp's transitions with another row for switching off."""
    return [*LAMP["transitions"][:1], [[0.0, 1], row]]


def lamp(**changes: Any) -> FiniteMDP:
    return FiniteMDP(**{**LAMP, **changes})


def test_values_by_hand():
    # On at once and stay: off at t = 0, on from t = 1: 0.5 + 0.25 + ... = 1, density 2.
    values = lamp().values([[0, 1], [1, 0]])
    assert values.return_ == pytest.approx(1)
    assert values.density == pytest.approx([2])
    # Visits: off 1, on 1/2 + 1/4 + ... = 1.
    assert values.visits == pytest.approx([1, 1])


def test_undiscounted_values_by_hand():
    # Lingering takes 1 + 1/2 + 1/4 + ... = 2 steps, going 1, evenly mixed 1 / (1 - 1/4) = 4/3.
    mdp = FiniteMDP(**HALL)
    assert mdp.values([[0, 1]]).return_ == pytest.approx(-2)
    assert mdp.values([[1, 0]]).density == pytest.approx([1])
    assert mdp.values([[0.5, 0.5]]).density == pytest.approx([4 / 3])
    assert mdp.core.longest == pytest.approx(2)


def test_a_rule_needs_a_randomised_policy():
    # Without a rule: go, -1. hall >= 1.5: 1 / (1 - q/2) = 3/2, so linger with q = 2/3: -1.5.
    # One unit more in the hall costs one step: the multiplier of -hall <= -1.5 is 1.
    solution = solve_mdp(FiniteMDP(**HALL), "hall >= 1.5")
    assert solution.status is Status.OPTIMAL
    assert solution.return_ == pytest.approx(-1.5)
    assert solution.density == pytest.approx({"hall": 1.5})
    assert solution.policy == pytest.approx(np.array([[1 / 3, 2 / 3]]))
    assert solution.duals == pytest.approx({"hall >= 1.5": 1.0})
    assert solution.branch == ("hall >= 1.5",)
    assert solution.bound == pytest.approx(-1.5)


@pytest.mark.parametrize("method", ["milp", "branches", "columns"])
def test_more_than_possible_is_infeasible(method: Method) -> None:
    # Nobody stays longer than 2 steps in expectation.
    solution = solve_mdp(FiniteMDP(**HALL), "hall >= 2.001", method=method)
    assert solution.status is Status.INFEASIBLE
    assert solution.return_ is None
    assert solution.policy is None
    assert solution.bound == -np.inf
    assert solve_mdp(FiniteMDP(**HALL), "hall >= 2", method=method).return_ == pytest.approx(-2)


def test_sparse_and_dense_are_the_same():
    rows = sparse.csr_array(np.array(LAMP["transitions"]).reshape(4, 2))
    assert lamp(transitions=rows).values([[0, 1], [1, 0]]).return_ == pytest.approx(1)


def test_what_cannot_be_reached_does_not_matter():
    # State 1 loops for ever, but no policy gets there.
    mdp = FiniteMDP(
        transitions=[[[0.0, 0]], [[0, 1]]],
        rewards=[[2.0], [9]],
        labels=[[1.0], [9]],
        start=[1.0, 0],
        regions=["X"],
    )
    assert mdp.core.states.tolist() == [0]
    assert mdp.values([[1.0], [1]]).return_ == pytest.approx(2)
    policy = solve_mdp(mdp, "X <= 1").policy
    assert policy is not None
    assert policy.tolist() == [[1], [1]]


def test_ranges_by_hand():
    # "lit" lies between 0 (wait) and 2 (on at once); its negative between -2 and 0.
    low, high = ranges(lamp().core, np.array([[1.0], [-1]]))
    assert low == pytest.approx([0, -2], abs=1e-9)
    assert high == pytest.approx([2, 0], abs=1e-9)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"transitions": lamp_with([0.5, 0])}, "state 1, action 1: prob.* sum to 0.5"),
        ({"transitions": lamp_with([2, -1])}, "state 1, action 1.*state 1 is -1"),
        ({"transitions": lamp_with([0, np.nan])}, r"transitions is nan at \[1, 1, 1\]"),
        ({"transitions": np.ones((2, 2))}, r"transitions has shape \(2, 2\)"),
        ({"transitions": sparse.csr_array((3, 2))}, "shape 3 x 2: with 2 states"),
        ({"transitions": "no"}, "not an array of numbers"),
        ({"rewards": [1.0, 2, 3]}, r"rewards has shape \(3,\)"),
        ({"rewards": [1.0, np.inf]}, r"rewards is inf at \[1\]"),
        ({"labels": [[1.0, 2], [3, 4]]}, r"labels has shape \(2, 2\).*1 regions"),
        ({"start": [0.5, 0.4]}, "start: probabilities sum to 0.9"),
        ({"start": [1.5, -0.5]}, "start: the probability of state 1 is -0.5"),
        ({"start": [1.0]}, r"start has shape \(1,\)"),
        ({"discount": 0}, "discount is 0"),
        ({"discount": np.nan}, "discount is nan"),
        ({"discount": 1.1}, "discount is 1.1"),
        ({"regions": ["lit", "lit"]}, "'lit' occurs twice"),
        ({"regions": "lit"}, "give a list of names"),
        ({"available": [[True, True], [False, False]]}, "state 1 can be reached and has no action"),
        ({"available": [[1, 1], [1, 1]]}, "type int64"),
        ({"discount": 1.0}, "state 0: from here a policy may never end the episode"),
    ],
)
def test_what_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(MdpError, match=words):
        lamp(**changes)


def test_a_policy_must_fit():
    with pytest.raises(MdpError, match="state 1 has"):
        lamp().values([[0, 1], [1, 1]])
    with pytest.raises(MdpError, match="shape"):
        lamp().values([[0, 1]])
    with pytest.raises(MdpError, match=r"over its actions \[0\]"):
        lamp(available=[[True, False], [True, True]]).values([[0, 1], [1, 0]])


def test_an_end_that_only_some_policies_reach():
    # From 0 the policy may step to 1 and back for ever; taking action 1 in either state ends.
    circle = [[[0.0, 1], [0, 0]], [[1.0, 0], [0, 0]]]
    with pytest.raises(MdpError, match="may never end the episode"):
        lamp(discount=1.0, transitions=circle)
    # Not when the way back is closed ...
    assert lamp(discount=1.0, transitions=circle, available=[[True, True], [False, True]])
    # ... nor when every round may end.
    circle[1][0] = [0.999, 0]
    assert lamp(discount=1.0, transitions=circle).core.longest == pytest.approx(2 / 0.001)


def test_a_long_path_is_quick():
    # 20,000 states in a row, each left for the next: 20,000 steps, found without 20,000 sweeps.
    count = 20_000
    path = sparse.csr_array(sparse.eye_array(count, k=1))
    start = np.eye(1, count)[0]
    mdp = FiniteMDP(
        transitions=path,
        rewards=np.ones(count),
        labels=np.ones((count, 1)),
        start=start,
        regions=["X"],
    )
    assert mdp.values(np.ones((count, 1))).return_ == pytest.approx(count)


def test_rules_must_fit():
    with pytest.raises(RuleError, match="dark"):
        solve_mdp(lamp(), "dark >= 1")
    with pytest.raises(RuleError, match="'dark' that the MDP has not"):
        solve_mdp(lamp(), RuleSet.of("dark >= 1", ["dark"]))
    with pytest.raises(RuleError, match="share of single runs: leave that out"):
        solve_mdp(lamp(), "lit >= 1 in 95 %")
    with pytest.raises(ScrlError, match="did you mean 'milp'"):
        solve_mdp(lamp(), "lit >= 1", method="mil")


def test_no_rules():
    for method in ("milp", "branches", "columns"):
        assert solve_mdp(lamp(), [], method=method).return_ == pytest.approx(1)


@given(SEEDS, DISCOUNTS)
@settings(deadline=None, max_examples=40)
def test_the_optimum_is_that_of_brute_force(force: Force, seed: int, discount: float) -> None:
    small = force.small(seed, discount)
    assume(not force.is_knife_edge(small))
    best = force.best(small)
    solution = solve_mdp(small.mdp, list(small.rules))
    assert (solution.status is Status.INFEASIBLE) == (best == -np.inf)
    if solution.return_ is None:
        return
    assert solution.return_ == pytest.approx(best, rel=1e-6, abs=1e-6)
    assert solution.certificate is not None
    assert solution.certificate.worst <= 1e-6
    assert solution.bound == pytest.approx(solution.return_, rel=2e-6, abs=2e-6)
    values = small.mdp.values(solution.policy)
    assert values.return_ == pytest.approx(solution.return_, abs=1e-6)
    assert solution.density is not None
    assert values.density == pytest.approx(list(solution.density.values()), abs=1e-6)


@given(SEEDS, DISCOUNTS)
@settings(deadline=None, max_examples=10)
def test_simulated_episodes_give_the_same(force: Force, seed: int, discount: float) -> None:
    mdp = force.small(seed, discount).mdp
    point = solve_mdp(mdp, []).policy
    assert point is not None
    mixed = 0.5 * point + 0.5 * mdp.available / mdp.available.sum(axis=1, keepdims=True)
    exact, seen = mdp.values(mixed), sample(mdp, mixed, episodes=4_000, seed=seed)
    # five standard errors, with a little room where the spread itself is tiny
    assert abs(seen.return_ - exact.return_) <= 5 * seen.return_se + 1e-6
    assert (np.abs(seen.density - exact.density) <= 5 * seen.density_se + 1e-6).all()


@given(SEEDS, DISCOUNTS)
@settings(deadline=None, max_examples=30)
def test_looser_never_lowers_and_more_never_raises(
    force: Force, seed: int, discount: float
) -> None:
    mdp = force.small(seed, discount).mdp
    free = solve_mdp(mdp, [])
    assert free.density is not None
    x, y = free.density["X"], free.density["Y"]
    returns = [solve_mdp(mdp, f"X <= {share * x:.9f}").return_ for share in (0.95, 0.97, 0.99, 1.1)]
    worth = [-np.inf if each is None else each for each in returns]
    assert all(one <= other + 1e-6 for one, other in pairwise(worth))
    assert worth[-1] == pytest.approx(free.return_)
    both = solve_mdp(mdp, [f"X <= {0.97 * x:.9f}", f"Y <= {0.98 * y:.9f}"]).return_
    assert (-np.inf if both is None else both) <= worth[1] + 1e-6


@given(SEEDS, DISCOUNTS)
@settings(deadline=None, max_examples=30)
def test_points_and_policies_are_the_same_thing(force: Force, seed: int, discount: float) -> None:
    # from a policy to its occupancies, which keep the flow, and back
    mdp = force.small(seed, discount).mdp
    policy = mdp.available * np.random.default_rng(seed).uniform(0.1, 1, mdp.available.shape)
    policy /= policy.sum(axis=1, keepdims=True)
    occupancy = occupancy_of(mdp)
    point = (mdp.values(policy).visits[:, None] * policy[mdp.core.states]).ravel()[occupancy.rows]
    assert occupancy.model.equal @ point == pytest.approx(occupancy.model.equal_to)
    assert point.sum() <= occupancy.model.total * (1 + 1e-9)
    assert occupancy.policy_of(point) == pytest.approx(policy)
