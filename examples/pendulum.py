"""Pendulum-v1 with rules about sides and effort.

    python examples/pendulum.py              # trains
    python examples/pendulum.py --search     # what hand-made controllers can do

If it leans right for more than 80 of its 200 steps, it must lean left for at least 60. And if the
torques of an episode add up to more than 60, it must be up for 180 steps, which is out of reach
from most starts: so it had better hold itself upright where that takes no torque.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import scrl

RULES = {"sides": "if right > 80 then left >= 60", "effort": "if effort > 60 then up >= 180"}


def is_left(observation: np.ndarray) -> bool:
    """Observations are cos, sin (positive: left of upright) and speed."""
    return bool(observation[1] > 0)


def is_right(observation: np.ndarray) -> bool:
    return not is_left(observation)


def is_up(observation: np.ndarray) -> bool:
    return bool(observation[0] > 0.9)


def effort(observation: np.ndarray, action: np.ndarray, reward: float, info: Any) -> float:
    """An amount, and no yes or no: the torque of a step, up to 2."""
    del observation, reward, info
    return abs(float(action[0]))


LABELS = {"left": is_left, "right": is_right, "up": is_up, "effort": effort}


def problem(rules: Any = RULES) -> Any:
    """The environment with its rules."""
    return scrl.environment("Pendulum-v1", labels=LABELS, rules=rules, name="pendulum")


def train(settings: Mapping[str, Any] | None = None, **options: Any) -> Any:
    """The full budget: 60 rounds of 16 pendulums, 960,000 steps with all that is measured."""
    return scrl.train(problem(), settings={"iterations": 60, **(settings or {})}, **options)


def controller(swing: float, stiffness: float, lean: float) -> Callable[[np.ndarray], np.ndarray]:
    """Pump energy until it is nearly up, then hold it at an angle."""

    def act(observation: np.ndarray) -> np.ndarray:
        cosine, sine, speed = observation
        if cosine > 0.8:
            torque = -stiffness * (np.arctan2(sine, cosine) - lean) - 0.2 * stiffness * speed
        else:
            energy = speed**2 / 6.0 + 5.0 * (cosine - 1.0)
            torque = -swing * np.sign(energy) * (speed if abs(speed) > 1e-3 else 1.0)
        return np.array([np.clip(torque, -2.0, 2.0)], np.float32)

    return act


def search(episodes: int = 64) -> list[tuple[tuple[float, float, float], Any]]:
    """All controllers of a grid that keep the rules, the best first."""
    made = problem()
    grid = product((0.5, 0.8, 1.5, 3.0), (10.0, 20.0), (-0.05, 0.0, 0.05))
    found = [(each, scrl.evaluate(made, controller(*each), episodes=episodes)) for each in grid]
    kept = [pair for pair in found if pair[1].is_satisfied]
    return sorted(kept, key=lambda pair: -pair[1].return_)


if __name__ == "__main__":
    if "--search" in sys.argv:
        for numbers, evaluation in search()[:3]:
            print(numbers, evaluation)
    else:
        result = train(out=Path("runs") / "pendulum")
        print(result, result.best.evaluation, sep="\n")
