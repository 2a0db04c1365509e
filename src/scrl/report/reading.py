"""Run folders as reports read them: problem, result, and metrics over the rounds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from scrl.errors import ScrlError
from scrl.opening import Run, open_run
from scrl.problems import BaseProblem
from scrl.runs.folder import RunFolder
from scrl.runs.result import RunResult

MOST_RUNS = 24
"""More runs than this cannot be read side by side."""


@dataclass(frozen=True)
class RunView:
    """One run, read from its folder."""

    label: str
    """What it is called among the others."""
    run: Run

    @property
    def folder(self) -> RunFolder:
        return self.run.folder

    @property
    def problem(self) -> BaseProblem:
        return self.run.problem

    @property
    def result(self) -> RunResult | None:
        """None while the run is not finished."""
        return self.run.result

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """The logged metrics in the order of the rounds; empty if nothing was logged."""
        return self.folder.metrics() if self.folder.has_metrics else []


def read_runs(paths: Sequence[Path]) -> list[RunView]:
    """All runs, each with a unique name."""
    if len(paths) > MOST_RUNS:
        raise ScrlError(f"{len(paths)} runs are too many for one look: name at most {MOST_RUNS}")
    views = [_read(path) for path in paths]
    return [replace(view, label=label) for view, label in zip(views, _labels(views), strict=True)]


def _read(path: Path) -> RunView:
    run = open_run(path)
    return RunView(run.folder.record.method, run)


def _labels(views: Sequence[RunView]) -> list[str]:
    """The methods as names, with the folder's name where methods are not unique."""
    named = Counter((view.problem.name, view.label) for view in views)
    labels = [
        view.label
        if named[view.problem.name, view.label] == 1
        else f"{view.label} ({view.folder.path.resolve().name})"
        for view in views
    ]
    seen: Counter[tuple[str, str]] = Counter()
    unique = []
    for view, label in zip(views, labels, strict=True):
        seen[view.problem.name, label] += 1
        again = seen[view.problem.name, label]
        unique.append(label if again == 1 else f"{label} {again}")
    return unique


class Band(NamedTuple):
    """A curve over all seeds: median and range."""

    rounds: Float[np.ndarray, " point"]
    middle: Float[np.ndarray, " point"]
    low: Float[np.ndarray, " point"]
    high: Float[np.ndarray, " point"]


def by_seed(rows: Sequence[Mapping[str, Any]], key: str) -> Float[np.ndarray, "seed round"]:
    """One metric as a table; null values and missing rows are NaN."""
    seeds = {seed: index for index, seed in enumerate(sorted({row["seed"] for row in rows}))}
    rounds = {each: index for index, each in enumerate(sorted({row["iteration"] for row in rows}))}
    found = np.full((len(seeds), len(rounds)), np.nan)
    for row in rows:
        value = row.get(key)
        if isinstance(value, int | float):
            found[seeds[row["seed"]], rounds[row["iteration"]]] = value
    return found


def band_of(rows: Sequence[Mapping[str, Any]], key: str, *, most: int = 160) -> Band | None:
    """The curve of one metric with a limited number of points; None if it was not logged."""
    values = by_seed(rows, key)
    rounds = np.array(sorted({row["iteration"] for row in rows}), float)
    is_seen = np.isfinite(values).any(axis=0)
    if not is_seen.any():
        return None
    values, rounds = values[:, is_seen], rounds[is_seen]
    pieces = np.array_split(np.arange(len(rounds)), min(most, len(rounds)))
    return Band(
        np.array([rounds[piece[-1]] for piece in pieces]),
        np.array([np.nanmedian(values[:, piece]) for piece in pieces]),
        np.array([np.nanmin(values[:, piece]) for piece in pieces]),
        np.array([np.nanmax(values[:, piece]) for piece in pieces]),
    )
