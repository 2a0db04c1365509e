"""Pendulum-v1 with a rule about how it stands: if straight for long, then leaning for longer.

    python examples/pendulum.py              # trains
    python examples/pendulum.py --search     # what hand-made controllers can do

Leaning costs torque, so a learner left alone stands straight. The rule counts steps over an episode
of 200: if it stands straight in more than 60, it must lean to either side in at least 100.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import scrl

RULES = {"leaning": "if straight > 60 then leaning >= 100"}


def is_straight(observation: np.ndarray) -> bool:
    """Observations are cos, sin (positive: left of upright) and speed."""
    return bool(observation[0] > 0.9 and abs(observation[1]) <= 0.2)


def is_leaning(observation: np.ndarray) -> bool:
    """Nearly upright, and at least 12 degrees to a side."""
    return bool(observation[0] > 0.9 and abs(observation[1]) > 0.2)


def problem(rules: Any = RULES) -> Any:
    """The environment with its rules."""
    labels = {"straight": is_straight, "leaning": is_leaning}
    return scrl.environment("Pendulum-v1", labels=labels, rules=rules, name="pendulum")


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
    """All controllers of a grid that keep the rule, the best first."""
    made = problem()
    grid = product((1.5, 3.0), (10.0, 20.0, 40.0), (0.0, 0.2, 0.22, 0.25, 0.3))
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
