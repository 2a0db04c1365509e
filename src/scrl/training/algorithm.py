"""Algorithm 2 of the paper as pure functions: measure, move kappa, collect, charge, improve.

The density that moves kappa is measured in whole episodes of the policy without exploration noise,
because that policy is the one handed out. Learning takes place in other worlds, under kappas around
the present one.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, cast

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PRNGKeyArray

from scrl.density import standard_error
from scrl.learners import Encoder, Pricing, SweepEncoder, TrainedPolicy
from scrl.penalty import Atoms, Penalty
from scrl.policies import Action, Constant
from scrl.rollout import Episode, Rollout, begin_worlds, collect, run_episode
from scrl.training.config import LearningPlan
from scrl.violation import AUTOMATIC_KAPPA_RATE, clause_violation, largest_step, signed_violation
from scrl.worlds.sweep.world import SweepState, SweepWorld


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
    reading: Atoms
    """What the method is told of them: kappa and the choice of the policy follow this reading."""
    penalty: Penalty = eqx.field(static=True)
    tolerance: float = eqx.field(static=True)
    discount: float = eqx.field(static=True)
    is_random: bool = eqx.field(static=True)


class Measurement(NamedTuple):
    """Means over whole episodes of the policy without noise."""

    return_: Float[Array, ""]
    density: Float[Array, " region"]
    violation: Float[Array, ""]
    """Cons.Vio, with each bound drawn in by some standard errors where chance plays a part."""
    reading_violation: Float[Array, ""]
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
        violation(task.reading),
        ran.steps.mean(dtype=float),
        jnp.all(ran.is_terminated),
        error(task.reading),
    )


class Best(NamedTuple):
    """The policy to hand out: the best that kept what the method is told, else the nearest."""

    policy: TrainedPolicy
    kappa: Float[Array, "*seeds atom"]
    reading_violation: Float[Array, "*seeds"]
    violation: Float[Array, "*seeds"]
    return_: Float[Array, "*seeds"]
    iteration: Int[Array, "*seeds"]


class LoopState(NamedTuple):
    """What one seed carries from round to round, or several, or those of several tasks.

    The axes of the seeds are [seed task], [seed], or none.
    """

    learner: Any
    encoder: Encoder
    kappa: Float[Array, "*seeds atom"]
    kappa_rate: Float[Array, "*seeds"] | Float[Array, "*seeds atom"]
    """Beta before it shrinks from round to round: one number, or one for each atom."""
    worlds: SweepState | None
    """Where they stand; none where worlds step elsewhere and begin anew in every round."""
    best: Best
    iteration: Int[Array, "*seeds"]
    key: Key[Array, "*seeds"]
    settle_key: Key[Array, "*seeds"]


class Metrics(NamedTuple):
    """What one round saw, with the axes of the loop's state."""

    return_: Float[Array, "*seeds"]
    density: Float[Array, "*seeds region"]
    violation: Float[Array, "*seeds"]
    steps: Float[Array, "*seeds"]
    kappa: Float[Array, "*seeds atom"]
    loss: Float[Array, "*seeds"]
    best_return: Float[Array, "*seeds"]
    best_violation: Float[Array, "*seeds"]


def begin(plan: LearningPlan, task: Task, *, key: PRNGKeyArray) -> LoopState:
    """An untrained policy and kappa = 0; units are read off a drive with its throttle."""
    learner_key, drive_key, worlds_key, loop_key, settle_key = jax.random.split(key, 5)
    throttle = Constant(jnp.asarray(plan.settings.first_mean, float))
    first = measure(task, throttle, 1, key=drive_key)
    worlds = begin_worlds(cast(SweepWorld, task.world), plan.loop.worlds, key=worlds_key)
    keys = (learner_key, loop_key, settle_key)
    return begin_after(plan, task, first, keys=keys)._replace(worlds=worlds)


def begin_after(
    plan: LearningPlan,
    task: Task,
    first: Measurement,
    *,
    keys: tuple[PRNGKeyArray, PRNGKeyArray, PRNGKeyArray],
) -> LoopState:
    """The state before the first round, with units read off the first drive."""
    step_cost = jnp.abs(first.return_) / first.steps
    given_out = task.world.rate * first.steps
    served = jnp.maximum(first.density / task.world.rate, 1.0)
    sees_prices = plan.loop.sees_prices
    sizes = [jnp.abs(first.return_)[None], *([served] if sees_prices else [])]
    atoms = len(task.reading.bounds)
    encoder = SweepEncoder(
        step_cost, jnp.concatenate(sizes), task.world.regions, sees_prices, atoms
    )
    rate = plan.loop.kappa_rate
    beta = (
        AUTOMATIC_KAPPA_RATE * step_cost / given_out if rate is None else jnp.asarray(rate, float)
    )
    return untrained(plan, task, encoder, beta, keys=keys)


def untrained(
    plan: LearningPlan,
    task: Task,
    encoder: Encoder,
    beta: Float[Array, "*atoms"],
    *,
    keys: tuple[PRNGKeyArray, PRNGKeyArray, PRNGKeyArray],
) -> LoopState:
    """The state before the first round: untrained, kappa = 0, nothing found yet."""
    learner_key, loop_key, settle_key = keys
    learner = plan.build(encoder, task.discount)
    state = learner.init(key=learner_key)
    kappa = jnp.zeros(len(task.reading.bounds))
    policy = TrainedPolicy(learner.actor(state), encoder, jnp.zeros(task.world.regions))
    never = jnp.full((), jnp.inf, float)
    nothing = Best(policy, kappa, never, never, -never, jnp.zeros((), int))
    return LoopState(
        state, encoder, kappa, beta, None, nothing, jnp.zeros((), int), loop_key, settle_key
    )


