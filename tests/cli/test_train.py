"""`scrl train` and what can be done with its runs, as a user's shell sees them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from .shell import SCRL, call, run

SETTINGS = (
    "worlds=2", "rollout_steps=32", "iterations=4", "settle=30", "width=8", "depth=1", "epochs=1",
    "minibatches=2",
)  # fmt: skip
TINY = ("--seeds", "2", *(text for setting in SETTINGS for text in ("--set", setting)))
ROUNDS = 34
DEVICES = {"JAX_NUM_CPU_DEVICES": "2"}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`field.toml`, whose rule slow driving keeps, and `never.toml`, whose rule nothing keeps.

    The name of the latter would lead out of the folder, if it were taken for a path.
    """
    folder = tmp_path_factory.mktemp("place")
    np.save(folder / "map.npy", np.repeat([[1] * 4 + [2] * 4], 4, axis=0))
    for name, head, rule in [
        # Full speed gives S1 14.52 and S2 12.85, an untrained policy about 20 to both.
        ("field", "", "if S2 > 10 then S1 >= 18"),
        ("never", '[problem]\nname = "../../never"\n', "if S2 >= 0 then S1 >= 1000000"),
    ]:
        text = f'[world]\nmap = "map.npy"\nhorizon_steps = 200\n[rules]\nsituational = "{rule}"\n'
        (folder / f"{name}.toml").write_text(head + text)
    return folder


@pytest.fixture(scope="module")
def trained(place: Path) -> subprocess.CompletedProcess[str]:
    """A whole run in the folder `run`."""
    return run("train", "field.toml", "--json", "--out", "run", *TINY, cwd=place, **DEVICES)


