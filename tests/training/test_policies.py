"""Policies out of runs: the same again, or a word on why not."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

import scrl
from scrl.cli.app import app
from scrl.errors import PolicyError
from scrl.learners import TrainedPolicy
from scrl.problems import Problem
from scrl.runs.folder import RunError
from scrl.training.maps import report
from scrl.training.result import TrainingResult

from ..runs.small import flip, rewrite
from .small import (
    LEARNERS,
    Stopped,
    leaves,
    stop_after,
    train,
)


def test_a_policy_does_again_exactly_what_the_result_says(
    problem: Problem, whole: Callable[[str], TrainingResult]
) -> None:
    for name in LEARNERS:
        result = whole(name)
        for each in result.seeds:
            policy = scrl.load_policy(result.run, each.seed)
            assert isinstance(policy, TrainedPolicy)
            assert report(problem, "scrl", policy, each.seed) == each.evaluation
            found = scrl.evaluate(problem, policy, name="scrl")
            assert found == each.evaluation  # nothing is random here: any episode is the same


def test_the_policy_of_the_best_seed_is_loaded_unless_another_is_named(copied: Path) -> None:
    first, second = (leaves(scrl.load_policy(copied, seed)) for seed in (0, 1))
    assert first != second
    document = json.loads((copied / "result.json").read_text())
    for best, expected in [(0, first), (1, second)]:
        for index, each in enumerate(document["result"]["seeds"]):
            each["return"] = -1.0 if index == best else -2.0
        rewrite(copied / "result.json", result=document["result"])
        assert leaves(scrl.load_policy(str(copied))) == expected


def test_a_run_is_judged_anew_on_its_own_map(copied: Path) -> None:
    result = scrl.resume(copied)
    for seed, expected in ((None, result.best), (0, result.seeds[0]), (1, result.seeds[1])):
        found = scrl.evaluate_run(copied, policy_seed=seed)
        # Nothing is random here: any episode is the same.
        assert replace(found, policy="scrl") == expected.evaluation
    with pytest.raises(PolicyError, match="this run is on a map, which needs no environment"):
        scrl.evaluate_run(copied, "Pendulum-v1", labels="amounts")
    done = CliRunner().invoke(app, ["eval", str(copied), "--policy-seed", "1", "--json"])
    assert json.loads(done.stdout)["density"] == result.seeds[1].evaluation.density


def test_a_seed_that_was_not_trained_has_no_policy(copied: Path) -> None:
    with pytest.raises(PolicyError, match="there is no seed 7 in this run, only 0, 1"):
        scrl.load_policy(copied, 7)


def test_a_run_that_is_not_finished_has_no_policy_yet(problem: Problem, tmp_path: Path) -> None:
    with pytest.raises(Stopped):
        train(problem, "ppo", tmp_path / "run", watch=stop_after(2))
    with pytest.raises(PolicyError, match=r"not finished; resume with `scrl train --resume .*run`"):
        scrl.load_policy(tmp_path / "run")


def test_a_folder_that_is_no_run_has_no_policy(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"holds no run\.json"):
        scrl.load_policy(tmp_path)
    with pytest.raises(RunError, match="there is no such folder"):
        scrl.load_policy(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("name", "damage", "message"),
    [
        ("policy.eqx", None, "there is no policy yet"),
        ("policy.eqx", lambda data: data[:-4], "policy.eqx: .*damaged: the file ends here"),
        ("policy.eqx", lambda data: data + b"x", "policy.eqx: holds more than is asked for"),
        ("policy.eqx", lambda data: b"junk" + data, "policy.eqx: .*damaged"),
        ("result.json", lambda data: data[:50], "result.json: damaged, not JSON"),
        (
            "result.json",
            lambda data: b'{"schema": 1, "result": {}}',
            r"result\.json: 'result\.problem' must be a text, and is missing",
        ),
        ("run.json", lambda data: data[:50], "run.json: damaged, not JSON"),
        (
            "run.json",
            lambda data: data.replace(b'"width": 8', b'"width": 9'),
            "policy.eqx: .*it belongs to other settings or to another version of scrl",
        ),
    ],
)
def test_damage_is_named(
    copied: Path, name: str, damage: Callable[[bytes], bytes] | None, message: str
) -> None:
    """Also where there are no checksums that would tell."""
    for document in ("run.json", "result.json"):
        rewrite(copied / document, schema=1, files={})
    path = copied / name
    if damage is None:
        path.unlink()
    else:
        damaged = damage(path.read_bytes())
        assert damaged != path.read_bytes()
        path.write_bytes(damaged)
    with pytest.raises(RunError, match=message):
        scrl.load_policy(copied)


def test_a_turned_bit_is_refused_before_anything_drives_with_it(copied: Path) -> None:
    flip(copied / "policy.eqx")
    with pytest.raises(RunError, match=r"policy\.eqx: damaged, or changed by hand: its checksum"):
        scrl.load_policy(copied)
