"""The velocity tasks of the safe-RL literature, with published rows beside ours.

A step costs 1 above the published x-velocity, and `fast <= 25` must hold on average. Needs
`pip install 'scrl[mujoco]'`. One process is one seed; started again, it goes on from its last
checkpoint:

    python -m benchmarks.velocity train HalfCheetah --seed 0 --steps 10000000
    python -m benchmarks.velocity all HalfCheetah Swimmer --jobs 16 --time-limit 560
    python -m benchmarks.velocity table
    python -m benchmarks.velocity speed

`train` writes a run folder and one JSON document beside it, `all` does so for all seeds in as many
processes as there are cores, each on a core of its own, `table` prints Markdown tables of all
documents, and `speed` compares steps per second of collecting and learning with Stable-Baselines3.
"""

from __future__ import annotations

import argparse
import json
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
from scrl.training.config import parse_settings
from scrl.training.loop import InterruptedTrainingError
from scrl.training.progress import TrainingProgress
from scrl.training.result import TrainingResult


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
    "initial_std": 0.1, "learning_rate": 2e-4, "minibatches": 62, "rollouts": 6,
    "kappa_pace": 0.25, "proportional": 2.0, "settle": 6, "settle_episodes": 16,
}  # fmt: skip
"""Noise that a gait survives, minibatches of 64 steps, and a damped kappa: a policy leaves a limit
by hundreds of steps within one round. Long episodes vary little."""
TASKS = {
    "HalfCheetah": Task(
        3.2096,
        {"PPO": (6922, 919), "PPO-Lag": (2946, 3.4), "CPO": (2786, 4.7), "FOCOPS": (2965, 2.4),
         "CUP": (2851, 4.3)},
        {"limit": LIMIT, "if-fast": "if fast > 25 then energy <= 150",
         "gaits": "plus <= 100 or minus <= 100"},
        {**USUAL, "discount": 0.98, "gae_lambda": 0.92},
    ),
    "Hopper": Task(
        0.7402,
        {"PPO": (2337, 550), "PPO-Lag": (962, 14), "CPO": (1714, 13), "FOCOPS": (1438, 10),
         "CUP": (1716, 7.5)},
        {"limit": LIMIT},
        USUAL,
    ),
    "Walker2d": Task(
        2.3415,
        {"PPO": (6240, 903), "PPO-Lag": (2982, 13), "CPO": (2075, 22), "FOCOPS": (3117, 8.8),
         "CUP": (2467, 6.6)},
        {"limit": LIMIT},
        USUAL,
    ),
    "Swimmer": Task(
        0.2282,
        {"PPO": (120, 165), "PPO-Lag": (65, 28), "CPO": (65, 18), "FOCOPS": (54, 30),
         "CUP": (64, 22)},
        {"limit": LIMIT, "if-fast": "if fast > 25 then energy <= 0.5",
         "gaits": "plus <= 100 or minus <= 100"},
        {**USUAL, "discount": 0.9999, "gae_lambda": 0.98, "initial_std": 0.2,
         "learning_rate": 3e-4},
    ),
}  # fmt: skip
METHODS = ("scrl", "ppo-lagrangian", "dcrl-1", "dcrl-2", "none")
"""Those of the if-then variants; the best of all branches is the better of the two `dcrl` rows."""


def problem_of(task: str, rules: str) -> Any:
    """A task under rules."""
    labels: dict[str, Any] = {"fast": Above(TASKS[task].limit)}
    if rules != LIMIT:
        labels |= {"energy": energy, "plus": plus, "minus": minus}
    return scrl.environment(f"{task}-v4", labels=labels, rules=rules, unit="steps")


class Training(NamedTuple):
    """One seed of one method on one task."""

    task: str
    rules: str = "limit"
    method: str = "scrl"
    seed: int = 0
    steps: int = 10_000_000

    @property
    def name(self) -> str:
        return f"{self.task}-{self.rules}-{self.method}-{self.seed}"

    @property
    def arguments(self) -> list[str]:
        """What `train` is given for it."""
        options = ("rules", "method", "seed", "steps")
        named = [(f"--{name}", str(getattr(self, name))) for name in options]
        return [self.task, *(text for pair in named for text in pair)]


