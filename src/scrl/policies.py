"""The policy protocol, and policies without learning: full speed, constant speed, schedules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from scrl.errors import PolicyError, did_you_mean
from scrl.problems import Problem
from scrl.worlds.sweep.lookup import on_device
from scrl.worlds.sweep.world import SweepState, SweepWorld


class Policy(Protocol):
    """Chooses a throttle in [0, 1] from an observation, and with a flow an opening too."""

    @property
    def is_random(self) -> bool:
        """Whether the same observation can lead to different actions."""
        ...

    def __call__(
        self, observation: Float[Array, " feature"], *, key: PRNGKeyArray
    ) -> Float[Array, " *action"]: ...


Action = Callable[..., Float[Array, " *action"]]
"""Any function of an observation and a keyword `key` that gives a throttle in [0, 1], or, with a
flow, a throttle and an opening of the pump."""


@runtime_checkable
class PlacedPolicy(Protocol):
    """Chooses a throttle from the state of the vehicle instead of an observation."""

    def begin(self) -> Any:
        """What it remembers before the first step: arrays, or nothing."""
        ...

    def at(
        self, world: SweepWorld, state: SweepState, service: Float[Array, " region"], memory: Any
    ) -> tuple[Float[Array, " *action"], Any]:
        """The throttle after so many steps of service in each region, and what it remembers."""
        ...


class Constant(eqx.Module):
    """The same throttle everywhere, and with a flow the same opening."""

    throttle: Float[Array, " *action"]

    @property
    def is_random(self) -> bool:
        return False

    def __call__(
        self, observation: Float[Array, " feature"], *, key: PRNGKeyArray
    ) -> Float[Array, " *action"]:
        del observation, key
        return self.throttle


LEAST_LENGTH = 8192
"""Shorter schedules are filled up to so many steps, so that they all run the same code."""


def padded_length(steps: int) -> int:
    """The length of schedules with so many steps: one of few, each of which is compiled."""
    return max(2 ** (steps - 1).bit_length(), LEAST_LENGTH)


def lengthened(actions: Float[np.ndarray, "step ..."], steps: int) -> Float[np.ndarray, "more ..."]:
    """The actions with the last one repeated up to so many steps."""
    beside = ((0, 0),) * (actions.ndim - 1)
    return np.pad(actions, ((0, steps - len(actions)), *beside), mode="edge")


class Schedule(eqx.Module):
    """An open-loop action for every step; the last one is repeated."""

    throttles: Float[Array, "step ..."]
    """With a flow, the openings of the pump beside them."""

    @classmethod
    def of(cls, throttles: Float[np.ndarray, "step ..."]) -> Schedule:
        """A schedule that is filled up, so that few lengths are compiled."""
        return cls(on_device(lengthened(throttles, padded_length(len(throttles))), float))

    @property
    def is_random(self) -> bool:
        return False

    def begin(self) -> tuple[()]:
        return ()

    def at(
        self, world: SweepWorld, state: SweepState, service: Float[Array, " region"], memory: Any
    ) -> tuple[Float[Array, " *action"], Any]:
        del world, service
        return self.throttles[jnp.minimum(state.step, len(self.throttles) - 1)], memory


def fixed_policy(name: str, problem: Problem) -> Policy:
    """The policy called `full-speed`, or `constant:V` for a target speed of V cells per step.

    With a flow the pump is fully open.
    """
    full = jnp.ones((2,) if problem.world_spec.vehicle.has_flow else ())
    if name == "full-speed":
        return Constant(full)
    kind, colon, value = name.partition(":")
    if kind != "constant" or not colon:
        hint = did_you_mean(name, ["full-speed", "constant:1.5"])
        raise PolicyError(
            f"unknown policy '{name}'{hint} (a policy is full-speed, or constant:V with V the "
            "target speed in cells per step)"
        )
    vehicle = problem.world_spec.vehicle
    try:
        speed = float(value)
    except ValueError:
        raise PolicyError(f"policy '{name}': '{value}' is not a number") from None
    slowest = vehicle.crawl * vehicle.max_speed
    if not slowest <= speed <= vehicle.max_speed:
        raise PolicyError(
            f"policy '{name}': the target speed must lie between {slowest:g} and "
            f"{vehicle.max_speed:g} cells per step (the vehicle's crawl and top speed)"
        )
    throttle = jnp.asarray(speed / vehicle.max_speed, float)
    return Constant(full.at[0].set(throttle) if vehicle.has_flow else throttle)
