"""What driving at full speed does to the paper's rules, and how random worlds are judged."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import scrl
from scrl.density import from_episodes
from scrl.errors import PolicyError, RuleError
from scrl.evaluation import Evaluation, RuleResult, chosen_episodes, evaluate_mixture, verdict
from scrl.evaluation.record import percentage
from scrl.policies import Schedule, fixed_policy
from scrl.problems import Problem, ProblemOptions
from scrl.rollout import run_episodes
from scrl.route import drive
from scrl.rules import Clause, RuleSet, Statement, clauses_size, holds
from scrl.statistics import share_interval
from scrl.worlds.sweep.regions import from_labels, from_masks
from scrl.worlds.sweep.spec import Service, SweepRoute, SweepSpec
from scrl.worlds.sweep.vehicle import Vehicle, Wind

from ..rules.strategies import REGIONS, plain, small_shares, statements


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
    assert document["rules"][0].keys() == {
        "name", "text", "satisfied", "margin", "asked", "share", "share_low", "share_high",
    }  # fmt: skip


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
    assert result.overlap == sum(result.density.values()) + result.outside - result.given_out
    assert "count for more than one region" in str(result)


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
    problem = Problem.create(spec)
    result = scrl.evaluate(problem, "constant:1.7", episodes=1)
    parts = [*result.density.values(), result.outside]
    # To the last digit, in any order; and what each step gave out comes to as much.
    assert result.given_out == sum(parts) == sum(reversed(parts)) == math.fsum(parts)
    assert result.overlap == 0.0
    driven = drive(problem, fixed_policy("constant:1.7", problem)).amount.sum()
    assert result.given_out == pytest.approx(float(driven), rel=1e-5)
    shown = [round(each, 2) for each in parts if each is not None]
    assert f"given out: {math.fsum(shown):,.2f} " in str(result)


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
    assert (result.steps, result.given_out) == (4, pytest.approx(4 * 2.25))
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


PROPORTIONAL = Vehicle(max_speed=1.0, flow=(1.0, 2.0), pump="proportional", dose=(0.5, 1.5))


def test_cells_beyond_the_limits_of_the_dose_are_counted_and_told() -> None:
    """Steps from rest are 0.4, 0.64, 0.784 cells long: 1 unit is more than 1.5 a cell in two."""
    world = SweepSpec(from_labels(np.ones((1, 9), int)), vehicle=PROPORTIONAL)
    problem = Problem.create(world)
    result = scrl.evaluate(problem, Schedule.of(np.ones((12, 2))))
    assert result.off_dose == pytest.approx(0.4 + 0.64)
    assert "; on 1.04 cells of the path the dose is beyond its limits" in str(result)
    assert Evaluation.from_json(result.to_json()) == result
    slow = scrl.evaluate(problem, "constant:0.5")
    assert slow.off_dose == pytest.approx(9.0)
    plans = [Schedule.of(np.ones((12, 2))), Schedule.of(np.full((60, 2), 0.5))]
    both = evaluate_mixture(problem, plans, np.array([0.25, 0.75]), episodes=1, name="both")
    assert both.off_dose == pytest.approx(0.25 * (0.4 + 0.64) + 0.75 * 9.0)


def test_doses_are_counted_where_the_pump_may_miss_them_alone() -> None:
    world = SweepSpec(from_labels(np.ones((1, 9), int)), vehicle=PROPORTIONAL)
    closes = dataclasses.replace(PROPORTIONAL, flow=(0.0, 2.0))
    calm = scrl.evaluate(Problem.create(dataclasses.replace(world, vehicle=closes)), "full-speed")
    assert calm.off_dose is None
    assert "off_dose" not in calm.to_json()
    # At 2 units a cell the pump gives its most at top speed, and gusts are faster.
    most = dataclasses.replace(closes, dose=(2.0, 3.0))
    windy = dataclasses.replace(world, vehicle=most, wind=Wind(strength=0.2))
    assert (scrl.evaluate(Problem.create(windy), "full-speed").off_dose or 0.0) > 0.0


def slow_violation(clauses: list[Clause], run: dict[str, Fraction]) -> Fraction:
    """The sum over the clauses of the smallest violation of an atom."""

    def over(clause: Clause) -> Fraction:
        sides = [sum(c * run[name] for name, c in atom.coefficients) for atom in clause.atoms]
        return min(max(Fraction(0), s - a.bound) for s, a in zip(sides, clause.atoms, strict=True))

    return sum(map(over, clauses), Fraction(0))


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(statements(plain), min_size=1, max_size=3),
    st.none() | small_shares.filter(lambda share: share < 1),
    st.sampled_from([1, 2, 4, 8]).flatmap(
        lambda runs: st.lists(st.tuples(*[st.integers(-32, 32)] * 3), min_size=runs, max_size=runs)
    ),
)
def test_runs_are_judged_as_a_slow_referee_judges_them(
    rules: list[Statement], confidence: Fraction | None, drawn: list[tuple[int, int, int]]
) -> None:
    given_rules = RuleSet.of(rules, REGIONS)
    if any(rule.statement != rule.formula and rule.share is None for rule in given_rules.rules):
        confidence = None  # `on average` is not asked of single runs
    rule_set = RuleSet.of(rules, REGIONS, confidence=confidence)
    assume(all(clauses_size(node).groups <= 200 for node in rule_set.positive))
    amounts = np.array(drawn) / 8.0  # exact, and so is their mean
    exact: list[dict[str, Fraction]] = [
        dict(zip(REGIONS, map(Fraction, run), strict=True)) for run in amounts
    ]
    found = verdict(rule_set, from_episodes(amounts), amounts, 0.0)
    assert found["is_satisfied"] == rule_set.holds_in_runs(exact)
    assert found["episodes_satisfied"] == sum(map(rule_set.holds, exact))
    for index, (rule, judged) in enumerate(zip(rule_set.rules, found["rules"], strict=True)):
        assert isinstance(judged, RuleResult)
        kept = sum(holds(rule.formula, run) for run in exact)
        assert judged.share == kept / len(exact)
        share = rule_set.shares[index]
        assert judged.asked == (None if share is None else float(share))
        asked = RuleSet.of([rule.formula if share is None else rule.formula.surely()], REGIONS)
        if share is None or share == 1:
            assert judged.is_satisfied == asked.holds_in_runs(exact)
        else:
            assert judged.is_satisfied == (Fraction(kept, len(exact)) >= share)
        assert judged.is_satisfied == (judged.margin >= 0.0)
    broken = [slow_violation([*rule_set.clauses], run) for run in exact if not rule_set.holds(run)]
    if broken:
        mean = sum(broken, Fraction(0)) / len(broken)
        assert found["broken_violation"] == pytest.approx(float(mean))
    else:
        assert found["broken_violation"] is None


def test_many_runs_are_judged_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = RuleSet.of(["A >= 4 in 90 %", "if A > 5 then B <= 3", "A + B <= 9 in 60 %"], ("A", "B"))
    amounts = np.random.default_rng(0).uniform(0.0, 9.0, (100, 2))
    whole = verdict(rules, from_episodes(amounts), amounts, 1e-6)
    monkeypatch.setattr("scrl.evaluation.judging.MOST_NUMBERS", 20)
    assert verdict(rules, from_episodes(amounts), amounts, 1e-6) == whole


def windy_strip(strip: SweepSpec, *rules: str, **options: Any) -> Problem:
    spec = dataclasses.replace(strip, wind=Wind(strength=0.3))
    return Problem.create(spec, list(rules), ProblemOptions(name="windy", **options))


def test_the_share_and_not_the_mean_decides_over_a_rule_in_a_share(strip: SweepSpec) -> None:
    amounts = scrl.evaluate(windy_strip(strip), "constant:1", episodes=400).density["S1"]
    texts = [f"S1 >= {amounts - 0.1:.2f}{how}" for how in ("", " in 95 %", " in 25 %")]
    found = scrl.evaluate(windy_strip(strip, *texts), "constant:1", episodes=400)
    average, often, seldom = found.rules
    assert [rule.is_satisfied for rule in found.rules] == [True, False, True]
    assert [rule.asked for rule in found.rules] == [None, 0.95, 0.25]
    assert average.share == often.share == seldom.share == found.episodes_satisfied / 400
    assert (average.share_low, average.share_high) == pytest.approx(
        tuple(map(float, share_interval(found.episodes_satisfied, 400)))
    )
    assert average.margin > 0.0 > often.margin
    assert seldom.margin > often.margin
    assert not found.is_satisfied
    # The 5 %-quantile of S1 is missing to its bound.
    assert found.cons_vio == pytest.approx(-often.margin)
    assert found.broken_violation is not None
    assert 0.0 < found.broken_violation / 3 < found.cons_vio, "the sum over three equal rules"
    assert found.summary.startswith(f"violated by {found.cons_vio:,.2f}; ")
    assert f"break them by {found.broken_violation:,.2f} on average" in found.summary
    assert RuleResult.from_json(often.to_json()) == often
    assert Evaluation.from_json(found.to_json()) == found


def test_all_rules_together_may_fail_where_each_alone_does_not(strip: SweepSpec) -> None:
    """The wind leaves a corridor on each side in 20 % of the runs, so on either one in 40 %."""
    found = scrl.evaluate(windy_strip(strip), "constant:1", episodes=400)
    problem = windy_strip(strip)
    ran = run_episodes(
        problem.world, fixed_policy("constant:1", problem),
        keys=jax.random.split(jax.random.key(0), 400),
    )  # fmt: skip
    single = 2.25 * np.asarray(ran.service, float)[:, 0]
    assert single.mean() == pytest.approx(found.density["S1"])
    low, high = np.quantile(single, [0.2, 0.8])
    texts = (f"S1 >= {low:.6f}", f"S1 <= {high:.6f}")
    each = scrl.evaluate(
        windy_strip(strip, *(f"{text} in 75 %" for text in texts)), "constant:1", episodes=400
    )
    assert each.is_satisfied
    both = scrl.evaluate(windy_strip(strip, *texts, confidence=0.75), "constant:1", episodes=400)
    assert both.episodes_satisfied == each.episodes_satisfied == pytest.approx(240, abs=4)
    assert [rule.is_satisfied for rule in both.rules] == [True, True]
    assert [rule.asked for rule in both.rules] == [0.75, 0.75]
    assert not both.is_satisfied
    assert "75 % asked" in both.summary
    assert both.to_json()["confidence"] == 0.75
    assert scrl.evaluate(
        windy_strip(strip, *texts, confidence=0.5), "constant:1", episodes=400
    ).is_satisfied


@pytest.mark.parametrize("how", ["in 95 %", "in 99.99999 %", "surely", "on average", "confidence"])
def test_where_nothing_is_random_a_share_means_the_average(strip: SweepSpec, how: str) -> None:
    for bound in (1.0, 1000.0):
        plain_one = scrl.evaluate(Problem.create(strip, f"S1 >= {bound}"), "full-speed")
        if how == "confidence":
            problem = Problem.create(
                strip, f"S1 >= {bound}", ProblemOptions(name="problem", confidence=0.95)
            )
        else:
            problem = Problem.create(strip, f"S1 >= {bound} {how}")
        found = scrl.evaluate(problem, "full-speed")
        assert found.episodes == 1
        assert found.cons_vio == plain_one.cons_vio
        assert found.is_satisfied == plain_one.is_satisfied == (bound == 1.0)
        (rule,), (other,) = found.rules, plain_one.rules
        assert (rule.margin, rule.share) == (other.margin, other.share) == (
            other.margin, float(found.is_satisfied)
        )  # fmt: skip
        assert rule.share_low is None
        assert found.summary == plain_one.summary


def test_a_share_gets_the_episodes_that_can_show_it_or_is_refused(strip: SweepSpec) -> None:
    assert scrl.evaluate(windy_strip(strip, "S1 >= 1 in 90 %"), "full-speed").episodes == 100
    # 0.025^(1/n) >= 0.99 from n = 368 on.
    assert scrl.evaluate(windy_strip(strip, "S1 >= 1 in 99 %"), "full-speed").episodes == 368
    few = windy_strip(strip, "S1 >= 1 in 99.99 %")
    with pytest.raises(PolicyError, match=r"episodes = 1,000 cannot show .* in 99.99 % .* 36,887"):
        scrl.evaluate(few, "full-speed", episodes=1_000)
    with pytest.raises(PolicyError, match="at least 72"):
        scrl.evaluate(windy_strip(strip, "S1 >= 1", confidence=0.95), "full-speed", episodes=71)
    with pytest.raises(RuleError, match=r"takes 368,887 runs, and at most 100,000 are made"):
        windy_strip(strip, "S1 >= 1 in 99.999 %")
    with pytest.raises(RuleError, match=r"rule 'rule-1' must hold in 99.9999 % of single runs"):
        windy_strip(strip, "S1 >= 1", confidence=0.999999)
    rules = few.rules
    assert chosen_episodes(rules, None, is_random=True, usual=1_000) == 36_887
    assert chosen_episodes(rules, None, is_random=False, usual=1_000) == 1
    assert chosen_episodes(rules, 5, is_random=False) == 5
    assert chosen_episodes(rules.on_average(), None, is_random=True, usual=1_000) == 1_000


def test_surely_is_for_chance_with_bounds(strip: SweepSpec) -> None:
    with pytest.raises(RuleError, match=r"gusts of wind have no largest strength; write 'in 99 %'"):
        windy_strip(strip, "S1 >= 1 surely")
    start = dataclasses.replace(strip, vehicle=Vehicle(start_noise=3.0))
    found = scrl.evaluate(Problem.create(start, "S1 >= 0.5 surely"), "constant:1")
    assert found.is_satisfied
    assert found.summary.startswith(
        "every rule holds as asked; 100 of 100 single episodes (100.0 %)"
    )
    assert (found.episodes, found.rules[0].share) == (100, 1.0)
    assert found.rules[0].share_low == pytest.approx(0.025 ** (1 / 100))
    amounts = scrl.evaluate(Problem.create(start), "constant:1").density["S1"]
    mean = scrl.evaluate(Problem.create(start, f"S1 >= {amounts:.2f} surely"), "constant:1")
    assert not mean.is_satisfied
    assert mean.rules[0].asked_text == "surely"


def test_a_mixture_cannot_be_judged_by_single_runs() -> None:
    problem = overlapping().with_rules("one >= 1 in 95 %")
    plans = [Schedule.of(np.full(2, throttle)) for throttle in (0.2, 0.9)]
    with pytest.raises(PolicyError, match="only a single plan can be judged"):
        evaluate_mixture(problem, plans, np.array([0.25, 0.75]), episodes=1, name="both")
    assert evaluate_mixture(problem, plans[:1], np.ones(1), episodes=1, name="one").is_satisfied


def test_the_shares_of_a_mixture_are_those_of_its_plans_by_their_weights() -> None:
    problem = overlapping(strength=0.3).with_rules({"one": "one >= 15", "other": "other >= 3"})
    plans = [Schedule.of(np.full(2, throttle)) for throttle in (0.2, 0.9)]
    slow, fast = (scrl.evaluate(problem, plan, episodes=20, seed=3) for plan in plans)
    found = evaluate_mixture(
        problem, plans, np.array([0.25, 0.75]), episodes=20, seed=3, name="both"
    )
    for mixed, one, other in zip(found.rules, slow.rules, fast.rules, strict=True):
        assert one.share is not None
        assert other.share is not None
        assert mixed.share == pytest.approx(0.25 * one.share + 0.75 * other.share)


def test_results_of_earlier_versions_are_read(strip: SweepSpec) -> None:
    found = scrl.evaluate(windy_strip(strip, "S1 >= 1"), "full-speed")
    document = found.to_json()
    for name in ("confidence", "share", "share_low", "share_high", "broken_violation"):
        del document[name]
    for name in ("asked", "share", "share_low", "share_high"):
        del document["rules"][0][name]
    old = Evaluation.from_json(document)
    assert old.rules[0].share_text == ""
    assert old.is_on_average
    assert old.share == found.share
    assert "on average" in old.summary


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (1.0, "100.0"), (0.0, "0.0"), (0.409, "40.9"), (0.9994, "99.9"),
        (0.99996, "99.996"), (36886 / 36887, "99.997"), (0.0004, "0.04"),
    ],
)  # fmt: skip
def test_a_share_near_all_runs_is_not_shown_as_all_of_them(share: float, text: str) -> None:
    assert percentage(share) == text
