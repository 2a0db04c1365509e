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
    """Chooses a throttle in [0, 1] from an observation."""

    @property
    def is_random(self) -> bool:
        """Whether the same observation can lead to different actions."""
        ...

    def __call__(
        self, observation: Float[Array, " feature"], *, key: PRNGKeyArray
    ) -> Float[Array, ""]: ...


Action = Callable[..., Float[Array, ""]]
"""Any function of an observation and a keyword `key` that gives a throttle in [0, 1]."""


@runtime_checkable
class PlacedPolicy(Protocol):
    """Chooses a throttle from the state of the vehicle instead of an observation."""

    def begin(self) -> Any:
        """What it remembers before the first step: arrays, or nothing."""
        ...

    def at(
        self, world: SweepWorld, state: SweepState, service: Float[Array, " region"], memory: Any
    ) -> tuple[Float[Array, ""], Any]:
        """The throttle after so many steps of service in each region, and what it remembers."""
        ...


class Constant(eqx.Module):
    """The same throttle everywhere."""

    throttle: Float[Array, ""]

    @property
    def is_random(self) -> bool:
        return False

    def __call__(
        self, observation: Float[Array, " feature"], *, key: PRNGKeyArray
    ) -> Float[Array, ""]:
        del observation, key
        return self.throttle


LEAST_LENGTH = 8192
"""Shorter schedules are filled up to so many steps, so that they all run the same code."""


def padded_length(steps: int) -> int:
    """The length of schedules with so many steps: one of few, each of which is compiled."""
    return max(2 ** (steps - 1).bit_length(), LEAST_LENGTH)


class Schedule(eqx.Module):
    """An open-loop throttle for every step; the last one is repeated."""

    throttles: Float[Array, " step"]

    @classmethod
    def of(cls, throttles: Float[np.ndarray, " step"]) -> Schedule:
        """A schedule that is filled up, so that few lengths are compiled."""
        padded = np.pad(throttles, (0, padded_length(len(throttles)) - len(throttles)), mode="edge")
        return cls(on_device(padded, float))

    @property
    def is_random(self) -> bool:
        return False

    def begin(self) -> tuple[()]:
        return ()

    def at(
        self, world: SweepWorld, state: SweepState, service: Float[Array, " region"], memory: Any
    ) -> tuple[Float[Array, ""], Any]:
        del world, service
        return self.throttles[jnp.minimum(state.step, len(self.throttles) - 1)], memory


def fixed_policy(name: str, problem: Problem) -> Policy:
    """The policy called `full-speed`, or `constant:V` for a target speed of V cells per step."""
    if name == "full-speed":
        return Constant(jnp.ones(()))
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
    return Constant(jnp.asarray(speed / vehicle.max_speed, float))
