"""Plans that react: multipliers, late cells, margins, and rules that hold in single runs."""

from __future__ import annotations

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array

import scrl
from scrl.planning import planner
from scrl.planning.feedback import Aims, FeedbackPolicy, _groups
from scrl.problems import Problem, load
from scrl.reference.fluid import BranchDual
from scrl.reference.priced import price_rules
from scrl.worlds.sweep.regions import from_labels
from scrl.worlds.sweep.spec import SweepRoute, SweepSpec
from scrl.worlds.sweep.vehicle import Vehicle, Wind
from scrl.worlds.sweep.world import SweepState

pytestmark = pytest.mark.optimised


def in_wind(problem: Problem, strength: float = 0.1) -> Problem:
    spec = dataclasses.replace(problem.world_spec, wind=Wind(strength=strength))
    return dataclasses.replace(problem, world_spec=spec)


def line(labels: list[int], rules: tuple[str, ...] = ()) -> Problem:
    spec = SweepSpec(from_labels(np.array([labels])), Vehicle(), Wind(strength=0.1))
    return Problem.create(spec, rules)


def policy_for(problem: Problem, aims: Aims) -> FeedbackPolicy:
    return FeedbackPolicy.of(problem.world_spec, problem.world, aims)


def test_the_multipliers_of_the_whole_path_are_those_of_the_fluid() -> None:
    problem = load("agri-joint")
    branch = price_rules(problem).branch
    assert branch is not None
    aims = Aims(branch.coefficients, branch.bounds, np.zeros(len(branch.bounds)))
    found = np.asarray(policy_for(in_wind(problem), aims).multipliers)[0, : len(branch.bounds)]
    rows = branch.coefficients @ branch.fluid.amount
    dual = BranchDual(branch.fluid, rows, branch.bounds).maximise(branch.multipliers)
    # In efforts for a step of 2.25 units, from return for a unit.
    assert found == pytest.approx(dual.multipliers * 2.25 / 0.1, abs=2e-3)


def test_what_was_given_decides_how_fast_it_drives() -> None:
    """90 cells of S1 must have 90 steps in all. Half of them were given to the first half, or less,
    or more: 1 step a cell is left, or 2, or 0."""
    problem = line([1] * 90, ("S1 >= 202.5",))
    policy = policy_for(problem, Aims(np.array([[-1.0]]), np.array([-202.5]), np.zeros(1)))
    act = eqx.filter_jit(policy.at)
    speeds = []
    for steps in (0.0, 45.0, 90.0):
        state = SweepState(*(jnp.asarray(each) for each in (45, 0.0, 1.0, 0.0, 45)))
        memory, throttle = policy.begin(), jnp.zeros(())
        for _ in range(30):
            throttle, memory = act(problem.world, state, jnp.array([steps]), memory)
        speeds.append(0.6 * 1.0 + 0.4 * 3.0 * float(throttle))
    # From a speed of 1 the next lies between 0.6 and 1.8.
    assert speeds == pytest.approx([0.61, 1.0, 1.8], abs=0.1)


def test_a_cell_is_late_if_nothing_can_make_up_for_it() -> None:
    """S1 <= S2 is helped by S2 alone, whose last cell is the seventh."""
    problem = line([1, 1, 2, 2, 1, 1, 2, 1, 1, 3])
    effect, is_late, group = _groups(problem.world_spec, np.array([[1.0, -1.0, 0.0]]))
    assert is_late[0, group].tolist() == [False] * 7 + [True, True, False]
    assert effect[0, group].tolist() == [1, 1, -1, -1, 1, 1, -1, 1, 1, 0]


def test_a_band_is_aimed_at_its_middle_at_most() -> None:
    rows = np.array([[1.0, -1.0], [-1.0, 1.0], [1.0, 0.0]])
    aims = Aims(rows, np.array([6.0, 2.0, 10.0]), np.full(3, 5.0))
    assert aims.sides.tolist() == [2.0, -2.0, 5.0]


def test_a_mean_may_be_aimed_at_beyond_the_middle_of_a_band() -> None:
    """The other side gives way, so that the two do not cross."""
    rows = np.array([[1.0, -1.0], [-1.0, 1.0]])
    aims = Aims(rows, np.array([6.0, 6.0]), np.array([0.5, 8.5]))
    assert aims.sides.tolist() == [5.5, -2.5]


def test_whole_steps_may_keep_what_the_fluid_misses() -> None:
    """At full speed S1 gets six or seven steps, 13.5 or 15.75 units; the fluid says 15."""
    path, rule = [1] * 20 + [2] * 20, "S1 <= 14 or S2 >= 36"
    vehicle = Vehicle(inertia=0.0, crawl=0.1)
    spec = line(path, (rule,)).world_spec
    wind = dataclasses.replace(spec.wind, persistence=0.0)
    route = SweepRoute(service="landing")
    spec = dataclasses.replace(spec, vehicle=vehicle, wind=wind, route=route)
    answer = planner().ask(Problem.create(spec, [rule]))
    assert answer.status == "satisfied"
    assert [each.taken for each in answer.branch] == ["S1 <= 14"]


