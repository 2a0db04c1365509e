"""The bound of a problem in the true world, against all drives of tiny worlds and known drives."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from scrl.problems import Problem, ProblemOptions, load
from scrl.reference.answer import Question
from scrl.reference.lattice import SpeedLattice, drive
from scrl.reference.solve import bounded, fluid_reference
from scrl.reference.true_bound import TrueBound, prove
from scrl.worlds.sweep.regions import from_labels
from scrl.worlds.sweep.spec import Service, SweepRoute, SweepSpec
from scrl.worlds.sweep.vehicle import Vehicle


def tiny(rules: list[str], horizon_steps: int = 9, service: Service = "landing") -> Problem:
    """Five cells of two regions; at 0.3 of the throttle a drive takes some nine steps."""
    spec = SweepSpec(
        from_labels(np.array([[1, 1, 2, 0, 1]])),
        Vehicle(crawl=0.25, max_speed=2.0, inertia=0.4),
        route=SweepRoute(service=service, horizon_steps=horizon_steps),
    )
    return Problem.create(spec, rules, ProblemOptions(name="tiny"))


def every_drive(problem: Problem, throttles: int = 4) -> np.ndarray:
    """[drive, (return, S1, S2)] of all that finish in time, by the equations of the docs."""
    spec = problem.world_spec
    vehicle, steps = spec.vehicle, spec.route.horizon_steps
    ways = np.linspace(0.0, 1.0, throttles)
    choices = np.stack(np.meshgrid(*[ways] * steps, indexing="ij"), axis=-1).reshape(-1, steps)
    cells = spec.service.kinds[spec.service.kind_of_part].astype(float)
    place, speed = np.zeros(len(choices)), np.zeros(len(choices))
    sums = np.zeros((len(choices), 3))
    for throttle in choices.T:
        is_running = place < 5
        thrust = vehicle.max_speed * np.clip(throttle, vehicle.crawl, 1.0)
        speed = vehicle.inertia * speed + (1 - vehicle.inertia) * thrust
        before, place = place, np.where(is_running, place + speed, place)
        served = cells[np.minimum(place, 5).astype(int)]
        if spec.is_poured:
            upto = np.concatenate([np.zeros((1, 2)), np.cumsum(cells[:5], axis=0)])
            ends = [
                np.column_stack([np.interp(each, np.arange(6), sums) for sums in upto.T])
                for each in (before, place)
            ]
            served = (ends[1] - ends[0]) / speed[:, None]
        given_ = vehicle.rate * served
        step = np.column_stack([-vehicle.effort / (1 + speed), given_])
        sums += is_running[:, None] * step
    return np.unique(sums[place >= 5].round(12), axis=0)


def best_mixture_of(problem: Problem, drives: np.ndarray) -> float:
    """The best mixture over all branches; -inf if none keeps the rules."""
    table, best = problem.atoms, -np.inf
    for combination in itertools.product(*map(np.flatnonzero, table.members)):
        chosen = sorted(set(combination))
        result = linprog(
            -drives[:, 0],
            A_ub=table.coefficients[chosen] @ drives[:, 1:].T,
            b_ub=table.bounds[chosen],
            A_eq=np.ones((1, len(drives))),
            b_eq=[1.0],
        )
        best = max(best, -result.fun) if result.status == 0 else best
    return best


@pytest.fixture(scope="module")
def drives() -> np.ndarray:
    return every_drive(tiny([]))


@pytest.fixture(scope="module")
def poured_drives() -> np.ndarray:
    return every_drive(tiny([], service="poured"))


def test_of_a_tiny_world_the_bound_is_near_the_best_mixture_of_all_drives(
    drives: np.ndarray,
) -> None:
    problem = tiny(["S1 >= 9 or S2 >= 6", "if S1 >= 9 then S2 <= 2"])
    found, best = prove(problem), best_mixture_of(problem, drives)
    assert found.value is not None
    assert found.is_final
    # Four throttles miss the best drive by something; the bound rounds in the drive's favour.
    assert best <= found.value <= best + 0.06 * abs(best)


@settings(max_examples=8)
@given(
    s1=st.integers(2, 24),
    s2=st.integers(0, 12),
    total=st.integers(4, 26),
    kind=st.integers(0, 3),
    service=st.sampled_from(["landing", "poured"]),
)
def test_no_mixture_of_all_drives_of_a_tiny_world_is_above_its_bound(
    drives: np.ndarray,
    poured_drives: np.ndarray,
    s1: int,
    s2: int,
    total: int,
    kind: int,
    service: Service,
) -> None:
    rules = [
        [f"S1 >= {s1} or S2 <= {s2}", f"S1 + S2 >= {total}"],
        [f"if S1 >= {s1} then S2 >= {s2}", f"S1 + S2 <= {total}"],
        [f"S1 == {s1} within 1", f"S2 >= {s2}"],
        [f"S1 - S2 <= {s1 - total} or S1 >= {s1}", f"S2 <= {s2} or S1 + S2 == {total} within 1"],
    ][kind]
    problem = tiny(rules, service=service)
    found = prove(problem, time_limit_s=2.0, levels=(24, 48))
    best = best_mixture_of(problem, drives if service == "landing" else poured_drives)
    if found.is_impossible:
        assert best == -np.inf
    else:
        assert found.value is not None
        assert best <= found.value


def test_with_poured_service_it_knows_of_the_inertia_that_the_fluid_leaves_out(
    poured_drives: np.ndarray,
) -> None:
    problem = tiny(["S2 >= 3.5", "S1 <= 9"], service="poured")
    fluid = fluid_reference(problem)
    bound = bounded(Question.of(problem), fluid, time_limit_s=2.0).bound
    assert bound is not None
    assert fluid.fluid_bound is not None
    # A vehicle that is slow in the one cell of S2 is slow before it.
    assert best_mixture_of(problem, poured_drives) <= bound < 1.2 * fluid.fluid_bound
    # The fluid is near enough to a plan that returns as much.
    near = bounded(Question.of(problem), fluid, time_limit_s=2.0, enough=fluid.fluid_bound)
    assert near.bound == pytest.approx(fluid.fluid_bound, rel=1e-3)


def test_what_no_drive_keeps_is_impossible(drives: np.ndarray) -> None:
    # The largest sum is 8 steps of service in 9 steps: 18.
    assert drives[:, 1:].sum(axis=1).max() <= 18
    for rules in (["S1 + S2 >= 21"], ["S2 >= 30 or S1 >= 30"], ["S1 <= 1"]):
        found = prove(tiny(rules))
        assert found.is_impossible
        assert found.value is None
        assert all(leaf.is_impossible for leaf in found.leaves)


def test_agri_s2_at_most_340_is_not_impossible() -> None:
    """The fluid's least is 351, and a drive with 335.25 exists: it leaps over edges."""
    found = prove(load("agri-joint").with_rules(["S2 <= 340"]), time_limit_s=0.0)
    assert not found.is_impossible
    assert found.value is not None
    assert -40 < found.value < -20.8
    assert prove(load("agri-joint").with_rules(["S2 <= 280"])).is_impossible


