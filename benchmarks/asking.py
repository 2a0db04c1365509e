"""How good answers without training are: random rule sets on Agri, Med and random maps.

`python -m benchmarks.asking [--sets 200] [--maps 20] [--wind 0.1] [--jobs 1] [--policy DIR]` draws
rule sets of 1 to 5 rules with up to 4 disjuncts each, feasible with at least 2 % of slack or
impossible (by the reference), asks for a plan for each of them, and prints a table. Several jobs
take a world each, and share the cores.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.machine import matmul_gflops
from scrl.planning.planner import Planner, planner
from scrl.problems import Problem, ProblemOptions, find_world
from scrl.reference import Status
from scrl.reference.answer import Question
from scrl.reference.sweep import best_fluid
from scrl.worlds.sweep.regions import from_masks
from scrl.worlds.sweep.spec import SweepSpec

SLACK = 0.02
GRID = 50


def random_map(seed: int) -> Problem:
    """3 to 12 regions on a square, blobs that keep clear of each other or (every third) overlap."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(3, 13))
    may_overlap = seed % 3 == 0
    row, column = np.mgrid[0:GRID, 0:GRID] + 0.5
    free, masks = np.ones((GRID, GRID), bool), []
    while len(masks) < count:
        centre, angle = rng.uniform(3, GRID - 3, 2), rng.uniform(0, np.pi)
        radii = np.exp(rng.uniform(np.log(3), np.log(16), 2))
        along = (row - centre[0]) * np.cos(angle) + (column - centre[1]) * np.sin(angle)
        across = (column - centre[1]) * np.cos(angle) - (row - centre[0]) * np.sin(angle)
        wobble = 1.0 + 0.3 * np.sin(3 * np.arctan2(across, along) + rng.uniform(0, 6))
        mask = (along / radii[0]) ** 2 + (across / radii[1]) ** 2 < wobble**2
        mask &= free | may_overlap
        if mask.sum() >= 20:
            masks.append(mask)
            free &= ~mask
    spec = SweepSpec(from_masks(np.array(masks), [f"R{number}" for number in range(1, count + 1)]))
    return Problem.create(spec, (), ProblemOptions(name=f"map-{seed}"))


def random_rules(world: Problem, rng: np.random.Generator) -> list[str]:
    """1 to 5 rules, each with up to 4 disjuncts, with bounds around what full speed gives."""
    spec = world.world_spec
    names = spec.regions.names
    full = dict(
        zip(names, spec.regions.sizes / spec.vehicle.max_speed * spec.vehicle.rate, strict=True)
    )
    return [_rule(names, full, rng) for _ in range(rng.integers(1, 6))]


def _rule(names: tuple[str, ...], full: dict[str, float], rng: np.random.Generator) -> str:
    kind = rng.uniform()
    if kind < 0.4:
        return _atom(names, full, rng)
    if kind < 0.7:
        some = rng.choice(names)
        premise = f"{some} > {full[some] * rng.uniform(0.8, 1.3):.0f}"
        return f"if {premise} then {_atom(names, full, rng)}"
    return " or ".join(_atom(names, full, rng) for _ in range(rng.integers(2, 5)))


def _atom(names: tuple[str, ...], full: dict[str, float], rng: np.random.Generator) -> str:
    some = list(rng.choice(names, size=min(int(rng.integers(1, 4)), len(names)), replace=False))
    kind = rng.uniform()
    total = sum(full[name] for name in some)
    if kind < 0.65:
        return f"{' + '.join(some)} >= {total * rng.uniform(1.0, 2.2):.0f}"
    if kind < 0.8 or len(some) < 2:
        return f"{' + '.join(some)} <= {total * rng.uniform(0.9, 1.6):.0f}"
    first, *rest = some
    least = 0.02 * total + 6.0
    return f"{first} == {' + '.join(rest)} within {least * rng.uniform(1.0, 3.0):.0f}"


def rule_sets(world: Problem, count: int, seed: int) -> Iterator[tuple[list[str], bool]]:
    """Rule sets, and whether they can be kept: with slack, or not even when loosened by it.

    Between the two the fluid does not decide: the true world may do a little better or worse.
    """
    rng = np.random.default_rng(seed)
    found = 0
    while found < count:
        rules = random_rules(world, rng)
        question = Question.of(world.with_rules(rules))
        room = SLACK * np.abs(question.atoms.bounds)
        tight, loose = (
            best_fluid(
                question.fluid, dataclasses.replace(question.atoms, bounds=bounds), time_limit_s=5.0
            )
            for bounds in (question.atoms.bounds - room, question.atoms.bounds + room)
        )
        if tight.best is not None or loose.status is Status.INFEASIBLE:
            found += 1
            yield rules, tight.best is not None


