"""Searches the settings of each method on maps and rules that no table uses.

`python -m benchmarks.tuning [METHOD...] [--trials 16] [--seeds 2] [--steps 3700000] [--seed 1]
[--out FILE]` draws settings for each method from the same ranges, trains each of them on the tuning
problems, and prints how far from the best plan known they end, best first. The method's own
settings take part. Only settings that are traced are searched, so that all trials of a method run
side by side in one compiled program: every method gets the same effort.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import combinations
from multiprocessing import get_context
from pathlib import Path
from types import MappingProxyType
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from benchmarks.asking import random_map
from benchmarks.measured import write_rows
from scrl.planning.solve import solve
from scrl.problems import Problem, ProblemOptions
from scrl.training.algorithm import Best
from scrl.training.devices import DeviceRounds, SweepTask, shape_of, task_of
from scrl.training.maps import configure_map
from scrl.training.methods import METHODS

MAPS = (9001, 9098)
"""Random maps with five regions that do not overlap."""


RANGES: Mapping[str, tuple[float, float]] = MappingProxyType(
    {
        "learning_rate": (3e-4, 1e-2),
        "actor_share": (0.2, 1.0),
        "gae_lambda": (0.9, 0.995),
        "clip_range": (0.1, 0.4),
        "trust_region": (1e-3, 3e-2),
        "damping": (0.03, 0.3),
        "tau": (2e-3, 3e-2),
        "noise": (0.05, 0.4),
        "convexity": (1.0, 30.0),
        "multiplier_rate": (3e-5, 1e-3),
        "confidence": (0.1, 1.0),
        "proportional": (0.3, 10.0),
        "derivative": (0.3, 10.0),
        "inset": (0.1, 2.0),
        "sharpness": (1.0, 4.0),
    }
)
"""Settings are drawn between these, evenly on a logarithmic scale, where a method has them."""
ALWAYS_OFF = {"proportional", "derivative", "settle"}
"""Where a method has one of these at 0, it stays at 0."""
FAILED = 1.0
"""What counts as the gap where a rule is broken."""
SOLVE_S = 60.0


def main() -> None:
    """Search, and write what was found after every method."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("methods", nargs="*", default=[name for name in METHODS if name != "ddpg"])
    parser.add_argument("--trials", type=int, default=16)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=3_700_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    problems = tuning_problems()
    with ProcessPoolExecutor(mp_context=get_context("spawn"), initializer=_on_cpu) as processes:
        names = [problem.name for problem in problems]
        best = dict(zip(names, processes.map(_best_plan, problems), strict=True))
    rows: list[dict[str, Any]] = []
    for name in given.methods:
        print(f"searching {name} ...", file=sys.stderr, flush=True)
        trials = [{}, *drawn_settings(name, given.trials - 1, given.seed)]
        gaps = np.stack([
            run_trials(name, trials, alike, best, range(given.seeds), given.steps)
            for alike in _by_map(problems)
        ])  # fmt: skip
        for settings, gap in zip(trials, gaps.mean(axis=0), strict=True):
            rows.append({"method": name, "gap": float(gap), "settings": settings})
        write_rows(given.out, rows)
        for row in sorted(rows[-len(trials) :], key=lambda row: row["gap"])[:3]:
            print(f"{name} {row['gap']:.2%} {row['settings'] or 'as it is'}", flush=True)


def drawn_settings(method: str, count: int, seed: int) -> list[dict[str, float]]:
    """Settings of a method, each of them drawn from its range."""
    rng = np.random.default_rng(seed)
    own = configure_map(tuning_problems()[0], method=method).to_json()["settings"]
    names = [name for name in RANGES if name in own and (own[name] or name not in ALWAYS_OFF)]
    return [
        {name: float(f"{np.exp(rng.uniform(*np.log(RANGES[name]))):.3g}") for name in names}
        for _ in range(count)
    ]


