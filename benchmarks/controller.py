"""A rival for plans in wind: a controller of a few lines, with dynamics of its own in NumPy.

It takes the calm fluid's times for bounds that are moved inwards by a margin, and aims at a time
per cell of (time that the kind of cell needs - time it has had) / cells of that kind left.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float

from scrl.problems import Problem
from scrl.reference.answer import Question
from scrl.reference.fluid_search import best_fluid
from scrl.violation import cons_vio

MARGIN = 2.0
"""Units that it aims at beyond every bound; it aims at the middle of bands."""


@dataclass(frozen=True)
class Runs:
    """What single runs returned and gave, and which of them keep every rule."""

    returns: Float[np.ndarray, " run"]
    amounts: Float[np.ndarray, "run region"]
    is_kept: Bool[np.ndarray, " run"]


def fluid_times(problem: Problem, margin: float) -> Float[np.ndarray, " group"] | None:
    """The calm fluid's time per cell in each group, so far inside the bounds; none: impossible."""
    question = Question.of(problem)
    table = problem.atoms
    own, other = np.arange(len(table.bounds)), table.opposites
    middle = (table.bounds + table.bounds[other]) / 2.0
    bounds = table.bounds - np.where(other != own, middle, margin)
    best = best_fluid(question.fluid, replace(question.atoms, bounds=bounds)).best
    return None if best is None else best.times


def drive(problem: Problem, *, runs: int, seed: int = 0, margin: float = MARGIN) -> Runs | None:
    """Drive whole runs side by side; None where the fluid cannot keep the rules."""
    times = fluid_times(problem, margin)
    if times is None:
        return None
    spec, fluid = problem.world_spec, Question.of(problem).fluid
    vehicle, wind = spec.vehicle, spec.wind
    group = fluid.group_of_part[:: spec.service.parts]
    cells, groups = len(group), len(times)
    is_of = np.zeros((cells + 1, groups))
    is_of[np.arange(cells), group] = 1.0
    before = np.concatenate([np.zeros((1, groups)), np.cumsum(is_of[:cells], axis=0)])
    needed = np.where(times > fluid.fastest, fluid.weight * times, 0.0)
    rng, row = np.random.default_rng(seed), np.arange(runs)
    place = vehicle.start_noise * rng.uniform(size=runs)
    speed, gust, returns = np.zeros(runs), np.zeros(runs), np.zeros(runs)
    spent, is_going = np.zeros((runs, groups)), np.ones(runs, bool)

    def upto(place: Float[np.ndarray, " run"]) -> Float[np.ndarray, "run group"]:
        cell = np.minimum(place.astype(int), cells - 1)
        return before[cell] + np.minimum(place - cell, 1.0)[:, None] * is_of[cell]

    for _ in range(spec.route.horizon_steps):
        here = np.minimum((place + speed).astype(int), cells - 1)
        kind = group[here]
        left = before[-1, kind] - before[here, kind]
        pace = needed[kind] - spent[row, kind]
        aimed = left / np.maximum(pace, 1e-9) / np.maximum(1.0 + wind.persistence * gust, 0.05)
        gain = (1.0 - vehicle.inertia) * vehicle.max_speed
        throttle = np.clip((aimed - vehicle.inertia * speed) / gain, vehicle.crawl, 1.0)
        speed = vehicle.inertia * speed + gain * throttle
        gust = wind.persistence * gust + wind.freshness * rng.standard_normal(runs)
        distance = speed * np.maximum(1.0 + gust, 0.05)
        after = place + distance
        if spec.is_poured:
            served = (upto(after) - upto(place)) / distance[:, None]
        else:
            served = is_of[np.minimum(after.astype(int), cells)]
        spent += is_going[:, None] * served
        returns -= is_going * vehicle.effort / (1.0 + distance)
        place, is_going = after, is_going & (after < cells)
        if not is_going.any():
            break
    amounts = spent @ (fluid.amount / fluid.weight).T
    return Runs(returns, amounts, np.asarray(cons_vio(problem.atoms, amounts)) <= problem.tolerance)