def all_trainings(
    tasks: Sequence[str], steps: int = 10_000_000, first: int = 0
) -> Iterator[Training]:
    """All that the tables of some tasks need, with seeds from the first on."""
    for task in tasks:
        seeds = 5 if task in ("HalfCheetah", "Swimmer") else 3
        yield from (Training(task, seed=first + at, steps=steps) for at in range(seeds))


def all_variants(tasks: Sequence[str], first: int = 0) -> Iterator[Training]:
    """All that the tables of the if-then variants of some tasks need."""
    for task in tasks:
        for rules in [*TASKS[task].variants][1:]:
            for method in METHODS:
                # Both branches together have the steps of one other training.
                steps = 1_500_000 if method.startswith("dcrl") else 3_000_000
                seeds = range(first, first + 3)
                yield from (Training(task, rules, method, seed, steps) for seed in seeds)


class Until:
    """A watcher that stops training after the round in which a time limit has passed."""

    def __init__(self, limit_s: float | None) -> None:
        self.end_s = None if limit_s is None else time.monotonic() + limit_s
        self.last: TrainingProgress | None = None

    def __call__(self, now: TrainingProgress) -> None:
        self.last = now
        if self.end_s is not None and time.monotonic() > self.end_s:
            self.end_s = None
            signal.raise_signal(signal.SIGINT)  # one more round is finished and saved


def train(
    given: Training, out: Path, settings: dict[str, Any], time_limit_s: float | None = None
) -> dict[str, Any]:
    """Train or go on, write the JSON document, and return it."""
    task = TASKS[given.task]
    problem = problem_of(given.task, task.variants[given.rules])
    folder = out / given.name
    chosen = {**task.settings, **settings}
    until = Until(time_limit_s)
    document = {
        **given._asdict(),
        "settings": chosen,
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
                settings=chosen,
                out=folder,
                watch=until,
            )
    except InterruptedTrainingError:
        if until.last is None:
            raise
        document |= _so_far(until.last)
    else:
        document |= _measured(result)
    (out / f"{given.name}.json").write_text(json.dumps(document, indent=1))
    return document


def _measured(result: Any) -> dict[str, Any]:
    """What a finished training ended with."""
    if not isinstance(result, TrainingResult):
        raise TypeError(f"{result.run} holds no training")
    found = result.seeds[0].evaluation
    return {
        "is_finished": True,
        "return": found.return_,
        "density": dict(found.density),
        "density_se": dict(found.density_se),
        "satisfied": found.is_satisfied,
        "episodes": found.episodes,
        "episode_steps": found.steps,
        "env_steps": result.env_steps,
        "wall_s": result.wall_s,
    }


def _so_far(now: TrainingProgress) -> dict[str, Any]:
    """What a training that has not ended measured in the few episodes of a round."""
    seen = now.metrics
    return {
        "is_finished": False,
        "return": float(seen.return_[0]),
        "density": dict(zip(now.problem.regions, map(float, seen.density[0]), strict=True)),
        "satisfied": bool(seen.violation[0] == 0.0),
        "best_return": float(seen.best_return[0]),
        "best_violation": float(seen.best_violation[0]),
        "env_steps": now.env_steps,
        "wall_s": now.wall_s,
    }


def train_all(
    trainings: Sequence[Training], out: Path, options: Sequence[str], jobs: int, limit_s: float
) -> int:
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
        left_s = end_s - time.monotonic()
        command = [
            sys.executable, "-m", "benchmarks.velocity", "train", *one.arguments,
            "--out", str(out), "--time-limit", f"{left_s:.0f}", *options,
        ]  # fmt: skip
        try:
            if left_s <= 0:
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
            for method in METHODS:
                for name, is_finished in ((method, True), (f"{method} (so far)", False)):
                    kind = (method, is_finished)
                    if seeds := [each for each in own if _kind(each) == kind]:
                        yield _row(name, seeds)


def _kind(document: dict[str, Any]) -> tuple[str, bool]:
    return document["method"], document["is_finished"]


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


