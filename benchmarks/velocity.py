"""The velocity tasks of the safe-RL literature, with published rows beside ours.

A step costs 1 above the published x-velocity, and `fast <= 25` must hold on average. Needs
`pip install 'scrl[mujoco]'`. One process is one seed; started again, it goes on from its last
checkpoint:

    python -m benchmarks.velocity train HalfCheetah:limit:scrl:0:3000000
    python -m benchmarks.velocity all HalfCheetah:limit:scrl:0-4:3000000 \
        Hopper:limit:scrl:0-2:2000000 --jobs 10 --minutes 9
    python -m benchmarks.velocity table

A training is written TASK:RULES:METHOD:SEED:STEPS, and settings that differ from those below as
`:KEY=VALUE,...` behind it. `train` writes a run folder and one JSON document beside it. `all` does
so for ranges of seeds, the first ones first, in as many processes as there are cores, each on a
core of its own; with `--minutes` it stops in time, and the best policies so far are evaluated.
`table` prints Markdown tables of all documents.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import scrl
from scrl.environments import EnvironmentPolicy, EnvironmentProblem
from scrl.environments.driver import EnvironmentRounds
from scrl.environments.policy import evaluate_in
from scrl.environments.training import task_of, waiting
from scrl.evaluation import REPORT_SEED, Evaluation
from scrl.learners import TrainedPolicy
from scrl.runs.folder import RunFolder
from scrl.training.config import parse_settings
from scrl.training.loop import InterruptedTrainingError
from scrl.training.progress import TrainingProgress
from scrl.training.result import TrainingResult, config_of, seed_policy
from scrl.training.run import TrainingRun


class Above:
    """Whether the x-velocity of a step is above a limit."""

    def __init__(self, limit: float) -> None:
        self.limit = limit

    def __call__(self, seen: Any, action: Any, reward: float, info: Mapping[str, Any]) -> bool:
        del seen, action, reward
        return bool(info["x_velocity"] > self.limit)


def energy(seen: Any, action: Any, reward: float, info: Mapping[str, Any]) -> float:
    """The control cost of a step."""
    del seen, action, reward
    return -float(info["reward_ctrl"])


def plus(seen: Any) -> bool:
    """Whether an angle is positive: the pitch of the cheetah, the first joint of the swimmer."""
    return bool(seen[1] > 0)


def minus(seen: Any) -> bool:
    """Whether it is not."""
    return bool(seen[1] <= 0)


class Task(NamedTuple):
    """A task and what was published of it, as (return, cost) after 1e7 steps."""

    limit: float
    published: Mapping[str, tuple[float, float]]
    variants: Mapping[str, str]
    """Rules by name; the first is the published one."""
    settings: Mapping[str, Any]
    """What differs from the settings for all environments."""


LIMIT = "fast <= 25"
USUAL: Mapping[str, Any] = {
    "minibatches": 62, "rollouts": 6, "kappa_pace": 0.25, "settle": 6, "settle_episodes": 16,
}  # fmt: skip
"""Minibatches of 64 steps, and small steps of kappa: a policy leaves a limit by hundreds of steps
within one round. Long episodes vary little."""
ON_LEGS: Mapping[str, Any] = {**USUAL, "learning_rate": 3e-4, "discount": 0.995}
"""With noise that finds a stand at first."""
TASKS = {
    "HalfCheetah": Task(
        3.2096,
        {"PPO": (6922, 919), "PPO-Lag": (2946, 3.4), "CPO": (2786, 4.7), "FOCOPS": (2965, 2.4),
         "CUP": (2851, 4.3)},
        {"limit": LIMIT, "if-fast": "if fast > 25 then energy <= 150",
         "gaits": "plus <= 100 or minus <= 100"},
        {**USUAL, "initial_std": 0.1, "learning_rate": 2e-4, "discount": 0.98, "gae_lambda": 0.92,
         "proportional": 2.0},
    ),
    "Hopper": Task(
        0.7402,
        {"PPO": (2337, 550), "PPO-Lag": (962, 14), "CPO": (1714, 13), "FOCOPS": (1438, 10),
         "CUP": (1716, 7.5)},
        {"limit": LIMIT},
        {**ON_LEGS, "proportional": 2.0, "windup": 1.0},
    ),
    "Walker2d": Task(
        2.3415,
        {"PPO": (6240, 903), "PPO-Lag": (2982, 13), "CPO": (2075, 22), "FOCOPS": (3117, 8.8),
         "CUP": (2467, 6.6)},
        {"limit": LIMIT},
        {**ON_LEGS, "proportional": 1.0, "windup": 4.0, "last_std": 0.05},
    ),
    "Swimmer": Task(
        0.2282,
        {"PPO": (120, 165), "PPO-Lag": (65, 28), "CPO": (65, 18), "FOCOPS": (54, 30),
         "CUP": (64, 22)},
        {"limit": LIMIT, "if-fast": "if fast > 25 then energy <= 0.5",
         "gaits": "plus <= 100 or minus <= 100"},
        {**USUAL, "discount": 0.9995, "gae_lambda": 0.98, "initial_std": 0.2,
         "learning_rate": 3e-4, "kappa_pace": 1.0},
    ),
}  # fmt: skip
METHODS = ("scrl", "ppo-lagrangian", "dcrl-1", "dcrl-2", "none")
"""Those of the if-then variants; the best of all branches is the better of the two `dcrl` rows."""


def problem_of(task: str, rules: str) -> Any:
    """A task under rules."""
    labels: dict[str, Any] = {"fast": Above(TASKS[task].limit)}
    if rules != LIMIT:
        labels |= {"energy": energy, "plus": plus, "minus": minus}
    unit = {name: "steps" for name in labels if name != "energy"}
    return scrl.environment(
        f"{task}-v4", labels=labels, rules=rules, unit="steps" if rules == LIMIT else unit
    )


class Training(NamedTuple):
    """One seed of one method on one task."""

    task: str
    rules: str = "limit"
    method: str = "scrl"
    seed: int = 0
    steps: int = 10_000_000
    changes: str = ""
    """Settings that differ from those of the task: `KEY=VALUE,...`."""

    @property
    def name(self) -> str:
        parts = (self.task, self.rules, self.method, self.changes, str(self.seed))
        return "-".join(filter(None, parts))

    @property
    def text(self) -> str:
        """What `train` is given for it."""
        return ":".join(map(str, self))

    @property
    def settings(self) -> dict[str, Any]:
        """All settings that differ from those for all environments."""
        return {
            **TASKS[self.task].settings,
            **parse_settings([*filter(None, self.changes.split(","))]),
        }


class Until:
    """A watcher that stops training after the round in which a time limit has passed."""

    def __init__(self, limit_s: float) -> None:
        self.end_s = time.monotonic() + limit_s

    def __call__(self, now: TrainingProgress) -> None:
        del now
        if time.monotonic() > self.end_s:
            self.end_s = math.inf
            signal.raise_signal(signal.SIGINT)  # one more round is finished and saved


def train(given: Training, out: Path, time_limit_s: float = math.inf) -> dict[str, Any]:
    """Train or go on, write the JSON document, and return it."""
    problem = problem_of(given.task, TASKS[given.task].variants[given.rules])
    folder, until = out / given.name, Until(time_limit_s)
    document = {
        **given._asdict(),
        "settings": given.settings,
        "machine": f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores",
    }
    try:
        if folder.exists():
            result = scrl.resume(folder, problem, watch=until)
        else:
            is_free = given.method == "none"
            result = scrl.train(
                problem,
                method="scrl" if is_free else given.method,
                penalty="none" if is_free else None,
                seeds=[given.seed],
                steps=given.steps,
                settings=given.settings,
                out=folder,
                watch=until,
            )
    except InterruptedTrainingError:
        document |= {"is_finished": False, **_so_far(problem, RunFolder.open(folder))}
    else:
        if not isinstance(result, TrainingResult):
            raise TypeError(f"{result.run} holds no training")
        evaluation = result.seeds[0].evaluation
        document |= {"is_finished": True, **_measured(evaluation, result.env_steps, result.wall_s)}
    document["commit"] = RunFolder.open(folder).record.commit
    (out / f"{given.name}.json").write_text(json.dumps(document, indent=1))
    return document


def _measured(found: Evaluation, env_steps: int, wall_s: float) -> dict[str, Any]:
    """What a policy does in episodes that had no part in choosing it."""
    return {
        "return": found.return_,
        "density": dict(found.density),
        "density_se": dict(found.density_se),
        "satisfied": found.is_satisfied,
        "episodes": found.episodes,
        "episode_steps": found.steps,
        "env_steps": env_steps,
        "wall_s": wall_s,
    }


SO_FAR = 20
"""Episodes behind a figure of a training that has not ended."""


def _so_far(problem: EnvironmentProblem, folder: RunFolder) -> dict[str, Any]:
    """What the best policy of a training that has not ended does."""
    config, seed = config_of(folder), folder.record.seeds[0]
    with waiting(), problem.open(config.loop.worlds) as lanes:

        def report(policy: TrainedPolicy, seed: int) -> Evaluation:
            return evaluate_in(
                lanes, problem, EnvironmentPolicy(policy, problem.actions), episodes=SO_FAR,
                seed=REPORT_SEED + seed, name="so far",
            )  # fmt: skip

        rounds = EnvironmentRounds(task_of(problem, config), problem.actions, lanes, [seed])
        run = TrainingRun(problem, config, folder, report=report)
        best = run.restore(rounds.begin()[0]).best.policy
        return _measured(report(seed_policy(best, 0), seed), run.env_steps, run.wall_s)


RESERVE_S = 50.0
"""Kept for the last rounds and the evaluation before a limit."""


def train_all(trainings: Sequence[Training], out: Path, jobs: int, limit_s: float) -> int:
    """Train or go on with all, so many at a time, each on cores of its own (on Linux).

    Returns how many failed.
    """
    end_s = time.monotonic() + limit_s
    cores = sorted(os.sched_getaffinity(0))
    share = max(1, len(cores) // jobs)
    free = [cores[at : at + share] for at in range(0, len(cores), share)][:jobs]
    threads = {"OMP_NUM_THREADS": str(share), "JAX_PLATFORMS": "cpu"}

    def run(one: Training) -> int:
        own = free.pop()
        left_s = end_s - time.monotonic() - RESERVE_S
        command = [
            sys.executable, "-m", "benchmarks.velocity", "train", one.text,
            "--out", str(out), "--minutes", f"{left_s / 60.0:.3f}",
        ]  # fmt: skip
        try:
            if left_s <= 0.0 or _is_finished(out / f"{one.name}.json"):
                return 0
            os.sched_setaffinity(0, own)  # of this thread; the process that it starts inherits it
            with (out / f"{one.name}.log").open("a") as log:
                done = subprocess.run(
                    command, env={**os.environ, **threads}, stdout=log, stderr=log, check=False
                )
            return int(done.returncode != 0)
        finally:
            free.append(own)

    with ThreadPoolExecutor(len(free)) as pool:
        return sum(pool.map(run, trainings))


def _is_finished(document: Path) -> bool:
    return document.exists() and json.loads(document.read_text())["is_finished"]


def tables(out: Path) -> Iterator[str]:
    """The Markdown lines of all documents in a folder."""
    documents = [json.loads(path.read_text()) for path in sorted(out.glob("*.json"))]
    for task, about in TASKS.items():
        for rules, text in about.variants.items():
            own = [each for each in documents if (each["task"], each["rules"]) == (task, rules)]
            if not own:
                continue
            yield f"\n**{task}**, `{text}`\n"
            yield "| method | return | fast | kept | steps | wall, s |"
            yield "|---" * 6 + "|"
            for name, (return_, cost) in about.published.items() if rules == "limit" else ():
                yield f"| {name} (published) | {return_} | {cost} | {cost <= 25} | 1e7 | |"
            for kind in sorted({_kind(each) for each in own}):
                yield _row(
                    " ".join(filter(None, kind)), [each for each in own if _kind(each) == kind]
                )


def _kind(document: dict[str, Any]) -> tuple[str, str, str]:
    """Method, changed settings, and whether it has not ended: seeds that are one row."""
    return (
        document["method"], document["changes"], "" if document["is_finished"] else "(so far)",
    )  # fmt: skip


def _row(method: str, seeds: list[dict[str, Any]]) -> str:
    kept = f"{sum(each['satisfied'] for each in seeds)} of {len(seeds)}"
    returns, fast = (
        _interval([value(each) for each in seeds])
        for value in (lambda each: each["return"], lambda each: each["density"]["fast"])
    )
    steps, wall_s = (np.mean([each[name] for each in seeds]) for name in ("env_steps", "wall_s"))
    return f"| {method} | {returns} | {fast} | {kept} | {steps:,.0f} | {wall_s:,.0f} |"


def _interval(values: list[float]) -> str:
    """Mean and 95 % interval by Student's t."""
    from scipy.stats import t

    mean = float(np.mean(values))
    if len(values) == 1:
        return f"{mean:,.1f}"
    half = t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / np.sqrt(len(values))
    return f"{mean:,.1f} ± {half:,.1f}"


