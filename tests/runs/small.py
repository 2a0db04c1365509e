"""A record, and rows of metrics, for the tests of run folders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from scrl.runs import RunFolder, RunRecord

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
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
