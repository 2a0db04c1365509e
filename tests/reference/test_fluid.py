"""The fluid sweep by hand, and its optimum against certificates and brute force."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

import scrl
from scrl.errors import ScrlError
from scrl.problems import Problem, builtin_names
from scrl.reference import Status
from scrl.reference.answer import Question
from scrl.reference.fluid import FluidSweep
from scrl.reference.fluid_search import FluidOptimum, best_fluid
from scrl.reference.solve import fluid_reference, solve_question
from scrl.reference.tangents import best_fluid_by_tangents
from scrl.rules import Atom
from scrl.worlds.sweep.regions import from_labels, from_masks
from scrl.worlds.sweep.spec import SweepRoute, SweepSpec
from scrl.worlds.sweep.vehicle import Vehicle


def test_full_speed_costs_what_the_formula_says(strip: SweepSpec) -> None:
    fluid = FluidSweep.of(strip)
    # 12 cells at v = 3: tau = 1/3, cost 0.1 / (3 (1 + 3)) = 1/120 each: 0.1 in all.
    assert fluid.return_of(np.full(fluid.groups, 1 / 3)) == pytest.approx(-0.1)
    # Each region has four cells; a third of a step each at 2.25: 3 units.
    assert fluid.amount @ np.full(fluid.groups, 1 / 3) == pytest.approx([3.0, 3.0])


def test_cells_that_no_rule_tells_apart_are_one_group(strip: SweepSpec) -> None:
    assert FluidSweep.of(strip).groups == 3
    assert FluidSweep.of(strip, np.array([True, False])).groups == 2
    # All but the start, which takes longer from rest.
    assert FluidSweep.of(strip, np.array([False, False])).groups == 2


def test_overlaps_form_groups_of_their_own() -> None:
    masks = np.zeros((2, 1, 5), bool)
    masks[0, 0, :3] = masks[1, 0, 2:4] = True
    fluid = FluidSweep.of(SweepSpec(from_masks(masks)))
    assert sorted(fluid.weight) == [1, 1, 1, 2]
    assert fluid.amount.sum(axis=1) == pytest.approx([3 * 2.25, 2 * 2.25])


def test_the_slope_is_the_derivative_of_the_cost(strip: SweepSpec) -> None:
    fluid, time, small = FluidSweep.of(strip), np.linspace(0.3, 30, 50), 1e-6
    numeric = (fluid.cost(time + small) - fluid.cost(time - small)) / (2 * small)
    assert fluid.slope(time) == pytest.approx(numeric, rel=1e-6)


def test_a_noisy_start_skips_part_of_the_first_cells(strip: SweepSpec) -> None:
    noisy = dataclasses.replace(strip, vehicle=Vehicle(start_noise=4.0))
    # Starts are even on [0, 4): half of these four cells lie ahead, on average.
    assert FluidSweep.of(noisy).weight.sum() == pytest.approx(10.0)


def test_ranges_by_hand(strip: SweepSpec) -> None:
    fluid = FluidSweep.of(strip)
    low, high = fluid.ranges(np.array([[1.0, 0.0], [1.0, -1.0]])).T
    # S2 least: 3. S1 least: it is the start, which takes until 2 + 0.88 / 2.352 steps at full
    # throttle, with p = 1.2, 3.12, 5.472. Most: four cells at 1/0.03 steps: 4 * 33.33 * 2.25 = 300
    # (the horizon is far), and at the start 0.6 / 0.4 = 1.5 steps more, as the vehicle may be
    # slower than its crawl; after 4 / 0.03 steps that is over.
    first = 2.25 * (2.0 + 0.88 / 2.352)
    assert low == pytest.approx([first, first - 300.0])
    assert high == pytest.approx([300.0 + 1.5 * 2.25, 300.0 + 1.5 * 2.25 - 3.0])


def test_without_inertia_nothing_is_slower_than_the_crawl(strip: SweepSpec) -> None:
    fluid = FluidSweep.of(dataclasses.replace(strip, vehicle=Vehicle(inertia=0.0, crawl=0.1)))
    assert fluid.slowest == pytest.approx(np.full(3, 1.0 / 0.3))


def test_ranges_know_the_horizon(strip: SweepSpec) -> None:
    short = dataclasses.replace(strip, route=SweepRoute(horizon_steps=10))
    # Eight cells at full speed take 8/3 steps; 10 - 8/3 are left for S1: 16.5 units.
    assert FluidSweep.of(short).ranges(np.array([[1.0, 0.0]]))[0, 1] == pytest.approx(16.5)


def test_a_horizon_shorter_than_full_speed_is_refused(strip: SweepSpec) -> None:
    with pytest.raises(ScrlError, match="too short to finish the path"):
        FluidSweep.of(dataclasses.replace(strip, route=SweepRoute(horizon_steps=3)))


def test_one_rule_by_hand(strip: SweepSpec) -> None:
    found = fluid_reference(Problem.create(strip, "S1 >= 9"))
    # tau = 1 on four cells: cost 4 * 0.1 / 2 = 0.2; the other eight: 8/120.
    assert found.fluid == pytest.approx(-0.2 - 8 / 120, abs=1e-6)
    # One unit less of S1: d cost / d tau per unit = 0.1 * 3/4 / 2.25.
    assert found.duals[0].dual == pytest.approx(0.1 * 0.75 / 2.25, rel=1e-3)


PUBLISHED = {
    "agri-situational": (-29.9, ["S3 >= 800"]),
    "agri-priority": (-22.0, ["S1 >= 300", "S3 >= 300", "S4 >= 300"]),
    "agri-joint": (-26.2, None),
    "agri-multi": (-22.7, ["S1 >= 329"]),
    "med-situational": (-29.9, ["S3 + S4 + S5 >= 1200"]),
    "med-priority": (-21.8, ["S1 + S2 - S3 - S4 - S5 <= 6", "S3 + S4 + S5 - S1 - S2 <= 6"]),
    "med-joint": (-34.7, None),
}


@pytest.mark.parametrize("name", builtin_names())
def test_the_seven_builtin_problems(name: str) -> None:
    found = fluid_reference(scrl.load(name))
    best, disjuncts = PUBLISHED[name]
    assert found.fluid_status is Status.OPTIMAL
    assert found.fluid == pytest.approx(best, rel=5e-3)
    assert found.fluid is not None
    assert 0 <= found.fluid_bound - found.fluid < 1e-4
    assert found.certificate is not None
    assert found.certificate.worst < 1e-6
    if disjuncts:
        assert {each.taken for each in found.branch} == set(disjuncts)
    problem = scrl.load(name)
    density = {region: round(amount, 4) for region, amount in found.fluid_density.items()}
    assert _nearly_holds(problem, density)


def _nearly_holds(problem: Problem, density: dict[str, float]) -> bool:
    from scrl.violation import cons_vio

    return cons_vio(problem.atoms, np.array(list(density.values()))) < 1e-3


@st.composite
def small_problems(draw: st.DrawFn) -> Problem:
    """A strip of up to twelve cells, one to three regions, one or two simple rules."""
    labels = draw(st.lists(st.integers(0, 3), min_size=3, max_size=12).filter(any))
    spec = SweepSpec(from_labels(np.array([labels])))
    names = spec.regions.names
    bound = st.integers(1, 30)
    atoms = st.builds(
        lambda name, sign, b: f"{name} {sign} {b}",
        st.sampled_from(names),
        st.sampled_from(["<=", ">="]),
        bound,
    )
    rules = draw(st.lists(st.lists(atoms, min_size=1, max_size=3), min_size=1, max_size=2))
    return Problem.create(spec, [" or ".join(parts) for parts in rules])


@given(small_problems())
@settings(max_examples=40)
def test_the_optimum_equals_a_smooth_solver_over_every_branch(problem: Problem) -> None:
    """SLSQP on the true curve, one branch at a time, is the obvious twin."""
    found = fluid_reference(problem)
    fluid = Question.of(problem).fluid
    best = -np.inf
    for branch in problem.rules.branches:
        best = max(best, _by_slsqp(problem, fluid, branch))
    if found.fluid_status is Status.INFEASIBLE:
        assert best == -np.inf
    else:
        assert found.fluid == pytest.approx(best, rel=1e-4, abs=1e-5)


def _by_slsqp(problem: Problem, fluid: FluidSweep, branch: Sequence[Atom]) -> float:
    index = {name: place for place, name in enumerate(problem.rules.regions)}
    rows = np.zeros((len(branch), len(index)))
    for row, atom in enumerate(branch):
        for name, coefficient in atom.coefficients:
            rows[row, index[name]] = float(coefficient)
    bounds = np.array([float(atom.bound) for atom in branch])
    start = np.full(fluid.groups, 1.0)
    done = minimize(
        lambda time: -fluid.return_of(time),
        start,
        jac=lambda time: fluid.weight * fluid.slope(time),
        bounds=list(zip(fluid.fastest, fluid.slowest, strict=True)),
        constraints={
            "type": "ineq",
            "fun": lambda time: bounds - rows @ fluid.amount @ time,
            "jac": lambda _: -rows @ fluid.amount,
        },
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-12},
    )
    is_kept = np.all(rows @ fluid.amount @ done.x <= bounds + 1e-6)
    return -float(done.fun) if is_kept else -np.inf


def by_both_methods(problem: Problem) -> tuple[FluidOptimum, FluidOptimum]:
    """By the search over duals, and by a mixed-integer program that is independent of it."""
    question = Question.of(problem)
    return (
        best_fluid(question.fluid, question.atoms),
        best_fluid_by_tangents(question.fluid, question.atoms),
    )


@given(small_problems())
@settings(max_examples=40)
def test_the_search_equals_the_mixed_integer_program(problem: Problem) -> None:
    quick, slow = by_both_methods(problem)
    assert quick.status is slow.status
    assert (quick.best is None) is (slow.best is None)
    if quick.best is not None and slow.best is not None:
        assert quick.best.return_ == pytest.approx(slow.best.return_, rel=2e-6, abs=1e-6)
        # The mixed-integer program stops within 1e-6 (1 + |return|) of its bound.
        assert quick.bound == pytest.approx(slow.bound, rel=2e-6, abs=2e-6)


@pytest.mark.parametrize("seed", range(4))
def test_many_clauses_are_proven_as_the_mixed_integer_program_proves_them(seed: int) -> None:
    """Twelve if-then rules over overlapping regions: small enough for both."""
    problem = many_rules(seed, rules=12)
    quick, slow = by_both_methods(problem)
    assert quick.status is slow.status is Status.OPTIMAL
    assert quick.best is not None
    assert slow.best is not None
    assert quick.best.return_ == pytest.approx(slow.best.return_, rel=1e-5)
    assert quick.best.certificate is not None
    assert quick.best.certificate.worst < 1e-6


def test_out_of_time_says_so_and_keeps_a_proven_bound() -> None:
    problem = many_rules(1, rules=60)
    found = fluid_reference(problem, time_limit_s=0.05)
    whole = fluid_reference(problem)
    assert found.fluid_status is Status.TIME_LIMIT
    assert whole.fluid is not None
    assert found.fluid_bound >= whole.fluid - 1e-6
    if found.fluid is not None:
        assert found.fluid <= whole.fluid + 1e-6


def many_rules(seed: int, rules: int) -> Problem:
    """Rules `if A > x then B >= y or C >= z` over eight overlapping squares."""
    rng = np.random.default_rng(seed)
    masks = np.zeros((8, 20, 20), bool)
    for mask in masks:
        row, column = rng.integers(0, 14, 2)
        mask[row : row + 6, column : column + 6] = True
    spec = SweepSpec(from_masks(masks))
    names, sizes = spec.regions.names, spec.regions.sizes * 0.75
    texts = []
    for _ in range(rules):
        a, b, c = rng.choice(8, 3, replace=False)
        texts.append(
            f"if {names[a]} > {sizes[a] * rng.uniform(0.9, 2.0):.1f} then "
            f"{names[b]} >= {sizes[b] * rng.uniform(1.0, 2.0):.1f} or "
            f"{names[c]} >= {sizes[c] * rng.uniform(1.0, 2.0):.1f}"
        )
    return Problem.create(spec, texts)


@given(small_problems(), st.floats(0, 5))
@settings(max_examples=40)
def test_a_looser_bound_never_lowers_the_optimum(problem: Problem, looser: float) -> None:
    question = Question.of(problem)
    tight = best_fluid(question.fluid, question.atoms)
    atoms = dataclasses.replace(question.atoms, bounds=question.atoms.bounds + looser)
    loose = best_fluid(question.fluid, atoms)
    if tight.best is not None:
        assert loose.best is not None
        assert loose.best.return_ >= tight.best.return_ - 1e-5


@given(small_problems(), st.sampled_from(["S1 >= 5", "S2 <= 4 or S1 >= 9"]))
@settings(max_examples=40)
def test_another_rule_never_raises_the_optimum(problem: Problem, extra: str) -> None:
    names = problem.world_spec.regions.names
    if not {"S1", "S2"} <= set(names):
        return
    texts = [rule.text for rule in problem.rules.rules]
    before = fluid_reference(problem)
    after = fluid_reference(problem.with_rules([*texts, extra]))
    if after.fluid is not None:
        assert before.fluid is not None
        assert after.fluid <= before.fluid + 1e-5


FLOWS = [
    Vehicle(flow=(0.0, 2.25)),
    Vehicle(flow=(0.5, 2.25), product_cost=0.01),
    Vehicle(flow=(0.0, 3.0), pump="proportional", dose=(0.2, 1.0), product_cost=0.002),
    Vehicle(flow=(0.3, 2.25), dose=(0.2, 1.0)),
]


def at_one_point() -> Problem:
    """S3 is one cell of ten, and with the last of `FLOWS` it gets 11 at most."""
    spec = SweepSpec(from_labels(np.array([[1, 0, 0, 3, 0, 0, 0, 0, 2, 0]])))
    return Problem.create(spec, ["S1 >= 16 or S3 >= 11", "S1 >= 16 or S3 <= 11"])


@given(small_problems(), st.sampled_from(FLOWS))
@settings(max_examples=60)
@example(at_one_point(), FLOWS[-1])
def test_with_a_flow_the_search_equals_the_mixed_integer_program(
    problem: Problem, vehicle: Vehicle
) -> None:
    """Rules that a single point keeps leave the dual undecided; then the program is asked."""
    spec = dataclasses.replace(problem.world_spec, vehicle=vehicle)
    question = Question.of(dataclasses.replace(problem, world_spec=spec))
    _, found = solve_question(question, is_explained=False)
    twin = best_fluid_by_tangents(question.fluid, question.atoms)
    assert found.status is twin.status
    if found.best is not None and twin.best is not None:
        assert found.best.return_ == pytest.approx(twin.best.return_, rel=2e-6, abs=1e-6)
        assert found.bound >= twin.best.return_ - 1e-6


def test_with_a_flow_nothing_need_be_given_and_speed_costs_nothing_more(strip: SweepSpec) -> None:
    """A pump that closes keeps S1 <= 0 at full speed: the return is that without rules."""
    spec = dataclasses.replace(strip, vehicle=Vehicle(flow=(0.0, 2.25)))
    bare, closed = (fluid_reference(Problem.create(spec, rules)) for rules in ((), "S1 <= 0"))
    assert closed.fluid == pytest.approx(bare.fluid, rel=1e-5)
    assert closed.fluid_density["S1"] == pytest.approx(0.0, abs=1e-6)
    low, high = FluidSweep.of(spec).ranges(np.array([[1.0, 0.0]]))[0]
    # Four cells at the crawl of 0.03 cells a step, and the start from rest.
    assert low == 0.0
    assert high == FluidSweep.of(strip).ranges(np.array([[1.0, 0.0]]))[0, 1]


@pytest.mark.parametrize("rules", [["S1 >= 1000"], ["S1 >= 1000", "S1 <= 1000 or S2 >= 700"]])
def test_rules_are_met_to_many_digits_where_product_costs_much_more_than_time(
    rules: list[str],
) -> None:
    """A litre at 1.5 EUR costs as much as a hundred steps at top speed for 40 EUR an hour."""
    labels = np.repeat([[1] * 30 + [0] * 20 + [2] * 25], 60, axis=0)
    vehicle = Vehicle(max_speed=1.0, flow=(0.0, 0.96), product_cost=4.7)
    problem = Problem.create(SweepSpec(from_labels(labels), vehicle=vehicle), rules)
    found = fluid_reference(problem)
    assert found.fluid_density["S1"] == pytest.approx(1000.0, rel=1e-9)
    assert found.fluid == pytest.approx(-4.7 * 1000.0 - 0.05 * labels.size, rel=1e-4)
