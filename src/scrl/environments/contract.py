"""What an environment must keep to, and the wrapper that sees to it: what broke, where, and how."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import gymnasium
import numpy as np

from scrl.environments.labels import LabelError, Labels, Step
from scrl.errors import ScrlError


class EnvironmentFault(ScrlError):  # noqa: N818 (a fault of the environment, no error of ours)
    """An environment breaks Gymnasium's contract, or cannot be used here."""


LABELS = "labels"
"""Where the info of a guarded environment holds what a step gave to each region; all it holds."""


Rewards: TypeAlias = Mapping[str, float]
"""The names of several rewards, in their order, and the weight of each in the return."""


def rewards_of(given: Any) -> Rewards | None:
    """The names and weights of several rewards; names alone have the weight 1 each."""
    if given is None:
        return None
    named = given
    if isinstance(given, list | tuple):
        named = dict.fromkeys(given, 1.0)
    is_good = isinstance(named, Mapping) and len(named) == len(given) > 0
    if not is_good or not all(_is_weight(name, each) for name, each in named.items()):
        raise EnvironmentFault(
            "rewards must be different names, or a mapping from names to weights such as "
            f"{{'treasure': 1, 'time': 0}}, not {given!r:.80}"
        )
    return {name: float(each) for name, each in named.items()}


def _is_weight(name: Any, weight: Any) -> bool:
    is_number = isinstance(weight, int | float) and math.isfinite(weight)
    return isinstance(name, str) and bool(name) and is_number


class Guard(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Checks every reset and step, and says which environment broke what in which step.

    With labels, it reads them off each step, and only they are handed on. Several rewards become
    their weighted sum, and each is in `info` by its name.
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        index: int,
        labels: Labels | None = None,
        rewards: Rewards | None = None,
    ) -> None:
        super().__init__(env)
        self._index, self._episode, self._step = index, 0, 0
        self._labels, self._rewards = labels, rewards
        self._close_fault: str | None = None
        self._is_closed = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        self._episode, self._step = self._episode + 1, 0
        found = self._guarded("reset", lambda: self.env.reset(seed=seed, options=options))
        observation, info = self._parts("reset", found, ("observation", "info"))
        self._check_observation(observation)
        self._check_info(info)
        return observation, info if self._labels is None else {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._step += 1
        if isinstance(self.action_space, gymnasium.spaces.Box):
            action = np.asarray(action)  # of no dimension, it comes as a number of NumPy's
        found = self._guarded("step", lambda: self.env.step(action))
        names = ("observation", "reward", "terminated", "truncated", "info")
        observation, reward, terminated, truncated, info = self._parts("step", found, names)
        self._check_observation(observation)
        self._check_info(info)
        for name, value in (("terminated", terminated), ("truncated", truncated)):
            if not isinstance(value, bool | np.bool_):
                raise self._fault(f"{name} must be true or false, not {value!r:.80}")
        if self._rewards is not None:
            info = {**info, **self._several(reward, self._rewards)}
            reward = sum(weight * info[name] for name, weight in self._rewards.items())
        number = self._number(reward)
        if self._labels is not None:
            try:
                info = {LABELS: self._labels(Step(observation, action, number, info))}
            except LabelError as error:
                raise self._fault(str(error)) from error
        return observation, number, bool(terminated), bool(truncated), info

    def close(self) -> None:
        self.shut()

    def shut(self) -> str | None:
        """Close the environment, once; what that raised is no reason to lose a result."""
        if not self._is_closed:
            self._is_closed = True
            try:
                self.env.close()
            except Exception as error:
                self._close_fault = (
                    f"environment {self._index}: close raised {type(error).__name__}: {error}"
                )
        return self._close_fault

    def _guarded(self, what: str, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except Exception as error:
            raise self._fault(f"{what} raised {type(error).__name__}: {error}") from error

    def _parts(self, what: str, found: Any, names: tuple[str, ...]) -> tuple[Any, ...]:
        if not isinstance(found, tuple) or len(found) != len(names):
            raise self._fault(f"{what} must return ({', '.join(names)}), not {found!r:.80}")
        return found

    def _several(self, reward: Any, rewards: Rewards) -> dict[str, float]:
        """The rewards of a step by their names."""
        found = np.ravel(reward)
        if found.shape != (len(rewards),):
            raise self._fault(
                f"the reward has {found.size} numbers, and rewards={[*rewards]} names "
                f"{len(rewards)}: {reward!r:.80}"
            )
        named = zip(rewards, found, strict=True)
        return {name: self._number(each, f"the reward '{name}'") for name, each in named}

    def _number(self, reward: Any, what: str = "the reward") -> float:
        if np.size(reward) > 1:
            raise self._fault(
                f"the reward is a vector of {np.size(reward)} numbers: give a name to each, and "
                "its weight in the return, with rewards={'name': 1, ...}; then rules may name them"
            )
        try:
            number = float(reward)
        except (TypeError, ValueError):
            raise self._fault(f"{what} must be a number, not {reward!r:.80}") from None
        if not np.isfinite(number):
            raise self._fault(f"{what} is {number}")
        return number

    def _check_observation(self, observation: Any) -> None:
        space = self.observation_space
        if isinstance(space, gymnasium.spaces.Box):
            shape = np.shape(observation)
            if shape != space.shape:
                raise self._fault(
                    f"an observation of shape {shape}, and its space says {space.shape}"
                )
            if not np.isfinite(np.asarray(observation, float)).all():
                raise self._fault(f"the observation is not finite: {observation!r:.80}")
        elif not space.contains(observation):
            raise self._fault(f"the observation {observation!r:.80} does not lie in {space}")

    def _check_info(self, info: Any) -> None:
        if not isinstance(info, Mapping):
            raise self._fault(f"info must be a dictionary, not {info!r:.80}")

    def _fault(self, text: str) -> EnvironmentFault:
        return EnvironmentFault(f"{place(self._index, self._episode, self._step)}: {text}")


def place(index: int, episode: int, step: int) -> str:
    """Where something happened, for messages; episodes and steps count from 1."""
    moment = f"step {step}" if step else "at its start"
    return f"environment {index}, episode {episode}, {moment}"
