"""How good plans are for a vehicle whose flow is chosen: random rule sets on ten worlds.

`python -m benchmarks.flow --out FILE [--sets 100] [--worlds 10] [--seed 2000] [--jobs 1]
[--time-limit 540]` asks for plans on Agri, Med and random maps, with a pump that is free and with
one that is proportional, and appends every answer to FILE at once. Each job is a process that keeps
to one core and takes some sets of one world at a time. A set during whose answer something was
compiled is asked again, and the second time counts. After the time limit nothing new is begun. The
same command goes on with what is missing in FILE. A table follows: how many sets are kept,
impossible (proven) and unknown, the gap to the proven bound, seconds, seconds of a core (what is
left of the former on an idle machine), and sets not reached.

`--wind G` asks in gusts of this strength too, for rules on average and jointly in 95 % of single
runs. The table tells what is kept of the sets that a plan for calm air keeps, how much less it
returns, and seconds of a core.

`--train SEEDS` trains SCRL with a rule on `used` on Agri from `--seed` on, `--rounds` long, and
writes the result. The same command resumes the run beside FILE if it was cut off.

`--farms` prints two other tables, for three farms (`benchmarks/farms.py`): driving time, product
and cost, and doses, of `ask` against what a farmer would do without it: full speed with the pump
open, one dose for all fields, and a dose for each field by hand, 2 % above its least one (with 1 %
some fields get less than that on average).
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float

import scrl
from benchmarks.asking import random_map, rule_sets
from benchmarks.farms import DOSES, FARMS, FIELDS, farm
from benchmarks.machine import described
from scrl.evaluation import Evaluation, evaluate
from scrl.planning import Planner, planner
from scrl.planning.answer import Answer
from scrl.planning.even import treated_as
from scrl.planning.timetable import with_times
from scrl.policies import Schedule
from scrl.problems import Problem, ProblemOptions, find_world
from scrl.route import drive, given_over_cells
from scrl.worlds.sweep.vehicle import Vehicle, Wind

AT_ONCE = 20
"""Sets of one world that a process takes at a time."""
ROUNDING = 0.01
"""Litres per hectare by which a dose may miss its bounds."""
TRAINED = (
    "S1 >= 300 and S3 >= 500",
    "if S2 > 100 then S5 >= 250",
    "used <= 1000",
)
PUMPS = {
    "free": Vehicle(flow=(0.0, 2.25), product_cost=0.002),
    "proportional": Vehicle(
        flow=(0.0, 2.25), pump="proportional", dose=(0.05, 1.6), product_cost=0.002
    ),
}


SHARES = {"on average": None, "95 % of runs": 0.95}
"""How rules are asked in wind."""


def world_of(number: int, pump: str, wind: float = 0.0) -> Problem:
    """Agri, Med, or a random map, with one of the pumps."""
    plain = find_world(("agri", "med")[number]) if number < 2 else random_map(100 + number)
    spec = plain.world_spec
    route = dataclasses.replace(spec.route, service="poured")
    spec = dataclasses.replace(spec, vehicle=PUMPS[pump], route=route, wind=Wind(strength=wind))
    return dataclasses.replace(plain, world_spec=spec)


class Share(NamedTuple):
    """Some rule sets of one world, which one process asks."""

    pump: str
    world: int
    sets: tuple[int, ...]


def shares(path: Path, *, worlds: int, sets: int, seed: int) -> list[Share]:
    """What is not in the file yet, all worlds and pumps alike early on."""
    done = {(row["pump"], row["world"], row["set"]) for row in rows_of(path) if row["seed"] == seed}
    return [
        Share(pump, world, missing)
        for first in range(0, sets, AT_ONCE)
        for pump in PUMPS
        for world in range(worlds)
        if (
            missing := tuple(
                index
                for index in range(first, min(first + AT_ONCE, sets))
                if (pump, world, index) not in done
            )
        )
    ]


def ask_all(
    path: Path, *, worlds: int, sets: int, seed: int, wind: float, jobs: int, time_limit_s: float
) -> None:
    """Ask what is not in the file yet, by some processes, until the time is over."""
    until, context = time.time() + time_limit_s, get_context("spawn")
    with ProcessPoolExecutor(
        jobs, context, initializer=_keep_to_a_core, initargs=(context.Value("i", 0),)
    ) as pool:
        ask = partial(ask_some, path, sets=sets, seed=seed, wind=wind, until=until)
        for each in [
            pool.submit(ask, share) for share in shares(path, worlds=worlds, sets=sets, seed=seed)
        ]:
            each.result()


def _keep_to_a_core(begun: Synchronized[int]) -> None:
    """The next core for this process, before JAX starts a thread for each core that it sees."""
    with begun.get_lock():
        number, begun.value = begun.value, begun.value + 1
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[number % len(cores)]})
    jax.monitoring.register_event_duration_secs_listener(_note_compiling)


compiled: list[float] = []
"""Seconds of each compilation of this process."""


def _note_compiling(event: str, duration_secs: float, **_: str | int) -> None:
    if event == "/jax/core/compile/backend_compile_duration":
        compiled.append(duration_secs)


def ask_some(path: Path, share: Share, *, sets: int, seed: int, wind: float, until: float) -> None:
    """The answers to some rule sets, each written at once."""
    world, asking = world_of(share.world, share.pump), planner()
    windy = world_of(share.world, share.pump, wind)
    drawn = rule_sets(world, sets, seed + share.world)
    for index in share.sets:
        if time.time() > until:
            return
        row = {
            "seed": seed, "pump": share.pump, "world": share.world, "set": index,
            "rules": drawn[index],
        }  # fmt: skip
        before = len(compiled)
        answered = asked(asking, world, drawn[index])
        if len(compiled) > before:
            answered = asked(asking, world, drawn[index])
        if wind:
            answered["calm"] = answered["status"]
            answered |= {"wind": wind, "asked": asked_in_wind(asking, windy, drawn[index])}
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row | answered) + "\n")


def asked(asking: Planner, world: Problem, rules: list[str]) -> dict[str, object]:
    begun = time.process_time()
    answer = asking.ask(world, rules)
    found, core_seconds = answer.evaluation, time.process_time() - begun
    return {
        "status": answer.status,
        "gap": answer.gap,
        "seconds": answer.wall_s,
        "core_seconds": core_seconds,
        "return": found.return_,
        "lost": abs((found.given_out or 0.0) - sum_of(answer.problem, found)),
    }


def asked_in_wind(
    asking: Planner, windy: Problem, rules: list[str]
) -> dict[str, dict[str, float | str | None]]:
    """The answers for the same rules on average and in single runs, asked twice."""
    found = {}
    for name, share in SHARES.items():
        problem = windy.with_rules(rules).with_confidence(share)
        answer, core_seconds = asked_again(asking, problem)
        told = answer.evaluation
        found[name] = {
            "status": answer.status, "return": told.return_, "core_seconds": core_seconds,
            "share": (told.episodes_satisfied or 0) / told.episodes,
        }  # fmt: skip
    return found


def table_in_wind(path: Path) -> str:
    """What is kept in wind of the sets that a plan for calm air keeps."""
    lines = [
        "| pump | gusts | rules | sets | kept | return below calm air | 95 % | median core-s | "
        "95 % core-s | most core-s |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for pump in PUMPS:
        own = [row for row in rows_of(path) if row["pump"] == pump and row["calm"] == "satisfied"]
        for name in SHARES if own else ():
            answers = [row["asked"][name] for row in own]
            lost = np.array([
                1.0 - each["return"] / row["return"] for each, row in zip(answers, own, strict=True)
                if each["status"] == "satisfied"
            ])  # fmt: skip
            seconds = np.array([each["core_seconds"] for each in answers])
            lines.append(
                f"| {pump} | {own[0]['wind']:.0%} | {name} | {len(own)} | {len(lost)} | "
                f"{-lost.mean():.2%} | {np.quantile(-lost, 0.95):.2%} | {np.median(seconds):.1f} | "
                f"{np.quantile(seconds, 0.95):.1f} | {seconds.max():.1f} |"
            )
    return "\n".join(lines)


def sum_of(problem: Problem, found: Evaluation) -> float:
    """What all regions and none received, on maps whose regions do not overlap."""
    is_apart = problem.world_spec.regions.masks.sum(axis=0).max() <= 1
    total = sum(found.density.values()) + (found.outside or 0.0)
    return total if is_apart else (found.given_out or 0.0)


def rows_of(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    whole = path.read_text(encoding="utf-8").rpartition("\n")[0]  # not a line that was cut off
    return [json.loads(line) for line in whole.splitlines()]


def table(path: Path, *, asked_for: int) -> str:
    lines = [
        "| pump | sets | kept | impossible | unknown | not reached | mean gap | 95 % | worst | "
        "median s | 95 % s | longest s | median core-s | 95 % core-s | within 2 core-s |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|",
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
        seconds, of_core = (
            np.array([row[key] for row in own], float) for key in ("seconds", "core_seconds")
        )
        lines.append(
            f"| {pump} | {len(own)} | {count['satisfied']} | {count['impossible']} | "
            f"{count['unknown']} | {asked_for - len(own)} | {gaps.mean():.2%} | "
            f"{np.quantile(gaps, 0.95):.2%} | {gaps.max():.2%} | {np.median(seconds):.2f} | "
            f"{np.quantile(seconds, 0.95):.2f} | {seconds.max():.1f} | {np.median(of_core):.2f} | "
            f"{np.quantile(of_core, 0.95):.2f} | {np.mean(of_core <= 2.0):.1%} |"
        )
    return "\n".join(lines)


def trained(seeds: int, seed: int, rounds: int, out: Path) -> None:
    """SCRL with a flow on Agri, or what was begun of it: the tank holds less than an open pump
    gives."""
    plain = world_of(0, "free").world_spec
    spec = dataclasses.replace(plain, vehicle=Vehicle(flow=(0.0, 2.25), product_cost=0.0005))
    problem = Problem.create(spec, TRAINED, ProblemOptions(name="agri-flow"))
    folder = out.with_suffix(".run")
    if folder.exists():
        result = scrl.resume(folder, watch=None)
    else:
        result = scrl.train(
            problem, seeds=seeds, seed=seed, settings={"iterations": rounds}, out=folder, watch=None
        )
    found = result.to_json()
    out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    told = {key: found[key] for key in ("satisfied", "gap_mean", "gap_worst", "env_steps")}
    print(json.dumps(told), f"{result.wall_s:.0f} s. Seeds from {seed}. {described()}")


def farms(asking: Planner) -> str:
    """Time, product, cost and doses on three farms, by `ask` and by hand."""
    start = "| farm | how it is driven |"
    fields = " | ".join(
        f"{field} ({low:g} to {high:g})" for field, (low, high) in zip(FIELDS, DOSES, strict=True)
    )
    tables = (
        [f"{start} time | litres | outside fields | in the buffer | rules | cost |"],
        [f"{start} {fields} | cells within the bounds | worst field |"],
    )
    for lines in tables:
        lines.append("|---" * (lines[0].count("|") - 1) + "|")
    low = np.array([least for least, _ in DOSES])
    for name in FARMS:
        with TemporaryDirectory() as folder:
            problem = farm(name, Path(folder))
        (plain, plain_s), (even, even_s) = (
            asked_again(asking, problem, even=e) for e in (False, True)
        )
        drives = {
            "full speed, pump open": np.ones((1, 2)),
            "one dose for all fields": by_hand(problem, np.full(len(low), low.mean())),
            "a dose for each field by hand": by_hand(problem, 1.02 * low),
            f"`ask` ({plain_s:.1f} core-s)": actions_of(plain),
            f"`ask --even` ({even_s:.1f} core-s)": actions_of(even),
        }
        for way, actions in drives.items():
            for lines, cells in zip(tables, told(problem, Schedule.of(actions)), strict=True):
                lines.append(f"| {name} | {way} | {cells} |")
    return "\n\n".join("\n".join(lines) for lines in tables)


def asked_again(asking: Planner, problem: Problem, *, even: bool = False) -> tuple[Answer, float]:
    """The answer, and the seconds of a core that it takes when it is asked again."""
    asking.ask(problem, even=even)
    begun = time.process_time()
    return asking.ask(problem, even=even), time.process_time() - begun


def actions_of(answer: Answer) -> Float[np.ndarray, "step 2"]:
    """The actions of an answer's plan."""
    policy = answer.plans[0].policy
    if not isinstance(policy, Schedule):
        raise TypeError("a plan without chance is a schedule")
    return np.asarray(policy.throttles, float)


