"""A rival for plans in wind: a small controller, with dynamics of its own in NumPy.

It takes the calm fluid's times for bounds that are moved inwards by a margin, and aims at a time
per cell of (time that the kind of cell needs - time it has had) / cells of that kind left. Where an
atom weighs several kinds against each other (bands, sums), what it is forecast to be off by is
shared out among the cells that are left.
`benchmarks.wind` chooses its two numbers by simulation.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float

from scrl.problems import Problem
from scrl.reference.answer import Question
from scrl.reference.fluid_search import best_fluid
from scrl.rules.atoms import AtomTable
from scrl.violation import cons_vio

NEARLY_NONE = 1e-3
"""The weight of kinds that are planned at full speed, where an atom's error is shared out."""


@dataclass(frozen=True)
class Settings:
    """What is tuned."""

    margin: float = 2.0
    """Units that it aims at beyond every bound, or at the middle of narrower bands."""
    reserve: float = 0.0
    """How much longer than at full speed cells that are driven so are taken to need."""


@dataclass(frozen=True)
class Runs:
    """What single runs returned and gave, and which of them keep every rule."""

    returns: Float[np.ndarray, " run"]
    amounts: Float[np.ndarray, "run region"]
    is_kept: Bool[np.ndarray, " run"]


@dataclass(frozen=True)
class Targets:
    """The calm fluid inside the bounds: times of kinds of cell, and what they do to atoms."""

    times: Float[np.ndarray, " group"]
    """Per cell."""
    total: Float[np.ndarray, " group"]
    effect: Float[np.ndarray, "atom group"]
    """What a step in each kind of cell does to the atoms that bind and weigh several kinds."""
    side: Float[np.ndarray, " atom"]
    least: Float[np.ndarray, " group"]
    """The time that a kind needs for an atom of its own."""


def inside(table: AtomTable, margin: float) -> Float[np.ndarray, " atom"]:
    """Bounds moved inwards by a margin, those of a band at most to its middle."""
    half = (table.bounds + table.bounds[table.opposites]) / 2.0
    is_band = table.opposites != np.arange(len(half))
    return table.bounds - np.where(is_band, np.minimum(half, margin), margin)


def targets(problem: Problem, margin: float) -> Targets | None:
    """What the controller aims at; None where the fluid cannot keep the rules so far inside."""
    question = Question.of(problem)
    fluid, table = question.fluid, problem.atoms
    bounds = inside(table, margin)
    best = best_fluid(fluid, replace(question.atoms, bounds=bounds)).best
    if best is None:
        return None
    total = fluid.weight * best.times
    effect = table.coefficients @ (fluid.amount / fluid.weight)
    binds = np.abs(effect @ total - bounds) < 1e-3 * (1.0 + np.abs(bounds))
    is_own = (effect != 0.0).sum(axis=1) == 1
    kinds_own = (effect[binds & is_own] != 0.0).any(axis=0)
    least = np.where(kinds_own, total, 0.0)
    weighs = effect[binds & ~is_own]
    return Targets(best.times, total, weighs, weighs @ total, least)


def drive(problem: Problem, settings: Settings, *, runs: int, seed: int = 0) -> Runs | None:
    """Drive whole runs side by side; None where the fluid cannot keep the rules."""
    aim = targets(problem, settings.margin)
    if aim is None:
        return None
    spec, fluid = problem.world_spec, Question.of(problem).fluid
    vehicle, wind = spec.vehicle, spec.wind
    group = fluid.group_of_part[:: spec.service.parts]
    cells, groups = len(group), len(aim.total)
    is_of = np.zeros((cells + 1, groups))
    is_of[np.arange(cells), group] = 1.0
    before = np.concatenate([np.zeros((1, groups)), np.cumsum(is_of[:cells], axis=0)])
    is_slowed = np.where(aim.times > fluid.fastest, 1.0, NEARLY_NONE)
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
        left = before[-1] - before[here]
        soonest = spent + left * fluid.fastest * (1.0 + settings.reserve)
        total = np.maximum(np.where(is_slowed == 1.0, aim.total, 0.0), soonest)
        least = np.maximum(aim.least, soonest)
        for effect, side in zip(aim.effect, aim.side, strict=True):
            weight = left * is_slowed * effect
            off = (total @ effect - side) / np.maximum(weight @ effect, 1e-9)
            total = np.maximum(total - off[:, None] * weight, least)
        pace = np.where(total > soonest, total - spent, 0.0)[row, kind]
        aimed = left[row, kind] / np.maximum(pace, 1e-9)
        aimed = aimed / np.maximum(1.0 + wind.persistence * gust, 0.05)
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
