"""Constrained policy optimisation (Achiam et al. 2017) and its variant by projection, PCPO (Yang
et al. 2020).

The return and the costs of the atoms are linear in a step x of the policy's parameters, and the KL
divergence is quadratic: with gradients g of the return and b_j of the costs, the excess c_j of each
cost over its bound, and the Hessian H of the divergence,

    CPO:   x = argmax g . x           with  c_j + b_j . x <= 0  and  x . H x <= 2 delta
    PCPO:  x = argmin (x - y) . H (x - y)  with  c_j + b_j . x <= 0,
           where y = sqrt(2 delta / g . H^-1 g) H^-1 g is the step without costs.

Either step has the form x = H^-1 (mu g - sum_j nu_j b_j). Where no step of CPO keeps the costs, it
takes the shortest one that would keep them (PCPO's for y = 0), as far as the trust region reaches.
A line search shortens steps that are too long for the approximation.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float, PRNGKeyArray, Shaped

from scrl.learners.actors import Chooser, chooser
from scrl.learners.config import CpoConfig
from scrl.learners.encoders import Encoder
from scrl.learners.learner import Learner, Pricing
from scrl.learners.networks import ValueNet, adam_memory
from scrl.learners.ppo import Sample, epochs, random_order, sample_of, value_error, value_net
from scrl.rollout import Rollout

MOST_ATOMS = 6
"""All sets of active atoms are tried, 64 at most."""

ITERATIONS = 10
"""Iterations of conjugate gradients."""

SHRINK, MOST_SHRINKS = 0.7, 8
"""The line search tries steps of 0.7^k times the full length, for k below 8."""

SLACK = 1e-3
"""Tolerance of a constraint, in lengths of the trust region."""

FARTHEST = 1e3
"""Excesses are cut off here, in lengths of the trust region."""


class CpoState(NamedTuple):
    """Actor, critic, and the optimiser state of the critic."""

    actor: Chooser
    critic: ValueNet
    optimiser: optax.OptState


class Limits(NamedTuple):
    """What a step has to keep."""

    cost: Float[Array, "sample atom"]
    """Advantages of the costs, in units of density."""
    excess: Float[Array, " atom"]
    delta: Float[Array, ""]


class Weights(NamedTuple):
    """A step as a combination of natural gradients: mu H^-1 g - sum_j nu_j H^-1 b_j."""

    mu: Float[Array, ""]
    nu: Float[Array, " atom"]


class StepProblem(NamedTuple):
    """The problem of a step, as inner products by H^-1."""

    q: Float[Array, ""]
    """g . H^-1 g."""
    r: Float[Array, " atom"]
    """b_j . H^-1 g."""
    s: Float[Array, "atom other"]
    """b_j . H^-1 b_k."""
    c: Float[Array, " atom"]
    """How far each cost exceeds its bound."""
    delta: Float[Array, ""] | float


Solver = Callable[[StepProblem], Weights]


def learner(config: CpoConfig, encoder: Encoder) -> Learner:
    """CPO for inputs of these sizes."""
    return _learner(config, encoder, cpo_step)


def projecting_learner(config: CpoConfig, encoder: Encoder) -> Learner:
    """PCPO for inputs of these sizes."""
    return _learner(config, encoder, pcpo_step)


def _learner(config: CpoConfig, encoder: Encoder, solve: Solver) -> Learner:
    def init(*, key: PRNGKeyArray) -> CpoState:
        actor_key, critic_key = jax.random.split(key)
        critic = value_net(config, encoder, key=critic_key)
        return CpoState(chooser(config, encoder, key=actor_key), critic, adam_memory(critic))

    def explore(
        state: CpoState, inputs: Float[Array, " input"], noise: Float[Array, "*noise"]
    ) -> tuple[Shaped[Array, "*action"], Float[Array, ""]]:
        return state.actor.explore(inputs, noise)

    def update(
        state: CpoState,
        rollout: Rollout,
        kappas: Float[Array, "world atom"],
        pricing: Pricing,
        progress: Float[Array, ""],
        *,
        key: PRNGKeyArray,
    ) -> tuple[CpoState, Float[Array, ""]]:
        charge_key, hessian_key, epoch_key = jax.random.split(key, 3)
        sample, advantage = sample_of(
            config, encoder, state.critic, rollout, kappas, pricing, key=charge_key
        )
        limits = Limits(
            costs(advantage, rollout, pricing), pricing.excess, config.delta_at(progress)
        )
        actor = improved(config, solve, state.actor, sample, limits, key=hessian_key)
        critic, optimiser, loss = epochs(
            config, lambda critic, part: value_error(critic, part).mean(), state.critic,
            state.optimiser, sample, config.rate_at(progress), key=epoch_key,
        )  # fmt: skip
        return CpoState(actor, critic, optimiser), loss

    return Learner(init, explore, lambda state: state.actor.handed_out, update)


def costs(
    advantage: Float[Array, "sample channel"], rollout: Rollout, pricing: Pricing
) -> Float[Array, "sample atom"]:
    """What a step adds to a . density, times the mean length of an episode."""
    ends = jnp.sum(rollout.is_terminated | rollout.is_truncated)
    length = len(advantage) / jnp.maximum(ends, 1)
    cost = pricing.rate * advantage[:, 1:] @ pricing.atoms.coefficients.T
    return length * (cost - cost.mean(axis=0))


def improved(
    config: CpoConfig,
    solve: Solver,
    actor: Chooser,
    sample: Sample,
    limits: Limits,
    *,
    key: PRNGKeyArray,
) -> Chooser:
    """The policy after one step in the trust region."""
    start, policy_of = ravel_pytree(actor)
    some = sample.actor_inputs[random_order(len(sample.action), key=key)[: config.hessian_steps]]

    def gains_at(parameters: Float[Array, " parameter"]) -> Float[Array, " one_and_atom"]:
        return gains(config, policy_of(parameters), sample, limits.cost)

    def hessian(vector: Float[Array, " parameter"]) -> Float[Array, " parameter"]:
        slope = jax.grad(lambda parameters: divergence(actor, policy_of(parameters), some))
        return jax.jvp(slope, (start,), (vector,))[1] + config.damping * vector

    before, gradients = gains_at(start), jax.jacrev(gains_at)(start)
    natural = jax.vmap(partial(conjugate_gradients, hessian))(gradients)
    inner = gradients @ natural.T
    inner = 0.5 * (inner + inner.T)
    q, r, s = inner[0, 0], inner[0, 1:], inner[1:, 1:]
    mu, nu = solve(StepProblem(q, r, s, limits.excess, limits.delta))
    step = mu * natural[0] - nu @ natural[1:]

    def is_accepted(share: Float[Array, ""]) -> Bool[Array, ""]:
        """Whether the trust region is kept, and neither return nor costs get worse."""
        changed = policy_of(start + share * step)
        moved = divergence(actor, changed, sample.actor_inputs)
        gain = gains(config, changed, sample, limits.cost) - before
        violation = jnp.maximum(limits.excess + gain[1:], 0.0).sum()
        is_better = (gain[0] >= 0.0) | (mu * q - nu @ r <= 0.0)  # costs may ask for a lower return
        is_kept = violation <= jnp.maximum(limits.excess, 0.0).sum()
        return is_better & is_kept & (moved <= (1.0 + SLACK) * limits.delta)

    return policy_of(start + line_search(is_accepted) * step)


def gains(
    config: CpoConfig, actor: Chooser, sample: Sample, cost: Float[Array, "sample atom"]
) -> Float[Array, " one_and_atom"]:
    """By how much a policy changes the return and the costs, by importance sampling."""
    log_probability, added = jax.vmap(partial(actor.judge, config))(
        sample.actor_inputs, sample.action
    )
    change = jnp.expm1(log_probability - sample.log_probability)
    advantage = jnp.concatenate([sample.advantage[:, None], cost], axis=1)
    return (change @ advantage / len(change)).at[0].add(-added.mean())


def divergence(
    actor: Chooser, other: Chooser, inputs: Float[Array, "sample input"]
) -> Float[Array, ""]:
    """The mean KL divergence of two policies."""
    return jax.vmap(partial(actor.divergence, other))(inputs).mean()


def line_search(
    is_accepted: Callable[[Float[Array, ""]], Bool[Array, ""]],
) -> Float[Array, ""]:
    """The largest share of a step that is accepted, 0 if none is."""
    least = SHRINK ** (MOST_SHRINKS - 0.5)

    def is_searching(share: Float[Array, ""]) -> Bool[Array, ""]:
        return (share > least) & ~is_accepted(share)

    share = jax.lax.while_loop(is_searching, lambda share: SHRINK * share, jnp.ones(()))
    return jnp.where(share > least, share, 0.0)


def conjugate_gradients(
    product: Callable[[Float[Array, " parameter"]], Float[Array, " parameter"]],
    target: Float[Array, " parameter"],
) -> Float[Array, " parameter"]:
    """About H^-1 target, from products by H."""

    def ratio(one: Float[Array, ""], other: Float[Array, ""]) -> Float[Array, ""]:
        return jnp.where(other > 0.0, one / jnp.where(other > 0.0, other, 1.0), 0.0)

    def iteration(_: int, now: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        found, rest, way = now
        bent = product(way)
        length = ratio(rest @ rest, way @ bent)
        left = rest - length * bent
        return found + length * way, left, left + ratio(left @ left, rest @ rest) * way

    start = (jnp.zeros_like(target), target, target)
    return jax.lax.fori_loop(0, ITERATIONS, iteration, start)[0]


def cpo_step(problem: StepProblem) -> Weights:
    """max g . x with c + B . x <= 0 and x . H x <= 2 delta; without a solution, the recovery.

    With a set of active atoms, nu = S^-1 (mu r + c) and mu^2 = (2 delta - c . S^-1 c) / (q - r .
    S^-1 r). The best of these that keeps everything is the solution.
    """
    (_, r, s, c, _), units = _scaled(problem)
    along, back = _active_sets(r, s, c)
    room, left = 1.0 - jnp.sum(back * c, axis=1), 1.0 - jnp.sum(along * r, axis=1)
    mu = jnp.sqrt(jnp.maximum(room, 0.0) / jnp.maximum(left, 1e-4))
    nu = mu[:, None] * along + back
    is_kept = (_most_excess(r, s, c, mu, nu) <= SLACK) & (_length(r, s, mu, nu) <= 1.0 + SLACK)
    best = jnp.argmax(jnp.where(is_kept, mu - nu @ r, -jnp.inf))
    recovery = _shortened(r, s, jnp.zeros(()), _projection(r, s, c, jnp.zeros(())))
    found = Weights(mu[best], nu[best])
    return units(jax.tree.map(lambda *each: jnp.where(is_kept.any(), *each), found, recovery))


def pcpo_step(problem: StepProblem) -> Weights:
    """The step without costs, projected; one that begins outside the costs may be shortened."""
    (_, r, s, c, _), units = _scaled(problem)
    return units(_shortened(r, s, jnp.ones(()), _projection(r, s, c, jnp.ones(()))))


def _scaled(problem: StepProblem) -> tuple[StepProblem, Callable[[Weights], Weights]]:
    """The problem with gradients and a trust region of length 1, and how to undo this.

    Atoms without a gradient drop out, with zeros everywhere.
    """
    q, r, s, c, delta = problem
    radius = jnp.sqrt(2.0 * delta)
    of_g, of_b = (
        jnp.where(square > 0.0, jnp.sqrt(jnp.maximum(square, 0.0)), jnp.inf)
        for square in (q, jnp.diagonal(s))
    )
    scaled = StepProblem(
        jnp.ones(()),
        r / (of_b * of_g),
        s / (of_b[:, None] * of_b),
        jnp.clip(c / (of_b * radius), -FARTHEST, FARTHEST),
        0.5,
    )

    def units(weights: Weights) -> Weights:
        return Weights(radius * weights.mu / of_g, radius * weights.nu / of_b)

    return scaled, units


def _active_sets(
    r: Float[Array, " atom"], s: Float[Array, "atom other"], c: Float[Array, " atom"]
) -> tuple[Float[Array, "subset atom"], Float[Array, "subset atom"]]:
    """S^-1 r and S^-1 c for the atoms of every subset, 0 for those outside of it.

    A small multiple of the identity is added to S, since opposite atoms make it singular; what it
    falsifies is corrected by a second solution for the rest.
    """
    atoms = len(c)
    is_active = jnp.asarray((np.arange(2**atoms)[:, None] >> np.arange(atoms)) % 2 == 1)
    within = jnp.where(is_active[:, :, None] & is_active[:, None, :], s, 0.0)
    matrix = within + jnp.eye(atoms) * jnp.where(is_active, 1e-3, 1.0)[:, None, :]
    sides = jnp.where(is_active[..., None], jnp.stack([r, c], axis=-1), 0.0)
    solved = _solved(matrix, sides)
    solved = solved + _solved(matrix, sides - within @ solved)
    return solved[..., 0], solved[..., 1]


def _solved(
    matrix: Float[Array, "subset atom atom"], sides: Float[Array, "subset atom side"]
) -> Float[Array, "subset atom side"]:
    """Gauss-Jordan elimination of small positive definite matrices; needs no library on devices."""
    rows = jnp.concatenate([matrix, sides], axis=-1)
    for place in range(matrix.shape[-1]):
        row = rows[:, place] / rows[:, place, place, None]
        rows = (rows - rows[:, :, place, None] * row[:, None]).at[:, place].set(row)
    return rows[..., matrix.shape[-1] :]


def _projection(
    r: Float[Array, " atom"],
    s: Float[Array, "atom other"],
    c: Float[Array, " atom"],
    mu: Float[Array, ""],
) -> Float[Array, " atom"]:
    """Nu of the point nearest to mu H^-1 g that keeps the costs, or comes nearest to that."""
    along, back = _active_sets(r, s, c)
    nu = mu * along + back
    excess = _most_excess(r, s, c, jnp.broadcast_to(mu, len(nu)), nu)
    slack = SLACK * (1.0 + jnp.maximum(c, 0.0).sum())
    is_kept = excess <= jnp.maximum(excess.min(), 0.0) + slack
    return nu[jnp.argmin(jnp.where(is_kept, jnp.sum(nu * (nu @ s), axis=1), jnp.inf))]


def _most_excess(
    r: Float[Array, " atom"],
    s: Float[Array, "atom other"],
    c: Float[Array, " atom"],
    mu: Float[Array, " subset"],
    nu: Float[Array, "subset atom"],
) -> Float[Array, " subset"]:
    """The largest c_j + b_j . x of each step."""
    return jnp.max(c + mu[:, None] * r - nu @ s, axis=1, initial=-jnp.inf)


def _length(
    r: Float[Array, " atom"],
    s: Float[Array, "atom other"],
    mu: Float[Array, "*subset"],
    nu: Float[Array, "*subset atom"],
) -> Float[Array, "*subset"]:
    """sqrt(x . H x) of a step."""
    square = mu**2 - 2.0 * mu * (nu @ r) + jnp.sum(nu * (nu @ s), axis=-1)
    return jnp.sqrt(jnp.maximum(square, 0.0))


def _shortened(
    r: Float[Array, " atom"],
    s: Float[Array, "atom other"],
    mu: Float[Array, ""],
    nu: Float[Array, " atom"],
) -> Weights:
    """The step as far as the trust region reaches."""
    share = 1.0 / jnp.maximum(_length(r, s, mu, nu), 1.0)
    return Weights(share * mu, share * nu)