def iterate(plan: LearningPlan, task: Task, state: LoopState) -> tuple[LoopState, Metrics]:
    """One round: measure the density, move kappa, drive, charge each step, improve the policy."""
    measure_key, wobble_key, drive_key, update_key, next_key = jax.random.split(state.key, 5)
    loop, learner = plan.loop, plan.build(state.encoder, task.discount)
    policy = present_policy(plan, task, state)
    episodes = loop.measured(is_random=task.is_random, is_learning=True)
    seen = measure(task, policy, episodes, deviations=loop.deviations, key=measure_key)
    state, metrics = move(plan, task, state, policy, seen)
    kappas, prices = around(plan, task, state, key=wobble_key)

    def act(observation: Array, lane: Array, noise: Array) -> tuple[Array, Array]:
        return learner.explore(state.learner, state.encoder.actor(observation, prices[lane]), noise)

    world = cast(SweepWorld, task.world)
    worlds, rollout = collect(
        world, act, cast(SweepState, state.worlds), steps=loop.steps, key=drive_key
    )
    state, loss = improve(plan, task, state, rollout, kappas, key=update_key)
    return state._replace(worlds=worlds, key=next_key), metrics._replace(loss=loss)


def settle(plan: LearningPlan, task: Task, state: LoopState) -> tuple[LoopState, Metrics]:
    """One round after the learning: the policy stays, kappa moves with shrinking steps.

    All these rounds meet the same gusts: what is chosen among them is not chosen for its uniform.
    """
    loop, policy = plan.loop, present_policy(plan, task, state)
    episodes = loop.measured(is_random=task.is_random, is_learning=False)
    seen = measure(task, policy, episodes, deviations=loop.deviations, key=state.settle_key)
    state, metrics = move(plan, task, state, policy, seen, is_learning=False)
    return state._replace(iteration=state.iteration + 1), metrics


SETTLE_FROM, SETTLE_TO = 0.5, 0.02
"""Beta while kappa settles, as a share of that in the first round: from the first to the second."""


def present_policy(plan: LearningPlan, task: Task, state: LoopState) -> TrainedPolicy:
    """The policy without noise, under the present kappa."""
    price = task.penalty.price(task.reading, state.kappa)
    return TrainedPolicy(
        plan.build(state.encoder, task.discount).actor(state.learner), state.encoder, price
    )


def around(
    plan: LearningPlan, task: Task, state: LoopState, *, key: PRNGKeyArray
) -> tuple[Float[Array, "world atom"], Float[Array, "world region"]]:
    """The kappas that the worlds drive under, and their prices."""
    pricing = _pricing(plan, task, state)
    kappas = pricing.kappas_around(plan.loop.worlds, key=key)
    return kappas, jax.vmap(pricing.price)(kappas)


def improve(
    plan: LearningPlan,
    task: Task,
    state: LoopState,
    rollout: Rollout,
    kappas: Float[Array, "world atom"],
    *,
    key: PRNGKeyArray,
) -> tuple[LoopState, Float[Array, ""]]:
    """Charge the steps of a rollout and learn from them; ends the round."""
    progress = state.iteration / plan.loop.iterations
    learned, loss = plan.build(state.encoder, task.discount).update(
        state.learner, rollout, kappas, _pricing(plan, task, state), progress, key=key
    )
    return state._replace(learner=learned, iteration=state.iteration + 1), loss


def _pricing(plan: LearningPlan, task: Task, state: LoopState) -> Pricing:
    return Pricing(task.reading, state.kappa, task.penalty, plan.loop.wobble, task.world.rate)


def _kappa_rate(
    plan: LearningPlan, state: LoopState, *, is_learning: bool
) -> Float[Array, "*atoms"]:
    """Beta in this round."""
    loop = plan.loop
    if is_learning:
        progress = state.iteration / loop.iterations
        return state.kappa_rate * (1.0 - (1.0 - loop.last_kappa_rate) * progress)
    done = (state.iteration - loop.iterations) / max(loop.settle, 1)
    return state.kappa_rate * (SETTLE_FROM + (SETTLE_TO - SETTLE_FROM) * done)


def move(
    plan: LearningPlan,
    task: Task,
    state: LoopState,
    policy: TrainedPolicy,
    seen: Measurement,
    *,
    is_learning: bool = True,
) -> tuple[LoopState, Metrics]:
    """Remember the measured policy if it is the best, and move kappa by what was seen."""
    found = Best(
        policy, state.kappa, seen.reading_violation, seen.violation, seen.return_, state.iteration
    )
    best = _better(task, state.best, found, seen)
    step = largest_step(task.reading.coefficients, task.world.rate)
    inset = plan.loop.inset * step + plan.loop.deviations * seen.error
    inside = eqx.tree_at(lambda atoms: atoms.bounds, task.reading, task.reading.bounds - inset)
    rate = _kappa_rate(plan, state, is_learning=is_learning)
    kappa = task.penalty.update(inside, state.kappa, seen.density, rate)
    metrics = Metrics(
        seen.return_, seen.density, seen.violation, seen.steps, state.kappa,
        jnp.zeros(()), best.return_, best.violation,
    )  # fmt: skip
    return state._replace(kappa=kappa, best=best), metrics


def _better(task: Task, old: Best, found: Best, seen: Measurement) -> Best:
    """The better of the best so far and what was found: what is told first, then return."""
    is_kept, was_kept = (each.reading_violation <= task.tolerance for each in (found, old))
    is_better = jnp.where(
        is_kept & was_kept,
        found.return_ > old.return_,
        found.reading_violation < old.reading_violation,
    )
    is_better = (is_better | (is_kept & ~was_kept)) & seen.is_whole
    is_better &= jnp.isfinite(found.return_)
    return jax.tree.map(lambda new, kept: jnp.where(is_better, new, kept), found, old)