@pytest.fixture(scope="module")
def document(trained: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    return json.loads(trained.stdout)


# A run.


def test_train_ends_with_0_when_every_seed_keeps_every_rule(
    trained: subprocess.CompletedProcess[str],
) -> None:
    assert trained.returncode == 0, trained.stderr


def test_train_in_json_follows_the_contract_and_tells_its_progress_elsewhere(
    trained: subprocess.CompletedProcess[str], document: dict[str, Any]
) -> None:
    assert "compiling" in trained.stderr
    assert (document["problem"], document["method"]) == ("field", "scrl")
    assert document["satisfied"] == 2
    assert document["env_steps"] > 4 * 2 * 32 * 2
    assert document["wall_s"] > 0
    assert 0 < document["gap_mean"] <= document["gap_worst"]
    assert [each["seed"] for each in document["seeds"]] == [0, 1]
    for each in document["seeds"]:
        assert each["satisfied"] is True
        assert each["cons_vio"] == 0
        assert each["run"] == "run"
        assert {
            "return", "density", "density_se", "rules", "episodes", "episodes_satisfied", "steps",
            "gap",
        } <= each.keys()  # fmt: skip


def test_the_run_folder_says_what_was_asked_for(
    place: Path, trained: subprocess.CompletedProcess[str]
) -> None:
    record = json.loads((place / "run" / "run.json").read_text())
    assert record["seeds"] == [0, 1]
    assert record["settings"]["settings"]["width"] == 8
    assert "train field.toml --json --out run" in record["command"]
    rows = (place / "run" / "metrics.jsonl").read_text().splitlines()[1:]
    assert len(rows) == 2 * ROUNDS


def test_a_finished_run_is_shown_again_by_resume(
    place: Path, trained: subprocess.CompletedProcess[str]
) -> None:
    before = (place / "run" / "result.json").stat().st_mtime_ns
    done = call("train", "--resume", "run", cwd=place)
    assert done.returncode == 0, done.stderr
    assert "2 of 2 seeds keep every rule" in done.stdout
    assert "below the proven bound" in done.stdout
    assert "run folder: run" in done.stdout
    assert (place / "run" / "result.json").stat().st_mtime_ns == before


def test_train_ends_with_1_when_a_rule_cannot_be_kept(place: Path) -> None:
    before = {path.name for path in place.iterdir()}
    done = run("train", "never.toml", "--json", *TINY, cwd=place, **DEVICES)
    assert done.returncode == 1, done.stderr
    document = json.loads(done.stdout)
    assert document["satisfied"] == 0
    assert (document["bound"], document["gap_mean"], document["gap_worst"]) == (None,) * 3
    for each in document["seeds"]:
        assert each["satisfied"] is False
        assert each["cons_vio"] > 0
        assert each["gap"] is None
    # A new folder in `runs`, wherever the name of the problem leads to.
    assert {path.name for path in place.iterdir()} == before | {"runs"}
    assert [folder.name[:5] for folder in (place / "runs").iterdir()] == ["never"]


# Ctrl-C.


def test_ctrl_c_ends_with_130_and_resume_ends_with_the_same_bits(
    place: Path, trained: subprocess.CompletedProcess[str]
) -> None:
    out = place / "stopped"
    arguments = [*SCRL, "train", "field.toml", "--json", "--out", str(out), *TINY]
    with subprocess.Popen(
        arguments,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=place,
        env={**os.environ, **DEVICES},
    ) as process:
        wait_for_a_round(out, process)
        # There is time: the rounds of settling are not compiled yet.
        process.send_signal(signal.SIGINT)
        output, messages = process.communicate(timeout=120)
    assert process.returncode == 130, messages
    assert output == ""
    assert f"Resume with: scrl train --resume {out}" in messages
    assert "Traceback" not in messages
    assert not (out / "result.json").exists()
    mark = json.loads((out / "checkpoint" / "checkpoint.json").read_text())
    assert 0 < mark["iteration"] < ROUNDS

    done = run("train", "--resume", str(out), "--json", cwd=place, **DEVICES)
    assert done.returncode == 0, done.stderr
    for name in ("policy.eqx", "metrics.jsonl"):
        assert (out / name).read_bytes() == (place / "run" / name).read_bytes()
    assert comparable(json.loads(done.stdout)) == comparable(json.loads(trained.stdout))


def test_a_reader_that_goes_away_does_not_end_training(
    place: Path, trained: subprocess.CompletedProcess[str]
) -> None:
    """`scrl train ... 2>&1 | head -1`"""
    out = place / "unread"
    with subprocess.Popen(
        [*SCRL, "train", "field.toml", "--json", "--out", str(out), *TINY],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=place,
        env={**os.environ, **DEVICES},
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(timeout=120) == 0
    assert (out / "policy.eqx").read_bytes() == (place / "run/policy.eqx").read_bytes()


def test_a_full_disk_is_named_with_what_is_kept(
    place: Path, trained: subprocess.CompletedProcess[str]
) -> None:
    """A limit on the size of files stands for the disk; the message differs, the path does not."""
    small = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (4_000, 4_000)); "
    program = f"{small}from scrl.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, "train", "field.toml", "--out", "my run", *TINY],
        capture_output=True, text=True, cwd=place, timeout=120, env={**os.environ, **DEVICES},
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    message = done.stderr.splitlines()[-1]
    assert message.startswith("scrl: my run/metrics.jsonl: File too large. Training has stopped; ")
    assert "nothing was saved yet, and my run is removed" in message
    assert not (place / "my run").exists()


def wait_for_a_round(run: Path, process: subprocess.Popen[str]) -> None:
    """Until the first round is logged."""
    metrics, deadline = run / "metrics.jsonl", time.monotonic() + 120
    while not (metrics.exists() and '"iteration"' in metrics.read_text()):
        assert process.poll() is None, "the run ended before its first round"
        assert time.monotonic() < deadline, "no round in two minutes"
        time.sleep(0.005)


def comparable(document: dict[str, Any]) -> dict[str, Any]:
    """A result without how long it took and where it lies."""
    seeds = [{**each, "run": None} for each in document["seeds"]]
    return {**document, "wall_s": None, "seeds": seeds}


# Policies out of runs.


def test_eval_shows_the_policy_of_the_best_seed(place: Path, document: dict[str, Any]) -> None:
    done = call("eval", "field.toml", "--policy", "run", "--json", cwd=place)
    assert done.returncode == 0, done.stderr
    best = max(document["seeds"], key=lambda each: each["return"])
    assert_same_evaluation(json.loads(done.stdout), best)
    assert "warning" not in done.stderr


def test_eval_on_another_map_is_warned_of(
    place: Path, trained: subprocess.CompletedProcess[str]
) -> None:
    np.save(place / "other.npy", np.repeat([[1] * 5 + [2] * 3], 4, axis=0))
    text = (place / "field.toml").read_text()
    (place / "other.toml").write_text(text.replace("map.npy", "other.npy"))
    done = call("eval", "other.toml", "--policy", "run", "--json", cwd=place)
    assert "warning: 'run' was made for another map than other has" in done.stderr
    found = json.loads(done.stdout)
    assert (done.returncode, found["problem"], found["satisfied"]) == (0, "other", True)
    # There S1 is larger than S2; on the map of the run they are of one size.
    assert found["density"]["S1"] > 1.5 * found["density"]["S2"]


def test_eval_shows_the_policy_of_the_seed_that_is_named(
    place: Path, document: dict[str, Any]
) -> None:
    other = min(document["seeds"], key=lambda each: each["return"])
    named = ("--policy-seed", str(other["seed"]))
    done = call("eval", "field.toml", "--policy", "run", *named, "--json", cwd=place)
    assert done.returncode == 0, done.stderr
    assert document["seeds"][0]["return"] != document["seeds"][1]["return"]
    assert_same_evaluation(json.loads(done.stdout), other)


def assert_same_evaluation(found: dict[str, Any], told: dict[str, Any]) -> None:
    for key in ("return", "density", "cons_vio", "satisfied", "rules", "episodes", "steps"):
        assert found[key] == told[key]


def test_eval_of_a_seed_that_was_not_trained_ends_with_2(
    place: Path, trained: subprocess.CompletedProcess[str]
) -> None:
    done = call("eval", "field.toml", "--policy", "run", "--policy-seed", "9", cwd=place)
    assert done.returncode == 2
    assert "there is no seed 9 in this run, only 0, 1" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_list_names_the_methods_and_learners_that_can_be_asked_for(place: Path) -> None:
    from scrl.learners import LEARNERS
    from scrl.training.config import METHODS

    listed = json.loads(call("list", "--json", cwd=place).stdout)
    assert [each["name"] for each in listed["methods"]] == list(METHODS)
    assert listed["learners"] == list(LEARNERS)


# Wrong input.


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("train",), "say which problem to train, or which run to `--resume`"),
        (("train", "agri-joint", "--resume", "run"), "and not both"),
        (("train", "agri-join"), "did you mean 'agri-joint'?"),
        (("train", "agri-joint", "--method", "scrl-mini"), "did you mean 'scrl-min'?"),
        (("train", "agri-joint", "--set", "sharpnes=1"), "did you mean 'sharpness'?"),
        (("train", "agri-joint", "--seeds", "0"), "--seeds"),
        (("train", "--resume", "nowhere"), "nowhere: there is no such folder"),
    ],
)
def test_wrong_input_ends_with_2_one_message_and_nothing_written(
    place: Path, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    done = call(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert list(tmp_path.iterdir()) == []


def test_a_folder_in_use_is_refused_and_left_as_it_is(place: Path, tmp_path: Path) -> None:
    letter = tmp_path / "taken" / "letter.txt"
    letter.parent.mkdir()
    letter.write_text("keep me")
    done = call("train", "agri-joint", "--out", "taken", *TINY, cwd=tmp_path)
    assert done.returncode == 2
    assert "taken exists already and is not empty; choose another --out" in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.rglob("*")) == [letter.parent, letter]
    assert letter.read_text() == "keep me"
