"""Run the cells of a table, each in a folder of its own, and write the table.

A bench that was stopped goes on where it was: finished runs are read, those under way are resumed.
Cells that fit into one compiled call run side by side where the device gains by it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from scrl.bench.packing import Job, packs
from scrl.bench.rows import Row, rows_of
from scrl.bench.tables import VARIANTS, Cell, Table
from scrl.bench.writing import as_csv, latex, markdown
from scrl.errors import ScrlError
from scrl.methods import TrainingConfig, configure
from scrl.outcome import TrainingResult
from scrl.problems import Problem, load
from scrl.runs import RunFolder
from scrl.together import run_together
from scrl.trained import read_result
from scrl.training import begin_run
from scrl.underway import Progress, Underway

QUICK: Mapping[str, Any] = MappingProxyType(
    {"iterations": 4, "settle": 4, "worlds": 4, "steps": 256, "updates": 16}
)
"""Settings that show that everything runs; nothing is learned in so few rounds."""


@dataclass(frozen=True)
class BenchProgress:
    """Where a bench is."""

    cells: tuple[Cell, ...]
    """Those under way, or just finished."""
    done: int
    """Cells that are finished."""
    in_all: int
    share: float
    """How far those under way have come, from 0 to 1."""
    run: Progress | None
    """A run under way; none where runs have just been finished or read."""
    left_s: float | None
    """Seconds left, as far as can be told."""


BenchWatcher = Callable[[BenchProgress], None]


@dataclass(frozen=True)
class BenchResult:
    """A finished table."""

    table: Table
    rows: tuple[Row, ...]
    out: Path


def run_bench(  # noqa: PLR0913 (one for each thing that a user may want to say)
    table: Table,
    cells: Sequence[Cell],
    out: Path,
    *,
    seeds: int = 10,
    settings: Mapping[str, Any] | None = None,
    is_quick: bool = False,
    at_once: int | None = None,
    watch: BenchWatcher | None = None,
) -> BenchResult:
    """Every cell's run below `out`, then the table beside them as .md, .csv and .tex.

    `at_once` is how many cells run side by side where they can (none: what suits the device).
    """
    problems = {name: _problem(name, table.variant) for name in {cell.problem for cell in cells}}
    found: dict[Cell, TrainingResult] = {}
    jobs = []
    clock = _Clock(len(cells))
    for cell in cells:
        job = Job(
            cell,
            problems[cell.problem],
            _configure(cell, settings, is_quick=is_quick),
            out / cell.folder,
        )
        finished = _finished(job, seeds)
        if finished is None:
            jobs.append(job)
        else:
            found[cell] = finished
            clock.read += 1
            _Teller((cell,), clock, watch).finished()
    for pack in packs(jobs, seeds, at_once=at_once):
        teller = _Teller(tuple(job.cell for job in pack), clock, watch)
        results = run_together([_underway(job, seeds) for job in pack], teller)
        found.update(zip(teller.cells, results, strict=True))
        teller.finished()
    rows = tuple(rows_of([(cell, found[cell]) for cell in cells], problems.__getitem__))
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

    def left(self, under_way: float) -> float | None:
        """Seconds, with as much of cells under way done; none before anything can be told."""
        trained = self.done + under_way - self.read
        if trained < 0.1:
            return None
        return (time.monotonic() - self.started) / trained * (self.cells - self.done - under_way)


class _Teller:
    """Watches cells that run side by side and hands on what it sees."""

    def __init__(self, cells: tuple[Cell, ...], clock: _Clock, watch: BenchWatcher | None) -> None:
        self.cells, self.clock, self.watch = cells, clock, watch
        self.shares: dict[Path, float] = {}

    def __call__(self, now: Progress) -> None:
        self.shares[now.run] = now.rounds / now.rounds_in_all
        self._tell(now, sum(self.shares.values()) / len(self.cells))

    def finished(self) -> None:
        self.clock.done += len(self.cells)
        self._tell(None, 0.0)

    def stopping(self) -> None:
        """Somebody pressed Ctrl-C."""
        if (stopping := getattr(self.watch, "stopping", None)) is not None:
            stopping()

    def _tell(self, run: Progress | None, share: float) -> None:
        if self.watch is not None:
            clock = self.clock
            left = clock.left(share * len(self.cells))
            self.watch(BenchProgress(self.cells, clock.done, clock.cells, share, run, left))


def _finished(job: Job, seeds: int) -> TrainingResult | None:
    """What is there already; a run of something else in its place is an error."""
    if not (job.path / "run.json").exists():
        return None
    folder = RunFolder.open(job.path)
    if folder.record.settings != job.config.to_json() or folder.record.seeds != _seeds(seeds):
        raise ScrlError(
            f"{job.path}: holds a run with other seeds or settings; choose another --out, or "
            "remove it"
        )
    return read_result(folder)


def _underway(job: Job, seeds: int) -> Underway:
    if (job.path / "run.json").exists():
        return Underway.again(RunFolder.open(job.path))
    return begin_run(job.problem, job.config, _seeds(seeds), job.path)


def _seeds(count: int) -> tuple[int, ...]:
    return tuple(range(count))


def _problem(name: str, variant: str) -> Problem:
    problem, gusts = load(name), VARIANTS[variant].gusts
    if gusts is None:
        return problem
    wind = replace(problem.world_spec.wind, strength=gusts)
    return replace(problem, world_spec=replace(problem.world_spec, wind=wind))


def _configure(cell: Cell, settings: Mapping[str, Any] | None, *, is_quick: bool) -> TrainingConfig:
    """What was asked for, over the quick settings that this method's learner knows."""
    preset = VARIANTS[cell.variant].preset
    known = configure(cell.method, preset=preset).to_json()["settings"]
    quick = {key: value for key, value in QUICK.items() if key in known} if is_quick else {}
    return configure(cell.method, preset=preset, settings=quick | dict(settings or {}))
