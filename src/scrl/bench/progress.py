"""How far a bench has come, for whoever watches it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from scrl.bench.packing import Job
from scrl.bench.tables import Cell
from scrl.terminal import ProgressBar, tell
from scrl.training.progress import TrainingProgress
from scrl.training.result import TrainingResult


@dataclass(frozen=True)
class BenchProgress:
    """Where a bench is."""

    cells: tuple[Cell, ...]
    """Those under way, or just finished."""
    done: int
    """Cells that are finished."""
    in_all: int
    share: float
    """How much of everything is done, from 0 to 1."""
    run: TrainingProgress | None
    """A run under way; none where runs have just been finished or read."""
    left_s: float | None
    """Seconds left, as far as can be told."""


BenchWatcher = Callable[[BenchProgress], None]


class ProgressCounter:
    """Keeps the results, and counts what is under way, be it one pack or many at once."""

    def __init__(self, cells: int, watch: BenchWatcher | None) -> None:
        self.cells, self.watch = cells, watch
        self.found: dict[Cell, TrainingResult] = {}
        self._read = 0
        self._started = time.monotonic()
        self._cells: dict[Path, Cell] = {}
        self._shares: dict[Path, float] = {}
        """Of the runs under way, how much of each is done."""

    def read(self, cell: Cell, result: TrainingResult) -> None:
        """That one was finished before."""
        self.found[cell] = result
        self._read += 1
        self._tell((cell,), None)

    def begin(self, pack: Sequence[Job]) -> None:
        """These are under way now: from the start, or again because they were lost."""
        for job in pack:
            self._cells[job.path] = job.cell
            self._shares[job.path] = 0.0

    def __call__(self, now: TrainingProgress) -> None:
        """A round of a run is done."""
        self._shares[now.run] = now.rounds / now.rounds_in_all
        self._tell(tuple(self._cells[path] for path in self._shares), now)

    def finished(self, pack: Sequence[Job], results: Sequence[TrainingResult]) -> None:
        """These are done."""
        cells = tuple(job.cell for job in pack)
        self.found.update(zip(cells, results, strict=True))
        self.dropped(pack)
        self._tell(cells, None)

    def dropped(self, pack: Sequence[Job]) -> None:
        """These are not under way any more."""
        for job in pack:
            self._shares.pop(job.path, None)

    def stopping(self) -> None:
        """Somebody pressed Ctrl-C."""
        tell(self.watch, "stopping")

    def say(self, text: str) -> None:
        """Something that whoever watches should know."""
        tell(self.watch, "say", text)

    def _tell(self, cells: tuple[Cell, ...], run: TrainingProgress | None) -> None:
        if self.watch is not None:
            done = len(self.found)
            share = (done + sum(self._shares.values())) / self.cells
            self.watch(BenchProgress(cells, done, self.cells, share, run, self._left()))

    def _left(self) -> float | None:
        """Seconds, at the pace of what was trained so far; none before anything can be told."""
        done = len(self.found) + sum(self._shares.values())
        trained = done - self._read
        if trained < 0.1:
            return None
        return (time.monotonic() - self._started) / trained * (self.cells - done)


class BenchProgressBar(ProgressBar):
    """How many runs are done, and which are under way."""

    def __call__(self, now: BenchProgress) -> None:
        left = "" if now.left_s is None else f"{timedelta(seconds=round(now.left_s))} left"
        one, *others = now.cells
        names = f"{one.problem} {one.label}"
        if others:
            names += f" and {len(others)} more at once"
        text = f"{names} ({now.done} of {now.in_all} runs done)"
        self.show(now.share, text, left, is_due=now.run is None)
