"""Small environments of somebody else's: a walk on a line, and all the ways to break a contract."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from gymnasium import spaces

import scrl

if TYPE_CHECKING:
    from scrl.environments import EnvironmentPolicy

GOAL = 3.0
HORIZON = 8


class Walk(gymnasium.Env[np.ndarray, Any]):
    """From 0 towards 3 by the action, in [-1, 1]; terminated there; -1 a step.

    `info` has `amounts`: metres walked to the left and to the right in this step.
    """

    def __init__(self, broken: str = "", at: int = 3, choices: bool = False) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
        box = spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.action_space = spaces.Discrete(3, start=-1) if choices else box
        self._broken, self._at = broken, at

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed, options=options)
        self._place = float(self.np_random.uniform(0.0, 0.5))
        self._steps = 0
        return self._seen(), {}

    def step(self, action: Any) -> Any:
        moved = float(np.ravel(action)[0])
        self._place += moved
        self._steps += 1
        info = {"amounts": np.array([max(-moved, 0.0), max(moved, 0.0)])}
        found = (self._seen(), -1.0, self._place >= GOAL, False, info)
        return found if self._steps < self._at or not self._broken else self._break(found)

    def _seen(self) -> np.ndarray:
        return np.array([self._place, self._steps / HORIZON], np.float32)

    def _break(self, good: tuple[Any, ...]) -> Any:
        seen, reward, terminated, truncated, info = good
        if self._broken == "raises":
            raise RuntimeError("the wheel came off")
        bad = {
            "shape": (np.zeros(3, np.float32), reward, terminated, truncated, info),
            "observation": (np.array([np.nan, 0], np.float32), reward, terminated, truncated, info),
            "reward": (seen, float("nan"), terminated, truncated, info),
            "text": (seen, "much", terminated, truncated, info),
            "four": (seen, reward, terminated, info),
            "flag": (seen, reward, "no", truncated, info),
            "info": (seen, reward, terminated, truncated, None),
            "label": (seen, reward, terminated, truncated, {"amounts": np.array([1.0, np.nan])}),
            "length": (seen, reward, terminated, truncated, {"amounts": np.ones(3)}),
            "missing": (seen, reward, terminated, truncated, {"amount": np.ones(2)}),
        }
        return bad[self._broken]


class Pouring(gymnasium.Env[np.ndarray, Any]):
    """Twelve steps; each pours 1/2 or 3/2 times the action into a cup, by chance, at its square.

    Only the time is seen. With the same action a in each step the cup has a (6 + k), k the number
    of lucky steps; 4.5 to 5.5 means k = 5, 6 or 7 at best: (792 + 924 + 792) / 4096 = 61 %.
    """

    STEPS, RULES, SHARE = 12, ("cup >= 4.5", "cup <= 5.5"), 0.85

    def __init__(self) -> None:
        self.observation_space = spaces.Box(0.0, 1.0, (1,), np.float32)
        self.action_space = spaces.Box(0.0, 1.0, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed, options=options)
        self._steps = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
        poured = float(action[0]) * (0.5 + float(self.np_random.integers(2)))
        self._steps += 1
        seen = np.full(1, self._steps / self.STEPS, np.float32)
        return seen, -(float(action[0]) ** 2), self._steps == self.STEPS, False, {"cup": poured}


def make_walk() -> gymnasium.Env[Any, Any]:
    return Walk()


def make_choices() -> gymnasium.Env[Any, Any]:
    return Walk(choices=True)


class Make:
    """Makes walks that break a contract; can move to another process."""

    def __init__(self, broken: str) -> None:
        self.broken = broken

    def __call__(self) -> gymnasium.Env[Any, Any]:
        return Walk(self.broken)


class Trouble(Walk):
    """Has a process of its own, which `close` ends, and makes trouble in a process of its own."""

    def __init__(self, *kinds: str) -> None:
        super().__init__()
        self._kinds = kinds if multiprocessing.parent_process() else ()
        parent = multiprocessing.parent_process()
        command = f"import time; time.sleep(600) # {parent.pid if parent else os.getpid()}"
        self._child = subprocess.Popen(
            [sys.executable, "-c", command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        if "deaf" in self._kinds:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if "never made" in self._kinds:
            time.sleep(600)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        if "never reset" in self._kinds:
            time.sleep(600)
        return super().reset(seed=seed, options=options)

    def step(self, action: Any) -> Any:
        if "hangs" in self._kinds:
            time.sleep(600)
        if "holds on" in self._kinds:
            self.close()
            sum(itertools.repeat(0))  # no other thread and no handler can run meanwhile
        if "dies" in self._kinds:
            self.close()
            os._exit(3)
        return super().step(action)

    def close(self) -> None:
        self._child.kill()
        self._child.wait()


class MakeTrouble:
    """Makes such environments."""

    def __init__(self, *kinds: str) -> None:
        self.kinds = kinds

    def __call__(self) -> gymnasium.Env[Any, Any]:
        return Trouble(*self.kinds)


class Unclosable(Walk):
    """Cannot be closed."""

    def close(self) -> None:
        raise RuntimeError("the door is stuck")


def make_nothing() -> gymnasium.Env[Any, Any]:
    raise RuntimeError("no wheels in stock")


def make_longer() -> gymnasium.Env[Any, Any]:
    env = Walk()
    env.observation_space = spaces.Box(-np.inf, np.inf, (3,), np.float32)
    return env


REGIONS = ("west", "east")
RULES = "if west > 1 then east >= 2"
LOOP: dict[str, Any] = {
    "worlds": 2, "rollout_steps": HORIZON, "iterations": 3, "settle": 2, "episodes": 4,
    "settle_episodes": 4, "width": 8, "depth": 1, "epochs": 1, "minibatches": 2,
}  # fmt: skip


def loaded(run: Path, seed: int | None = None) -> EnvironmentPolicy:
    """The policy of a run in an environment."""
    # Not above: processes that step these environments import this file, and need no JAX.
    from scrl.environments import EnvironmentPolicy

    policy = scrl.load_policy(run, seed)
    assert isinstance(policy, EnvironmentPolicy)
    return policy
