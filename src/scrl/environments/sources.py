"""Anybody's environment in all forms -> a Gymnasium vector environment with so many lanes."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import gymnasium
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.wrappers import TimeLimit

from scrl.environments.contract import EnvironmentFault, Guard, Rewards
from scrl.environments.labels import Labels
from scrl.environments.processes import Obedient, end, follow_parent, kill_below

Make: TypeAlias = Callable[[], Any]

MAKING_S = 300.0
"""For making all environments in processes of their own, at least."""


@dataclass(frozen=True, eq=False)
class JaxEnvironment:
    """An environment of pure JAX functions, which is compiled together with the training.

    `info` is a dictionary of arrays. Episodes end when they are terminated, or with the horizon.
    """

    reset: Callable[[Any], tuple[Any, Any]]
    """key -> (state, observation)."""
    step: Callable[[Any, Any, Any], tuple[Any, Any, Any, Any, Any]]
    """(state, action, key) -> (state, observation, reward, is_terminated, info)."""
    observation_space: gymnasium.spaces.Box
    action_space: gymnasium.Space[Any]
    horizon_steps: int
    name: str = "JaxEnvironment"


@dataclass(frozen=True)
class Source:
    """Where lanes come from."""

    name: str
    make: Make | None = None
    """Makes as many as are wanted."""
    makes: tuple[Make, ...] = ()
    """As many as there are."""
    vector: VectorEnv[Any, Any, Any] | None = None
    """One that the user has made, and closes."""
    compiled: JaxEnvironment | None = None
    """One of pure JAX functions."""
    rewards: Rewards | None = None
    """The names and weights of several rewards; none where there is one."""

    @classmethod
    def of(cls, env: Any) -> Source:
        """Any form that a person may give."""
        if isinstance(env, Source):
            return env
        if isinstance(env, str):
            return cls(env, make=_MakeById(env))
        if isinstance(env, VectorEnv):
            return cls(_name_of(env), vector=env)
        if isinstance(env, JaxEnvironment):
            return cls(env.name, compiled=env)
        if isinstance(env, gymnasium.Env):
            return cls(_name_of(env), makes=(_Given(env),))
        if callable(env):
            return cls(getattr(env, "__name__", type(env).__name__), make=env)
        if isinstance(env, Sequence) and env:
            makes = tuple(each if callable(each) else _Given(each) for each in env)
            first = env[0]
            name = getattr(first, "__name__", None) if callable(first) else _name_of(first)
            return cls(name or type(first).__name__, makes=makes)
        raise EnvironmentFault(
            "an environment is an id such as 'Pendulum-v1', a function that makes one, a Gymnasium "
            f"environment, a list of them, or a vector environment, not {env!r:.80}"
        )

    @property
    def lanes(self) -> int | None:
        """How many lanes there are; none where there can be as many as one likes."""
        if self.vector is not None:
            return self.vector.num_envs
        return len(self.makes) or None

    def maker(self, index: int) -> Make:
        """What makes the environment of a lane."""
        if self.make is not None:
            return self.make
        return self.makes[index]

    def is_given(self, index: int) -> bool:
        """Whether the environment of a lane exists already; then it is not ours to close."""
        return isinstance(self.maker(index), _Given)

    def open(
        self, lanes: int, labels: Labels, *, horizon_steps: int, limit_s: float | None
    ) -> VectorEnv[Any, Any, Any]:
        """The lanes side by side; with a time limit for making them, in processes of their own."""
        if self.vector is not None:
            return self.vector
        home = os.getpid()
        makes = [
            _Lane(self.maker(index), index, labels, horizon_steps, home, self.rewards)
            for index in range(lanes)
        ]
        if limit_s is None:
            return _here(makes)
        if any(isinstance(make, _Given) for make in self.makes):
            raise EnvironmentFault(
                "an environment that exists already cannot move to a process of its own: give "
                "functions that make them"
            )
        return _in_processes(makes, limit_s)


# Nothing is reset behind our back: the observation that ends an episode is kept.
_MODE = AutoresetMode.DISABLED


def _here(makes: Sequence[_Lane]) -> VectorEnv[Any, Any, Any]:
    """The lanes in this process; where one cannot be made, the others are closed."""
    envs: list[gymnasium.Env[Any, Any]] = []
    try:
        for make in makes:
            envs.append(make())
        return SyncVectorEnv([_Given(env) for env in envs], autoreset_mode=_MODE)
    except BaseException as error:
        for env in envs:
            env.close()
        raise _unlike(error) from error


def _in_processes(makes: Sequence[_Lane], limit_s: float) -> VectorEnv[Any, Any, Any]:
    """The lanes in processes of their own; where one cannot be had, none is left."""
    first = makes[0]()
    spaces = first.observation_space, first.action_space
    first.close()
    makes = [replace(make, spaces=spaces) for make in makes]
    before = set(multiprocessing.active_children())
    is_late = threading.Event()

    def give_up() -> None:
        is_late.set()
        end(set(multiprocessing.active_children()) - before)

    limit_s = min(max(limit_s, MAKING_S), threading.TIMEOUT_MAX)
    timer = threading.Timer(limit_s, give_up)
    timer.daemon = True
    timer.start()
    try:
        # JAX has threads, so its process must not be forked.
        return AsyncVectorEnv(makes, context="spawn", autoreset_mode=_MODE)
    except BaseException as error:
        end(set(multiprocessing.active_children()) - before)
        if is_late.is_set():
            raise EnvironmentFault(
                f"the environments were not made within {limit_s:g} s: one of them does not "
                "return, or needs longer; then give a larger step_timeout_s"
            ) from error
        raise _unlike(error) from error
    finally:
        timer.cancel()


def _unlike(error: BaseException) -> BaseException:
    """What to say where lanes cannot stand side by side."""
    if isinstance(error, EnvironmentFault) or not isinstance(error, Exception):
        return error
    return EnvironmentFault(
        f"the environments cannot be put side by side: {type(error).__name__}: {error}"
    )


@dataclass(frozen=True)
class _MakeById:
    """Makes the environment of an id; Gymnasium's own checker would only check what we do."""

    id: str

    def __call__(self) -> gymnasium.Env[Any, Any]:
        try:
            return gymnasium.make(self.id, disable_env_checker=True)
        except gymnasium.error.Error as error:
            raise EnvironmentFault(f"environment '{self.id}': {error}") from None


