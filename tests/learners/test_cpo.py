"""CPO and PCPO: their steps against numbers worked by hand and against a general solver."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize

from scrl.environments.encoder import EnvironmentEncoder, RunningMoments
from scrl.learners import LEARNERS, Pricing
from scrl.learners.actions import Continuous, Discrete
from scrl.learners.actors import CategoricalActor, GaussianActor, MeanActor
from scrl.learners.config import CpoConfig
from scrl.learners.cpo import (
    CpoState,
    Solver,
    StepProblem,
    conjugate_gradients,
    cpo_step,
    line_search,
    pcpo_step,
)
from scrl.learners.networks import Linear, Mlp
from scrl.penalty import OUT_OF_REACH, Atoms, NoPenalty
from scrl.rollout import Rollout

cpo, pcpo = jax.jit(cpo_step), jax.jit(pcpo_step)


def step_problem(q: Any, r: Any, s: Any, c: Any, delta: float) -> StepProblem:
    return StepProblem(*(jnp.asarray(each, float) for each in (q, r, s, c, delta)))


# The problem of a step, by hand: q = 4, r = 2, s = 2, 2 delta = 0.085.


@pytest.mark.parametrize(
    ("solve", "c", "mu", "nu"),
    [
        # mu = sqrt(2 delta / q) = 0.14577, and c + mu r = -0.70846 keeps the cost.
        (cpo, -1.0, 0.14577, 0.0),
        (pcpo, -1.0, 0.14577, 0.0),
        # CPO: mu^2 = (2 delta - c^2 / s) / (q - r^2 / s) = 0.08 / 2, nu = (mu r + c) / s = 0.3 / 2.
        (cpo, -0.1, 0.2, 0.15),
        # From outside the cost the same, with nu = (0.4 + 0.1) / 2.
        (cpo, 0.1, 0.2, 0.25),
        # PCPO keeps mu, and nu = (0.14577 * 2 - 0.1) / 2.
        (pcpo, -0.1, 0.14577, 0.09577),
        # c^2 / s = 0.5 is more than 2 delta. CPO: nu = sqrt(2 delta / s).
        (cpo, 1.0, 0.0, 0.20616),
        # PCPO: nu = (0.29155 + 1) / 2 = 0.64577, and x . H x = mu^2 q - 2 mu nu r + nu^2 s = 0.5425
        # is 6.3824 = 2.5263^2 times too long.
        (pcpo, 1.0, 0.05770, 0.25562),
    ],
)
def test_a_step_with_one_cost_by_hand(solve: Solver, c: float, mu: float, nu: float) -> None:
    found = solve(step_problem(4.0, [2.0], [[2.0]], [c], 0.0425))
    assert float(found.mu) == pytest.approx(mu, abs=1e-4)
    assert found.nu.tolist() == pytest.approx([nu], abs=1e-4)


@pytest.mark.parametrize("solve", [cpo, pcpo])
def test_without_costs_it_is_the_step_of_trust_region_policy_optimisation(solve: Solver) -> None:
    found = solve(step_problem(4.0, np.zeros(0), np.zeros((0, 0)), np.zeros(0), 0.02))
    assert float(found.mu) == pytest.approx(0.1)  # sqrt(0.04 / 4)


@pytest.mark.parametrize("solve", [cpo, pcpo])
@pytest.mark.parametrize("c", [-1.0, -0.1, 0.1, 1.0])
def test_atoms_that_are_out_of_reach_or_have_no_gradient_change_nothing(
    solve: Solver, c: float
) -> None:
    """Two atoms of padding, which are alike, and one that no step moves."""
    alone = solve(step_problem(4.0, [2.0], [[2.0]], [c], 0.0425))
    s = [[2.0, 0.5, 0.5, 0.0], [0.5, 3.0, 3.0, 0.0], [0.5, 3.0, 3.0, 0.0], [0.0] * 4]
    far = -OUT_OF_REACH
    found = solve(step_problem(4.0, [2.0, 1.0, 1.0, 0.0], s, [c, far, far, 5.0], 0.0425))
    assert float(found.mu) == pytest.approx(float(alone.mu), rel=1e-3)
    assert found.nu.tolist() == pytest.approx([*alone.nu.tolist(), 0.0, 0.0, 0.0], abs=1e-3)


@pytest.mark.parametrize("solve", [cpo, pcpo])
@pytest.mark.parametrize(
    ("c", "change"),
    [
        # b . x must lie between 0.05 and 0.15; the step without costs has b . x = 0.04.
        ((-0.15, 0.05), 0.05),
        # Between -0.06 and -0.04.
        ((0.04, -0.06), -0.04),
        # It would have to be below -0.1 and above 0.1: the middle.
        ((0.1, 0.1), 0.0),
    ],
)
def test_the_two_sides_of_an_equality(solve: Solver, c: tuple[float, float], change: float) -> None:
    """Opposite gradients of length 1, g of length 1 with b . g = 0.2, a trust region of 0.2."""
    found = solve(step_problem(1.0, [0.2, -0.2], [[1.0, -1.0], [-1.0, 1.0]], c, 0.02))
    moved = 0.2 * found.mu - found.nu[0] + found.nu[1]
    assert float(moved) == pytest.approx(change, abs=1e-3)


# The problem of a step, against SLSQP.


class Full:
    """A random problem with all its vectors."""

    def __init__(self, atoms: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        root = rng.normal(size=(5, 5))
        self.h = root @ root.T + 0.3 * np.eye(5)
        self.g, self.b = rng.normal(size=5), rng.normal(size=(atoms, 5))
        self.c, self.delta = 0.5 * rng.normal(size=atoms), rng.uniform(0.02, 0.5)

    def step(self, solve: Solver) -> np.ndarray:
        inverse = np.linalg.inv(self.h)
        found = solve(
            step_problem(
                self.g @ inverse @ self.g, self.b @ inverse @ self.g,
                self.b @ inverse @ self.b.T, self.c, self.delta,
            )
        )  # fmt: skip
        return inverse @ (float(found.mu) * self.g - np.asarray(found.nu) @ self.b)

    def least(self, loss: Any, *, is_near: bool) -> np.ndarray:
        """The step with the least loss that keeps the costs, and if asked the trust region."""
        limits = [{"type": "ineq", "fun": lambda x: -(self.c + self.b @ x)}]
        near = {"type": "ineq", "fun": lambda x: 2.0 * self.delta - x @ self.h @ x}
        return minimize(
            loss, np.zeros(5), method="SLSQP", constraints=[*limits, *[near] * is_near],
            options={"maxiter": 500, "ftol": 1e-12},
        ).x  # fmt: skip

    def shortened(self, x: np.ndarray) -> np.ndarray:
        return x * min(1.0, math.sqrt(2.0 * self.delta / (x @ self.h @ x)))


@pytest.mark.parametrize("atoms", [2, 3])
def test_steps_agree_with_a_general_solver(atoms: int) -> None:
    feasible = 0
    for seed in range(30):
        full = Full(atoms, seed)
        nearest = full.least(lambda x, h=full.h: x @ h @ x, is_near=False)
        found = full.step(cpo)
        if nearest @ full.h @ nearest <= 2.0 * full.delta:
            feasible += 1
            best = full.least(lambda x, g=full.g: -g @ x, is_near=True)
            assert full.g @ found == pytest.approx(full.g @ best, rel=5e-3, abs=5e-3)
            assert np.all(full.c + full.b @ found <= 5e-3)
            assert found @ full.h @ found <= 2.0 * full.delta * 1.01
        else:
            assert np.allclose(found, full.shortened(nearest), atol=5e-3)
        inverse = np.linalg.inv(full.h)
        free = math.sqrt(2.0 * full.delta / (full.g @ inverse @ full.g)) * inverse @ full.g
        projected = full.least(
            lambda x, h=full.h, free=free: (x - free) @ h @ (x - free), is_near=False
        )
        assert np.allclose(full.step(pcpo), full.shortened(projected), atol=5e-3)
    assert 10 < feasible < 30


# The parts of an update.


def test_conjugate_gradients_solve_a_small_system() -> None:
    root = np.random.default_rng(0).normal(size=(6, 6))
    matrix, target = root @ root.T + np.eye(6), np.arange(6.0)
    found = conjugate_gradients(lambda vector: jnp.asarray(matrix) @ vector, jnp.asarray(target))
    assert np.allclose(found, np.linalg.solve(matrix, target), atol=1e-3)
    assert not conjugate_gradients(lambda vector: vector, jnp.zeros(6)).any()


@pytest.mark.parametrize(("most", "share"), [(1.0, 1.0), (0.5, 0.49), (0.09, 0.0824), (0.08, 0.0)])
def test_the_line_search_takes_the_longest_step_that_is_accepted(most: float, share: float) -> None:
    found = line_search(lambda tried: tried <= most)  # 0.7^7 = 0.0824
    assert float(found) == pytest.approx(share, abs=1e-4)


def constant(*outputs: float) -> Mlp:
    """A network whose outputs do not depend on its input."""
    made = Mlp(1, (), len(outputs), last_scale=1.0, key=jax.random.key(0))
    layer = Linear(jnp.zeros((len(outputs), 1)), jnp.array(outputs))
    return jax.tree.unflatten(jax.tree.structure(made), jax.tree.leaves(layer))


def test_divergences_by_hand() -> None:
    def normal(mean: float, spread: float) -> GaussianActor:
        return GaussianActor(MeanActor(constant(mean), 0.0, ()), jnp.log(jnp.array(spread)), 0.01)

    # The formula has log(2 / 1) + (1 + 1) / (2 * 4) - 1/2.
    found = normal(0.0, 1.0).divergence(normal(1.0, 2.0), jnp.zeros(1))
    assert float(found) == pytest.approx(math.log(2.0) - 0.25)
    even, uneven = (
        CategoricalActor(constant(0.0, math.log(odds)), Discrete((2,))) for odds in (1.0, 3.0)
    )
    # 1/2 log(1/2 / 1/4) + 1/2 log(1/2 / 3/4).
    assert float(even.divergence(uneven, jnp.zeros(1))) == pytest.approx(0.5 * math.log(4.0 / 3.0))


# The first update in a world where an episode is one step.


ENCODER = EnvironmentEncoder(
    price_unit=jnp.ones(()), channel_unit=jnp.ones(2), label_unit=jnp.ones(1),
    moments=RunningMoments(jnp.ones(()), jnp.zeros(1), jnp.ones(1)),
    actions=Continuous(), own_features=1, regions=1, sees_prices=False, atoms=1,
)  # fmt: skip
NOISE = jnp.array([[1.0, -1.0, 1.0, -1.0]])


def first_update(name: str, excess: float) -> tuple[float, float]:
    """The mean and the standard deviation of the throttle after one update; before, 0.6 and 0.25.

    Steps with noise +1 earn 1 and give 3, those with noise -1 earn -1 and give 1. The cost is
    twice the label, for 2 is the rate.
    """
    config = CpoConfig(depth=0, trust_region=0.02, damping=0.0)
    learner = LEARNERS[name].make(config, ENCODER)
    state: CpoState = learner.init(key=jax.random.key(0))
    state = state._replace(critic=jax.tree.map(jnp.zeros_like, state.critic))
    seen = jnp.zeros((*NOISE.shape, 1))
    action, log_probability = jax.vmap(jax.vmap(lambda z: learner.explore(state, seen[0, 0], z)))(
        NOISE
    )
    is_over = jnp.ones(NOISE.shape, bool)
    rollout = Rollout(
        seen, action, log_probability, NOISE, 2.0 + NOISE[..., None], is_over, ~is_over, seen
    )
    alone, none = jnp.ones((1, 1)), jnp.zeros(1)
    atoms = Atoms(alone, none, jnp.zeros((1, 1), int), jnp.zeros(1, int), alone, none)
    pricing = Pricing(atoms, jnp.zeros(1), jnp.array([excess]), NoPenalty(), jnp.asarray(2.0))
    state, _ = jax.jit(learner.update)(
        state, rollout, jnp.zeros((4, 1)), pricing, jnp.zeros(()), key=jax.random.key(1)
    )
    assert isinstance(state.actor, GaussianActor)
    return float(state.actor.mean(jnp.zeros(1))), float(jnp.exp(state.actor.log_spread))


@pytest.mark.parametrize("name", ["cpo", "pcpo"])
@pytest.mark.parametrize(("excess", "moved"), [(-1.0, 0.05), (-0.25, 1 / 32), (1.0, -0.05)])
def test_the_first_update_by_hand(name: str, excess: float, moved: float) -> None:
    """The throttle is N(m, 1/16), and the gradient of log p with respect to m is 4 z.

    Return: advantages are z, so g = mean(z 4 z) = 4. Cost: advantages are 2 z, so b = 8. The
    divergence is (m' - m)^2 / (2 / 16), so H = 16. The spread has no gradient, as z^2 = 1.
    Trust region: 16 x^2 <= 0.04, so |x| <= 0.05. Cost: excess + 8 x <= 0. With an excess of -1 the
    trust region is the limit, with -0.25 the cost (x <= 1/32), and 1 asks for x <= -1/8.
    """
    mean, spread = first_update(name, excess)
    assert mean == pytest.approx(0.6 + moved, abs=1e-4)
    assert spread == pytest.approx(0.25, abs=1e-4)
