"""Groups runs into one compiled call: those that differ only in rules and numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import jax

from scrl.bench.tables import Cell
from scrl.problems import Problem
from scrl.runs.folder import RunFolder
from scrl.training.config import TrainingConfig
from scrl.training.devices import DeviceRounds, shape_of, task_of
from scrl.training.maps import create_run, training_run
from scrl.training.run import TrainingRun

MEMORY_SHARE = 0.5
"""Share of a device's memory that one call may use."""
COPIES = 3
"""Copies of a rollout in memory: as collected, with penalties, and shuffled."""


@dataclass(frozen=True)
class Job:
    """A cell of the table to train."""

    cell: Cell
    problem: Problem
    config: TrainingConfig
    seeds: tuple[int, ...]
    path: Path

    def run(self) -> TrainingRun:
        """The run in its folder, started or resumed."""
        if (self.path / "run.json").exists():
            return training_run(RunFolder.open(self.path))
        return create_run(self.problem, self.config, self.seeds, self.path)


def packs(jobs: Sequence[Job], *, at_once: int | None = None) -> list[list[Job]]:
    """The jobs grouped by what can run in one call, at most `at_once` in a group.

    Without a number, a CPU runs one at a time and other devices as many as fit into memory.
    """
    if at_once == 1:
        return [[job] for job in jobs]
    by_shape: dict[Any, list[Job]] = {}
    for job in jobs:
        by_shape.setdefault(shape_of(_task(job)), []).append(job)
    found = []
    for alike in by_shape.values():
        most = at_once or runs_at_once(alike[0])
        found += [alike[first : first + most] for first in range(0, len(alike), most)]
    return found


def rounds_of(pack: Sequence[Job]) -> DeviceRounds:
    """The compiled functions for a group of jobs."""
    return DeviceRounds([_task(job) for job in pack], pack[0].seeds)


def runs_at_once(job: Job) -> int:
    """How many runs like this one fit into the memory of the devices; 1 on a CPU."""
    devices = jax.local_devices()
    limits = [(device.memory_stats() or {}).get("bytes_limit", 0) for device in devices]
    if devices[0].platform == "cpu" or not all(limits):
        return 1
    return max(1, int(MEMORY_SHARE * sum(limits) / (len(job.seeds) * seed_bytes(job))))


def seed_bytes(job: Job) -> int:
    """Memory of one seed: its state and its rollout of a round."""
    rounds = DeviceRounds([_task(job)], job.seeds[:1])
    state = jax.eval_shape(rounds.begin)
    state_bytes = sum(prod(leaf.shape) * leaf.dtype.itemsize for leaf in jax.tree.leaves(state))
    loop, world = job.config.loop, job.problem.world
    row = 2 * world.observation_size + world.kinds.shape[1] + 8  # a row of `Rollout`
    return state_bytes + COPIES * 4 * loop.worlds * loop.rollout_steps * row


def _task(job: Job) -> Any:
    return task_of(job.problem, job.config)
