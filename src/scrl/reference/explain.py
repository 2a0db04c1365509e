"""Impossible rules: which of them conflict, what they would have to give, what else would help."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection
from dataclasses import replace

import numpy as np

from scrl.reference.answer import Loosened, Reference
from scrl.reference.conflict import smallest_conflict
from scrl.reference.linear import Status
from scrl.reference.loosen import least_loosening
from scrl.reference.question import Question

MOST_SECONDS = 20.0
"""For the search of a smallest conflict."""


def explain(question: Question) -> Reference:
    """The smallest conflict, the least loosening, and other ways out."""
    rules = question.problem.rules.rules
    conflict = _conflict(question)
    return Reference(
        problem=question.problem.name,
        status=Status.INFEASIBLE,
        conflict=tuple((rules[rule].name, rules[rule].text) for rule in conflict),
        relax=_loosened(question),
        alternatives=tuple(
            way for rule in conflict if (way := _loosened(question, only_rule=rule))
        ),
        vehicle_hints=(*_speed_hint(question), *_horizon_hint(question)),
    )


def _conflict(question: Question) -> list[int]:
    """A smallest conflict; all rules if none smaller is found in time."""
    everything = list(range(len(question.problem.rules.rules)))
    deadline = time.monotonic() + MOST_SECONDS

    def is_possible(rules: Collection[int]) -> bool:
        if time.monotonic() > deadline:
            raise TimeoutError
        return question.is_possible(rules)

    try:
        return smallest_conflict(len(everything), is_possible) or everything
    except TimeoutError:
        return everything


def _loosened(question: Question, only_rule: int | None = None) -> tuple[Loosened, ...]:
    """What gives way in the least loosening; with `only_rule`, only that rule's atoms may."""
    table = question.problem.atoms
    may_give = None
    if only_rule is not None:
        may_give = np.asarray(table.members[table.clause_rule == only_rule].any(axis=0))
    loosening = least_loosening(question.fluid.times_only, question.atoms, may_give)
    if loosening is None:
        return ()
    given = np.flatnonzero(loosening.by > 1e-9 * np.abs(question.atoms.high))
    return tuple(Loosened.of(table.atoms[index], float(loosening.bounds[index])) for index in given)


def _speed_hint(question: Question) -> list[str]:
    """A higher top speed lets the vehicle give less."""
    vehicle = question.problem.world_spec.vehicle

    def is_enough(speed: float) -> bool:
        slowest = 1.0 / (speed * vehicle.crawl)
        faster = replace(question.fluid, fastest=1.0 / speed, slowest=slowest)
        return replace(question, fluid=faster).is_possible()

    needed = _smallest(is_enough, vehicle.max_speed, 20.0 * vehicle.max_speed)
    if needed is None:
        return []
    enough = math.ceil(needed * 1000) / 1000
    return [f"raise max_speed from {vehicle.max_speed:g} to {enough:g} cells per step"]


def _horizon_hint(question: Question) -> list[str]:
    """A longer episode lets the vehicle give more."""
    horizon = question.fluid.horizon_steps

    def is_enough(steps: float) -> bool:
        longer = replace(question.fluid, horizon_steps=math.ceil(steps))
        return replace(question, fluid=longer).is_possible()

    needed = _smallest(is_enough, horizon, 100.0 * horizon)
    return [] if needed is None else [f"raise horizon_steps from {horizon} to {math.ceil(needed)}"]


def _smallest(is_enough: Callable[[float], bool], low: float, high: float) -> float | None:
    """The smallest value that is enough, to a thousandth; None if even the largest is not."""
    if not is_enough(high):
        return None
    while high > 1.001 * low:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high
