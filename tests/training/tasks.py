"""A corridor of two regions, and its tasks."""

from __future__ import annotations

import dataclasses

import numpy as np

from scrl.penalty import Atoms, Penalty
from scrl.penalty import scrl as drawn
from scrl.problems import Problem
from scrl.training.algorithm import Task
from scrl.worlds.sweep.regions import from_labels
from scrl.worlds.sweep.spec import SweepSpec
from scrl.worlds.sweep.vehicle import Vehicle


def problem(rules: tuple[str, ...] = (), **settings: object) -> Problem:
    """Ten cells of A and ten of B, one unit a step."""
    spec = SweepSpec(from_labels(np.array([[1] * 10 + [2] * 10]), ["A", "B"]), Vehicle(rate=1.0))
    return Problem.create(dataclasses.replace(spec, **settings), rules)


def task(of: Problem, penalty: Penalty | None = None) -> Task:
    return Task(
        of.world,
        Atoms.of(of.atoms),
        Atoms.of(of.atoms),
        penalty or drawn(),
        of.tolerance,
        of.discount,
        of.world_spec.is_random,
    )
