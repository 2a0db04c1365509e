"""A trained policy as one function of what a controller knows, with everything else baked in.

    throttle(cell, offset, speed, gust)

The world's tables (what is served where, what lies ahead, what is left) and the prices that the
policy drives under are constants of the exported file.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float, Int

from scrl._version import __version__
from scrl.export.frame import frame_of
from scrl.export.segments import ExportError
from scrl.learners import SeeingPolicy
from scrl.problems import Problem
from scrl.worlds.places import turns_of
from scrl.worlds.sweep import SweepState

Throttle = Callable[..., Float[Array, " state"]]

INPUTS = {
    "cell": "int32: the path cell that the vehicle is in, from 0",
    "offset": "float32: how far it is into that cell, from 0 to below 1",
    "speed": "float32: its own speed after the last step, in cells per step; 0 at the start",
    "gust": "float32: the gust as a share of the speed; 0 in calm air",
}
OUTPUTS = {"throttle": "float32: from 0 to 1, as a share of the top speed"}


def checked(problem: Problem, policy: Any) -> SeeingPolicy:
    """The policy, if it is one that sees observations of this problem's world."""
    if not isinstance(policy, SeeingPolicy):
        raise ExportError(
            "only a trained policy can be written as a function, and this run holds a plan: "
            "export it as csv, which has the throttle of every step"
        )
    there = len(problem.world_spec.regions.names)
    if policy.regions != there:
        raise ExportError(
            f"the policy was trained on a map with {policy.regions} regions, and {problem.name} "
            f"has {there}"
        )
    return policy


def throttle_function(problem: Problem, policy: SeeingPolicy) -> Throttle:
    """The policy as a function of whole arrays of states."""
    world = problem.world
    key = jax.random.key(0)  # the policy is deterministic and does not look at it

    def one(
        cell: Int[Array, ""],
        offset: Float[Array, ""],
        speed: Float[Array, ""],
        gust: Float[Array, ""],
    ) -> Float[Array, ""]:
        state = SweepState(cell, offset, speed, gust, jax.numpy.zeros((), int))
        return policy(world.observe(state), key=key)

    return jax.vmap(one)


def sidecar(problem: Problem, kind: str, how_to_run: str) -> bytes:
    """What a reader must know to use the file: inputs, outputs, the vehicle and the path."""
    spec = problem.world_spec
    frame = frame_of(spec)
    path = spec.path
    bends = np.floor(turns_of(path)).astype(int)
    corners = np.unique([0, *path.legs, *bends, len(path.cells) - 1])
    corners = np.union1d(corners, np.maximum(np.array(path.legs[1:], int) - 1, 0)).astype(int)
    places = frame.places(path.cells[corners] + 0.5)
    document = {
        "format": kind,
        "problem": problem.name,
        "made_by": f"scrl {__version__}",
        "how_to_run": how_to_run,
        "inputs": INPUTS,
        "outputs": OUTPUTS,
        "shapes": "every input and the output has one axis, the states: [n]",
        "vehicle": {
            "max_speed_cells_per_step": spec.vehicle.max_speed,
            "inertia": spec.vehicle.inertia,
            "crawl": spec.vehicle.crawl,
            "next_speed": "inertia * speed + (1 - inertia) * max_speed * max(throttle, crawl)",
        },
        "metres_per_cell": spec.units.cell,
        "seconds_per_step": spec.units.step,
        "path": {
            "cells": len(path.cells),
            "legs_start_at_cell": list(path.legs),
            "coordinates_are": frame.sentence,
            "corners": [
                [int(cell), *place]
                for cell, place in zip(corners.tolist(), places.tolist(), strict=True)
            ],
            "corners_are": "path cell and the x and y of its centre; straight in between",
        },
    }
    return (json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()
