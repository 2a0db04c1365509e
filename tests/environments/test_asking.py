"""One policy for any rules: it is trained once, asked many times, and its answers can be kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import scrl
from scrl.environments.asking import EnvironmentPlanner
from scrl.errors import ScrlError

from .small import HORIZON, LOOP, REGIONS, loaded, make_walk

OPTIONS: dict[str, Any] = {"labels": "amounts", "regions": REGIONS, "horizon_steps": HORIZON}


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> EnvironmentPlanner:
    """Without rules it walks to the goal: 3 metres east in 3 steps."""
    out = tmp_path_factory.mktemp("learned") / "run"
    return scrl.learn(make_walk, out=out, steps=50_000, watch=None, **OPTIONS)


@pytest.mark.parametrize(
    ("rules", "share"),
    [
        # In a share of the episodes 8 metres west in 8 steps, else to the goal in 3 steps.
        ("west >= 2", 2 / 8),
        ("if east > 2 then west >= 1", 1 / 8),
        ("west >= 7 or east <= 1.5", 1 / 2),
        ("east >= 2; west == 1 within 0.4", 0.6 / 8),
    ],
)
def test_mixtures_keep_rules_at_about_the_least_cost(
    learned: EnvironmentPlanner, rules: str, share: float
) -> None:
    answer = learned.ask(rules, mix=True)
    assert answer.is_satisfied, answer
    assert answer.evaluation.return_ >= -3.0 - 5.0 * (share + 0.1)
    assert sum(each.weight for each in answer.policies) == pytest.approx(1.0)
    assert answer.to_json()["status"] == "satisfied"


def test_a_single_policy_keeps_what_prices_lead_to(learned: EnvironmentPlanner) -> None:
    free, west = learned.ask_all(["east >= 2", "west >= 2"])
    assert free.is_satisfied
    assert free.evaluation.return_ == pytest.approx(-3.0, abs=0.2)
    assert west.is_satisfied
    assert west.policies[0].prices["west"] > 0.0
    assert [each.taken for each in west.branch] == ["west >= 2"]


def test_what_cannot_be_kept_is_broken_least(learned: EnvironmentPlanner) -> None:
    answer = learned.ask("west >= 100")
    assert answer.status == "violated"
    assert answer.evaluation.density["west"] > 7.0


def test_an_answer_is_kept_as_a_run(learned: EnvironmentPlanner, tmp_path: Path) -> None:
    """By whoever opens the folder of the policy again, who gets the same answer."""
    again = scrl.learned(learned.path, make_walk, labels="amounts")
    answer, same = learned.ask("west >= 2"), again.ask("west >= 2")
    assert answer.evaluation == same.evaluation
    run = again.keep(answer, tmp_path / "kept")
    found = scrl.evaluate_run(run, make_walk, labels="amounts")
    assert found.density == pytest.approx(answer.evaluation.density, abs=0.3)
    seen = np.array([0.2, 0.0], np.float32)
    assert loaded(run)(seen) == pytest.approx(answer.policies[0].policy(seen))
    with pytest.raises(ScrlError, match="a mixture of policies cannot be kept"):
        learned.keep(learned.ask("west >= 2", mix=True), tmp_path / "mixed")


def test_what_cannot_be_learned_or_asked_is_one_message(
    learned: EnvironmentPlanner, tmp_path: Path
) -> None:
    with pytest.raises(ScrlError, match="ask for them afterwards"):
        scrl.learn(make_walk, rules="west >= 1", **OPTIONS)
    with pytest.raises(ScrlError, match="on a map nothing need be learned"):
        scrl.learn("agri")
    with pytest.raises(ScrlError, match="share of single episodes are not searched for"):
        learned.ask("west >= 1 in 90 %")
    with pytest.raises(ScrlError, match="only its owner's Python can make"):
        scrl.learned(learned.path)
    trained = tmp_path / "trained"
    scrl.train(make_walk, rules="west >= 1", settings=LOOP, out=trained, watch=None, **OPTIONS)
    with pytest.raises(ScrlError, match="was not trained by `scrl learn`"):
        scrl.learned(trained, make_walk, labels="amounts")
