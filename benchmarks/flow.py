"""How good plans are for a vehicle whose flow is chosen: random rule sets on ten worlds.

`python -m benchmarks.flow --out FILE [--sets 100] [--worlds 10] [--seed 2000]` asks for plans on
Agri, Med and random maps, with a pump that is free and with one that is proportional, and appends
every answer to FILE at once. The same command goes on with what is missing there. A table follows:
how many sets are kept, impossible (proven) and unknown, the gap to the proven bound, and seconds.

`--farms` prints another table, for three farms (`benchmarks/farms.py`): driving time, product and
doses of `ask` against what a farmer would do without it: full speed with the pump open, one dose
for all fields, and a dose for each field by hand (1 % above its least one).
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from jaxtyping import Float

from benchmarks.asking import random_map, rule_sets
from benchmarks.farms import DOSES, FARMS, farm
from scrl.evaluation import Evaluation, evaluate
from scrl.planning import Planner, planner
from scrl.planning.answer import Answer
from scrl.planning.even import treated_as
from scrl.planning.timetable import with_times
from scrl.policies import Schedule
from scrl.problems import Problem, find_world
from scrl.route import drive, given_over_cells
from scrl.worlds.sweep.vehicle import Vehicle

ROUNDING = 0.01
"""Litres per hectare by which a dose may miss its bounds."""
PUMPS = {
    "free": Vehicle(flow=(0.0, 2.25), product_cost=0.002),
    "proportional": Vehicle(
        flow=(0.0, 2.25), pump="proportional", dose=(0.05, 1.6), product_cost=0.002
    ),
}


def world_of(number: int, pump: str) -> Problem:
    """Agri, Med, or a random map, with one of the pumps."""
    plain = find_world(("agri", "med")[number]) if number < 2 else random_map(100 + number)
    spec = plain.world_spec
    route = dataclasses.replace(spec.route, service="poured")
    spec = dataclasses.replace(spec, vehicle=PUMPS[pump], route=route)
    return dataclasses.replace(plain, world_spec=spec)


def ask_all(path: Path, *, worlds: int, sets: int, seed: int) -> None:
    """Ask what is not in the file yet."""
    done = {tuple(row[key] for key in ("pump", "world", "set")) for row in rows_of(path)}
    asking = planner()
    for pump in PUMPS:
        for number in range(worlds):
            world = world_of(number, pump)
            for index, rules in enumerate(rule_sets(world, sets, seed + number)):
                if (pump, number, index) not in done:
                    row = {"pump": pump, "world": number, "set": index, "rules": rules}
                    with path.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(row | asked(asking, world, rules)) + "\n")


def asked(asking: Planner, world: Problem, rules: list[str]) -> dict[str, object]:
    answer = asking.ask(world, rules)
    found = answer.evaluation
    return {
        "status": answer.status,
        "gap": answer.gap,
        "seconds": answer.wall_s,
        "return": found.return_,
        "lost": abs((found.given_out or 0.0) - sum_of(answer.problem, found)),
    }


def sum_of(problem: Problem, found: Evaluation) -> float:
    """What all regions and none received, on maps whose regions do not overlap."""
    is_apart = problem.world_spec.regions.masks.sum(axis=0).max() <= 1
    total = sum(found.density.values()) + (found.outside or 0.0)
    return total if is_apart else (found.given_out or 0.0)


def rows_of(path: Path) -> list[dict[str, object]]:
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def table(path: Path) -> str:
    lines = [
        "| pump | sets | kept | impossible | unknown | mean gap | worst gap | median s | 95 % s |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for pump in PUMPS:
        own = [row for row in rows_of(path) if row["pump"] == pump]
        if not own:
            continue
        count = {
            status: sum(row["status"] == status for row in own)
            for status in ("satisfied", "impossible", "unknown")
        }
        gaps = np.array([row["gap"] for row in own if row["gap"] is not None], float)
        seconds = np.array([row["seconds"] for row in own], float)
        lines.append(
            f"| {pump} | {len(own)} | {count['satisfied']} | {count['impossible']} | "
            f"{count['unknown']} | {gaps.mean():.2%} | {gaps.max():.2%} | "
            f"{np.median(seconds):.2f} | {np.quantile(seconds, 0.95):.2f} |"
        )
    return "\n".join(lines)


def farms(asking: Planner) -> str:
    """Time, product and doses on three farms, by `ask` and by hand."""
    lines = [
        "| farm | how it is driven | time | litres | outside fields | in the buffer | "
        "cells within the bounds | worst field | rules | cost |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name in FARMS:
        with TemporaryDirectory() as folder:
            problem = farm(name, Path(folder))
        low = np.array([least for least, _ in DOSES])
        plain, even = asking.ask(problem), asking.ask(problem, even=True)
        drives = {
            "full speed, pump open": np.ones((1, 2)),
            "one dose for all fields": by_hand(problem, np.full(len(low), low.mean())),
            "a dose for each field by hand": by_hand(problem, 1.01 * low),
            f"`ask` ({plain.wall_s:.0f} s)": actions_of(plain),
            f"`ask --even` ({even.wall_s:.0f} s)": actions_of(even),
        }
        lines += [
            f"| {name} | {way} | {told(problem, actions)} |" for way, actions in drives.items()
        ]
    return "\n".join(lines)


def actions_of(answer: Answer) -> Float[np.ndarray, "step 2"]:
    """The actions of an answer's plan."""
    policy = answer.plans[0].policy
    if not isinstance(policy, Schedule):
        raise TypeError("a plan without chance is a schedule")
    return np.asarray(policy.throttles, float)


