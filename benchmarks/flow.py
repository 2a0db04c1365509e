"""How good plans are for a vehicle whose flow is chosen: random rule sets on ten worlds.

`python -m benchmarks.flow --out FILE [--sets 100] [--worlds 10] [--seed 2000]` asks for plans on
Agri, Med and random maps, with a pump that is free and with one that is proportional, and appends
every answer to FILE at once. The same command goes on with what is missing there. A table follows:
how many sets are kept, impossible (proven) and unknown, the gap to the proven bound, and seconds.

`--farms` prints another table: driving time, product and violation of `ask` against what a farmer
would do without it: full speed with the pump open, one constant dose, and a dose for each field by
hand (the speed and the flow that give each field its least amount, or its largest).
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from pathlib import Path

import numpy as np
from jaxtyping import Float

from benchmarks.asking import random_map, rule_sets
from scrl.evaluation import Evaluation, evaluate
from scrl.planning import Planner, planner
from scrl.planning.timetable import with_times
from scrl.policies import Schedule
from scrl.problems import Problem, find_world
from scrl.worlds.sweep.vehicle import Vehicle

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
    """Time, product and violation on three farms, by `ask` and by hand."""
    lines = [
        "| farm | how it is driven | steps | product | missed in all | cost |",
        "|---|---|---|---|---|---|",
    ]
    for number in (0, 2, 3):
        world = world_of(number, "proportional")
        full = world.world_spec.service.lengths * 0.75
        names = world.world_spec.regions.names
        wanted = np.array([(0.6, 1.2)[index % 2] for index in range(len(names))]) * full
        rules = [f"{name} >= {least:.0f}" for name, least in zip(names, wanted, strict=True)]
        problem = world.with_rules(rules)
        answer = asking.ask(problem)
        drives = {
            "full speed, pump open": evaluate(problem, "full-speed"),
            "one constant dose": by_hand(problem, np.full(len(names), (wanted / full).max())),
            "dose for each field by hand": by_hand(problem, wanted / full),
            "ask": answer.evaluation,
        }
        lines += [
            f"| {problem.name} | {name} | {found.steps:,.0f} | {found.given_out:,.0f} | "
            f"{found.cons_vio:,.1f} | {-found.return_:.2f} |"
            for name, found in drives.items()
        ]
    return "\n".join(lines)


def by_hand(problem: Problem, share: Float[np.ndarray, " region"]) -> Evaluation:
    """A drive that gives each cell the largest dose that a region in it asks for.

    Doses are shares of 0.75 units a cell; the vehicle is as fast as the pump allows.
    """
    spec = problem.world_spec
    kinds = spec.service.kinds[spec.service.on_path]
    doses = 0.75 * np.where(kinds > 0, share, 0.0).max(axis=1) / spec.vehicle.rate
    paces = np.maximum(doses, 1.0 / spec.vehicle.max_speed)
    actions = with_times(spec.vehicle, paces, spec.service.parts, doses)
    return evaluate(problem, Schedule.of(actions), name="by hand")


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
