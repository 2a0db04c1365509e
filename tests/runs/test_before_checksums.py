"""Folders that were written before there were checksums are read, judged and drawn as they were."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from scrl.api import resume
from scrl.cli.app import app
from scrl.report.page import page_text
from scrl.report.reading import read_runs
from scrl.runs.folder import RunFolder

from .small import KINDS, OLD, answer


@pytest.mark.parametrize("kind", ["trained", "environment"])
def test_they_do_what_they_did(kind: str) -> None:
    done = CliRunner().invoke(app, ["eval", str(OLD / kind), "--json"])
    assert done.exit_code == 0, done.output
    before = json.loads((OLD / kind / "result.json").read_text())["result"]["seeds"][0]
    assert json.loads(done.stdout)["density"] == pytest.approx(before["density"], rel=1e-5)


@pytest.mark.parametrize("kind", ["trained", "asked"])
def test_they_count_service_at_the_landing(kind: str) -> None:
    assert "service" not in (OLD / kind / "problem.toml").read_text()
    assert RunFolder.open(OLD / kind).problem().world_spec.route.service == "landing"


def test_they_are_drawn() -> None:
    assert "make_walk" in page_text(read_runs([OLD / "environment"]))


@pytest.mark.parametrize("kind", KINDS)
def test_they_are_read_and_finished(kind: str, tmp_path: Path) -> None:
    run = shutil.copytree(OLD / kind, tmp_path / "run")
    assert resume(run).seeds == answer(OLD / kind)[2].seeds


def test_they_go_on(tmp_path: Path) -> None:
    """From a checkpoint without a checksum of the metrics to one that has it."""
    run = shutil.copytree(OLD / "trained", tmp_path / "run")
    (run / "result.json").unlink()
    state = np.zeros(3)
    folder = RunFolder.open(run)
    before = folder.metrics()
    folder.save_checkpoint(state, iteration=4, wall_s=9)
    found = RunFolder.open(run).load_checkpoint(state)
    assert found is not None
    assert (found.iteration, found.warning) == (4, None)
    assert RunFolder.open(run).metrics() == before
    names = sorted(path.name for path in (run / "checkpoint").glob("*.json"))
    assert names == ["checkpoint.json", "previous.json"]
