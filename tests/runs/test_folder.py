"""A run folder stands on its own, and a full one is never touched."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

import scrl
from scrl.problems import MapSource, Problem
from scrl.runs.folder import RunError, RunFolder, RunRecord
from scrl.worlds.sweep.spec import Service, SweepRoute, SweepSpec

from .small import RECORD


def test_a_run_stands_on_its_own(tmp_path: Path) -> None:
    problem = scrl.load("agri-joint")
    RunFolder.create(tmp_path / "a" / "run", problem, RECORD)
    again = RunFolder.open(tmp_path / "a" / "run")
    assert again.record == RECORD
    assert again.problem().rules.rules == problem.rules.rules
    assert np.array_equal(
        again.problem().world_spec.regions.masks, problem.world_spec.regions.masks
    )
    assert scrl.load(tmp_path / "a" / "run").name == "agri-joint"


@pytest.mark.parametrize("service", ["poured", "landing"])
def test_a_run_that_does_not_say_its_service_is_older_than_poured_service(
    tmp_path: Path, strip: SweepSpec, service: Service
) -> None:
    spec = dataclasses.replace(strip, route=SweepRoute(service=service))
    folder = RunFolder.create(tmp_path / "run", Problem.create(spec), RECORD)
    assert RunFolder.open(folder.path).problem().world_spec.route.service == service
    path = folder.path / "problem.toml"
    path.write_text(path.read_text().replace(f'service = "{service}"\n', ""))
    # Its commands read the folder, and the file in it.
    for old in (folder.path, path):
        assert scrl.load(old).world_spec.route.service == "landing"


def test_a_record_made_now_says_where_it_was_made(
    tmp_path: Path, problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["/somewhere/bin/scrl", "train", "my farm.toml"])
    record = RunRecord.now("strip", "scrl", {"rate": np.float32(0.5), "cap": np.inf}, range(2))
    assert record.command == "scrl train 'my farm.toml'"
    assert record.settings == {"rate": 0.5, "cap": None}
    assert (record.jax, record.device) == (jax.__version__, jax.devices()[0].device_kind)
    assert record.created.endswith("+00:00")
    RunFolder.create(tmp_path / "run", problem, record)
    assert RunFolder.open(tmp_path / "run").record == record


def test_an_empty_folder_is_filled_and_a_full_one_never_touched(
    tmp_path: Path, problem: Problem
) -> None:
    (tmp_path / "run").mkdir()
    RunFolder.create(tmp_path / "run", problem, RECORD)
    with pytest.raises(RunError, match=r"choose another --out, or resume it with --resume .*run$"):
        RunFolder.create(tmp_path / "run", problem, RECORD)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "letter.txt").write_text("keep me")
    for taken in (tmp_path / "other", tmp_path / "other" / "letter.txt"):
        with pytest.raises(RunError, match=r"choose another --out$"):
            RunFolder.create(taken, problem, RECORD)
    assert [path.name for path in (tmp_path / "other").iterdir()] == ["letter.txt"]


@pytest.mark.parametrize("name", ["run.json", "Result.json"])
def test_a_map_may_not_be_called_like_a_file_of_the_run(
    tmp_path: Path, problem: Problem, name: str
) -> None:
    known = scrl.load("agri-joint").source
    assert known is not None
    source = MapSource(tmp_path / name, known.options)
    with pytest.raises(RunError, match="rename the map"):
        RunFolder.create(tmp_path / "run", dataclasses.replace(problem, source=source), RECORD)
    assert not (tmp_path / "run").exists()


def test_the_result_ends_the_run(run: RunFolder) -> None:
    assert (run.is_finished, run.result()) == (False, None)
    amount = np.float64(2522.9999999999977)  # noise of adding up, which people need not read
    run.save_result({"gap": amount, "worst": float("nan"), "seeds": (1, 2)})
    again = RunFolder.open(run.path)
    assert again.is_finished
    assert again.result() == {"gap": 2523.0, "worst": None, "seeds": [1, 2]}