def told(problem: Problem, policy: Schedule) -> tuple[str, str]:
    """The cells of both tables for a drive."""
    found, areas = evaluate(problem, policy), problem.world_spec.areas[:-1]
    shares = within_bounds(problem, policy)
    broken = sum(not rule.is_satisfied for rule in found.rules)
    rules = f"{broken} of {len(found.rules)} missed, by {found.cons_vio:,.0f} l"
    means = [
        f"{found.density[field] / area:.1f}" for field, area in zip(FIELDS, areas, strict=True)
    ]
    return (
        f"{found.cost['minutes']:.0f} min | {found.given_out:,.0f} | {found.outside:,.0f} | "
        f"{found.density['buffer']:.1f} | {rules if broken else 'kept'} | "
        f"{found.cost['EUR']:,.0f} EUR"
    ), f"{' | '.join(means)} | {np.average(shares, weights=areas):.1%} | {shares.min():.1%}"


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
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--time-limit", type=float, default=540.0)
    parser.add_argument("--wind", type=float, default=0.0)
    parser.add_argument("--train", type=int, metavar="SEEDS")
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--farms", action="store_true")
    chosen = parser.parse_args()
    if chosen.train:
        trained(chosen.train, chosen.seed, chosen.rounds, chosen.out)
        return
    if chosen.farms:
        chosen.out.write_text(farms(planner()) + "\n", encoding="utf-8")
        print(chosen.out.read_text(encoding="utf-8"))
        return
    ask_all(
        chosen.out, worlds=chosen.worlds, sets=chosen.sets, seed=chosen.seed, wind=chosen.wind,
        jobs=chosen.jobs, time_limit_s=chosen.time_limit,
    )  # fmt: skip
    if chosen.wind:
        print(table_in_wind(chosen.out))
    else:
        print(table(chosen.out, asked_for=chosen.worlds * chosen.sets))
    print(f"\nSeed {chosen.seed}, {chosen.jobs} processes. {described()}")


if __name__ == "__main__":
    main()
