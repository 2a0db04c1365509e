"""One policy for any rules in an environment: `scrl.learn`, then many random rule sets.

    python -m benchmarks.any_rules learn HalfCheetah
    python -m benchmarks.any_rules ask HalfCheetah --sets 100 --jobs 8
    python -m benchmarks.any_rules table

Rule sets are feasible by construction: each is drawn around what the learned policy gives at prices
that are drawn for it, which the search does not know. Needs `pip install 'scrl[mujoco,box2d]'`, and
mo-gymnasium for Reacher.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import scrl
from benchmarks import jobs, velocity
from scrl.environments.asking import AT_ONCE, LANES, EnvironmentPlanner, Tried, Tries
from scrl.environments.training import waiting
from scrl.penalty import random_prices

HIDDEN = 40
"""Policies that rule sets are drawn around."""
SLACK = 0.05
"""How far a bound lies from what the hidden policy gives, as a share of what all of them span."""
SEARCH_S = 4.0
"""Of the search for an answer: what has begun is finished, and the episodes that report come on
top."""


class Task(NamedTuple):
    """An environment with labels."""

    env: str
    options: Callable[[], Mapping[str, Any]]
    steps: int
    settings: Mapping[str, Any] = {}


def _lander(seen: Any) -> dict[str, bool]:
    is_left = bool(seen[0] < 0)
    is_standing = bool(seen[6] > 0 and seen[7] > 0)
    return {"left": is_left, "right": not is_left, "standing": is_standing}


REACHED = ("one", "two", "three", "four")
"""How near the arm is to each of the four targets, summed over the steps."""
TASKS = {
    "HalfCheetah": Task(
        "HalfCheetah-v4",
        lambda: {
            "labels": {
                "fast": velocity.Above(velocity.TASKS["HalfCheetah"].limit),
                "energy": velocity.energy,
                "plus": velocity.plus,
            }
        },
        3_000_000,
        {"initial_std": 0.1, "learning_rate": 3e-4, "discount": 0.98, "gae_lambda": 0.92},
    ),
    "LunarLander": Task(
        "LunarLander-v3",
        lambda: {
            "labels": _lander, "regions": ["left", "right", "standing"], "horizon_steps": 400,
        },
        2_000_000,
    ),
    "Reacher": Task(
        "mo_gymnasium:mo-reacher-v5",
        lambda: {"rewards": REACHED},
        2_000_000,
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Question:
    """A rule set by its number."""

    task: str
    number: int
    out: str


def learn(name: str, out: Path) -> None:
    """Learn, and draw rule sets around what the policy does."""
    given, folder = TASKS[name], out / name
    started = time.monotonic()
    planner = scrl.learn(
        given.env, steps=given.steps, settings=given.settings, out=folder, watch=None,
        **given.options(),
    )  # fmt: skip
    wall_s = time.monotonic() - started
    hidden, regions = hidden_policies(planner), planner.problem.regions
    amounts = np.array([each.mean for each in hidden])
    rng = np.random.default_rng(2026)
    chosen = rng.integers(len(hidden), size=1000).tolist()
    drawn = [
        {"rules": rule_set(amounts, at, regions, rng), "hidden": hidden[at].return_}
        for at in chosen
    ]  # fmt: skip
    document = {"steps": given.steps, "wall_s": wall_s, "questions": drawn}
    (out / f"{name}.json").write_text(json.dumps(document, indent=1))


def hidden_policies(planner: EnvironmentPlanner) -> list[Tried]:
    """What the policy does at prices that are drawn as in training, but with another key."""
    problem = planner.problem
    with waiting(), problem.open(problem.source.lanes or LANES * AT_ONCE) as lanes:
        tries = Tries(planner.policy, problem, lanes, seed=77)
        prices = random_prices(jnp.asarray(tries.unit), HIDDEN, key=jax.random.key(77))
        return tries.run(np.asarray(prices, float))


def rule_set(amounts: np.ndarray, at: int, regions: Any, rng: np.random.Generator) -> str:
    """One to three rules that one of the policies keeps."""
    span = np.ptp(amounts, axis=0) + 1e-9

    def atom(region: int, *, is_true: bool) -> str:
        sign = rng.choice([-1, 1])
        slack = SLACK if is_true else -3.0 * SLACK
        bound = amounts[at, region] + sign * slack * span[region]
        return f"{regions[region]} {'<=' if sign > 0 else '>='} {bound:.4g}"

    def rule() -> str:
        first, second = rng.choice(len(regions), 2, replace=False)
        kind = rng.integers(4)
        true = atom(first, is_true=True)
        other = atom(second, is_true=bool(rng.integers(2)))
        if kind == 0:
            return f"{true} or {other}"
        if kind == 1:
            return f"if {other} then {true}"
        return true

    return "; ".join(rule() for _ in range(rng.integers(1, 4)))


@cache
def _asked(name: str, out: str) -> tuple[EnvironmentPlanner, list[dict[str, Any]]]:
    """The planner of a task and its rule sets, once for each process."""
    given = TASKS[name]
    planner = scrl.learned(Path(out) / name, given.env, **given.options())
    document = json.loads((Path(out) / f"{name}.json").read_text())
    return planner, document["questions"]


def ask(question: Question) -> dict[str, Any]:
    """One answer."""
    planner, drawn = _asked(question.task, question.out)
    given, started = drawn[question.number], time.monotonic()
    answer = planner.ask(given["rules"], time_limit_s=SEARCH_S)
    return {
        "rules": given["rules"],
        "hidden": given["hidden"],
        "return": answer.evaluation.return_,
        "cons_vio": answer.evaluation.cons_vio,
        "kept": answer.is_satisfied,
        "wall_s": time.monotonic() - started,
    }


def table(out: Path) -> None:
    """How many were kept, how long it took, and how the returns compare."""
    print("| task | sets | kept | seconds, median and most | not 5 % below the hidden policy |")
    print("|---" * 5 + "|")
    rows = jobs.read(out / "answers.jsonl")
    for name in TASKS:
        if not (own := [each for each in rows if each["task"] == name]):
            continue
        wall_s = [each["wall_s"] for each in own]
        near = [each["return"] >= each["hidden"] - 0.05 * abs(each["hidden"]) for each in own]
        print(
            f"| {name} | {len(own)} | {sum(each['kept'] for each in own)} "
            f"| {np.median(wall_s):.1f}, {max(wall_s):.1f} | {sum(near)} |"
        )


def main() -> None:
    """Read the command line and do what it says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("command", choices=["learn", "ask", "table"])
    parser.add_argument("tasks", nargs="*", default=[*TASKS])
    parser.add_argument("--sets", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--minutes", type=float, default=math.inf)
    parser.add_argument("--out", type=Path, default=Path("runs/any-rules"))
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    if given.command == "learn":
        for name in given.tasks:
            learn(name, given.out)
    elif given.command == "ask":
        questions = [
            [Question(name, at, str(given.out)) for at in range(first, given.sets, given.jobs)]
            for name in given.tasks
            for first in range(given.jobs)
        ]
        jobs.run(
            questions, ask, out=given.out / "answers.jsonl", jobs=given.jobs,
            time_limit_s=60.0 * given.minutes,
        )  # fmt: skip
    if given.command != "learn":
        table(given.out)


if __name__ == "__main__":
    main()
