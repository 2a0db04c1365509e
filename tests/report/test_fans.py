"""Amounts along the path: which rules are at risk and where, fans, histograms, and the page."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from scrl.evaluation import REPORT_EPISODES, evaluate
from scrl.policies import Constant
from scrl.problems import Problem, ProblemOptions
from scrl.report import along as along_path
from scrl.report.along import AmountsAlong, Arising, amounts_along
from scrl.report.page import fans
from scrl.report.page.charts import BOTTOM, HEIGHT, TOP
from scrl.report.page.fans import Fan, QuantityBound, bounded, fans_of, quantities, risk_sentence
from scrl.report.reading import read_runs
from scrl.worlds.sweep.regions import from_labels
from scrl.worlds.sweep.spec import SweepSpec
from scrl.worlds.sweep.vehicle import Vehicle, Wind

from .made import make_run, small_problem
from .pages import page_of

SLOW = Constant(jnp.full((), 0.5))


def in_wind(problem: Problem, strength: float = 0.3) -> Problem:
    return replace(problem, world_spec=replace(problem.world_spec, wind=Wind(strength=strength)))


def by_hand(problem: Problem, amounts: list[list[tuple[float, float]]]) -> AmountsAlong:
    """Amounts of S1 and S2 in each episode, at places at even distances."""
    places = len(amounts[0])
    return AmountsAlong(problem.atoms, 1e-6, np.linspace(0.0, 1.0, places), np.array(amounts))


def sentences(problem: Problem, found: AmountsAlong) -> list[str]:
    results = evaluate(problem, "full-speed", episodes=100).rules
    return [risk_sentence(each, found.table, results[each.rule], "units") for each in found.risks]


KEPT = [(0.0, 0.0), (5.0, 0.0), (10.0, 0.0), (20.0, 0.0), (20.0, 10.0)]
BEHIND = [(0.0, 0.0), (5.0, 0.0), (9.0, 0.0), (10.0, 0.0), (10.0, 10.0)]


def test_where_episodes_fall_behind_is_where_their_difference_arises() -> None:
    """One of four falls behind by 0, 1, 10, 10 of 10: the first tenth until half of the path, the
    last tenth before three quarters of it."""
    problem = in_wind(small_problem({"north": "S1 >= 18", "south": "S2 >= 5"}))
    found = by_hand(problem, [KEPT, BEHIND, KEPT, KEPT])
    [risk] = found.risks
    assert (risk.rule, risk.share) == (0, 0.25)
    assert risk.arising == Arising(0.5, 0.75, 10.0)
    assert found.margins.tolist() == [-8.0, 5.0]
    assert sentences(problem, found) == [
        "north: 25.0 % of the episodes break it (it must hold on average); they fail S1 >= 18. "
        "They fall behind the others between 50 % and 75 % of the path; at its end the means "
        "differ by 10."
    ]


def test_a_difference_that_is_made_up_for_does_not_count() -> None:
    """One is far behind at half of the path and catches up; the difference arises after that."""
    problem = in_wind(small_problem({"north": "S1 >= 18"}))
    late = [(0.0, 0.0), (0.0, 0.0), (10.0, 0.0), (20.0, 0.0), (20.0, 0.0)]
    early = [(0.0, 0.0), (9.0, 0.0), (10.0, 0.0), (10.0, 0.0), (17.0, 0.0)]
    [risk] = by_hand(problem, [late, early]).risks
    assert risk.arising == Arising(0.5, 0.75, 3.0)


def test_too_much_is_ahead_and_a_difference_departs() -> None:
    problem = in_wind(small_problem({"most": "S1 <= 15 in 60 %", "apart": "S1 - S2 <= 5"}))
    found = by_hand(problem, [KEPT, BEHIND, BEHIND])
    assert sentences(problem, found) == [
        "most: 33.3 % of the episodes break it (asked: in 60 %); they fail S1 <= 15. They get "
        "ahead of the others between 50 % and 75 % of the path; at its end the means differ by 10.",
        "apart: 33.3 % of the episodes break it (it must hold on average); they fail S1 - S2 <= 5. "
        "They depart from the others between 50 % and 75 % of the path; at its end the means "
        "differ by 10.",
    ]


def test_episodes_that_miss_a_band_on_the_other_side_are_told_apart() -> None:
    """Of two that break the band one gives 10 too much and one 3 too little."""
    problem = in_wind(small_problem({"band": "S1 == 20 within 2"}))
    above, kept, below = ([(0.0, 0.0), (last, 0.0)] for last in (32.0, 20.0, 15.0))
    found = by_hand(problem, [above, kept, kept, below])
    assert sentences(problem, found) == [
        "band: 50.0 % of the episodes break it (it must hold on average); 50.0 % of these fail "
        "S1 <= 22. They get ahead of the others between 0 % and 100 % of the path; at its end the "
        "means differ by 12."
    ]


def test_the_disjunct_that_was_nearest_is_the_one_that_failed() -> None:
    problem = in_wind(small_problem({"either": "S2 >= 100 or S1 >= 18"}))
    [risk] = by_hand(problem, [KEPT, BEHIND]).risks
    assert problem.atoms.atoms[risk.atom].show() == "S1 >= 18"


def test_where_all_episodes_break_a_rule_there_are_no_others() -> None:
    problem = in_wind(small_problem({"north": "S1 >= 18"}))
    found = by_hand(problem, [BEHIND, BEHIND])
    assert found.risks[0].arising is None
    assert sentences(problem, found) == [
        "north: 100.0 % of the episodes break it (it must hold on average); they fail S1 >= 18."
    ]


def test_the_rule_that_is_broken_most_often_comes_first() -> None:
    problem = in_wind(small_problem({"south": "S1 <= 15", "north": "S1 >= 18"}))
    found = by_hand(problem, [BEHIND, BEHIND, KEPT])
    assert [(each.rule, round(each.share, 3)) for each in found.risks] == [(1, 0.667), (0, 0.333)]


@pytest.mark.parametrize("discount", [1.0, 0.99])
def test_the_episodes_are_those_that_judge_the_policy(discount: float) -> None:
    problem = in_wind(small_problem({"north": "S1 >= 22", "south": "S2 <= 21"}, discount=discount))
    found = amounts_along(problem, [(1.0, SLOW)], seed=7)
    judged = evaluate(problem, SLOW, episodes=REPORT_EPISODES, seed=7)
    assert found.amounts.shape == (1_000, 33, 2)
    assert found.progress[[0, -1]].tolist() == [0.0, 1.0]
    assert found.final.mean(axis=0) == pytest.approx(list(judged.density.values()), rel=1e-5)
    shares = [each.share for each in judged.rules]
    assert (1.0 - found.is_broken.mean(axis=0)).tolist() == pytest.approx(shares)
    assert all(0.0 < share < 1.0 for share in shares if share is not None)
    assert (np.diff(found.amounts, axis=1) >= 0.0).all()


def test_only_regions_in_rules_are_stored_at_a_limited_number_of_places(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    labels = np.repeat([[1] * 20 + [2] * 20 + [3] * 20], 4, axis=0)
    spec = SweepSpec(from_labels(labels), Vehicle(start_noise=1.0))
    problem = Problem.create(spec, {"one": "S3 >= 1"}, ProblemOptions(name="three"))
    found = amounts_along(problem, [(1.0, SLOW)], seed=0, episodes=20)
    assert found.table.regions == ("S3",)
    assert found.amounts.shape == (20, 101, 1)
    monkeypatch.setattr(along_path, "MOST_NUMBERS", 20 * 10)
    few = amounts_along(problem, [(1.0, SLOW)], seed=0, episodes=20)
    assert few.amounts.shape == (20, 11, 1)
    assert np.array_equal(few.final, found.final)
    assert np.array_equal(few.amounts, found.amounts[:, ::10])


def test_each_plan_of_a_mixture_drives_its_share_of_the_episodes() -> None:
    problem = in_wind(small_problem({"north": "S1 >= 22"}))
    fast = Constant(jnp.ones(()))
    found = amounts_along(problem, [(0.75, SLOW), (0.25, fast)], seed=0, episodes=40)
    slow = amounts_along(problem, [(1.0, SLOW)], seed=0, episodes=40)
    only = amounts_along(problem, [(1.0, fast)], seed=0, episodes=40)
    assert np.array_equal(found.amounts[:30], slow.amounts[:30])
    assert np.array_equal(found.amounts[30:], only.amounts[30:])


def test_bounds_of_regions_and_of_sums_that_rules_name() -> None:
    rules = {
        "two": "2*S1 >= 30",
        "either": "S1 <= 40 or S2 >= 9",
        "equal": "S1 + S2 = 50 within 5",
    }
    problem = small_problem(rules)
    found = [bounded(each, problem.atoms) for each in quantities(problem.regions, problem.atoms)]
    assert {each.name: each.bounds for each in found} == {
        "S1": (QuantityBound(15.0, True, True), QuantityBound(40.0, False, False)),
        "S2": (QuantityBound(9.0, True, False),),
        "S1 + S2": (QuantityBound(55.0, False, True), QuantityBound(45.0, True, True)),
    }


def heights(d: str) -> np.ndarray:
    """The amounts of points of a drawn line, in pixels above the axis."""
    numbers = np.array([float(each) for each in re.findall(r"-?[\d.]+", d)]).reshape(-1, 2)
    return HEIGHT - BOTTOM - numbers[:, 1]


def fan_by_hand() -> Fan:
    """At the end S1 has 0, 1, ..., 100 in 101 episodes, and half of it at half of the path."""
    problem = small_problem({"least": "S1 >= 20", "most": "S1 <= 1000"})
    final = np.arange(101.0)[:, None, None]
    amounts = final * np.array([0.0, 0.5, 1.0])[None, :, None]
    table = replace(problem.atoms, regions=("S1",), coefficients=problem.atoms.coefficients[:, :1])
    found = AmountsAlong(table, 1e-6, np.array([0.0, 0.5, 1.0]), amounts)
    [quantity] = quantities(problem.regions, table)
    quantity = bounded(quantity, table)
    return fans._fan(quantity, found, fans.Scales.of(quantity, [found]), "units")


def test_a_fan_has_the_median_and_the_bands_of_50_and_90_percent() -> None:
    """The scale ends at 95, the top of the light band, and a margin of 4 %."""
    fan = fan_by_hand()
    size = (HEIGHT - BOTTOM - TOP) / (1.04 * 95.0)
    assert heights(fan.fan.line) == pytest.approx(size * np.array([0.0, 25.0, 50.0]), abs=0.06)
    light, dark = (heights(each) for each in fan.fan.bands)
    assert light == pytest.approx(size * np.array([0, 47.5, 95, 5, 2.5, 0]), abs=0.06)
    assert dark == pytest.approx(size * np.array([0, 37.5, 75, 25, 12.5, 0]), abs=0.06)
    [bound] = fan.fan.bounds  # at most 1,000 would make the scale ten times as long
    assert HEIGHT - BOTTOM - bound.at == pytest.approx(size * 20.0)
    assert fan.fan.rows[-1] == ("100 %", "5", "25", "50", "75", "95")
    assert fan.fan.about == (
        "S1 along the path, units, in 101 episodes. At the end the median is 50; 50 % of the "
        "episodes lie between 25 and 75, 90 % between 5 and 95. Bounds: at least 20, at most 1,000."
    )


def test_a_histogram_counts_every_episode_once() -> None:
    fan = fan_by_hand()
    assert sum(int(number) for _, number in fan.histogram.rows) == 101
    assert fan.histogram.bars.count("M") == len(fan.histogram.rows)
    assert len(fan.histogram.bounds) == 1
    assert fan.kept == ("at least 20: 80.2 %", "at most 1,000: 100.0 %")
    assert fan.histogram.about == (
        "S1 at the end of 101 episodes: from 0 to 100 units; 80.2 % have at least 20, 100.0 % have "
        "at most 1,000."
    )


def test_too_many_fans_keep_those_of_rules_at_risk(
    windy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fans, "MOST_FANS", 1)
    found = fans_of(read_runs([windy]))
    assert found is not None
    assert found.left_out == 2
    [alone] = found.runs[0].fans
    broken = {each.split(":")[0]: each for each in found.runs[0].sentences}
    assert alone.name == "S1", broken


def test_the_page_of_a_random_world_has_fans(windy: Path) -> None:
    page, [view] = page_of(windy), read_runs([windy])
    assert page.sections == ["plan", "regions", "fans", "rules", "bound", "learning", "origin"]
    assert len(page.ids) == len(set(page.ids))
    pictures = [attrs for tag, attrs in page.elements if tag == "svg"]
    # The map, the heat map, the route, two for each of S1, S2 and their sum, and three charts.
    assert len(pictures) == 12
    for attrs in pictures:
        assert set((attrs["aria-labelledby"] or "").split()) <= set(page.ids)
    assert view.result is not None
    north, either = view.result.best.evaluation.rules
    for rule in (north, either):
        assert rule.share is not None
        assert f"{rule.name}: {100 * (1 - rule.share):.1f} % of the episodes break it" in page.text
    assert "S1 at the end of 1,000 episodes: from" in page.text
    assert "at least 500: 0.0 % of episodes" in page.text


def test_runs_side_by_side_have_fans_of_one_scale(windy: Path, tmp_path: Path) -> None:
    """The second has no policy, so that it has none."""
    [view] = read_runs([windy])
    problem = view.run.folder.problem()
    other = make_run(tmp_path / "other", problem, method="rcpo", speeds=[2.0, 1.9])
    found = fans_of(read_runs([other, windy, windy]))
    assert found is not None
    assert [(each.label, each.run) for each in found.runs] == [
        (f"scrl ({windy.name})", 1), (f"scrl ({windy.name}) 2", 2)
    ]  # fmt: skip
    assert found.runs[0].fans == found.runs[1].fans
    page = page_of(other, windy, windy)
    assert len(page.ids) == len(set(page.ids))


def test_without_chance_rules_or_a_policy_there_are_no_fans(whole: Path, tmp_path: Path) -> None:
    assert fans_of(read_runs([whole])) is None
    assert "fans" not in page_of(whole).sections
    free = make_run(tmp_path / "free", in_wind(small_problem({})), speeds=[2.0])
    assert fans_of(read_runs([free])) is None
    lost = make_run(tmp_path / "lost", in_wind(small_problem()), speeds=[2.0])
    assert "fans" not in page_of(lost).sections
    begun = make_run(tmp_path / "open", in_wind(small_problem()), is_finished=False)
    assert fans_of(read_runs([begun])) is None


def test_where_no_episode_breaks_a_rule_the_smallest_margin_is_told(windy: Path) -> None:
    [view] = read_runs([windy])
    problem = in_wind(small_problem({"north": "S1 >= 2", "south": "S2 <= 900"}))
    found = amounts_along(problem, [(1.0, SLOW)], seed=0, episodes=50)
    least = found.final[:, 0].min() - 2.0
    assert fans._sentences(view, found) == [
        f"No episode breaks a rule. The smallest margin is {least:.2f}, of north."
    ]