def measure(world: Problem, asking: Planner, sets: int, seed: int) -> dict[str, Any]:
    """Ask about every rule set; what was kept, and how near the best."""
    gaps, seconds, lost, kept_all_the_same, mixed = [], [], [], [], 0
    feasible = declared = impossible = 0
    for rules, is_feasible in rule_sets(world, sets, seed):
        started = time.perf_counter()
        answer = asking.ask(world, rules)
        seconds.append(time.perf_counter() - started)
        if not is_feasible:
            impossible += 1
            declared += answer.status == "impossible"
            if answer.is_satisfied:
                kept_all_the_same.append(rules)
            continue
        feasible += 1
        mixed += len(answer.plans) > 1
        if answer.is_satisfied:
            gaps.append(answer.gap)
        else:
            lost.append({"rules": rules, "violation": answer.evaluation.cons_vio})
    return {
        "world": world.name,
        "regions": len(world.world_spec.regions.names),
        "feasible": feasible,
        "satisfied": len(gaps),
        "mixtures": mixed,
        "gap_mean": float(np.mean(gaps)),
        "gap_95": float(np.quantile(gaps, 0.95)),
        "gap_worst": float(np.max(gaps)),
        "impossible": impossible,
        "declared": declared,
        "median_s": float(np.median(seconds)),
        "longest_s": float(np.max(seconds[1:], initial=0.0)),
        "lost": lost,
        "kept_all_the_same": kept_all_the_same,
        "gaps": gaps,
    }


def world_of(number: int, wind: float) -> Problem:
    """Agri, Med, then the random maps; in wind if there is any."""
    world = find_world(("agri", "med")[number]) if number < 2 else random_map(number - 1)
    if not wind:
        return world
    gusts = dataclasses.replace(world.world_spec.wind, strength=wind)
    return dataclasses.replace(world, world_spec=dataclasses.replace(world.world_spec, wind=gusts))


def row_of(number: int, *, sets: int, wind: float, policy: str | None) -> dict[str, Any]:
    """One world's row."""
    return measure(world_of(number, wind), planner(policy), sets, 1000 + number)


def _in_jobs(one: Callable[[int], Any], numbers: Iterable[int], jobs: int) -> Iterator[Any]:
    if jobs == 1:
        yield from map(one, numbers)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        yield from pool.map(one, numbers)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--sets", type=int, default=200)
    parser.add_argument("--maps", type=int, default=20)
    parser.add_argument("--wind", type=float, default=0.0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--policy")
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    numbers = range(2 + chosen.maps)
    one = partial(row_of, sets=chosen.sets, wind=chosen.wind, policy=chosen.policy)
    rows = []
    print(
        "| world | regions | satisfied | mixtures | mean gap | 95 % | worst | impossible "
        "| declared | median, s | longest, s |"
    )
    print("|---" * 11 + "|")
    for row in _in_jobs(one, numbers, chosen.jobs):
        rows.append(row)
        print(
            f"| {row['world']} | {row['regions']} | {row['satisfied']} of {row['feasible']} | "
            f"{row['mixtures']} | {row['gap_mean']:.2%} | {row['gap_95']:.2%} | "
            f"{row['gap_worst']:.2%} | {row['impossible']} | {row['declared']} | "
            f"{row['median_s']:.2f} | {row['longest_s']:.2f} |",
            flush=True,
        )
        for each in row["lost"]:
            print(f"lost: {each}", file=sys.stderr)
    gaps = np.concatenate([row["gaps"] for row in rows])
    satisfied, feasible = (sum(row[name] for row in rows) for name in ("satisfied", "feasible"))
    declared, impossible = (sum(row[name] for row in rows) for name in ("declared", "impossible"))
    kept = sum(len(row["kept_all_the_same"]) for row in rows)
    print(
        f"\n{satisfied} of {feasible} feasible rule sets satisfied, mean gap {gaps.mean():.2%}, "
        f"95th percentile {np.quantile(gaps, 0.95):.2%}; {declared} of {impossible} impossible "
        f"ones declared so, and {kept} kept all the same. "
        f"Matrix product {matmul_gflops():,.0f} GFLOP/s."
    )
    if chosen.out:
        chosen.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
