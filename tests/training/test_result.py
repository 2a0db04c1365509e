"""What training ends with, by evaluations made by hand."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from scrl.evaluation import Evaluation, RuleResult
from scrl.rules import RuleSet
from scrl.runs.files import RunError
from scrl.runs.result import LastPolicy, SeedResult
from scrl.training.result import TrainingResult, overpriced

BOUND = -10.0


def seed_result(seed: int, return_: float, violation: float, *, gap: bool = True) -> SeedResult:
    """A seed with that return and violation; gap = (bound - return) / |bound|."""
    is_satisfied = violation == 0
    evaluation = Evaluation(
        problem="field",
        policy="scrl",
        unit="litres",
        return_=return_,
        density={"S1": 4.5, "S2": 2.25},
        density_se={"S1": 0.0, "S2": 0.5},
        cons_vio=violation,
        is_satisfied=is_satisfied,
        rules=(RuleResult("least", "S1 >= 4", is_satisfied, 0.5 - violation),),
        episodes=8,
        episodes_satisfied=7,
        episodes_truncated=1,
        steps=12.5,
    )
    has_gap = gap and is_satisfied
    last = LastPolicy(return_ - 1.0, violation, is_satisfied) if seed % 2 else None
    return SeedResult(seed, evaluation, (BOUND - return_) / 10.0 if has_gap else None, (), last)


def result(*seeds: SeedResult, bound: float | None = BOUND) -> TrainingResult:
    return TrainingResult("field", "scrl", bound, seeds, 67.8, Path("runs") / "one", 12_345)


MIXED = result(
    seed_result(3, -12.0, 0.0),  # gap 0.2
    seed_result(4, -11.0, 2.0),  # no gap: it breaks a rule
    seed_result(5, -14.0, 0.0),  # gap 0.4
)
NONE_KEPT = result(seed_result(0, -5.0, 3.0), seed_result(1, -9.0, 1.0), seed_result(2, -8.0, 1.0))


def test_seeds_that_keep_every_rule_are_counted() -> None:
    assert (MIXED.satisfied, MIXED.is_satisfied) == (2, False)
    assert (NONE_KEPT.satisfied, NONE_KEPT.is_satisfied) == (0, False)
    all_kept = result(seed_result(0, -12.0, 0.0), seed_result(1, -11.0, 0.0))
    assert (all_kept.satisfied, all_kept.is_satisfied) == (2, True)


def test_a_seed_is_satisfied_as_its_evaluation_is_also_within_a_tolerance() -> None:
    kept = seed_result(0, -12.0, 0.0)
    nearly = dataclasses.replace(kept.evaluation, cons_vio=1e-9)
    assert dataclasses.replace(kept, evaluation=nearly).is_satisfied


def test_gaps_are_those_of_the_seeds_that_keep_every_rule() -> None:
    assert MIXED.gaps == pytest.approx([0.2, 0.4])
    assert MIXED.gap_mean == pytest.approx(0.3)
    assert MIXED.gap_worst == pytest.approx(0.4)


def test_where_no_seed_keeps_the_rules_there_is_no_gap() -> None:
    assert (NONE_KEPT.gaps, NONE_KEPT.gap_mean, NONE_KEPT.gap_worst) == ([], None, None)


def test_without_a_bound_there_is_no_gap() -> None:
    alone = result(seed_result(0, -12.0, 0.0, gap=False), bound=None)
    assert (alone.gaps, alone.gap_mean, alone.gap_worst) == ([], None, None)


def test_the_worst_gap_is_the_largest() -> None:
    both = result(seed_result(0, -10.5, 0.0), seed_result(1, -11.0, 0.0))
    assert both.gap_mean == pytest.approx(0.075)
    assert both.gap_worst == pytest.approx(0.1)


def test_the_best_seed_keeps_the_rules_whatever_the_others_return() -> None:
    assert MIXED.best.seed == 3  # seed 4 returns more, but breaks a rule


def test_the_best_of_seeds_that_all_break_rules_violates_least_then_returns_most() -> None:
    assert NONE_KEPT.best.seed == 2


def test_of_seeds_within_the_tolerance_the_best_returns_most() -> None:
    exact, nearly = seed_result(0, -12.0, 0.0), seed_result(1, -11.0, 0.0)
    inside = dataclasses.replace(nearly.evaluation, cons_vio=1e-9)
    assert result(exact, dataclasses.replace(nearly, evaluation=inside)).best.seed == 1


SINGLE = "on average; 7 of 8 single episodes (87.5 %) keep every rule"


def test_as_text_it_says_how_many_how_far_and_where() -> None:
    assert str(MIXED).splitlines() == [
        "field with scrl: 2 of 3 seeds keep every rule (12,345 environment steps in 68 s)",
        "  gap to the proven bound: mean 30.0%, worst 40.0%",
        f"  seed 3: return -12.00, every rule holds {SINGLE}",
        f"  seed 4: return -11.00, violated by 2.00 {SINGLE}",
        f"  seed 5: return -14.00, every rule holds {SINGLE}",
        f"  run folder: {Path('runs') / 'one'}",
    ]


def test_as_text_without_gaps_it_leaves_that_line_out() -> None:
    assert str(NONE_KEPT).splitlines()[:2] == [
        "field with scrl: 0 of 3 seeds keep every rule (12,345 environment steps in 68 s)",
        f"  seed 0: return -5.00, violated by 3.00 {SINGLE}",
    ]


def test_json_has_the_fields_of_the_contract() -> None:
    document = MIXED.to_json()
    assert document["satisfied"] == 2
    assert document["gap_mean"] == pytest.approx(0.3)
    assert document["gap_worst"] == pytest.approx(0.4)
    assert (document["problem"], document["method"]) == ("field", "scrl")
    assert (document["env_steps"], document["wall_s"]) == (12_345, 67.8)
    (_, second, _) = document["seeds"]
    assert (second["seed"], second["satisfied"]) == (4, False)
    assert (second["return"], second["cons_vio"]) == (-11.0, 2.0)
    assert second["gap"] is None
    assert second["run"] == str(Path("runs") / "one")
    assert second["rules"] == [
        {"name": "least", "text": "S1 >= 4", "satisfied": False, "margin": -1.5, "asked": None,
         "share": None, "share_low": None, "share_high": None}
    ]  # fmt: skip


@pytest.mark.parametrize(
    "written", [MIXED, NONE_KEPT, result(seed_result(0, -1.0, 0.0, gap=False), bound=None)]
)
def test_a_result_comes_back_from_json_as_it_was(written: TrainingResult) -> None:
    text = json.dumps(written.to_json(), allow_nan=False)
    assert TrainingResult.from_json(json.loads(text), written.run) == written


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("share_low", 1.5), ("share_high", -0.1), ("share_low", "0.9"), ("share_high", [0.1, 0.9]),
        ("confidence", 95), ("confidence", True), ("broken_violation", -1.0),
    ],
)  # fmt: skip
def test_shares_that_are_none_are_damage(name: str, value: object) -> None:
    document = MIXED.to_json()
    document["seeds"][1][name] = value
    with pytest.raises(RunError, match=f"'result.seeds.1.{name}' must be"):
        TrainingResult.from_json(document, Path("run"))
    document = MIXED.to_json()
    rule = document["seeds"][1]["rules"][0]
    if name in rule:
        rule[name] = value
        with pytest.raises(RunError, match=f"rules.0.{name}' must be"):
            TrainingResult.from_json(document, Path("run"))


def test_a_result_read_elsewhere_names_the_folder_it_was_read_from() -> None:
    moved = TrainingResult.from_json(MIXED.to_json(), Path("elsewhere"))
    assert moved.run == Path("elsewhere")
    assert moved.to_json()["seeds"][0]["run"] == "elsewhere"


SIDES = "if left > 100 then right >= 200"


@pytest.mark.parametrize(
    ("rules", "left", "right", "price", "is_warned"),
    [
        ("left <= 100", 11.0, 120.0, -5.0, True),  # 89 of 100 unused
        ("left <= 100", 96.0, 400.0, -0.2, False),
        ("left <= 100", 11.0, 489.0, 0.0, False),  # nothing is paid
        ("left <= 100", 150.0, 350.0, -5.0, False),
        (SIDES, 2.0, 118.0, -2.0, True),
        (SIDES, 250.0, 250.0, -2.0, False),  # 50 of 250 above the bound
        ("left <= 100 and right >= 200", 2.0, 201.0, -2.0, False),  # the second one binds
        ("left - right <= 0", 10.0, 490.0, -2.0, True),  # 480 of 500
    ],
)
def test_a_price_for_rules_that_do_not_bind_is_warned_of(
    rules: str, left: float, right: float, price: float, is_warned: bool
) -> None:
    density = {"left": left, "right": right}
    found = dataclasses.replace(seed_result(0, 120.0, 0.0).evaluation, density=density)
    texts = overpriced(RuleSet.of(rules, tuple(density)), found, [price, 0.0])
    assert bool(texts) == is_warned
    one = dataclasses.replace(seed_result(3, -12.0, 0.0), warnings=texts)
    again = TrainingResult.from_json(result(one).to_json(), Path("runs") / "one")
    assert again.warnings == [f"seed 3: {text}" for text in texts]
    assert ("warning: seed 3: every rule is kept by far" in str(again)) == is_warned
    assert ("(left -" in str(again)) == is_warned
