"""Engines that train the runs of a bench: this process, or a Ray cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Protocol

from scrl.bench.packing import Job
from scrl.bench.progress import ProgressCounter
from scrl.errors import ScrlError, did_you_mean


@dataclass(frozen=True)
class Workers:
    """The workers of an engine other than this process."""

    count: int | None = None
    """Largest number of workers; None: as many as the cluster can hold."""
    cores: int = 1
    """Cores of each worker."""
    address: str | None = None
    """Address of an existing cluster; None: RAY_ADDRESS, or a new local cluster."""


class Engine(Protocol):
    """Trains jobs and reports their progress; at most `at_once` of them in one call."""

    def __call__(
        self, jobs: Sequence[Job], teller: ProgressCounter, workers: Workers, *, at_once: int | None
    ) -> None: ...


ENGINES: dict[str, str] = {"local": "scrl.bench.engines.local", "ray": "scrl.bench.engines.ray"}
"""Modules with a function `train_jobs`, which is an `Engine`; imported when they are used."""


def find_engine(name: str) -> Engine:
    if name not in ENGINES:
        raise ScrlError(f"unknown engine '{name}'{did_you_mean(name, list(ENGINES))}")
    return import_module(ENGINES[name]).train_jobs
