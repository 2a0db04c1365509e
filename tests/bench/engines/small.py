"""A small bench, its runs, and what must be the same whichever engine drives it."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from scrl.bench import TABLES, cells_of, run_bench
from scrl.bench.engines.cluster import MANNERS

TABLE = TABLES["table4"]
SETTINGS = {
    "worlds": 2,
    "rollout_steps": 32,
    "iterations": 2,
    "settle": 40,
    "width": 4,
    "depth": 1,
}
CELLS = cells_of(TABLE, methods=["scrl"])
"""Two runs of one shape: what is compiled for one serves both."""
ROUNDS, SEEDS = 42, 2
WRITTEN = [f"table4.{ending}" for ending in ("md", "csv", "tex")]


def bench(out: Path, watch: Any = None, cells: Any = CELLS, **options: Any) -> None:
    given = {"engine": "ray", **options}
    run_bench(TABLE, cells, out, seeds=SEEDS, settings=SETTINGS, watch=watch, **given)


def numbers(out: Path, cell: Any) -> dict[str, Any]:
    """What a run has found, without the time that it took and its place."""
    result = json.loads((out / cell.folder / "result.json").read_text())["result"]
    del result["wall_s"]
    return result | {"seeds": [{**seed, "run": ""} for seed in result["seeds"]]}


def assert_same_run(out: Path, other: Path, cell: Any) -> None:
    """The same result, policy and metrics, with no round more or less."""
    assert numbers(out, cell) == numbers(other, cell)
    for name in ("policy.eqx", "metrics.jsonl"):
        content = (out / cell.folder / name).read_bytes()
        assert content == (other / cell.folder / name).read_bytes()
    assert content.count(b"\n") == 1 + ROUNDS * SEEDS
    kept = {path.name: path for path in (out / cell.folder / "checkpoint").iterdir()}
    marks = [kept.pop(name) for name in ("checkpoint.json", "previous.json") if name in kept]
    assert set(kept) == {json.loads(mark.read_text())["state"] for mark in marks}


def assert_same(out: Path, other: Path) -> None:
    """The same tables and runs, with no run more or less."""
    for name in WRITTEN:
        assert (out / name).read_text() == (other / name).read_text()
    assert {path.name for path in out.iterdir()} == {path.name for path in other.iterdir()}
    for cell in CELLS:
        assert_same_run(out, other, cell)


def environment() -> dict[str, str]:
    """As this process computes: one device, and quick compiling."""
    return {**os.environ, **MANNERS}


def arguments(out: Path, *more: str) -> list[str]:
    sets = [text for key, value in SETTINGS.items() for text in ("--set", f"{key}={value}")]
    asked = [sys.executable, "-m", "scrl", "bench", "table4", "--methods", "scrl"]
    return [*asked, "--seeds", str(SEEDS), "--out", str(out), *sets, *more]


def children(pid: int) -> set[int]:
    """All processes below one, however deep."""
    parents: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    found = {pid}
    while more := {each for each, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {pid}
