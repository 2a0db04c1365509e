"""What driving at full speed does to the paper's rules, and how random worlds are judged."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import scrl
from scrl.errors import PolicyError
from scrl.evaluation import Evaluation, evaluate_mixture
from scrl.policies import Schedule
from scrl.problems import Problem, ProblemOptions
from scrl.worlds.sweep.regions import from_labels, from_masks
from scrl.worlds.sweep.spec import Service, SweepRoute, SweepSpec
from scrl.worlds.sweep.vehicle import Vehicle, Wind


@pytest.mark.parametrize(
    ("name", "violation"),
    [
        ("agri-situational", 51.0),
        ("agri-joint", 192.0),
        ("med-situational", 48.0),
        ("med-joint", 535.0),
    ],
)
def test_full_speed_violates_as_the_papers_ddpg_does(name: str, violation: float) -> None:
    result = scrl.evaluate(scrl.load(name), "full-speed")
    assert result.cons_vio == pytest.approx(violation, abs=8.0)
    assert result.return_ == pytest.approx(-20.92, abs=0.1)
    assert result.steps == 835
    assert not result.is_satisfied


def test_slow_enough_keeps_the_adequacy_rule() -> None:
    problem = scrl.load("agri-joint").with_rules({"adequacy": "S1 >= 300 and S4 >= 300"})
    result = scrl.evaluate(problem, "constant:2")
    assert result.is_satisfied
    assert result.rules[0].margin > 0
    assert "every rule holds" in str(result)


def test_single_episodes_may_fail_where_the_mean_holds(strip: SweepSpec) -> None:
    windy = dataclasses.replace(strip, wind=Wind(strength=0.5), vehicle=Vehicle(start_noise=1.0))
    mean = scrl.evaluate(Problem.create(windy), "constant:1", episodes=400).density["S1"]
    problem = Problem.create(windy, f"S1 >= {mean - 0.1:.3f}")
    result = scrl.evaluate(problem, "constant:1", episodes=400)
    assert result.is_satisfied
    assert 50 < result.episodes_satisfied < 350
    assert result.density_se["S1"] > 0


def test_a_random_world_gets_many_episodes_and_a_fixed_one_a_single(strip: SweepSpec) -> None:
    assert scrl.evaluate(Problem.create(strip), "full-speed").episodes == 1
    windy = dataclasses.replace(strip, wind=Wind(strength=0.5))
    assert scrl.evaluate(Problem.create(windy), "full-speed").episodes == 100


@pytest.mark.parametrize(
    ("service", "received"),
    [
        # Full speed: p = 1.2, 3.12, 5.472, ...; S1 ends at 4.
        ("landing", 2.25 * (1 + 0.5)),
        ("poured", 2.25 * (1 + 0.5 + 0.25 * 0.88 / 2.352)),
    ],
)
def test_the_discount_reaches_return_and_density(
    strip: SweepSpec, service: Service, received: float
) -> None:
    options = ProblemOptions(name="discounted", discount=0.5)
    spec = dataclasses.replace(strip, route=SweepRoute(service=service))
    result = scrl.evaluate(Problem.create(spec, (), options), "full-speed")
    assert result.density["S1"] == pytest.approx(received)
    speeds = 3.0 * (1.0 - 0.6 ** np.arange(1, 7))
    expected = sum(-0.1 / (1 + v) * 0.5**t for t, v in enumerate(speeds))
    assert result.return_ == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ("full-sped", "did you mean 'full-speed'?"),
        ("constant:fast", "'fast' is not a number"),
        ("constant:9", "must lie between 0.03 and 3"),
        ("constant:nan", "must lie between"),
    ],
)
def test_policies_that_do_not_exist(policy: str, message: str) -> None:
    with pytest.raises(PolicyError) as caught:
        scrl.evaluate(scrl.load("agri-joint"), policy)
    assert message in str(caught.value)


def test_the_json_fields_of_the_contract() -> None:
    document = scrl.evaluate(scrl.load("agri-joint"), "full-speed").to_json()
    assert {
        "return", "density", "density_se", "cons_vio", "satisfied", "rules", "episodes",
        "episodes_satisfied", "steps",
    } <= document.keys()  # fmt: skip
    assert {"name", "text", "satisfied", "margin"} == document["rules"][0].keys()


def test_a_drive_that_the_horizon_cuts_off_is_said() -> None:
    result = scrl.evaluate(scrl.load("agri-joint"), "constant:0.1")
    assert result.episodes_truncated == 1
    assert "cut off by horizon_steps" in str(result)
    assert scrl.evaluate(scrl.load("agri-joint"), "full-speed").warnings() == []


def test_a_plain_function_is_a_policy(strip: SweepSpec) -> None:
    result = scrl.evaluate(
        Problem.create(strip), lambda observation, *, key: jnp.ones(()), episodes=1
    )
    assert result.return_ == scrl.evaluate(Problem.create(strip), "full-speed").return_


def test_a_rule_that_holds_on_its_bound_has_no_minus(strip: SweepSpec) -> None:
    problem = Problem.create(strip)
    received = scrl.evaluate(problem, "full-speed").density["S1"]
    on_bound = scrl.evaluate(problem.with_rules(scrl.d["S1"] >= received), "full-speed")
    (rule,) = on_bound.rules
    assert math.copysign(1.0, rule.margin) == 1.0
    assert "(margin +0.0)" in str(on_bound)


def test_what_notebooks_and_shells_show_is_short_and_safe(strip: SweepSpec) -> None:
    problem = Problem.create(strip, {"<least>": "S1 >= 1"})
    assert repr(problem) == "<Problem problem: 2 regions on 1 x 12 cells, 1 rule>"
    assert "&lt;least&gt;" in problem._repr_html_()
    result = scrl.evaluate(problem, "full-speed")
    assert repr(result) == f"<Evaluation {result.headline}>"
    assert len(repr(result)) < 100
    assert "<td>&lt;least&gt;</td><td>holds</td>" in result._repr_html_()


@pytest.mark.parametrize("episodes", [0, -1, 1.5])
def test_episodes_that_make_no_sense(episodes: Any) -> None:
    with pytest.raises(PolicyError, match="must be a whole number of at least 1"):
        scrl.evaluate(scrl.load("agri-joint"), "full-speed", episodes=episodes)


def overlapping(
    *,
    start_noise: float = 0.0,
    strength: float = 0.0,
    swath: int = 1,
    discount: float = 1.0,
    service: Service = "poured",
) -> Problem:
    """Two regions that overlap, their union as a third one, and cells that no region has."""
    first, second = np.zeros((2, 5, 6), bool)
    first[1:4, :3], second[2:, 2:5] = True, True
    regions = from_masks(np.stack([first, second, first | second]), ["one", "other", "either"])
    spec = SweepSpec(
        regions,
        vehicle=Vehicle(start_noise=start_noise),
        wind=Wind(strength=strength),
        route=SweepRoute(swath=swath, service=service),
    )
    return Problem.create(spec, (), ProblemOptions(name="overlapping", discount=discount))


@pytest.mark.parametrize("service", ["poured", "landing"])
@pytest.mark.parametrize(
    "options",
    [{}, {"swath": 2}, {"discount": 0.9}, {"strength": 0.3, "start_noise": 1.0, "discount": 0.9}],
    ids=str,
)
def test_what_is_given_out_goes_to_the_union_of_the_regions_or_outside(
    options: dict[str, Any], service: Service
) -> None:
    result = scrl.evaluate(overlapping(**options, service=service), "constant:1.3")
    assert result.outside is not None
    assert result.given_out is not None
    assert result.given_out == pytest.approx(result.density["either"] + result.outside, rel=1e-6)
    assert 0.0 < result.outside < result.given_out


@pytest.mark.parametrize("service", ["poured", "landing"])
@pytest.mark.parametrize("swath", [1, 2, 3])
@pytest.mark.parametrize("strength", [0.0, 0.4])
def test_regions_that_do_not_overlap_and_the_outside_receive_all_that_is_given_out(
    service: Service, swath: int, strength: float
) -> None:
    labels = np.random.default_rng(0).integers(0, 4, (13, 17))
    spec = SweepSpec(
        from_labels(labels),
        Vehicle(start_noise=3.0 if strength else 0.0),
        Wind(strength=strength),
        route=SweepRoute(swath=swath, service=service),
    )
    result = scrl.evaluate(Problem.create(spec), "constant:1.7", episodes=3)
    assert result.outside is not None
    received = sum(result.density.values()) + result.outside
    assert received == pytest.approx(result.given_out, rel=1e-5)


@pytest.mark.parametrize(
    ("service", "given_out", "outside"),
    [
        # Full speed over twelve cells: p = 1.2, 3.12, 5.472, 8.0832, 10.84992, 13.709952. Landing
        # in cells 1, 3, 5, 8, 10, then the end: five steps, one of them outside.
        ("landing", 5.0, 1.0),
        # Cells 4 to 8 are outside: 1.472 of the third step, 2.528 of the fourth; of the last step
        # 1.15008 lie before the end.
        ("poured", 5.0 + 1.15008 / 2.860032, 1.472 / 2.352 + 2.528 / 2.6112),
    ],
)
def test_the_step_that_ends_the_path_gives_only_what_lies_before_the_end(
    strip: SweepSpec, service: Service, given_out: float, outside: float
) -> None:
    spec = dataclasses.replace(strip, route=SweepRoute(service=service))
    result = scrl.evaluate(Problem.create(spec), "full-speed")
    assert result.steps == 6
    expected = 2.25 * np.array([given_out, outside])
    assert (result.given_out, result.outside) == pytest.approx(tuple(expected))
    cut = dataclasses.replace(spec, route=SweepRoute(horizon_steps=4, service=service))
    result = scrl.evaluate(Problem.create(cut), "full-speed")
    assert (result.steps, result.given_out) == (4, 4 * 2.25)
    assert result.outside == pytest.approx(2.25 * outside)


def test_a_mixture_gives_out_what_its_plans_do_by_their_weights() -> None:
    problem = overlapping(strength=0.3)
    plans = [Schedule.of(np.full(2, throttle)) for throttle in (0.2, 0.9)]
    alone = [scrl.evaluate(problem, plan, episodes=20, seed=3) for plan in plans]
    found = evaluate_mixture(
        problem, plans, np.array([0.25, 0.75]), episodes=20, seed=3, name="both"
    )
    for name in ("given_out", "outside"):
        slow, fast = (getattr(each, name) for each in alone)
        assert getattr(found, name) == pytest.approx(0.25 * slow + 0.75 * fast)


def test_what_was_given_out_is_in_the_json_and_may_be_missing_there() -> None:
    result = scrl.evaluate(overlapping(), "full-speed")
    document = result.to_json()
    assert (document["given_out"], document["outside"]) == (result.given_out, result.outside)
    assert Evaluation.from_json(document) == result
    old = {key: value for key, value in document.items() if key not in ("given_out", "outside")}
    assert Evaluation.from_json(old) == dataclasses.replace(result, given_out=None, outside=None)
