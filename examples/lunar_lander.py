"""LunarLander-v3 with a rule about its side and its main engine.

    pip install 'scrl[box2d]'
    python examples/lunar_lander.py              # trains
    python examples/lunar_lander.py --search     # what hand-made controllers can do

If it is left of the flag for more than 60 steps, the main engine may burn in 60 at most. Four
actions: no engine, left, main, right.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import scrl

RULES = {"sides": "if left > 60 then main <= 60"}
HORIZON_STEPS = 400


def labels(observation: np.ndarray, action: int, reward: float, info: Any) -> dict[str, bool]:
    """Observations are place and speed in the plane, angle, its speed, and the two legs."""
    del reward, info
    return {"left": bool(observation[0] < 0), "main": int(action) == 2}


def problem(rules: Any = RULES) -> Any:
    """The environment with its rules; its own horizon of 1,000 steps is cut to 400."""
    return scrl.environment(
        "LunarLander-v3",
        labels=labels,
        rules=rules,
        horizon_steps=HORIZON_STEPS,
        name="lunar-lander",
    )


def train(settings: Mapping[str, Any] | None = None, **options: Any) -> Any:
    """The full budget: 60 rounds of 8 landers."""
    known = {"worlds": 8, "iterations": 60, "settle": 10}
    return scrl.train(problem(), settings={**known, **(settings or {})}, **options)


def controller(tilt: float, sink: float, aim: float) -> Callable[[np.ndarray], int]:
    """Lean towards a place right of the flag, and burn when it falls too fast for its height."""

    def act(observation: np.ndarray) -> int:
        x, y, across, up, angle, turning, left_leg, right_leg = observation
        x -= aim
        if left_leg and right_leg:
            return 2 if up < -0.1 else 0
        wanted = np.clip(tilt * x + across, -0.4, 0.4)
        turn = 0.5 * (wanted - angle) - turning
        burn = 0.5 * (sink * abs(x) - y) - 0.5 * up
        if burn > abs(turn) and burn > 0.05:
            return 2
        if abs(turn) > 0.05:
            return 3 if turn < 0 else 1
        return 0

    return act


def search(episodes: int = 40) -> list[tuple[tuple[float, float, float], Any]]:
    """All controllers of a grid that keep the rules, the best first."""
    made = problem()
    grid = product((0.25, 0.5, 1.0), (0.25, 0.5), (0.1, 0.2, 0.3, 0.4))
    found = [(each, scrl.evaluate(made, controller(*each), episodes=episodes)) for each in grid]
    kept = [pair for pair in found if pair[1].is_satisfied]
    return sorted(kept, key=lambda pair: -pair[1].return_)


if __name__ == "__main__":
    if "--search" in sys.argv:
        for numbers, evaluation in search()[:3]:
            print(numbers, evaluation)
    else:
        result = train(out=Path("runs") / "lunar-lander")
        print(result, result.best.evaluation, sep="\n")
