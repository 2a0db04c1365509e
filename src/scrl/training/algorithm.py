"""Algorithm 2 of the paper, once for all worlds: measure, move kappa, collect, charge, improve.

The functions here are pure. What differs between a compiled world and an external environment is a
`Driver`: how whole episodes are measured and how steps are collected. The density that moves kappa
is measured in whole episodes of the policy without exploration noise, because that policy is the
one handed out. Learning takes place in other episodes.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PRNGKeyArray

from scrl.learners import Encoder, Pricing, TrainedPolicy, policy_of
from scrl.penalty import Atoms, Penalty
from scrl.rollout import Episode, Rollout
from scrl.training.config import LearningPlan, LoopConfig
from scrl.training.held import (
    LEARNING,
    SETTLING,
    held_against,
    missed_together,
    moved_insets,
)
from scrl.violation import automatic_kappa_rate, largest_step


class Task(eqx.Module):
    """What is to be learned: rules, how violations are charged, and how episodes are summed."""

    plan: LearningPlan
    """How it is learned."""
    rules: Atoms
    """The rules that decide whether a policy satisfies them."""
    reading: Atoms
    """What the method is told of the rules: kappa and the choice of the policy follow it."""
    penalty: Penalty
    is_in_runs: bool = eqx.field(static=True, default=False, kw_only=True)
    """Whether some rule must hold in a share of single runs."""
    tolerance: float = eqx.field(static=True)
    discount: float = eqx.field(static=True)
    is_random: bool = eqx.field(static=True)

    @property
    @abstractmethod
    def rate(self) -> Float[Array, ""]:
        """Units that a label of 1 stands for; 1 where labels are amounts."""

    @property
    def largest_labels(self) -> Float[Array, " region"] | float:
        """The largest label of each amount, where some differ from 1."""
        return 1.0

    @property
    @abstractmethod
    def is_horizon_an_end(self) -> bool:
        """Whether sums end with the horizon, so that a truncated episode is a whole one."""

    @property
    def regions(self) -> int:
        return self.reading.coefficients.shape[1]

    def charged(self, encoder: Encoder) -> Atoms:
        """The atoms of the reading over all labels that steps are charged for.

        Where runs are counted, the violations of single runs are labels as well: an atom that must
        hold in single runs is charged for its own.
        """
        return self.reading if encoder.of_runs is None else self.reading.with_violations()


class Measured(NamedTuple):
    """Whole episodes of a policy without noise; the first axis is the episode."""

    episodes: Episode
    env_steps: Int[Array, "*seeds"]
    """Steps that were driven for them."""


class Explorer(NamedTuple):
    """A policy with exploration noise, and the prices under which each world is driven."""

    learner: Any
    encoder: Encoder
    prices: Float[Array, "*seeds world region"]


class Driver(NamedTuple):
    """What Algorithm 2 asks of a world."""

    measure: Callable[[TrainedPolicy, PRNGKeyArray, int], Measured]
    """(policy, key, episodes) -> so many whole episodes without noise."""
    collect: Callable[[Explorer, Any, PRNGKeyArray], tuple[Any, Rollout]]
    """(explorer, worlds, key) -> worlds, the steps to learn from."""
    for_seeds: Callable[..., Any]
    """(function, task, *data) -> function(task, *data), for every seed of the data.

    A compiled world is vectorised over the seeds as a whole, so there it is a plain call.
    """


class Best(NamedTuple):
    """The policy to hand out: the best one that keeps the reading, else the nearest to it."""

    policy: TrainedPolicy
    kappa: Float[Array, "*seeds atom"]
    reading_violation: Float[Array, "*seeds"]
    violation: Float[Array, "*seeds"]
    return_: Float[Array, "*seeds"]
    iteration: Int[Array, "*seeds"]


class LoopState(NamedTuple):
    """What one seed carries from round to round; a checkpoint holds it."""

    learner: Any
    encoder: Encoder
    kappa: Float[Array, "*seeds atom"]
    integral: Float[Array, "*seeds atom"]
    """The integral term of kappa: all of it unless `proportional` or `derivative` is set."""
    excess: Float[Array, "*seeds atom"]
    """a . density - b of the last measurement, with the bounds drawn in."""
    worlds: Any
    """The states of the worlds that steps are collected in, if episodes span several rounds."""
    best: Best
    iteration: Int[Array, "*seeds"]
    key: Key[Array, "*seeds"]
    settle_key: Key[Array, "*seeds"]


class Measurement(NamedTuple):
    """Means over whole episodes of the policy without noise."""

    return_: Float[Array, ""]
    density: Float[Array, " region"]
    violation: Float[Array, ""]
    """Cons.Vio as surely as the rules must hold. If the world is random, by some standard errors
    more surely: bounds are drawn in, and more runs must keep them."""
    reading_violation: Float[Array, ""]
    """Cons.Vio of the reading of the rules that the method is told."""
    steps: Float[Array, ""]
    is_whole: Bool[Array, ""]
    """Whether every episode reached its end."""
    excess: Float[Array, " atom"]
    """a . density - b of each atom of the reading, in the same sense; of an atom that must hold in
    single runs, the quantile over the runs."""


class Metrics(NamedTuple):
    """What one round saw."""

    return_: Float[Array, "*seeds"]
    density: Float[Array, "*seeds region"]
    violation: Float[Array, "*seeds"]
    steps: Float[Array, "*seeds"]
    """Mean length of the measured episodes."""
    kappa: Float[Array, "*seeds atom"]
    loss: Float[Array, "*seeds"]
    best_return: Float[Array, "*seeds"]
    best_violation: Float[Array, "*seeds"]
    env_steps: Int[Array, "*seeds"]
    """Environment steps of the round, measuring included."""


class RoundKeys(NamedTuple):
    """All that a round leaves to chance."""

    measure: Key[Array, "*seeds"]
    prices: Key[Array, "*seeds"]
    collect: Key[Array, "*seeds"]
    update: Key[Array, "*seeds"]
    next: Key[Array, "*seeds"]


def begin(task: Task, encoder: Encoder, worlds: Any, *, keys: Key[Array, " 3"]) -> LoopState:
    """The state before the first round: an untrained policy, kappa = 0, nothing found yet.

    `keys` are three: for the learner, for the rounds and for settling.
    """
    learner = task.plan.build(encoder)
    state = learner.init(key=keys[0])
    kappa = jnp.zeros(len(task.reading.bounds))
    labels = task.charged(encoder).coefficients.shape[1]
    policy = policy_of(learner.actor(state), encoder, jnp.zeros(labels))
    never = jnp.full((), jnp.inf, float)
    nothing = Best(policy, kappa, never, never, -never, jnp.zeros((), int))
    return LoopState(
        state, encoder, kappa, kappa, kappa, worlds, nothing, jnp.zeros((), int), keys[1], keys[2]
    )


def iterate(task: Task, driver: Driver, state: LoopState) -> tuple[LoopState, Metrics]:
    """One round of Algorithm 2."""
    policy, keys = driver.for_seeds(_prepare, task, state)
    episodes = task.plan.loop.measured(is_random=task.is_random, is_learning=True)
    seen = driver.measure(policy, keys.measure, episodes)
    state, metrics = driver.for_seeds(move_kappa, task, state, policy, seen)
    state, metrics = improve(task, driver, state, metrics, keys)
    for _ in range(task.plan.loop.rollouts - 1):
        keys = driver.for_seeds(round_keys, task, state)
        state, metrics = improve(task, driver, state, metrics, keys)
    return state._replace(iteration=state.iteration + 1), metrics


def improve(
    task: Task, driver: Driver, state: LoopState, metrics: Metrics, keys: RoundKeys
) -> tuple[LoopState, Metrics]:
    """Collect one rollout under the present kappa, and learn from it."""
    explorer, kappas = driver.for_seeds(_explorer, task, state, keys.prices)
    worlds, rollout = driver.collect(explorer, state.worlds, keys.collect)
    state = state._replace(worlds=worlds)
    return driver.for_seeds(_improve, task, state, metrics, rollout, kappas, keys)


def settle(task: Task, driver: Driver, state: LoopState) -> tuple[LoopState, Metrics]:
    """One round after the learning: the policy stays, kappa moves with shrinking steps.

    Where rules must hold in single runs, so do the aims of runs. All these rounds measure the same
    episodes, so that none is chosen for its luck.
    """
    policy = driver.for_seeds(present_policy, task, state)
    episodes = task.plan.loop.measured(is_random=task.is_random, is_learning=False)
    seen = driver.measure(policy, state.settle_key, episodes)
    return driver.for_seeds(_settle, task, state, policy, seen)


def remeasure_best(
    task: Task, driver: Driver, state: LoopState
) -> tuple[LoopState, Int[Array, "*seeds"]]:
    """Measure the best policy again, in the episodes of settling; and the steps this took.

    It may have been chosen for its luck in a few episodes, and settling compares others with it.
    """
    episodes = task.plan.loop.measured(is_random=task.is_random, is_learning=False)
    seen = driver.measure(state.best.policy, state.settle_key, episodes)
    return driver.for_seeds(_remeasured, task, state, seen), seen.env_steps


def present_policy(task: Task, state: LoopState) -> TrainedPolicy:
    """The policy without noise, under the present kappa."""
    price = task.penalty.price(task.charged(state.encoder), state.kappa)
    learner = task.plan.build(state.encoder)
    return policy_of(learner.actor(state.learner), state.encoder, price)


def explore(
    task: Task,
    explorer: Explorer,
    observation: Float[Array, " feature"],
    price: Float[Array, " region"],
    noise: Array,
) -> tuple[Array, Float[Array, ""]]:
    """An action with exploration noise, and its log probability."""
    learner = task.plan.build(explorer.encoder)
    return learner.explore(explorer.learner, explorer.encoder.actor(observation, price), noise)


def judge(task: Task, ran: Episode, *, deviations: float = 0.0) -> Measurement:
    """What the sums of some episodes mean under the rules."""
    amounts = task.rate * ran.service
    of_rules, of_reading = (
        held_against(
            atoms,
            amounts,
            is_in_runs=task.is_in_runs,
            deviations=deviations,
            tolerance=task.tolerance,
        )
        for atoms in (task.rules, task.reading)
    )
    return Measurement(
        ran.return_.mean(),
        amounts.mean(axis=0),
        of_rules.violation,
        of_reading.violation,
        ran.steps.mean(dtype=float),
        jnp.all(ran.is_terminated | task.is_horizon_an_end),
        of_reading.excess,
    )


def move_kappa(
    task: Task,
    state: LoopState,
    policy: TrainedPolicy,
    measured: Measured,
    *,
    is_learning: bool = True,
) -> tuple[LoopState, Metrics]:
    """Keep the measured policy if it is the best, and move kappa by its violations."""
    loop = task.plan.loop
    seen = judge(task, measured.episodes, deviations=loop.deviations)
    found = Best(
        policy, state.kappa, seen.reading_violation, seen.violation, seen.return_, state.iteration
    )
    best = better(task, state.best, found, seen.is_whole)
    step = largest_step(task.reading.coefficients * task.largest_labels, task.rate)
    rate = kappa_rate(task, state.encoder, _typical_steps(task, state.encoder, seen))
    rate *= kappa_rate_share(task, state, is_learning=is_learning)
    excess = seen.excess + loop.inset * step
    charged = task.charged(state.encoder)
    # A bound may be missed by many times what it can be kept by: kappa would rise for a few rounds
    # and fall for hundreds.
    most = loop.windup * jnp.maximum(jnp.abs(task.reading.bounds), step)
    followed = _of_single_runs(task, state, jnp.minimum(excess, most), step)
    integral = task.penalty.update(charged, state.integral, followed, rate)
    quick = task.penalty.rates(charged, rate) * _quick_terms(loop, excess, state.excess)
    kappa = jnp.maximum(integral + quick, 0.0)
    metrics = Metrics(
        seen.return_, seen.density, seen.violation, seen.steps, state.kappa,
        jnp.zeros(()), best.return_, best.violation, measured.env_steps,
    )  # fmt: skip
    encoder = _with_moved_aims(task, state, measured, seen, is_learning=is_learning)
    if is_learning:  # settling changes the policy no more
        encoder = _with_forecast(task, encoder, seen)
    return state._replace(
        encoder=encoder,
        kappa=kappa, integral=integral, excess=excess, best=best,
    ), metrics  # fmt: skip


def _with_forecast(task: Task, encoder: Encoder, seen: Measurement) -> Encoder:
    """Forecasts of single runs follow what the policies of the last rounds gave on average."""
    atoms = encoder.of_runs
    if atoms is None:
        return encoder
    steps = seen.steps if task.is_horizon_an_end else atoms.cells
    now = atoms.following(seen.density / task.rate, steps)
    return eqx.tree_at(lambda each: each.of_runs, encoder, now)


def _quick_terms(
    loop: LoopConfig, excess: Float[Array, " atom"], before: Float[Array, " atom"]
) -> Float[Array, " atom"]:
    """The proportional and the derivative term of a PID controller, as shares of beta."""
    return loop.proportional * excess + loop.derivative * jnp.maximum(excess - before, 0.0)


def kappa_rate(task: Task, encoder: Encoder, steps: Float[Array, ""]) -> Float[Array, " atom"]:
    """Beta of every atom, for episodes of so many steps."""
    bounds = task.reading.bounds
    loop, weight = task.plan.loop, jnp.abs(task.reading.coefficients)
    if loop.kappa_rate is not None:
        return jnp.full(bounds.shape, loop.kappa_rate)
    label = weight @ jnp.abs(encoder.label_unit) / weight.sum(axis=1)
    given_out = task.rate * label * steps
    return loop.kappa_pace * automatic_kappa_rate(encoder.price_unit / label, given_out, bounds)


def _typical_steps(task: Task, encoder: Encoder, seen: Measurement) -> Float[Array, ""]:
    """The episode length that beta is scaled by.

    Where episodes end with the horizon, policies may live many times as long as random actions do,
    so it is that of the present policy. Where an episode ends with the path, long episodes are slow
    ones: the present length would shrink beta just when kappa is too large, so it is that of the
    first episode, from which the units were read.
    """
    first = encoder.channel_unit[0] / encoder.price_unit
    return seen.steps if task.is_horizon_an_end else first


def better(task: Task, old: Best, found: Best, is_whole: Bool[Array, ""]) -> Best:
    """The better of the best policy so far and a new one: the reading first, then the return."""
    is_found_better = is_better(
        (found.reading_violation, found.return_), (old.reading_violation, old.return_),
        task.tolerance,
    )  # fmt: skip
    is_found_better |= task.penalty.is_for_any_rules
    is_taken = is_found_better & is_whole & jnp.isfinite(found.return_)
    return jax.tree.map(lambda new, kept: jnp.where(is_taken, new, kept), found, old)


def is_better(found: tuple[Any, Any], old: tuple[Any, Any], tolerance: float) -> Bool[Array, ""]:
    """Whether (violation, return) of one policy is better: the rules first, then the return."""
    is_kept, was_kept = found[0] <= tolerance, old[0] <= tolerance
    by_rules = jnp.where(is_kept & was_kept, found[1] > old[1], found[0] < old[0])
    return by_rules | (is_kept & ~was_kept)


def _prepare(task: Task, state: LoopState) -> tuple[TrainedPolicy, RoundKeys]:
    return present_policy(task, state), round_keys(task, state)


def round_keys(task: Task, state: LoopState) -> RoundKeys:
    """All that the next rollout leaves to chance."""
    del task
    return RoundKeys._make(jax.random.split(state.key, len(RoundKeys._fields)))


def _explorer(
    task: Task, state: LoopState, key: PRNGKeyArray
) -> tuple[Explorer, Float[Array, "world atom"]]:
    """The policy with noise, and the kappas around the present one that worlds are driven under.

    The logarithms of their factors are uniform from -s to s, with s the spread: a policy that has
    seen other prices answers them, and settling can look for the best kappa.
    """
    pricing, loop = _pricing(task, state), task.plan.loop
    kappas = pricing.kappas_of_worlds(loop.worlds, key=key)
    spread = jax.random.uniform(jax.random.fold_in(key, 1), kappas.shape, minval=-1.0)
    kappas *= jnp.exp(loop.kappa_spread * spread)
    return Explorer(state.learner, state.encoder, jax.vmap(pricing.price)(kappas)), kappas


def _improve(
    task: Task,
    state: LoopState,
    metrics: Metrics,
    rollout: Rollout,
    kappas: Float[Array, "world atom"],
    keys: RoundKeys,
) -> tuple[LoopState, Metrics]:
    """Charge the steps of a rollout and learn from them."""
    progress = state.iteration / task.plan.loop.iterations
    learner = task.plan.build(state.encoder)
    learned, loss = learner.update(
        state.learner, rollout, kappas, _pricing(task, state), progress, key=keys.update
    )
    if learner.multipliers is not None:
        multipliers = learner.multipliers(learned)
        state = state._replace(kappa=multipliers, integral=multipliers)
    state = state._replace(
        learner=learned,
        encoder=state.encoder.updated(rollout),
        key=keys.next,
    )
    env_steps = metrics.env_steps + rollout.reward.size
    return state, metrics._replace(loss=loss, env_steps=env_steps)


def _settle(
    task: Task, state: LoopState, policy: TrainedPolicy, seen: Measured
) -> tuple[LoopState, Metrics]:
    state, metrics = move_kappa(task, state, policy, seen, is_learning=False)
    return state._replace(iteration=state.iteration + 1), metrics


def _with_moved_aims(
    task: Task, state: LoopState, measured: Measured, seen: Measurement, *, is_learning: bool
) -> Encoder:
    """Runs aim as far inside their bounds as the measured ones had to, and no farther."""
    encoder, reading = state.encoder, task.reading
    atoms = encoder.of_runs
    if atoms is None:
        return encoder
    unit = reading.size * task.rate
    step = largest_step(reading.coefficients * task.largest_labels, task.rate)
    insets = reading.bounds - unit * atoms.bounds
    missed = missed_together(
        reading, task.rate * measured.episodes.service, insets,
        deviations=task.plan.loop.deviations, tolerance=task.tolerance,
    )  # fmt: skip
    may_widen = (state.kappa > 0.0) & (seen.reading_violation <= task.tolerance)
    insets = moved_insets(
        reading, insets, missed, step,
        may_widen=may_widen, latitude=LEARNING if is_learning else SETTLING,
    )  # fmt: skip
    bounds = jnp.where(reading.share > 0.0, (reading.bounds - insets) / unit, atoms.bounds)
    return eqx.tree_at(lambda each: each.of_runs.bounds, encoder, bounds)


def _remeasured(task: Task, state: LoopState, measured: Measured) -> LoopState:
    seen = judge(task, measured.episodes, deviations=task.plan.loop.deviations)
    best = state.best._replace(
        reading_violation=seen.reading_violation, violation=seen.violation, return_=seen.return_
    )
    return state._replace(best=best)


def _pricing(task: Task, state: LoopState) -> Pricing:
    return Pricing(
        task.charged(state.encoder), state.kappa, state.excess, task.penalty,
        task.rate, ends_with_horizon(task),
        state.encoder.price_unit / jnp.abs(state.encoder.label_unit),
    )  # fmt: skip


def ends_with_horizon(task: Task) -> bool:
    """Whether the learner's sums end with the horizon: plain sums would have no value beyond."""
    return task.is_horizon_an_end and task.plan.discount(task.discount) == 1.0


def kappa_rate_share(task: Task, state: LoopState, *, is_learning: bool) -> Float[Array, ""]:
    """Beta in this round, as a share of the initial beta."""
    loop = task.plan.loop
    settled = (state.iteration - loop.iterations) / jnp.maximum(loop.settle, 1)
    shrunk = 1.0 - loop.kappa_decay * state.iteration / loop.iterations
    return shrunk if is_learning else loop.settling_share(settled)


def _of_single_runs(
    task: Task, state: LoopState, excess: Float[Array, " atom"], step: Float[Array, " atom"]
) -> Float[Array, " atom"]:
    """What kappa follows: of an atom of single runs, a small excess counts many times.

    Few runs violate it in the end, and by little, but the price must be high where few are charged.
    At the start this would drive kappa too far.
    """
    loop = task.plan.loop
    progress = jnp.minimum(state.iteration / loop.iterations, 1.0)
    more = (loop.run_kappa_rate - 1.0) * progress * jnp.clip(excess, -SMALL * step, SMALL * step)
    return excess + jnp.where(task.reading.share > 0.0, more, 0.0)


SMALL = 4.0
"""Steps of service up to which the excess of single runs counts many times."""
