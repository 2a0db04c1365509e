"""Searches the settings of each method on maps and rules that no table uses.

`python -m benchmarks.tuning [METHOD...] [--trials 16] [--seeds 2] [--steps 3700000] [--seed 1]
[--solve 60] [--out FILE]` draws settings for each method from the same ranges, trains each of them
on the tuning problems, and prints how far from the best plan known they end, best first. The
method's own settings take part. Only settings that are traced are searched, so that trials of one
shape run side by side in one compiled program. Every method gets the same effort.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from itertools import combinations
from multiprocessing import get_context
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import numpy as np

from benchmarks.asking import random_map
from benchmarks.measured import write_rows
from scrl.bench.engines.local import COMPILING
from scrl.planning.solve import solve
from scrl.problems import Problem, ProblemOptions
from scrl.training.algorithm import Best
from scrl.training.config import LoopConfig
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
KEPT = 1e-6
"""Rules count as kept up to this violation, as in the problems of the tables."""
FAILED = 1.0
"""What counts as the gap where a rule is broken."""
SEARCHED = [name for name in METHODS if name != "ddpg" and not name.startswith("dcrl")]
"""DDPG is told no rules, and DCRL-k has the settings of SCRL: it is SCRL told one disjunct."""


def main() -> None:
    """Search, and write what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("methods", nargs="*", default=SEARCHED)
    parser.add_argument("--trials", type=int, default=16)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=3_700_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--solve", type=float, default=60.0, help="seconds for the best plans")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    trials = [
        Trial(method, settings, problem)
        for method in given.methods
        for settings in [{}, *drawn_settings(method, given.trials - 1, given.seed)]
        for problem in tuning_problems()
    ]
    with ProcessPoolExecutor(mp_context=get_context("spawn"), initializer=_on_cpu) as processes:
        problems = {trial.problem.name: trial.problem for trial in trials}
        best = {
            name: processes.submit(_best_plan, each, given.solve) for name, each in problems.items()
        }
        found = train_all(trials, range(given.seeds), given.steps)
        returns = {name: plan.result() for name, plan in best.items()}
    for trial, policies in zip(trials, found, strict=True):
        name = trial.problem.name
        returns[name] = max([returns[name], *policies.return_[policies.violation <= KEPT]])
    gaps: dict[tuple[str, str], list[float]] = {}
    for trial, policies in zip(trials, found, strict=True):
        key = trial.method, json.dumps(trial.settings)
        gaps.setdefault(key, []).append(_gap(policies, returns[trial.problem.name]))
    rows = [
        {"method": method, "gap": float(np.mean(each)), "worst": max(each),
         "settings": json.loads(settings)}
        for (method, settings), each in gaps.items()
    ]  # fmt: skip
    rows.sort(key=lambda row: (row["method"], row["gap"]))
    write_rows(given.out, rows)
    for row in rows:
        print(f"{row['method']} {row['gap']:.2%} {row['settings'] or 'as it is'}", flush=True)


class Trial(NamedTuple):
    """Settings of a method, on a problem."""

    method: str
    settings: dict[str, float]
    problem: Problem

    def task(self, steps: int) -> SweepTask:
        return task_of(
            self.problem,
            configure_map(self.problem, method=self.method, settings=self.settings, steps=steps),
        )


def train_all(trials: Sequence[Trial], seeds: range, steps: int) -> list[Best]:
    """The best policies of every trial, for all seeds; trials of one shape run side by side."""
    tasks = [trial.task(steps) for trial in trials]
    groups: dict[Any, list[int]] = {}
    for number, task in enumerate(tasks):
        groups.setdefault(shape_of(task), []).append(number)
    found: dict[int, Best] = {}
    with ThreadPoolExecutor(COMPILING) as threads:
        made = [DeviceRounds([tasks[n] for n in numbers], seeds) for numbers in groups.values()]
        ahead = [threads.submit(rounds.compile_ahead) for rounds in made]
        for numbers, rounds, compiled in zip(groups.values(), made, ahead, strict=True):
            compiled.result()
            names = sorted({trials[number].method for number in numbers})
            print(f"{len(numbers)} trials of {', '.join(names)} ...", file=sys.stderr, flush=True)
            loop = tasks[numbers[0]].plan.loop
            found.update(zip(numbers, _trained(rounds, loop), strict=True))
    return [found[number] for number in range(len(trials))]


def drawn_settings(method: str, count: int, seed: int) -> list[dict[str, float]]:
    """Settings of a method, each of them drawn from its range."""
    rng = np.random.default_rng(seed)
    own = configure_map(tuning_problems()[0], method=method).to_json()["settings"]
    names = [name for name in RANGES if name in own and (own[name] or name not in ALWAYS_OFF)]
    return [
        {name: float(f"{np.exp(rng.uniform(*np.log(RANGES[name]))):.3g}") for name in names}
        for _ in range(count)
    ]


def _trained(rounds: DeviceRounds, loop: LoopConfig) -> list[Best]:
    """The best policies of every task, for all seeds."""
    state, _ = rounds.begin()
    for _ in range(loop.iterations):
        state, _ = rounds.learn(state)
    for _ in range(loop.settle):
        state, _ = rounds.settle(state)
    return [jax.device_get(own.best) for own in rounds.split(state)]


def _gap(found: Best, best: float) -> float:
    gaps = (best - np.asarray(found.return_)) / abs(best)
    return float(np.where(np.asarray(found.violation) <= KEPT, gaps, FAILED).mean())


def _on_cpu() -> None:
    jax.config.update("jax_platforms", "cpu")


def _best_plan(problem: Problem, time_limit_s: float) -> float:
    found = solve(problem, time_limit_s=time_limit_s).return_
    return -np.inf if found is None else found


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