def told(problem: Problem, actions: Float[np.ndarray, "step 2"]) -> str:
    """The figures of a drive, as cells of a table."""
    policy, spec = Schedule.of(actions), problem.world_spec
    found = evaluate(problem, policy)
    shares = within_bounds(problem, policy)
    minutes = found.steps * (spec.units.step or 1.0) / 60.0
    kept = "kept" if found.is_satisfied else f"missed by {found.cons_vio:,.0f} l"
    return (
        f"{minutes:.0f} min | {found.given_out:,.0f} | {found.outside:,.0f} | "
        f"{found.density['buffer']:.1f} | {np.average(shares, weights=spec.areas[:-1]):.1%} | "
        f"{shares.min():.1%} | {kept} | {-found.return_:.1f}"
    )


def within_bounds(problem: Problem, policy: Schedule) -> Float[np.ndarray, " field"]:
    """The share of each field's cells whose dose lies within the field's bounds."""
    spec = problem.world_spec
    dose = given_over_cells(drive(problem, policy)) / spec.cell_area
    return np.array([
        np.mean((dose[mask & spec.regions.enterable] >= low - ROUNDING)
                & (dose[mask & spec.regions.enterable] <= high + ROUNDING))
        for mask, (low, high) in zip(spec.regions.masks[:-1], DOSES, strict=True)
    ])  # fmt: skip


def by_hand(problem: Problem, doses: Float[np.ndarray, " field"]) -> Float[np.ndarray, "step 2"]:
    """A drive that gives each field its dose, as fast as the pump allows, and nothing elsewhere."""
    spec = problem.world_spec
    of_region = np.append(doses, [0.0, 0.0]) * spec.cell_area * spec.route.swath
    served = of_region[treated_as(spec)] / spec.vehicle.rate
    paces = np.maximum(served, 1.0 / spec.vehicle.max_speed)
    return with_times(spec.vehicle, paces, spec.service.parts, served)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sets", type=int, default=100)
    parser.add_argument("--worlds", type=int, default=10)
    parser.add_argument("--seed", type=int, default=2000)
    parser.add_argument("--farms", action="store_true")
    chosen = parser.parse_args()
    if chosen.farms:
        chosen.out.write_text(farms(planner()) + "\n", encoding="utf-8")
        print(chosen.out.read_text(encoding="utf-8"))
        return
    ask_all(chosen.out, worlds=chosen.worlds, sets=chosen.sets, seed=chosen.seed)
    print(table(chosen.out))


if __name__ == "__main__":
    main()