def test_every_branch_counts() -> None:
    """The second disjunct is the better one: its bound is the bound of both."""
    values = [prove(tiny([rule])).value for rule in ("S1 >= 12", "S2 >= 4", "S1 >= 12 or S2 >= 4")]
    hard, easy, both = (value for value in values if value is not None)
    assert hard < 1.2 * easy
    assert both == pytest.approx(easy, rel=1e-3)


def test_the_bound_of_a_built_in_problem_is_above_what_was_driven_and_near_it() -> None:
    known = -21.25  # a mixture of drives
    found = prove(load("med-priority"), time_limit_s=20.0)
    assert found.value is not None
    assert known < found.value < known + 0.012 * abs(known)


def test_no_drive_of_the_lattice_is_above_the_bound_at_its_multipliers() -> None:
    problem = load("med-joint")
    found = prove(problem, time_limit_s=0.0)
    leaf = found.leaves[0]
    table, lattice = problem.atoms, SpeedLattice(problem.world_spec, 48, 4)
    factors = np.random.default_rng(0).uniform(0.8, 1.2, (8, len(leaf.atoms)))
    prices = -(factors * leaf.multipliers[:-1]) @ table.coefficients[list(leaf.atoms)]
    per_step = problem.world_spec.vehicle.rate * prices
    driven = drive(lattice, per_step, np.asarray(lattice.values(per_step[:, None])))
    over = driven.density @ table.coefficients[list(leaf.atoms)].T - table.bounds[list(leaf.atoms)]
    assert (driven.returns - over @ leaf.multipliers[:-1] <= leaf.value).all()


def test_without_time_every_leaf_is_evaluated_once_and_more_time_is_better() -> None:
    problem, seen = tiny(["S1 >= 9 or S2 >= 6", "S1 + S2 >= 12"]), list[TrueBound]()
    first = prove(problem, time_limit_s=0.0)
    later = prove(problem, watch=seen.append)
    assert first.value is not None
    assert later.value is not None
    assert not first.is_final
    assert later.value < first.value
    values = [each.value for each in seen if each.value is not None]
    assert values == sorted(values, reverse=True)


def test_worlds_without_a_bound_say_why() -> None:
    problem = load("agri-joint")
    spec = problem.world_spec
    windy = dataclasses.replace(spec, wind=dataclasses.replace(spec.wind, strength=0.1))
    noisy = dataclasses.replace(spec, vehicle=dataclasses.replace(spec.vehicle, start_noise=2.0))
    cases = [
        (dataclasses.replace(problem, world_spec=windy), "wind"),
        (dataclasses.replace(problem, world_spec=noisy), "start"),
        (
            dataclasses.replace(
                problem, options=dataclasses.replace(problem.options, discount=0.99)
            ),
            "discount",
        ),
    ]
    for changed, word in cases:
        found = prove(changed)
        assert found.value is None
        assert not found.is_impossible
        assert word in (found.reason or "")


def test_without_rules_the_bound_is_full_speed_and_a_known_plan_ends_the_search() -> None:
    problem = load("agri-joint").with_rules([])
    found = prove(problem, levels=(24,))
    assert found.value == pytest.approx(-20.9, abs=0.05)
    assert found.value is not None
    seen = list[TrueBound]()
    assert prove(problem, enough=found.value + 0.1, levels=(24,), watch=seen.append).is_final
    assert len(seen) == 1
