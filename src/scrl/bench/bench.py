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
from scrl.bench.tables import Cell, Table
from scrl.errors import ScrlError
from scrl.files import replacing
from scrl.problems import Problem, load
from scrl.runs.folder import RunFolder
from scrl.terminal import Auto, watching
from scrl.training.config import TrainingConfig, configure
from scrl.training.maps import configure_map
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
    runs = list(dict.fromkeys(run for cell in cells for run in cell.runs()))
    problems = {run: _problem(run) for run in runs}
    with watching(watch, BenchProgressBar) as screen:
        teller = ProgressCounter(len(runs), screen)
        jobs = []
        for run in runs:
            config = _configure(run, problems[run], settings or {}, is_quick=is_quick)
            job = Job(run, problems[run], config, tuple(range(seeds)), out / run.folder)
            if (finished := _finished(job)) is None:
                jobs.append(job)
            else:
                teller.read(run, finished)
        if jobs:
            train_jobs(jobs, teller, workers or Workers(), at_once=at_once)
    results = [(cell, best_of([teller.found[run] for run in cell.runs()])) for cell in cells]
    is_budgeted = not is_quick and "iterations" not in (settings or {})
    rows = tuple(rows_of(results, lambda cell: problems[cell.runs()[0]], is_budgeted=is_budgeted))
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


def best_of(results: Sequence[TrainingResult]) -> TrainingResult:
    """The best of several runs for every seed: the rules first, then the return."""
    if len(results) == 1:
        return results[0]
    chosen = [
        replace(results[0], seeds=same_seed).best
        for same_seed in zip(*(result.seeds for result in results), strict=True)
    ]
    return replace(
        results[0],
        seeds=tuple(chosen),
        env_steps=sum(result.env_steps for result in results),
        wall_s=sum(result.wall_s for result in results),
    )


def _problem(run: Cell) -> Problem:
    problem, strength = load(run.problem), run.terms.wind
    if strength is None:
        return problem
    wind = replace(problem.world_spec.wind, strength=strength)
    return replace(problem, world_spec=replace(problem.world_spec, wind=wind))


def _configure(
    run: Cell, problem: Problem, settings: Mapping[str, Any], *, is_quick: bool
) -> TrainingConfig:
    """The settings of a run; those that are given and those of its variant win over quick ones.

    All runs have the same budget, unless the number of rounds is given.
    """
    names = {"method": run.method, "preset": run.terms.preset}
    changes = dict(run.changes)
    names |= {key: changes.pop(key) for key in ("learner", "penalty", "preset") if key in changes}
    known = configure(**names).to_json()["settings"]
    quick = {key: value for key, value in QUICK.items() if key in known} if is_quick else {}
    given = quick | changes | dict(settings) | dict(run.swept)
    steps = None if "iterations" in given else run.budget
    return configure_map(problem, steps=steps, settings=given, **names)
