"""The loop of Algorithm 2 as pure functions: drive, measure, move kappa, charge, improve.

Everything here is compiled into one graph, for many seeds at once. The density that moves kappa is
measured in whole episodes of the policy without its exploring noise: it is that policy which is
handed out. Learning goes on in other worlds, under kappas around the present one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from scrl.learners import LEARNERS, Eyes, Learner, NetworkConfig, Pricing, SeeingPolicy
from scrl.measuring import Measurement, Task, measure
from scrl.policies import Constant
from scrl.rollout import begin_worlds, gather
from scrl.worlds.settings import check_settings, setting
from scrl.worlds.sweep import SweepState


@dataclass(frozen=True)
class LoopConfig:
    """How much is driven in one iteration, and how kappa moves."""

    iterations: int = setting(200, "Rounds of driving and learning.", low=1, high=10_000_000)
    settle: int = setting(
        200,
        "Rounds after them in which kappa alone moves, with shrinking steps.",
        low=0,
        high=100_000,
    )
    worlds: int = setting(16, "Worlds side by side.", low=1, high=65_536)
    steps: int = setting(1024, "Steps in each world and round.", low=1, high=1_000_000)
    kappa_rate: float | None = setting(
        None, "Beta: how far kappa moves per unit of violation (none: by the world's scale).",
        low=0.0, high=1e9,
    )  # fmt: skip
    last_kappa_rate: float = setting(
        0.3, "Beta in the last round, as a share of that in the first.", low=0.0, high=1.0
    )
    sees_prices: bool = setting(
        True, "Whether the policy sees what steps earn under the present kappa."
    )
    wobble: float = setting(
        0.15, "Worlds drive under kappas up to e^wobble times the present one.", low=0.0, high=3.0
    )
    inset: float = setting(
        0.5, "How far inside each bound kappa aims, in steps of service.", low=0.0, high=1e6
    )
    episodes: int = setting(
        16, "Episodes behind each measurement, where chance plays a part.", low=1, high=100_000
    )
    settle_episodes: int = setting(256, "The same while kappa settles.", low=1, high=100_000)
    deviations: float = setting(
        4.0,
        "Standard errors that a measured density must lie inside its bounds.",
        low=0.0,
        high=10.0,
    )

    def __post_init__(self) -> None:
        check_settings(self)

    def measured(self, *, is_random: bool, is_learning: bool) -> int:
        """Episodes behind one measurement: where chance plays no part, one tells everything."""
        if not is_random:
            return 1
        return self.episodes if is_learning else self.settle_episodes


AUTOMATIC_KAPPA_RATE = 9.0
"""Beta without a setting: this many times (mean reward of a step) / (all that was given out)."""


class Plan(NamedTuple):
    """How it is learned: the loop, and a learner with its settings."""

    loop: LoopConfig
    learner: str
    settings: NetworkConfig

    def build(self, task: Task, eyes: Eyes) -> Learner:
        """The learner for a task; without a discount of its own it takes the task's."""
        settings = self.settings
        if settings.discount is None:
            settings = replace(settings, discount=task.discount)
        return LEARNERS[self.learner].make(settings, eyes)


class Best(NamedTuple):
    """The policy to hand out: the best that kept what the method is told, else the nearest."""

    policy: SeeingPolicy
    kappa: Float[Array, " atom"]
    told_violation: Float[Array, ""]
    violation: Float[Array, ""]
    return_: Float[Array, ""]
    iteration: Int[Array, ""]


class LoopState(NamedTuple):
    """What one seed carries from round to round."""

    learner: Any
    eyes: Eyes
    kappa: Float[Array, " atom"]
    kappa_rate: Float[Array, ""]
    worlds: SweepState
    best: Best
    iteration: Int[Array, ""]
    key: PRNGKeyArray
    settle_key: PRNGKeyArray


class Metrics(NamedTuple):
    """What one round saw."""

    return_: Float[Array, ""]
    density: Float[Array, " region"]
    violation: Float[Array, ""]
    steps: Float[Array, ""]
    kappa: Float[Array, " atom"]
    loss: Float[Array, ""]
    best_return: Float[Array, ""]
    best_violation: Float[Array, ""]


def begin(plan: Plan, task: Task, *, key: PRNGKeyArray) -> LoopState:
    """An untrained policy and kappa = 0; units are read off a drive with its throttle."""
    learner_key, drive_key, worlds_key, loop_key, settle_key = jax.random.split(key, 5)
    regions = task.world.kinds.shape[1]
    atoms = len(task.told.bounds)
    kappa = jnp.zeros(atoms)
    throttle = Constant(jnp.asarray(plan.settings.first_mean, float))
    first = measure(task, throttle, 1, key=drive_key)
    step_cost = jnp.abs(first.return_) / first.steps
    given_out = task.world.numbers.rate * first.steps
    served = jnp.maximum(first.density / task.world.numbers.rate, 1.0)
    sees_prices = plan.loop.sees_prices
    sizes = [jnp.abs(first.return_)[None], *([served] if sees_prices else [])]
    eyes = Eyes(step_cost, jnp.concatenate(sizes), regions, sees_prices, atoms)
    rate = plan.loop.kappa_rate
    beta = (
        AUTOMATIC_KAPPA_RATE * step_cost / given_out if rate is None else jnp.asarray(rate, float)
    )
    learner = plan.build(task, eyes)
    state = learner.init(key=learner_key)
    policy = SeeingPolicy(learner.actor(state), eyes, jnp.zeros(regions))
    never = jnp.full((), jnp.inf, float)
    nothing = Best(policy, kappa, never, never, -never, jnp.zeros((), int))
    worlds = begin_worlds(task.world, plan.loop.worlds, key=worlds_key)
    return LoopState(
        state, eyes, kappa, beta, worlds, nothing, jnp.zeros((), int), loop_key, settle_key
    )


