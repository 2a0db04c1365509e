"""Environments beside those in which a model learns: policies are measured without disturbing it.

Labels, regions and whether chance plays a part are also read off such an environment.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any, TypeAlias

import gymnasium
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import (
    DummyVecEnv,
    VecEnv,
    VecEnvWrapper,
    unwrap_vec_normalize,
)

from scrl.environments.labels import Labels, LabelSource, Step
from scrl.errors import ScrlError
from scrl.worlds.sweep.gym import SweepEnv

Make: TypeAlias = Callable[[], gymnasium.Env[Any, Any]]
EnvSource: TypeAlias = str | gymnasium.Env[Any, Any] | Make | VecEnv
"""An environment as a person may give it: a name, itself, a function that makes one, or many."""


def refuse_normalised(env: EnvSource) -> None:
    """Raise where labels would be read off normalised observations, and rules pay for them."""
    if isinstance(env, VecEnv) and unwrap_vec_normalize(env) is not None:
        raise ScrlError(
            "VecNormalize hides what labels and rules are about: put it around Ruled, as in "
            "VecNormalize(Ruled(env, ...))"
        )


_MONITOR = f"{Monitor.__module__}:{Monitor.__name__}"


def vectorised(env: EnvSource, worlds: int) -> VecEnv:
    """The vectorised environment that a model learns in; its episodes are recorded for SB3."""
    if isinstance(env, VecEnv):
        return env
    if isinstance(env, gymnasium.Env):
        if worlds != 1:
            raise ScrlError(
                f"worlds = {worlds}, but one environment was given: give its name, or a function "
                "that makes one"
            )
        return DummyVecEnv([lambda: Monitor(env)])
    make = maker(env)
    return DummyVecEnv([lambda: Monitor(make()) for _ in range(worlds)])


def maker(env: EnvSource) -> Make:
    """A function that makes environments like this one."""
    if isinstance(env, str):
        return lambda: gymnasium.make(env)
    if isinstance(env, VecEnv):
        return _like_those_of(env)
    if isinstance(env, gymnasium.Env):
        return _like(env)
    if callable(env):
        return env
    raise ScrlError(
        "an environment is its name, a gymnasium.Env, a function that makes one, or a VecEnv of "
        f"Stable-Baselines3, not {env!r}"
    )


def _like_those_of(venv: VecEnv) -> Make:
    while isinstance(venv, VecEnvWrapper):
        venv = venv.venv
    if isinstance(venv, DummyVecEnv):
        return _like(venv.envs[0])
    [spec] = venv.get_attr("spec", indices=[0])
    if (made := _from_spec(spec)) is None:
        raise _no_way()
    return made


def _like(env: gymnasium.Env[Any, Any]) -> Make:
    """By its spec where there is a whole one, else as a copy."""
    while isinstance(env, Monitor):
        env = env.env
    if (made := _from_spec(env.spec)) is not None:
        return made
    try:
        pattern = deepcopy(env)
    except Exception:  # whatever an environment holds: windows, files, engines written in C
        raise _no_way() from None
    return lambda: deepcopy(pattern)


def _from_spec(spec: Any) -> Make | None:
    """None where there is no spec, or one that misses a wrapper's arguments."""
    if spec is None:
        return None
    # A monitor changes nothing, and measuring needs none.
    wrappers = tuple(each for each in spec.additional_wrappers if each.entry_point != _MONITOR)
    if any(wrapper.kwargs is None for wrapper in wrappers):
        return None
    bare = deepcopy(spec)
    bare.additional_wrappers = wrappers
    return lambda: gymnasium.make(bare)


def _no_way() -> ScrlError:
    return ScrlError(
        "this environment cannot be copied, and policies are measured in one of their own: give "
        "measured_in=f with a function f that makes a like one"
    )


class MeasuringEnvironments:
    """Environments for measuring, and what is known of them."""

    def __init__(self, make: Make, labels: LabelSource | Labels | None) -> None:
        self.make = make
        first = make()
        world = first.unwrapped
        is_ours = isinstance(world, SweepEnv)
        self.name = first.spec.id if first.spec is not None else type(world).__name__
        self.observation_space = first.observation_space
        self.rate = world.world.vehicle.rate if is_ours else None
        """Units that a step of service gives out, where the world tells."""
        self.is_random = not is_ours or world.world.is_random
        self.is_bounded = (
            is_ours and world.world.wind.is_calm and world.world.vehicle.supply.is_calm
        )
        """Whether chance is known to have bounds."""
        self.must_end = is_ours
        """Whether an episode that a time limit cuts off has not shown what it would give out."""
        self.unit = world.world.units.unit if is_ours else "units"
        if is_ours and labels is None:
            rate = world.world.vehicle.rate
            labels = Labels(world.world.amounts, lambda step: rate * step.info["labels"])
        if labels is None:
            raise ScrlError(
                f"{self.name} does not say which regions a step serves: give labels, as in "
                'labels={"left": lambda observation: observation[0] < 0}'
            )
        self.labels = Labels.of(labels, sample=_sample(first))
        first.close()

    def many(self, count: int) -> DummyVecEnv:
        """As many of them side by side."""
        return DummyVecEnv([self.make for _ in range(count)])


def _sample(env: gymnasium.Env[Any, Any]) -> Step:
    """Some step: where labels do not name their regions, it tells how many there are."""
    env.reset(seed=0)
    env.action_space.seed(0)
    action = env.action_space.sample()
    observation, reward, _, _, info = env.step(action)
    return Step(observation, action, float(reward), info)
