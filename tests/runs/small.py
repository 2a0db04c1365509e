"""A record, and rows of metrics, for the tests of run folders."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from scrl.report.reading import read_runs
from scrl.runs.files import SCHEMA, checksums_of, sha256, write_json
from scrl.runs.folder import RunFolder, RunRecord

OLD = Path(__file__).parent / "before_checksums"
"""Folders written by commit ed22d28: a trained run, an asked plan, one in an environment."""
KINDS = ("trained", "asked", "environment")
RECORD = RunRecord(
    problem="strip",
    method="scrl",
    settings={"steps": 10, "rate": 0.5, "sizes": [64, 64]},
    seeds=(0, 1),
    version="0.1.0",
    commit=None,
    command="scrl train strip",
    python="3.11",
    jax="0.10",
    device="cpu",
    created="2026-11-15T14:25:30+00:00",
)


def rows(iteration: int, **values: Any) -> list[dict[str, Any]]:
    return [{"iteration": iteration, "seed": seed, **values} for seed in RECORD.seeds]


def mark_of(run: RunFolder) -> Path:
    return run.path / "checkpoint" / "checkpoint.json"


def rewrite(path: Path, **changes: Any) -> None:
    """Change what a document says, and all checksums with it."""
    document = json.loads(path.read_text()) | {"schema": SCHEMA} | changes
    document.pop("checksum", None)
    write_json(path, document)
    for other in (path.parent / "run.json", path.parent / "result.json"):
        files = json.loads(other.read_text()).get("files", {}) if other.exists() else {}
        if path.name in files:
            rewrite(other, files=files | checksums_of(path.parent, path.name))


def flip(path: Path, place: int = -1) -> None:
    """Turn one bit of a file."""
    data = bytearray(path.read_bytes())
    place %= 8 * len(data)
    data[place // 8] ^= 1 << place % 8
    path.write_bytes(data)


def renewed(source: Path, path: Path) -> Path:
    """A copy of a folder of old with all the checksums that it would have today."""
    shutil.copytree(source, path)
    if (path / "environment.json").exists():
        rewrite(path / "environment.json")
    if (path / "plan.json").exists():
        rewrite(path / "plan.json")
    if (path / "checkpoint").exists():
        logged = sha256(path / "metrics.jsonl")
        rewrite(path / "checkpoint" / "checkpoint.json", metrics_sha256=logged)
    files = checksums_of(path, "problem.toml", "problem.npy", "environment.json")
    rewrite(path / "run.json", files=files)
    result = json.loads((path / "result.json").read_text())["result"]
    (path / "result.json").unlink()
    RunFolder.open(path).save_result(result)
    return path


def answer(path: Path) -> Any:
    """All that commands read in a run folder, except what drives."""
    (view,) = read_runs([path])
    return view.folder.record, view.problem.parts(), view.result, view.rows
