"""The progress of a bench."""

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
    """The progress of a bench, as passed to the watcher."""

    cells: tuple[Cell, ...]
    """The cells that are running or have just finished."""
    done: int
    """Number of finished cells."""
    in_all: int
    share: float
    """Share of the whole bench that is done, from 0 to 1."""
    run: TrainingProgress | None
    """The progress of a running run; None if runs have just finished or were read."""
    left_s: float | None
    """Estimated seconds left; None while unknown."""


BenchWatcher = Callable[[BenchProgress], None]


class ProgressCounter:
    """Collects results and counts running runs, in one group or several."""

    def __init__(self, cells: int, watch: BenchWatcher | None) -> None:
        self.cells, self.watch = cells, watch
        self.found: dict[Cell, TrainingResult] = {}
        self._read = 0
        self._started = time.monotonic()
        self._cells: dict[Path, Cell] = {}
        self._shares: dict[Path, float] = {}
        """The finished share of each running run."""

    def read(self, cell: Cell, result: TrainingResult) -> None:
        """Record a run that was finished before."""
        self.found[cell] = result
        self._read += 1
        self._tell((cell,), None)

    def begin(self, pack: Sequence[Job]) -> None:
        """Record runs that start, or start again because their worker was lost."""
        for job in pack:
            self._cells[job.path] = job.cell
            self._shares[job.path] = 0.0

    def __call__(self, now: TrainingProgress) -> None:
        """Record a finished round of a run."""
        self._shares[now.run] = now.rounds / now.rounds_in_all
        self._tell(tuple(self._cells[path] for path in self._shares), now)

    def finished(self, pack: Sequence[Job], results: Sequence[TrainingResult]) -> None:
        """Record finished runs."""
        cells = tuple(job.cell for job in pack)
        self.found.update(zip(cells, results, strict=True))
        self.dropped(pack)
        self._tell(cells, None)

    def dropped(self, pack: Sequence[Job]) -> None:
        """Record runs that are no longer running."""
        for job in pack:
            self._shares.pop(job.path, None)

    def stopping(self) -> None:
        """Report that Ctrl-C was pressed."""
        tell(self.watch, "stopping")

    def say(self, text: str) -> None:
        """Pass a message to the watcher."""
        tell(self.watch, "say", text)

    def _tell(self, cells: tuple[Cell, ...], run: TrainingProgress | None) -> None:
        if self.watch is not None:
            done = len(self.found)
            share = (done + sum(self._shares.values())) / self.cells
            self.watch(BenchProgress(cells, done, self.cells, share, run, self._left()))

    def _left(self) -> float | None:
        """Estimated seconds left at the present pace; None while unknown."""
        done = len(self.found) + sum(self._shares.values())
        trained = done - self._read
        if trained < 0.1:
            return None
        return (time.monotonic() - self._started) / trained * (self.cells - done)


class BenchProgressBar(ProgressBar):
    """A progress bar with the number of finished runs and the running ones."""

    def __call__(self, now: BenchProgress) -> None:
        left = "" if now.left_s is None else f"{timedelta(seconds=round(now.left_s))} left"
        one, *others = now.cells
        names = f"{one.problem} {one.label}"
        if others:
            names += f" and {len(others)} more at once"
        text = f"{names} ({now.done} of {now.in_all} runs done)"
        self.show(now.share, text, left, is_due=now.run is None)
