"""Whatever is torn, damaged, too large or too new is named."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scrl.runs.folder import RunError, RunFolder

from .small import mark_of, rewrite, rows


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("run.json", '{"schema": 1, "probl', r"run.json: damaged, not JSON: Unterminated string"),
        ("run.json", "", "run.json: damaged, not JSON"),
        ("run.json", "[" * 100_000, "run.json: damaged, not JSON"),
        ("run.json", "\xff", "run.json: damaged, not JSON"),
        ("run.json", "[1]", r"must hold a table in braces, not \[1\]"),
        ("run.json", "{}", "'schema' must be a whole number, and is missing"),
        ("run.json", '{"schema": 1}', "'problem' must be a text, and is missing"),
        ("result.json", '{"schema": 1, "result": [3]}', r"'result' must be a table, not \[3\]"),
        ("metrics.jsonl", "", "metrics.jsonl: damaged: the header is missing"),
        ("metrics.jsonl", '{"schema": 3}\n', "metrics.jsonl line 1: written by a newer scrl"),
        ("metrics.jsonl", '{"schema": 1}\n{"seed": 1}\n', "line 2: 'iteration' must be a whole"),
    ],
)
def test_damaged_files_are_named(run: RunFolder, name: str, text: str, message: str) -> None:
    (run.path / name).write_text(text, encoding="latin-1")
    with pytest.raises(RunError, match=message):
        read_all(run.path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"schema": 3}, r"written by a newer scrl \(schema 3, and this one reads up to 2\)"),
        ({"schema": 0}, "schema 0 is unknown"),
        ({"schema": True}, "'schema' must be a whole number, not True"),
        ({"seeds": [1, "two"]}, r"'seeds.1' must be a whole number, not 'two'"),
        ({"seeds": [1, 1]}, "'seeds' must hold one or more different whole numbers"),
        ({"settings": {"told": 7}}, "'settings.told' must be a text, not 7"),
        ({"commit": 7}, "'commit' must be a text or null, not 7"),
    ],
)
def test_records_that_cannot_be_used(run: RunFolder, changes: Any, message: str) -> None:
    rewrite(run.path / "run.json", **changes)
    with pytest.raises(RunError, match=message):
        read_all(run.path)


def read_all(path: Path) -> None:
    run = RunFolder.open(path)
    run.metrics()
    run.result()


def test_folders_that_are_no_runs(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="there is no such folder"):
        RunFolder.open(tmp_path / "nowhere")
    with pytest.raises(RunError, match=r"this folder holds no run.json; name a folder that"):
        RunFolder.open(tmp_path)


@pytest.mark.parametrize("name", ["run.json", "metrics.jsonl"])
def test_files_that_are_too_large_are_not_read(run: RunFolder, name: str) -> None:
    os.truncate(run.path / name, 2**30 + 1)  # a sparse file: it takes no room
    with pytest.raises(RunError, match="1,073,741,825 bytes are more than"):
        read_all(run.path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"state": "../x"}, r"'state' names no state file: '../x'"),
        ({"state": "/etc/passwd"}, "'state' names no state file"),
        ({"state": "state-1-a/../../run.json"}, "'state' names no state file"),
        ({"state": "state-1-a.eqx\n"}, "'state' names no state file"),
        ({"state": "state-1-a.eqx"}, "state-1-a.eqx: missing, but checkpoint.json names it"),
        ({"state": None}, "'state' must be a text, not None"),
        ({"sha256": "0"}, "its checksum is not the one in checkpoint.json"),
        ({"metrics_bytes": 10**30}, "a whole number is too large"),
        ({"metrics_bytes": 10**9}, "metrics.jsonl: damaged: shorter than at"),
        ({"metrics_bytes": -1}, "'metrics_bytes' must be a whole number of at least 1, not -1"),
        ({"metrics_bytes": 5}, "metrics.jsonl: damaged: it is not what it was at the last"),
        ({"wall_s": "long"}, "'wall_s' must be a number, not 'long'"),
        ({"schema": 9}, "written by a newer scrl"),
    ],
)
def test_checkpoints_that_cannot_be_used(run: RunFolder, changes: Any, message: str) -> None:
    run.save_checkpoint(np.ones(3), iteration=1, wall_s=0)
    run.log(rows(2))
    rewrite(mark_of(run), **changes)
    with pytest.raises(RunError, match=message):
        run.load_checkpoint(np.ones(3))
    assert run.metrics() == rows(2)


def test_one_flipped_bit_in_the_state_is_noticed(run: RunFolder) -> None:
    run.save_checkpoint(np.ones(3), iteration=1, wall_s=0)
    (kept,) = mark_of(run).parent.glob("*.eqx")
    data = bytearray(kept.read_bytes())
    data[-1] ^= 1
    kept.write_bytes(data)
    with pytest.raises(RunError, match="damaged: its checksum"):
        run.load_checkpoint(np.ones(3))


def test_metrics_that_are_gone_are_an_error_of_the_run(run: RunFolder) -> None:
    (run.path / "metrics.jsonl").unlink()
    for act in (run.metrics, lambda: run.load_checkpoint(np.ones(3))):
        with pytest.raises(RunError, match=r"metrics.jsonl: missing"):
            act()
