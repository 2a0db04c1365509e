"""The velocity tasks of the safe-RL literature, with published rows beside ours.

A step costs 1 above the published x-velocity, and `fast <= 25` must hold on average. Needs
`pip install 'scrl[mujoco]'`. One process is one seed; started again, it goes on from its last
checkpoint:

    python -m benchmarks.velocity train HalfCheetah --seed 0 --steps 10000000 --out runs/velocity
    python -m benchmarks.velocity commands --out runs/velocity | xargs -P 16 -d '\\n' -n 1 sh -c
    python -m benchmarks.velocity table --out runs/velocity
    python -m benchmarks.velocity speed

`train` writes a run folder and one JSON document beside it, `table` prints Markdown tables of all
of them, and `speed` compares steps per second of collecting and learning with Stable-Baselines3.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import scrl
from scrl.training.config import parse_settings
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
CALM: Mapping[str, Any] = {"learning_rate": 3e-4, "settle": 10, "settle_episodes": 32}
"""Larger learning rates make returns fall back now and then; long episodes vary little."""
TASKS = {
    "HalfCheetah": Task(
        3.2096,
        {"PPO": (6922, 919), "PPO-Lag": (2946, 3.4), "CPO": (2786, 4.7), "FOCOPS": (2965, 2.4),
         "CUP": (2851, 4.3)},
        {"limit": LIMIT, "if-fast": "if fast > 25 then energy <= 150",
         "gaits": "plus <= 100 or minus <= 100"},
        CALM,
    ),
    "Hopper": Task(
        0.7402,
        {"PPO": (2337, 550), "PPO-Lag": (962, 14), "CPO": (1714, 13), "FOCOPS": (1438, 10),
         "CUP": (1716, 7.5)},
        {"limit": LIMIT},
        CALM,
    ),
    "Walker2d": Task(
        2.3415,
        {"PPO": (6240, 903), "PPO-Lag": (2982, 13), "CPO": (2075, 22), "FOCOPS": (3117, 8.8),
         "CUP": (2467, 6.6)},
        {"limit": LIMIT},
        CALM,
    ),
    "Swimmer": Task(
        0.2282,
        {"PPO": (120, 165), "PPO-Lag": (65, 28), "CPO": (65, 18), "FOCOPS": (54, 30),
         "CUP": (64, 22)},
        {"limit": LIMIT, "if-fast": "if fast > 25 then energy <= 0.5",
         "gaits": "plus <= 100 or minus <= 100"},
        {**CALM, "discount": 0.999},
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
    def command(self) -> str:
        return (
            f"python -m benchmarks.velocity train {self.task} --rules {self.rules} "
            f"--method {self.method} --seed {self.seed} --steps {self.steps}"
        )


def all_trainings() -> Iterator[Training]:
    """All that the tables need."""
    for task, seeds in (("HalfCheetah", 5), ("Swimmer", 5), ("Hopper", 3), ("Walker2d", 3)):
        yield from (Training(task, seed=seed) for seed in range(seeds))
    for task in ("HalfCheetah", "Swimmer"):
        for rules in ("if-fast", "gaits"):
            for method in METHODS:
                # Both branches together have the steps of one other training.
                steps = 1_500_000 if method.startswith("dcrl") else 3_000_000
                yield from (Training(task, rules, method, seed, steps) for seed in range(3))


def train(given: Training, out: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """Train or go on, write the JSON document, and return it."""
    task = TASKS[given.task]
    problem = problem_of(given.task, task.variants[given.rules])
    folder = out / given.name
    chosen = {**task.settings, **settings}
    if folder.exists():
        result = scrl.resume(folder, problem, watch=None)
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
            watch=None,
        )
    if not isinstance(result, TrainingResult):
        raise TypeError(f"{folder} holds no training")
    found = result.seeds[0].evaluation
    document = {
        **given._asdict(),
        "settings": chosen,
        "return": found.return_,
        "density": dict(found.density),
        "density_se": dict(found.density_se),
        "satisfied": found.is_satisfied,
        "episodes": found.episodes,
        "episode_steps": found.steps,
        "env_steps": result.env_steps,
        "wall_s": result.wall_s,
        "machine": f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores",
    }
    (out / f"{given.name}.json").write_text(json.dumps(document, indent=1))
    return document


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
                if seeds := [each for each in own if each["method"] == method]:
                    yield _row(method, seeds)


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


def main() -> None:
    """Read the command line and do what it says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("train")
    one.add_argument("task", choices=[*TASKS])
    one.add_argument("--rules", default="limit")
    one.add_argument("--method", default="scrl", choices=METHODS)
    one.add_argument("--seed", type=int, default=0)
    one.add_argument("--steps", type=int, default=10_000_000)
    one.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    for each in (one, commands.add_parser("table"), commands.add_parser("commands")):
        each.add_argument("--out", type=Path, default=Path("runs/velocity"))
    commands.add_parser("speed")
    given = parser.parse_args()
    if given.command == "speed":
        print(json.dumps(speed()))
    elif given.command == "commands":
        print("\n".join(f"{each.command} --out {given.out}" for each in all_trainings()))
    elif given.command == "table":
        print("\n".join(tables(given.out)))
    else:
        if given.rules not in TASKS[given.task].variants:
            parser.error(f"{given.task} has the rules {', '.join(TASKS[given.task].variants)}")
        given.out.mkdir(parents=True, exist_ok=True)
        training = Training(given.task, given.rules, given.method, given.seed, given.steps)
        print(json.dumps(train(training, given.out, parse_settings(given.set))))


if __name__ == "__main__":
    main()
