"""Steps per second of collecting and learning on HalfCheetah, beside Stable-Baselines3.

`python -m benchmarks.velocity_speed` takes both in turns, with the same number of environments,
networks and epochs.
"""

from __future__ import annotations

import json
import time
from typing import Any

import numpy as np

from benchmarks.velocity import LIMIT, problem_of

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


if __name__ == "__main__":
    print(json.dumps(speed()))
