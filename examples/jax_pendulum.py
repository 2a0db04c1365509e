"""Pendulum as pure JAX functions: the same physics as Pendulum-v1, compiled with the training.

python examples/jax_pendulum.py              # trains under a rule about sides
python examples/jax_pendulum.py --speed      # steps per second beside Gymnasium's Pendulum-v1
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.spaces import Box

import scrl

RULES = {"sides": "if right > 80 then left >= 60"}
DT, GRAVITY, TORQUE, FASTEST = 0.05, 10.0, 2.0, 8.0
LABELS = {"left": lambda seen: seen[1] > 0, "right": lambda seen: seen[1] <= 0}


def observe(state: Any) -> Any:
    """Cosine and sine of the angle (positive: left of upright), and the speed."""
    angle, speed = state
    return jnp.stack([jnp.cos(angle), jnp.sin(angle), speed])


def reset(key: Any) -> tuple[Any, Any]:
    """Any angle, and a small speed."""
    angle_key, speed_key = jax.random.split(key)
    angle = jax.random.uniform(angle_key, minval=-math.pi, maxval=math.pi)
    state = angle, jax.random.uniform(speed_key, minval=-1.0, maxval=1.0)
    return state, observe(state)


def step(state: Any, action: Any, key: Any) -> tuple[Any, Any, Any, Any, Any]:
    """A rod of length and mass 1 with a torque at its end; nothing is left to chance."""
    del key
    angle, speed = state
    torque = jnp.clip(action[0], -TORQUE, TORQUE)
    upright = (angle + math.pi) % (2 * math.pi) - math.pi
    reward = -(upright**2 + 0.1 * speed**2 + 0.001 * torque**2)
    faster = speed + (1.5 * GRAVITY * jnp.sin(angle) + 3.0 * torque) * DT
    speed = jnp.clip(faster, -FASTEST, FASTEST)
    state = angle + speed * DT, speed
    return state, observe(state), reward, False, {}


def pendulum() -> scrl.JaxEnvironment:
    """The environment."""
    high = np.array([1.0, 1.0, FASTEST], np.float32)
    actions = Box(-TORQUE, TORQUE, (1,), np.float32)
    return scrl.JaxEnvironment(reset, step, Box(-high, high), actions, 200, "JaxPendulum")


def problem(rules: Any = RULES) -> Any:
    """The environment with its rules."""
    return scrl.environment(pendulum(), labels=LABELS, rules=rules, name="jax-pendulum")


def train(settings: Mapping[str, Any] | None = None, **options: Any) -> Any:
    """60 rounds of 16 pendulums."""
    return scrl.train(problem(), settings={"iterations": 60, **(settings or {})}, **options)


def speed(worlds: int = 16, episodes: int = 80) -> dict[str, float]:
    """Steps per second of a policy's episodes here and in Gymnasium, in as many worlds."""
    from scrl.environments.compiled import CompiledRounds
    from scrl.environments.driver import EnvironmentRounds, for_seeds
    from scrl.environments.training import configure_environment, task_of, waiting
    from scrl.training.algorithm import round_keys

    def measure(given: Any, kind: Any) -> float:
        config = configure_environment(given, settings={"worlds": worlds})
        with waiting(), given.open(worlds) as lanes:
            own = kind(task_of(given, config), given.actions, lanes, [0])
            state, _ = own.begin()
            keys, policy = for_seeds(round_keys, own.task, state), own.present(state)
            speeds = []
            for _ in range(6):
                start = time.perf_counter()
                steps = int(own.driver.measure(policy, keys.measure, episodes).env_steps.sum())
                speeds.append(steps / (time.perf_counter() - start))
        return float(np.median(speeds[1:]))

    twin = scrl.environment("Pendulum-v1", labels=LABELS, rules=RULES)
    return {
        "jax": measure(problem(), CompiledRounds),
        "gymnasium": measure(twin, EnvironmentRounds),
    }


if __name__ == "__main__":
    if "--speed" in sys.argv:
        print({name: round(each) for name, each in speed().items()})
    else:
        result = train(out=Path("runs") / "jax-pendulum")
        print(result, result.best.evaluation, sep="\n")
