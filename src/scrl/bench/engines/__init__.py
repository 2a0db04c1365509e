"""Who trains the runs of a bench: one machine, or many."""

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
    """Those that an engine may use which is not this process alone."""

    count: int | None = None
    """At most so many at once; none: as many as there is room for."""
    cores: int = 1
    """Set aside for each of them."""
    address: str | None = None
    """Of a cluster that is there already; none: what the engine's environment says, or our own."""


class Engine(Protocol):
    """Trains jobs to their end and tells of it; at most `at_once` of them in one call."""

    def __call__(
        self, jobs: Sequence[Job], teller: ProgressCounter, workers: Workers, *, at_once: int | None
    ) -> None: ...


ENGINES: dict[str, str] = {"local": "scrl.bench.engines.local", "ray": "scrl.bench.engines.ray"}
"""Modules with a function `train_jobs`, which is an `Engine`; imported when they are used."""


def find_engine(name: str) -> Engine:
    if name not in ENGINES:
        raise ScrlError(f"unknown engine '{name}'{did_you_mean(name, list(ENGINES))}")
    return import_module(ENGINES[name]).train_jobs