@dataclass(frozen=True)
class _Given:
    """An environment that exists already."""

    env: Any
    """Whoever made it closes it."""

    def __call__(self) -> Any:
        return self.env


class _Borrowed(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An environment that stays open when its lane is closed."""

    def close(self) -> None:
        pass


class _Unmade(gymnasium.Env[Any, Any]):
    """In a process of its own, one that could not be made: it can say why when it is reset."""

    def __init__(self, observations: Any, actions: Any, fault: EnvironmentFault) -> None:
        self.observation_space, self.action_space, self._fault = observations, actions, fault

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        del seed, options
        raise self._fault


@dataclass(frozen=True)
class _Lane:
    """Makes the guarded environment of a lane."""

    make: Make
    index: int
    labels: Labels
    horizon_steps: int
    home: int
    """The process that trains."""
    rewards: Rewards | None
    spaces: tuple[Any, Any] | None = None
    """Of observations and actions, for a lane that must stand in its process whatever happens."""

    def __call__(self) -> gymnasium.Env[Any, Any]:
        is_away = os.getpid() != self.home
        if is_away:
            follow_parent()
        try:
            env = made(self.make, self.index)
        except EnvironmentFault as fault:
            if self.spaces is None:
                raise
            return _Unmade(*self.spaces, fault)
        except SystemExit:  # told to end before there was anything to close
            if is_away:
                kill_below(os.getpid())
            raise
        env = _Borrowed(env) if isinstance(self.make, _Given) else env
        lane = TimeLimit(Guard(env, self.index, self.labels, self.rewards), self.horizon_steps)
        return Obedient(lane) if is_away else lane


def made(make: Make, index: int) -> gymnasium.Env[Any, Any]:
    """The environment that a function makes, checked."""
    try:
        env = make()
    except EnvironmentFault:
        raise
    except Exception as error:
        raise EnvironmentFault(
            f"environment {index}: making it raised {type(error).__name__}: {error}"
        ) from error
    if not isinstance(env, gymnasium.Env):
        raise EnvironmentFault(
            f"environment {index}: {make!r:.60} made {env!r:.60}, which is no Gymnasium environment"
        )
    return env


def own_horizon(env: Any) -> int | None:
    """The steps after which an environment truncates by itself, as far as it says so."""
    spec = getattr(env, "spec", None)
    steps = getattr(spec, "max_episode_steps", None)
    while steps is None and isinstance(env, gymnasium.Wrapper):
        steps = getattr(env, "_max_episode_steps", None) if isinstance(env, TimeLimit) else None
        env = env.env
    return steps


def _name_of(env: Any) -> str:
    spec = getattr(env, "spec", None)
    return getattr(spec, "id", None) or type(getattr(env, "unwrapped", env)).__name__
