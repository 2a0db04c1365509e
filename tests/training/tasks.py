"""A corridor of two regions, and its tasks."""

from __future__ import annotations

import dataclasses

import numpy as np

from scrl.penalty import Atoms, Drawn, Penalty
from scrl.problems import Problem
from scrl.training.config import LearningPlan, configure
from scrl.training.devices import SweepTask
from scrl.worlds.sweep.regions import from_labels
from scrl.worlds.sweep.spec import SweepSpec
from scrl.worlds.sweep.vehicle import Vehicle


def problem(rules: tuple[str, ...] = (), **settings: object) -> Problem:
    """Ten cells of A and ten of B, one unit a step."""
    spec = SweepSpec(from_labels(np.array([[1] * 10 + [2] * 10]), ["A", "B"]), Vehicle(rate=1.0))
    return Problem.create(dataclasses.replace(spec, **settings), rules)


def task(
    of: Problem, penalty: Penalty | None = None, plan: LearningPlan | None = None
) -> SweepTask:
    return SweepTask(
        plan=(plan or configure().plan).for_task(of.discount),
        rules=Atoms.of(of.atoms),
        reading=Atoms.of(of.atoms),
        penalty=penalty or Drawn(),
        tolerance=of.tolerance,
        discount=of.discount,
        is_random=of.is_random,
        world=of.world,
    )
