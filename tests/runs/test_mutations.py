"""Whatever a document of a run says, it is used or refused, and never ends in a traceback."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from scrl.api import resume
from scrl.cli.evaluate import evaluate as evaluate_command
from scrl.errors import ScrlError
from scrl.opening import open_run
from scrl.report.compare import compare
from scrl.report.page import page_text
from scrl.report.reading import read_runs
from scrl.runs.folder import RunFolder
from scrl.training.maps import training_run

from .mutations import mutated, scrambled, text_of
from .small import OLD, answer

TIMES = 60


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("trained", "run.json"),
        ("trained", "result.json"),
        ("trained", "metrics.jsonl"),
        ("asked", "plan.json"),
        ("environment", "run.json"),
        ("environment", "result.json"),
        ("environment", "environment.json"),
    ],
)
def test_a_changed_document_is_used_or_refused(tmp_path: Path, kind: str, name: str) -> None:
    run = shutil.copytree(OLD / kind, tmp_path / "run")
    data, chance = (run / name).read_bytes(), random.Random(f"{kind} {name}")
    refused = 0
    for number in range(TIMES if kind != "asked" else TIMES // 8):  # a driver takes its time
        (run / name).write_bytes(changed(data, chance, is_signed=number % 3 == 0))
        try:
            use(run, kind)
        except ScrlError:
            refused += 1
    assert refused


def changed(data: bytes, chance: random.Random, *, is_signed: bool) -> bytes:
    try:
        document = json.loads(data)
    except ValueError:  # lines of metrics
        return scrambled(data, chance)
    return text_of(mutated(document, chance), is_signed=is_signed)


def use(run: Path, kind: str) -> Any:
    """What the commands do, without compiling anything."""
    answer(run)
    compare(read_runs([run, OLD / kind]))
    resume(run)
    match kind:
        case "trained":
            training_run(RunFolder.open(run))
        case "environment":
            page_text(read_runs([run]))
            evaluate_command(str(run))
        case "asked":
            open_run(run).policy()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (b"NaN", "NaN is no number"),
        (b"1e999", "a number is too large"),
        (b"1" + b"0" * 30, "a whole number is too large"),
        (b"[" * 70 + b"]" * 70, "more than 64 tables within tables"),
        (rb'"\ud800"', "surrogates not allowed"),
    ],
)
def test_what_json_holds_and_nothing_can_use(run: RunFolder, value: bytes, message: str) -> None:
    path = run.path / "run.json"
    document = {"schema": 1, "note": 0, **json.loads(path.read_bytes())}
    path.write_bytes(json.dumps(document | {"note": "here"}).encode().replace(b'"here"', value))
    with pytest.raises(ScrlError, match=f"run.json: damaged, not JSON: .*{message}"):
        RunFolder.open(run.path)


def test_a_result_of_other_seeds_is_refused(tmp_path: Path) -> None:
    run = shutil.copytree(OLD / "trained", tmp_path / "run")
    text = (run / "result.json").read_text().replace('"seed": 0', '"seed": 5')
    (run / "result.json").write_text(text)
    with pytest.raises(ScrlError, match=r"the seeds in it are not those of run\.json"):
        answer(run)
