"""MountainCarContinuous-v0: who stays in the valley for long must also see the hill.

    python examples/mountain_car.py              # trains
    python examples/mountain_car.py --search     # what pushing along with the speed can do

Pushing costs and only the summit pays, so a learner left alone gathers speed in many gentle swings,
which take more than 100 steps in the valley. The rule makes it push harder, at a small cost.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import scrl

RULES = {"valley": "if valley > 100 then hill >= 60"}
HORIZON_STEPS = 400


def in_valley(observation: np.ndarray) -> bool:
    """Observations are place (-1.2 to 0.6, the summit at 0.45) and speed."""
    return bool(-0.75 < observation[0] < -0.25)


def on_hill(observation: np.ndarray) -> bool:
    return bool(observation[0] > 0.0)


def problem(rules: Any = RULES) -> Any:
    """The environment with its rules; its own horizon of 999 steps is cut to 400."""
    return scrl.environment(
        "MountainCarContinuous-v0",
        labels={"valley": in_valley, "hill": on_hill},
        rules=rules,
        horizon_steps=HORIZON_STEPS,
        name="mountain-car",
    )


def train(settings: Mapping[str, Any] | None = None, **options: Any) -> Any:
    """The full budget: 60 rounds of 8 cars.

    Without a discount a late summit is worth as much as an early one, as it is in the return.
    """
    known = {"worlds": 8, "iterations": 60, "settle": 10, "discount": 1.0, "gae_lambda": 0.99}
    known["learning_rate"] = 1.5e-3
    return scrl.train(problem(), settings={**known, **(settings or {})}, **options)


def controller(force: float) -> Callable[[np.ndarray], np.ndarray]:
    """Always push in the direction in which the car moves."""

    def act(observation: np.ndarray) -> np.ndarray:
        return np.array([force if observation[1] >= 0 else -force], np.float32)

    return act


def search(episodes: int = 32) -> list[tuple[tuple[float], Any]]:
    """All forces of a grid that keep the rule, the best first."""
    made = problem()
    forces = (0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.6, 0.8, 1.0)
    found = [((each,), scrl.evaluate(made, controller(each), episodes=episodes)) for each in forces]
    kept = [pair for pair in found if pair[1].is_satisfied]
    return sorted(kept, key=lambda pair: -pair[1].return_)


if __name__ == "__main__":
    if "--search" in sys.argv:
        for numbers, evaluation in search()[:3]:
            print(numbers, evaluation)
    else:
        result = train(out=Path("runs") / "mountain-car")
        print(result, result.best.evaluation, sep="\n")