SPEED: dict[str, Any] = {
    "worlds": 4, "rollout_steps": 1000, "rollouts": 1, "epochs": 10, "minibatches": 62,
    "learning_rate": 3e-4, "discount": 0.99, "gae_lambda": 0.95, "width": 64, "depth": 2,
}  # fmt: skip


def speed(rounds: int = 5) -> dict[str, float]:
    """Steps per second of collecting and learning, ours and SB3's, taken in turns."""
    import jax
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.vec_env import VecNormalize

    from scrl.environments.driver import EnvironmentRounds, for_seeds
    from scrl.environments.training import configure_environment, task_of, waiting
    from scrl.training.algorithm import improve, round_keys

    problem = problem_of("HalfCheetah", LIMIT)
    config = configure_environment(problem, settings=SPEED)
    steps = config.loop.worlds * config.loop.rollout_steps
    seconds: dict[str, list[float]] = {"scrl": [], "SB3": []}
    with waiting(), problem.open(config.loop.worlds) as lanes:
        own = EnvironmentRounds(task_of(problem, config), problem.actions, lanes, [0])
        state, _ = own.begin()
        state, metrics = own.learn(state)
        vector = VecNormalize(make_vec_env("HalfCheetah-v4", n_envs=config.loop.worlds))
        model = PPO(
            "MlpPolicy", vector, n_steps=config.loop.rollout_steps, batch_size=64, n_epochs=10,
            device="cpu",
        )  # fmt: skip
        model.learn(steps)
        for _ in range(rounds):
            start = time.perf_counter()
            keys = for_seeds(round_keys, own.task, state)
            state, metrics = improve(own.task, own.driver, state, metrics, keys)
            jax.block_until_ready(state.learner)
            seconds["scrl"].append(time.perf_counter() - start)
            start = time.perf_counter()
            model.learn(steps, reset_num_timesteps=False)
            seconds["SB3"].append(time.perf_counter() - start)
    return {name: steps / float(np.median(each)) for name, each in seconds.items()}


def _known(task: str) -> str:
    if task not in TASKS:
        raise argparse.ArgumentTypeError(f"there is no task {task}: {', '.join(TASKS)}")
    return task


def main() -> None:
    """Read the command line and do what it says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    one, every = commands.add_parser("train"), commands.add_parser("all")
    one.add_argument("task", choices=[*TASKS])
    one.add_argument("--rules", default="limit")
    one.add_argument("--method", default="scrl", choices=METHODS)
    every.add_argument("tasks", nargs="*", type=_known, metavar="TASK", help="default: all")
    every.add_argument("--variants", action="store_true", help="the if-then variants instead")
    every.add_argument("--jobs", type=int, default=os.cpu_count())
    for each in (one, every):
        each.add_argument("--seed", type=int, default=0, help="the first, where there are several")
        each.add_argument("--steps", type=int, default=10_000_000)
        each.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
        each.add_argument("--time-limit", type=float, metavar="SECONDS")
    for each in (one, every, commands.add_parser("table")):
        each.add_argument("--out", type=Path, default=Path("runs/velocity"))
    commands.add_parser("speed")
    given = parser.parse_args()
    if given.command == "speed":
        print(json.dumps(speed()))
        return
    if given.command == "table":
        print("\n".join(tables(given.out)))
        return
    given.out.mkdir(parents=True, exist_ok=True)
    if given.command == "train":
        if given.rules not in TASKS[given.task].variants:
            parser.error(f"{given.task} has the rules {', '.join(TASKS[given.task].variants)}")
        training = Training(given.task, given.rules, given.method, given.seed, given.steps)
        settings = parse_settings(given.set)
        print(json.dumps(train(training, given.out, settings, given.time_limit)))
        return
    tasks = given.tasks or [*TASKS]
    trainings = [*all_trainings(tasks, given.steps, given.seed)]
    if given.variants:
        trainings = [*all_variants(tasks, given.seed)]
    options = [text for each in given.set for text in ("--set", each)]
    limit_s = float("inf") if given.time_limit is None else given.time_limit
    failed = train_all(trainings, given.out, options, given.jobs, limit_s)
    print("\n".join(tables(given.out)))
    if failed:
        sys.exit(f"{failed} of {len(trainings)} failed: see the logs in {given.out}")


if __name__ == "__main__":
    main()