def iterate(plan: Plan, task: Task, state: LoopState) -> tuple[LoopState, Metrics]:
    """One round: measure the density, move kappa, drive, charge each step, improve the policy."""
    measure_key, wobble_key, drive_key, update_key, next_key = jax.random.split(state.key, 5)
    loop, learner = plan.loop, plan.build(task, state.eyes)
    progress = state.iteration / loop.iterations
    rate = state.kappa_rate * (1.0 - (1.0 - loop.last_kappa_rate) * progress)
    episodes = loop.measured(is_random=task.is_random, is_learning=True)
    state, metrics = _measure_and_move(plan, task, state, rate, episodes=episodes, key=measure_key)
    pricing = Pricing(task.told, state.kappa, task.mechanism, loop.wobble, task.world.numbers.rate)
    kappas = pricing.kappas_around(loop.worlds, key=wobble_key)
    prices = jax.vmap(pricing.price)(kappas)

    def act(observation: Array, lane: Array, noise: Array) -> tuple[Array, Array]:
        return learner.explore(state.learner, state.eyes.actor(observation, prices[lane]), noise)

    worlds, stretch = gather(task.world, act, state.worlds, steps=loop.steps, key=drive_key)
    learned, loss = learner.update(
        state.learner, stretch, kappas, pricing, progress, key=update_key
    )
    state = state._replace(
        learner=learned, worlds=worlds, iteration=state.iteration + 1, key=next_key
    )
    return state, metrics._replace(loss=loss)


def settle(plan: Plan, task: Task, state: LoopState) -> tuple[LoopState, Metrics]:
    """One round after the learning: the policy stays, kappa moves with shrinking steps.

    All these rounds meet the same gusts: what is chosen among them is not chosen for its luck.
    """
    loop = plan.loop
    done = (state.iteration - loop.iterations) / max(loop.settle, 1)
    rate = state.kappa_rate * (SETTLE_FROM + (SETTLE_TO - SETTLE_FROM) * done)
    episodes = loop.measured(is_random=task.is_random, is_learning=False)
    state, metrics = _measure_and_move(
        plan, task, state, rate, episodes=episodes, key=state.settle_key
    )
    return state._replace(iteration=state.iteration + 1), metrics


SETTLE_FROM, SETTLE_TO = 0.5, 0.02
"""Beta while kappa settles, as a share of that in the first round: from the first to the second."""


def _measure_and_move(
    plan: Plan,
    task: Task,
    state: LoopState,
    rate: Float[Array, ""],
    *,
    episodes: int,
    key: PRNGKeyArray,
) -> tuple[LoopState, Metrics]:
    """Measure the present policy under the present kappa, remember it if it is the best, move."""
    learner = plan.build(task, state.eyes)
    price = task.mechanism.price(task.told, state.kappa)
    policy = SeeingPolicy(learner.actor(state.learner), state.eyes, price)
    seen = measure(task, policy, episodes, deviations=plan.loop.deviations, key=key)
    found = Best(
        policy, state.kappa, seen.told_violation, seen.violation, seen.return_, state.iteration
    )
    best = _better(task, state.best, found, seen)
    step = task.world.numbers.rate * jnp.abs(task.told.coefficients).max(axis=1, initial=0.0)
    aim = plan.loop.inset * step + plan.loop.deviations * seen.error
    inside = eqx.tree_at(lambda atoms: atoms.bounds, task.told, task.told.bounds - aim)
    kappa = task.mechanism.update(inside, state.kappa, seen.density, rate)
    metrics = Metrics(
        seen.return_, seen.density, seen.violation, seen.steps, state.kappa,
        jnp.zeros(()), best.return_, best.violation,
    )  # fmt: skip
    return state._replace(kappa=kappa, best=best), metrics


def _better(task: Task, old: Best, found: Best, seen: Measurement) -> Best:
    """The better of the best so far and what was found: what is told first, then return."""
    is_kept, was_kept = (each.told_violation <= task.tolerance for each in (found, old))
    is_better = jnp.where(
        is_kept & was_kept,
        found.return_ > old.return_,
        found.told_violation < old.told_violation,
    )
    is_better = (is_better | (is_kept & ~was_kept)) & seen.is_whole
    is_better &= jnp.isfinite(found.return_)
    return jax.tree.map(lambda new, kept: jnp.where(is_better, new, kept), found, old)