def specified(text: str) -> list[Training]:
    """The trainings of `TASK:RULES:METHOD:SEEDS:STEPS:CHANGES`; seeds are `3` or `0-4`."""
    try:
        task, rules, method, seeds, steps, *changes = text.split(":")
        first, _, last = seeds.partition("-")
        found = [
            Training(task, rules, method, seed, int(steps), *changes)
            for seed in range(int(first), int(last or first) + 1)
        ]
    except (ValueError, TypeError):
        message = f"'{text}' is not TASK:RULES:METHOD:SEEDS:STEPS"
        raise argparse.ArgumentTypeError(message) from None
    if task not in TASKS or rules not in TASKS[task].variants or method not in METHODS:
        raise argparse.ArgumentTypeError(f"'{text}': no such task, rules or method")
    return found


def main() -> None:
    """Read the command line and do what it says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    train_one, train_every = commands.add_parser("train"), commands.add_parser("all")
    for each in (train_one, train_every):
        each.add_argument("trainings", nargs="+", type=specified, metavar="TRAINING")
        each.add_argument("--minutes", type=float, default=math.inf)
    train_every.add_argument("--jobs", type=int, default=os.cpu_count())
    for each in (train_one, train_every, commands.add_parser("table")):
        each.add_argument("--out", type=Path, default=Path("runs/velocity"))
    given = parser.parse_args()
    if given.command == "table":
        print("\n".join(tables(given.out)))
        return
    given.out.mkdir(parents=True, exist_ok=True)
    trainings = [each for some in given.trainings for each in some]
    if given.command == "train":
        for each in trainings:
            print(json.dumps(train(each, given.out, 60.0 * given.minutes)))
        return
    failed = train_all(trainings, given.out, given.jobs, 60.0 * given.minutes)
    print("\n".join(tables(given.out)))
    if failed:
        sys.exit(f"{failed} of {len(trainings)} failed: see the logs in {given.out}")


if __name__ == "__main__":
    main()
