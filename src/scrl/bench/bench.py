"""Run the cells of a table one after the other, each in a folder of its own, and write the table.

A bench that was stopped goes on where it was: finished runs are read, the one under way is resumed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from scrl.bench.rows import Row, rows_of
from scrl.bench.tables import Cell, Table
from scrl.bench.writing import as_csv, latex, markdown
from scrl.errors import ScrlError
from scrl.methods import configure
from scrl.outcome import TrainingResult
from scrl.problems import load
from scrl.runs import RunFolder
from scrl.training import Progress, resume, train

QUICK: Mapping[str, Any] = MappingProxyType(
    {"iterations": 4, "settle": 4, "worlds": 4, "steps": 256, "updates": 16}
)
"""Settings that show that everything runs; nothing is learned in so few rounds."""


@dataclass(frozen=True)
class BenchProgress:
    """Where a bench is."""

    cell: Cell
    done: int
    """Cells that are finished."""
    in_all: int
    run: Progress | None
    """The run under way; none where a finished one was read."""
    left_s: float | None
    """Seconds left, as far as can be told."""


BenchWatcher = Callable[[BenchProgress], None]


@dataclass(frozen=True)
class BenchResult:
    """A finished table."""

    table: Table
    rows: tuple[Row, ...]
    out: Path


def run_bench(
    table: Table,
    cells: Sequence[Cell],
    out: Path,
    *,
    seeds: int = 10,
    settings: Mapping[str, Any] | None = None,
    is_quick: bool = False,
    watch: BenchWatcher | None = None,
) -> BenchResult:
    """Every cell's run below `out`, then the table beside them as .md, .csv and .tex."""
    results: list[tuple[Cell, TrainingResult]] = []
    clock = _Clock(len(cells))
    for cell in cells:
        teller = _Teller(cell, clock, watch)
        chosen = _settings(cell.method, settings, is_quick)
        is_trained, result = _run(cell, out / cell.folder, seeds, chosen, teller)
        results.append((cell, result))
        clock.finished(is_trained)
        teller.finished()
    rows = tuple(rows_of(results, load))
    for ending, text in [("md", markdown(table, rows)), ("csv", as_csv(rows)),
                         ("tex", latex(table, rows))]:  # fmt: skip
        (out / f"{table.name}.{ending}").write_text(text, encoding="utf-8")
    return BenchResult(table, rows, out)


class _Clock:
    """How long the rest will take, from the cells that were trained so far."""

    def __init__(self, cells: int) -> None:
        self.cells = cells
        self.started = time.monotonic()
        self.done = 0
        self.read = 0

    def finished(self, is_trained: bool) -> None:
        self.done += 1
        self.read += not is_trained

    def left(self, share: float) -> float | None:
        """Seconds, with this share of the next cell done; none before anything can be told."""
        trained = self.done + share - self.read
        if trained < 0.1:
            return None
        return (time.monotonic() - self.started) / trained * (self.cells - self.done - share)


@dataclass(frozen=True)
class _Teller:
    """Watches one cell's run and hands on what it sees."""

    cell: Cell
    clock: _Clock
    watch: BenchWatcher | None

    def __call__(self, now: Progress) -> None:
        self._tell(now, now.rounds / now.rounds_in_all)

    def finished(self) -> None:
        self._tell(None, 0.0)

    def stopping(self) -> None:
        """Somebody pressed Ctrl-C."""
        if (stopping := getattr(self.watch, "stopping", None)) is not None:
            stopping()

    def _tell(self, run: Progress | None, share: float) -> None:
        if self.watch is not None:
            clock = self.clock
            self.watch(BenchProgress(self.cell, clock.done, clock.cells, run, clock.left(share)))


def _run(
    cell: Cell,
    path: Path,
    seeds: int,
    chosen: Mapping[str, Any],
    watch: _Teller,
) -> tuple[bool, TrainingResult]:
    """A cell's result, and whether it had to be trained for it."""
    if not (path / "run.json").exists():
        return True, train(
            cell.problem, method=cell.method, seeds=seeds, settings=chosen, out=path, watch=watch
        )
    folder = RunFolder.open(path)
    asked = configure(cell.method, settings=chosen).to_json()
    if folder.record.settings != asked or folder.record.seeds != tuple(range(seeds)):
        raise ScrlError(
            f"{path}: holds a run with other seeds or settings; choose another --out, or remove it"
        )
    return not folder.is_finished, resume(path, watch=watch)


def _settings(method: str, settings: Mapping[str, Any] | None, is_quick: bool) -> dict[str, Any]:
    """What was asked for, over the quick settings that this method's learner knows."""
    if not is_quick:
        return dict(settings or {})
    known = configure(method).to_json()["settings"]
    quick = {key: value for key, value in QUICK.items() if key in known}
    return quick | dict(settings or {})