def run_trials(
    method: str,
    trials: list[dict[str, float]],
    problems: list[Problem],
    best: Mapping[str, float],
    seeds: range,
    steps: int,
) -> Float[np.ndarray, " trial"]:
    """The mean gap of each trial to the best plans known, over problems of one map and seeds."""
    tasks = [
        task_of(problem, configure_map(problem, method=method, settings=settings, steps=steps))
        for settings in trials
        for problem in problems
    ]
    of_task = problems * len(trials)
    groups: dict[Any, list[int]] = {}
    for number, task in enumerate(tasks):
        groups.setdefault(shape_of(task), []).append(number)
    gaps = np.zeros(len(tasks))
    for numbers in groups.values():
        for number, found in zip(
            numbers, _trained([tasks[n] for n in numbers], seeds), strict=True
        ):
            gaps[number] = _gap(found, best[of_task[number].name])
    return gaps.reshape(len(trials), len(problems)).mean(axis=1)


def _trained(tasks: list[SweepTask], seeds: range) -> list[Best]:
    """The best policies of every task, for all seeds."""
    rounds, loop = DeviceRounds(tasks, seeds), tasks[0].plan.loop
    state, _ = rounds.begin()
    for _ in range(loop.iterations):
        state, _ = rounds.learn(state)
    for _ in range(loop.settle):
        state, _ = rounds.settle(state)
    return [own.best for own in rounds.split(state)]


def _gap(found: Best, best: float) -> float:
    gaps = (best - np.asarray(found.return_)) / abs(best)
    return float(np.where(np.asarray(found.violation) <= 1e-6, gaps, FAILED).mean())


def _on_cpu() -> None:
    jax.config.update("jax_platforms", "cpu")


def _best_plan(problem: Problem) -> float:
    found = solve(problem, time_limit_s=SOLVE_S).return_
    if found is None:
        raise SystemExit(f"{problem.name}: no plan is known")
    return found


def _by_map(problems: list[Problem]) -> list[list[Problem]]:
    """Problems of one map can run side by side."""
    maps: dict[str, list[Problem]] = {}
    for problem in problems:
        maps.setdefault(problem.name.rpartition("-")[0], []).append(problem)
    return list(maps.values())


def tuning_problems(maps: tuple[int, ...] = MAPS) -> list[Problem]:
    """A situational, a priority and a joint task on each of the maps, like those of the paper."""
    return [problem for seed in maps for problem in _tasks(seed)]


def _tasks(seed: int) -> list[Problem]:
    spec = random_map(seed).world_spec
    spec = replace(spec, route=replace(spec.route, service="landing"))
    names, sizes = spec.regions.names, spec.regions.sizes
    full = dict(zip(names, sizes / spec.vehicle.max_speed * spec.vehicle.rate, strict=True))
    small, low, middle, _, large = sorted(names, key=full.__getitem__)
    left, right = _unequal([name for name in names if name != small], full)
    equity = f"{' + '.join(left)} == {' + '.join(right)} within 6"
    adequate = [f"{name} >= {2.4 * full[name]:.0f}" for name in (small, low)]
    rules = {
        "situational": (
            f"if {large} > {0.9 * full[large]:.0f} then {middle} >= {1.8 * full[middle]:.0f}"
        ),
        "priority": f"if not ({' and '.join(adequate)}) then {equity}",
        "joint": " and ".join([equity, *adequate]),
    }
    return [
        Problem.create(spec, (text,), ProblemOptions(name=f"map-{seed}-{name}"))
        for name, text in rules.items()
    ]


def _unequal(names: list[str], full: dict[str, float]) -> tuple[list[str], list[str]]:
    """Two sides of which one gets about 1.3 times as much as the other at full speed."""
    splits = [
        ([name for name in names if name in side], [name for name in names if name not in side])
        for count in range(1, len(names))
        for side in combinations(names, count)
    ]

    def unlike(split: tuple[list[str], list[str]]) -> float:
        one, other = (sum(full[name] for name in side) for side in split)
        return abs(one / other - 1.3)

    return min(splits, key=unlike)


if __name__ == "__main__":
    main()