def test_runs_side_by_side_move_their_multipliers_as_each_alone() -> None:
    """Two branches: S1 >= 9 and S2 >= 9, or S2 <= 6 and S1 <= 40 and S2 <= S1."""
    problem = line([1] * 10 + [2] * 10)
    rows = np.array([[-1.0, 0.0], [0.0, -1.0], [0.0, 1.0], [1.0, 0.0], [-1.0, 1.0]])
    either = np.array([[True, True, False, False, False], [False, False, True, True, True]])
    aims = Aims(rows, np.array([-9.0, -9.0, 6.0, 40.0, 0.0]), np.ones(5), 2.0, either)
    policy = policy_for(problem, aims)
    left = policy.left[:3]
    given = jnp.linspace(0.0, 2.0, 3 * len(policy.aims)).reshape(3, -1)
    of_runs = jnp.stack([policy.multipliers * part for part in (0.0, 0.5, 1.0)])

    @jax.jit
    def moved(*run: Array) -> Array:
        return policy._rounds(problem.world.numbers, *run)

    found = jax.jit(jax.vmap(moved))(left, given, of_runs)
    alone = jnp.stack([moved(*run) for run in zip(left, given, of_runs, strict=True)])
    assert float(jnp.abs(found - of_runs).max()) > 0.1
    assert np.asarray(found) == pytest.approx(np.asarray(alone), abs=1e-5)
    assert not found[:, 0, 2:].any()
    assert not found[:, 1, :2].any()


def test_sides_of_different_branches_are_no_band() -> None:
    """S1 <= 6 or S1 >= 8."""
    either = np.array([[True, False], [False, True]])
    aims = Aims(np.array([[1.0], [-1.0]]), np.array([6.0, -8.0]), np.ones(2), branches=either)
    assert aims.sides.tolist() == [5.0, -9.0]


def test_a_run_that_misses_one_disjunct_keeps_another() -> None:
    """S1 <= 50 holds at full speed in two of three runs, and S2 comes behind it: only the others
    need to give 80 to S2."""
    path = [1] * 60 + [2] * 60
    found = {
        rule: planner().ask(line(path, (rule,)).with_confidence(0.95))
        for rule in ("S1 <= 50 or S2 >= 80", "S2 >= 80", "S1 <= 50")
    }
    either, second, first = found.values()
    assert not first.is_satisfied
    assert either.is_satisfied
    assert second.is_satisfied
    assert either.evaluation.return_ == pytest.approx(-1.31, abs=0.05)
    assert second.evaluation.return_ == pytest.approx(-1.98, abs=0.05)
    # On average no run may switch: then half of the runs would keep neither mean.
    (plan,) = planner().ask(line(path, ("S1 <= 50 or S2 >= 80",))).plans
    assert plan.aims is not None
    assert len(plan.aims.is_in) == 1


@pytest.mark.parametrize("service", ["landing", "poured"])
def test_single_runs_keep_the_rules_near_the_calm_fluid(service: str) -> None:
    problem = in_wind(load("agri-joint"))
    route = SweepRoute(service="poured" if service == "poured" else "landing")
    spec = dataclasses.replace(problem.world_spec, route=route)
    answer = planner().ask(dataclasses.replace(problem, world_spec=spec).with_confidence(0.95))
    assert answer.status == "satisfied"
    assert answer.gap_to_fluid is not None
    assert answer.gap_to_fluid < 0.04
    fresh = scrl.evaluate(answer.problem, answer.plans[0].policy, episodes=500, seed=99)
    assert fresh.episodes_satisfied >= 475
    assert fresh.return_ == pytest.approx(answer.evaluation.return_, rel=2e-3)


def test_where_chance_cannot_be_made_up_for_a_reserve_is_kept() -> None:
    """The path of Med ends in a long stretch of S5 alone, which nothing can make up for."""
    problem = in_wind(load("med-priority"))
    answer = planner().ask(problem.with_confidence(0.95))
    assert answer.status == "satisfied"
    (plan,) = answer.plans
    assert plan.aims is not None
    assert plan.aims.reserve > 0.0


def test_without_rules_it_drives_at_full_speed() -> None:
    answer = planner().ask(line([1] * 60 + [2] * 60))
    full = scrl.evaluate(answer.problem, "full-speed", episodes=1000, seed=3)
    assert answer.evaluation.return_ == pytest.approx(full.return_, rel=5e-3)
