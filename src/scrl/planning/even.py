"""Even plans: one speed and one dose for each region, as a prescription has.

A plan of the least cost serves a region where that is cheapest: it closes the pump at edges, where
part of the product falls outside, and opens it wide elsewhere. Rules on sums and mean doses allow
that. An even plan gives every place of a region the same. Its doses are those of the fluid with one
group for each region; the branch of the rules is chosen by that fluid, too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Int

from scrl.errors import PolicyError
from scrl.evaluation import Evaluation, evaluate
from scrl.planning.timetable import openings_of, places_of
from scrl.policies import Schedule
from scrl.problems import Problem
from scrl.reference.fluid import BranchDual
from scrl.reference.priced import Priced, PricedBranch, price_rules
from scrl.worlds.sweep import dynamics
from scrl.worlds.sweep.dynamics import Scalars
from scrl.worlds.sweep.spec import SweepSpec
from scrl.worlds.sweep.vehicle import Vehicle

ROOMS = (1e-3, 0.0)
"""How far inside its bounds a plan aims, as a share of them: so that no place misses them by
rounding. Rules that leave no room are aimed at as they are."""
NEAR = 1e-8
"""The share of an atom's size by which the fluid may miss it; drives round more. A plan for a fluid
that misses more is not corrected."""
CORRECTIONS, CAUTION = 8, 1.1
"""How often a plan is corrected, and by how many times what it missed."""
BRAKING = 4.0
"""How long before a region its speed is reached, in times that inertia takes."""


@dataclass(frozen=True)
class EvenPlan:
    """The best even plan that was found."""

    actions: Float[np.ndarray, "step 2"]
    evaluation: Evaluation
    priced: Priced
    """The branch of the rules that it is for."""
    prices: Float[np.ndarray, " region"]
    """In return per step."""


def even_plan(problem: Problem) -> EvenPlan:
    """The plan with one speed and one dose for each region that keeps the rules at the least cost.

    Where none keeps them, the one that violates them least.
    """
    spec = problem.world_spec
    if not spec.vehicle.has_flow or problem.is_random:
        raise PolicyError(
            f"{problem.name}: an even plan needs a pump that can be set, as flow = [0.0, 2.25] in "
            "[vehicle], and neither wind nor a random start"
        )
    treated = treated_as(spec)
    priced = price_rules(_with_one_group_each(problem, treated))
    if priced.branch is None:
        raise PolicyError(f"{problem.name}: no even plan was found; ask for less")
    found = [
        plan for room in ROOMS for plan in _corrected(problem, priced, priced.branch, treated, room)
    ]
    kept = [plan for plan in found if plan.evaluation.is_satisfied]
    if kept:
        return max(kept, key=lambda plan: plan.evaluation.return_)
    return min(found, key=lambda plan: plan.evaluation.cons_vio)


def treated_as(spec: SweepSpec) -> Int[np.ndarray, " part"]:
    """The region as which each part of the path is treated; their number stands for none.

    It is the one with the largest share of the swath, and the keep-out area wherever that begins.
    """
    regions = len(spec.regions.names)
    kinds = spec.service.kinds[:, :regions]
    treated = np.where(kinds.max(axis=1) > 0.0, kinds.argmax(axis=1), regions)
    if (kept := spec.regions.keep_out) is not None:
        number = spec.regions.names.index(kept)
        treated = np.where(kinds[:, number] > 0.0, number, treated)
    return treated[spec.service.on_path]


def _with_one_group_each(problem: Problem, treated: Int[np.ndarray, " part"]) -> Problem:
    """The problem with the mean service of all parts that are treated alike in each of them."""
    spec, table = problem.world_spec, problem.world_spec.service
    used, group = np.unique(treated, return_inverse=True)
    count = np.bincount(group)[:, None]

    def mean(rows: Float[np.ndarray, "kind column"]) -> Float[np.ndarray, "group column"]:
        sums = np.zeros((len(used), rows.shape[1]))
        np.add.at(sums, group, rows[table.on_path].astype(float))
        return np.concatenate([sums / count, np.zeros((1, rows.shape[1]))]).astype(np.float32)

    ends = np.full(table.parts, len(used))
    coarse = replace(
        table,
        kind_of_part=np.append(group, ends).astype(np.int32),
        kinds=mean(table.kinds),
        outside=mean(table.outside[:, None])[:, 0],
    )
    return replace(problem, world_spec=spec.with_service(coarse))


def _corrected(
    problem: Problem,
    priced: Priced,
    branch: PricedBranch,
    treated: Int[np.ndarray, " part"],
    share: float,
) -> list[EvenPlan]:
    """Plans for bounds that are moved by what the plan before missed, up to one that keeps them."""
    vehicle, found = problem.world_spec.vehicle, []
    fluid = replace(branch.fluid, effort=1.0)
    rows = np.concatenate([fluid.time_row[None], branch.coefficients @ fluid.amount])
    asked = branch.bounds if branch.loosened is None else branch.loosened
    room = share * np.abs(asked)
    start = np.append(0.0, branch.multipliers / vehicle.effort)
    for _ in range(CORRECTIONS):
        bounds = np.append(float(fluid.horizon_steps), asked - room)
        dual = BranchDual(fluid, rows, bounds)
        point = dual.maximise(start)
        times, services = (each[fluid.group_of_part] for each in fluid.split(point.point))
        actions = _driven(problem.world_spec, treated, times, services)
        evaluation = evaluate(problem, Schedule.of(actions), name="even plan")
        prices = -vehicle.effort * point.multipliers[1:] @ branch.coefficients
        found.append(EvenPlan(actions, evaluation, priced, vehicle.rate * prices))
        density = np.array([evaluation.density[name] for name in problem.regions])
        missed = np.maximum(branch.coefficients @ density - asked, 0.0)
        if evaluation.is_satisfied or not missed.any() or not dual.is_close(point, NEAR):
            break
        room += CAUTION * missed
    return found


def _driven(
    spec: SweepSpec,
    treated: Int[np.ndarray, " part"],
    times: Float[np.ndarray, " part"],
    services: Float[np.ndarray, " part"],
) -> Float[np.ndarray, "step 2"]:
    """The actions of a drive with one pace and one dose for all parts that are treated alike.

    A step gives the largest dose of all parts that it touches, so that the edges of a region get no
    less than its middle, and nothing where it touches the keep-out area.
    """
    vehicle, parts = spec.vehicle, spec.service.parts
    count = np.maximum(np.bincount(treated), 1)
    paces, doses = ((np.bincount(treated, each) / count)[treated] for each in (times, services))
    throttles = _at_speeds(vehicle, np.minimum(1.0 / paces, vehicle.max_speed), parts)
    places = places_of(vehicle, throttles)
    first = np.minimum((parts * places[:-1]).astype(int), len(doses) - 1)
    last = np.clip(np.ceil(parts * places[1:]).astype(int), first + 1, len(doses))
    edges = np.column_stack([first, last]).ravel()
    doses = np.maximum.reduceat(np.append(doses, 0.0), edges)[::2]
    if (kept := spec.regions.keep_out) is not None:
        column = spec.service.kinds[:, spec.regions.names.index(kept)]
        is_kept = np.append(column[spec.service.on_path] > 0.0, False)
        doses[np.logical_or.reduceat(is_kept, edges)[::2]] = 0.0
    lengths = np.diff(places)
    return np.column_stack([throttles, openings_of(vehicle, lengths, doses * lengths)])


def _at_speeds(
    vehicle: Vehicle, speeds: Float[np.ndarray, " part"], parts: int
) -> Float[np.ndarray, " step"]:
    """The throttles of a drive that is at no place faster than this, as far as it can brake."""
    braking = BRAKING * vehicle.max_speed * vehicle.inertia / (1.0 - vehicle.inertia)
    reach = 1 + math.ceil(parts * (vehicle.max_speed + braking))
    ahead = np.append(speeds, np.full(reach - 1, speeds[-1]))
    slowest = np.lib.stride_tricks.sliding_window_view(ahead, reach).min(axis=1).tolist()
    gain = (1.0 - vehicle.inertia) * vehicle.max_speed
    place, speed, throttles = 0.0, 0.0, []
    while place < len(slowest) / parts:
        wanted = slowest[int(parts * place)]
        throttles.append(min(max((wanted - vehicle.inertia * speed) / gain, vehicle.crawl), 1.0))
        speed = dynamics.next_speed(vehicle, speed, throttles[-1], Scalars)
        place += speed
    return np.array(throttles)
