"""Run the cells of a table, each in its own run folder, and write the table.

A bench is resumable: finished runs are read, unfinished ones are resumed. Cells that fit into one
compiled call run in parallel where that is faster on the device.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from scrl.bench.engines import Workers, find_engine
from scrl.bench.packing import Job
from scrl.bench.progress import BenchProgressBar, BenchWatcher, ProgressCounter
from scrl.bench.rows import Row, as_csv, latex, markdown, rows_of
from scrl.bench.tables import VARIANTS, Cell, Table
from scrl.errors import ScrlError
from scrl.files import replacing
from scrl.problems import Problem, load
from scrl.runs.folder import RunFolder
from scrl.terminal import Auto, watching
from scrl.training.config import TrainingConfig, configure
from scrl.training.result import TrainingResult, read_result

QUICK: Mapping[str, Any] = MappingProxyType(
    {"iterations": 4, "settle": 4, "worlds": 4, "rollout_steps": 256, "updates": 16}
)
"""Settings of a smoke test with a few rounds, in which nothing is learned."""
QUICK_NOTE = (
    "Made by a quick run (--quick) of a few rounds: it shows that everything runs, no more."
)


@dataclass(frozen=True)
class BenchResult:
    """A finished table."""

    table: Table
    rows: tuple[Row, ...]
    out: Path
    note: str | None = None
    """A note that is printed with the table."""


def run_bench(  # noqa: PLR0913 (one for each thing that a user may want to say)
    table: Table,
    cells: Sequence[Cell],
    out: Path,
    *,
    seeds: int = 10,
    settings: Mapping[str, Any] | None = None,
    is_quick: bool = False,
    at_once: int | None = None,
    engine: str = "local",
    workers: Workers | None = None,
    watch: BenchWatcher | Auto | None = "auto",
) -> BenchResult:
    """Every cell's run below `out`, then the table beside them as .md, .csv and .tex.

    `at_once` is how many cells run in one compiled call (None: chosen for the device); `engine`
    selects where they are trained, and `workers` how many workers another engine uses. `watch` is
    called with the progress; the default is a progress bar on standard error if that is a terminal
    or a notebook, and None shows nothing.
    """
    train_jobs = find_engine(engine)
    problems = {name: _problem(name, table.variant) for name in {cell.problem for cell in cells}}
    with watching(watch, BenchProgressBar) as screen:
        teller = ProgressCounter(len(cells), screen)
        jobs = []
        for cell in cells:
            config = _configure(cell, settings, is_quick=is_quick)
            job = Job(cell, problems[cell.problem], config, tuple(range(seeds)), out / cell.folder)
            if (finished := _finished(job)) is None:
                jobs.append(job)
            else:
                teller.read(cell, finished)
        if jobs:
            train_jobs(jobs, teller, workers or Workers(), at_once=at_once)
    found = teller.found
    rows = tuple(rows_of([(cell, found[cell]) for cell in cells], problems.__getitem__))
    note = QUICK_NOTE if is_quick else None
    for ending, text in [("md", markdown(table, rows, note)), ("csv", as_csv(rows, note)),
                         ("tex", latex(table, rows, note))]:  # fmt: skip
        with replacing(out / f"{table.name}.{ending}") as file:
            file.write(text.encode())
    return BenchResult(table, rows, out, note)


def _finished(job: Job) -> TrainingResult | None:
    """The result of a finished run; a different run in its folder is an error."""
    if not (job.path / "run.json").exists():
        return None
    folder = RunFolder.open(job.path)
    is_same = TrainingConfig.from_json(folder.record.settings) == job.config
    if not is_same or folder.record.seeds != job.seeds:
        raise ScrlError(
            f"{job.path}: holds a run with other seeds or settings; choose another --out, or "
            "remove it"
        )
    return read_result(folder, job.problem)


def _problem(name: str, variant: str) -> Problem:
    problem, gusts = load(name), VARIANTS[variant].gusts
    if gusts is None:
        return problem
    wind = replace(problem.world_spec.wind, strength=gusts)
    return replace(problem, world_spec=replace(problem.world_spec, wind=wind))


def _configure(cell: Cell, settings: Mapping[str, Any] | None, *, is_quick: bool) -> TrainingConfig:
    """The settings of a cell: quick settings, overridden by the given and the swept ones."""
    preset = VARIANTS[cell.variant].preset
    known = configure(cell.method, preset=preset).to_json()["settings"]
    quick = {key: value for key, value in QUICK.items() if key in known} if is_quick else {}
    return configure(
        cell.method, preset=preset, settings=quick | dict(settings or {}) | dict(cell.swept)
    )
