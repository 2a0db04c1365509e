"""What is to be learned, and how a policy is measured by it: whole episodes without noise."""

from __future__ import annotations

from typing import NamedTuple, Protocol, cast

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from scrl.density import standard_error
from scrl.penalty import clause_violation, signed_violation
from scrl.policies import Action
from scrl.punish import Atoms, Mechanism
from scrl.rollout import Episode, run_episode
from scrl.worlds.sweep import SweepWorld


class World(Protocol):
    """What the loop must know of a world; how it steps is the business of whoever drives it."""

    @property
    def regions(self) -> int:
        """How many there are."""
        ...

    @property
    def rate(self) -> Float[Array, ""]:
        """Units that a step of service gives out."""
        ...


class Task(eqx.Module):
    """What is to be learned: a world, its rules, and how broken ones are charged."""

    world: World
    rules: Atoms
    """The rules, by which people judge."""
    told: Atoms
    """What the method is told of them: kappa and the choice of the policy follow these."""
    mechanism: Mechanism = eqx.field(static=True)
    tolerance: float = eqx.field(static=True)
    discount: float = eqx.field(static=True)
    is_random: bool = eqx.field(static=True)


class Measurement(NamedTuple):
    """Means over whole episodes of the policy without noise."""

    return_: Float[Array, ""]
    density: Float[Array, " region"]
    violation: Float[Array, ""]
    """Cons.Vio, with each bound drawn in by some standard errors where chance plays a part."""
    told_violation: Float[Array, ""]
    """The same of what the method is told."""
    steps: Float[Array, ""]
    is_whole: Bool[Array, ""]
    """Whether every episode came to its end."""
    error: Float[Array, " atom"]
    """Standard error of a . density, of what the method is told."""


def measure(
    task: Task,
    policy: Action,
    episodes: int,
    *,
    deviations: float = 0.0,
    key: PRNGKeyArray,
) -> Measurement:
    """Whole episodes of a policy: what they cost, what each region receives, what is broken."""
    keys = jax.random.split(key, episodes)
    world = cast(SweepWorld, task.world)
    ran = jax.vmap(lambda each: run_episode(world, policy, key=each, discount=task.discount))(keys)
    return judge(task, ran, deviations=deviations)


def judge(task: Task, ran: Episode, *, deviations: float = 0.0) -> Measurement:
    """What the sums of some episodes mean under the rules."""
    amounts = task.world.rate * ran.service
    density = amounts.mean(axis=0)

    def error(atoms: Atoms) -> Float[Array, " atom"]:
        return standard_error(amounts @ atoms.coefficients.T)

    def violation(atoms: Atoms) -> Float[Array, ""]:
        bounds = atoms.bounds - deviations * error(atoms)
        signed = signed_violation(atoms.coefficients, bounds, density)
        return clause_violation(atoms.listed, signed).sum()

    return Measurement(
        ran.return_.mean(),
        density,
        violation(task.rules),
        violation(task.told),
        ran.steps.mean(dtype=float),
        jnp.all(ran.is_terminated),
        error(task.told),
    )
