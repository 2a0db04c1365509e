"""Probe worlds: corridors whose best policy is known, learned by every learner."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from scrl.penalty import Atoms, Drawn, Lagrangian, Penalty, Smallest
from scrl.policies import Constant
from scrl.problems import Problem
from scrl.training.algorithm import Measurement, Metrics, iterate, judge
from scrl.training.config import configure
from scrl.training.devices import SweepTask, begin_sweep, measure, sweep_driver
from scrl.worlds.sweep.regions import from_labels
from scrl.worlds.sweep.spec import SweepRoute, SweepSpec
from scrl.worlds.sweep.vehicle import Vehicle
from scrl.worlds.sweep.world import SweepWorld

SEEDS = (0, 1, 2)


class Probe(NamedTuple):
    """A task and how to learn it; prices that are set by hand stay as they are."""

    task: SweepTask

    def learn(self, prices: tuple[float, ...] | None = None) -> Metrics:
        """All rounds for three seeds, under each of the prices: metrics by price, seed, round."""

        def one(key: jax.Array, price: jax.Array) -> Metrics:
            driver = sweep_driver(self.task)
            state, _ = begin_sweep(self.task, key=key)
            if prices is not None:
                state = state._replace(kappa=price[None], integral=price[None])
            rounds = self.task.plan.loop.iterations
            return jax.lax.scan(
                lambda state, _: iterate(self.task, driver, state),
                state,
                None,
                length=rounds,
            )[1]

        keys = jnp.stack([jax.random.key(seed) for seed in SEEDS])
        by_seed = jax.vmap(one, in_axes=(0, None))
        return jax.jit(jax.vmap(by_seed, in_axes=(None, 0)))(keys, jnp.array(prices or (0.0,)))


def corridor(cells: int) -> Problem:
    """A row of cells, all of A; `A >= 1` makes kappa what a step in A earns."""
    regions = from_labels(np.ones((1, cells), int), ["A"])
    return Problem.create(SweepSpec(regions, route=SweepRoute(horizon_steps=200)), "A >= 1")


class FixedPrice(Lagrangian):
    """Kappa stays as it is and is paid for every step in A."""

    def update(self, atoms: Atoms, kappa: jax.Array, signed: jax.Array, rate: Any) -> jax.Array:
        return kappa


def probe(
    problem: Problem, learner: str, penalty: Penalty, discount: float = 1.0, **settings: Any
) -> Probe:
    """Eight worlds of 64 steps a round, networks of width 16."""
    small = {"worlds": 8, "rollout_steps": 64, "width": 16, "first_mean": 0.9, "discount": discount}
    plan = configure("scrl", learner=learner, settings=small | settings).plan
    atoms = Atoms.of(problem.atoms)
    task = SweepTask(
        plan=plan, rules=atoms, reading=atoms, penalty=penalty, tolerance=1e-6, discount=discount,
        is_random=False, world=problem.world,
    )  # fmt: skip
    return Probe(task)


REPLAYED = {
    "buffer_size": 4096, "batch_size": 64, "updates": 64, "learning_rate": 3e-3, "tau": 0.03,
    "iterations": 40, "sees_prices": False,
}  # fmt: skip
LEARNED: dict[str, dict[str, Any]] = {
    "ppo": {"iterations": 45},
    "ddpg": REPLAYED | {"iterations": 60},
    "sac": REPLAYED,
}


@pytest.mark.parametrize("learner", LEARNED)
def test_a_learner_finds_the_best_speed_in_a_corridor(learner: str) -> None:
    """60 cells without a price, and with 0.0625 for every step: undiscounted, three seeds.

    At a steady speed v a cell takes 1/v steps, each of which costs effort/(1+v) and earns p. The
    least of (effort/(1+v) - p) / v lies where its derivative is 0:

        -effort v / (1+v)^2 - effort / (1+v) + p = 0, so p = effort (1 + 2v) / (1+v)^2.

    With effort 0.1: v = 1.58 gives 0.1 * 4.16 / 6.66 = 0.0625. Without a price there is no such v,
    and the fastest is the best. The untrained policy drives at 2.7, between the two.
    """
    problem = corridor(60)
    trained = probe(problem, learner, FixedPrice(), **LEARNED[learner])
    free, paid = (
        jax.tree.map(lambda leaf, row=row: np.asarray(leaf[row, :, -10:]), found)
        for found in [trained.learn((0.0, 0.0625))]
        for row in (0, 1)
    )
    fastest = measure(trained.task, Constant(jnp.ones(())), 1, key=jax.random.key(0))
    assert np.allclose(free.return_[:, -1], float(fastest.return_[0]), rtol=0.03)
    # The mean of the last ten rounds: 60 cells in 38 steps. The optimum is flat, 12 % off its speed
    # costs 1 %, so single seeds get 15 % and their mean 10 %.
    speed = 60 / paid.steps.mean(axis=1)
    assert np.all(np.abs(speed / 1.58 - 1.0) < 0.15)
    assert speed.mean() == pytest.approx(1.58, rel=0.10)


def test_a_discount_is_learned_as_well_as_the_best_constant_throttle() -> None:
    """20 cells, 0.08 a step, gamma 0.9: patience pays less, so the best is faster than without.

    Undiscounted 0.8 = (1 + 2v) / (1+v)^2 asks for v = 0.81, a throttle of 0.27. The learner may
    do better than any constant throttle, for it may brake before the end.
    """
    price = 0.08
    trained = probe(
        corridor(20), "ppo", FixedPrice(), 0.9, first_mean=0.3, iterations=40, sees_prices=False
    )

    world = trained.task.world
    assert isinstance(world, SweepWorld)

    def worth(metrics: Metrics | Measurement) -> np.ndarray:
        return np.asarray(metrics.return_ + price * metrics.density[..., 0] / world.numbers.rate)

    throttles = jnp.linspace(0.02, 1.0, 99)

    def at(throttle: jax.Array) -> Measurement:
        ran = measure(trained.task, Constant(throttle), 1, key=jax.random.key(0))
        return judge(trained.task, ran)

    constants = worth(jax.jit(jax.vmap(at))(throttles))
    best = float(constants.max())
    # 0.277 at a throttle of about 0.7; at 0.27, the best without a discount, only 0.2.
    assert 0.6 < float(throttles[constants.argmax()]) < 0.8
    assert np.interp(0.27, throttles, constants) < 0.8 * best
    found = worth(trained.learn((price,)))[0]
    assert np.all(found[:, 0] < 0.85 * best)
    assert np.all(found[:, -5:].mean(axis=1) > 0.98 * best)


UNREACHABLE, HORIZON = 70.0, 60
"""One unit a step: within 60 steps nothing gets 70 units."""


def chasing(penalty: Penalty) -> Metrics:
    """Ten cells of A, then twenty of B, under `A >= 70 or B >= 16`; metrics by seed and round.

    Full speed leaves 7 units in B; 16 need a speed of 1.25 there, at a price of about 0.07.
    """
    spec = SweepSpec(
        from_labels(np.array([[1] * 10 + [2] * 20]), ["A", "B"]),
        vehicle=Vehicle(rate=1.0),
        route=SweepRoute(horizon_steps=HORIZON),
    )
    problem = Problem.create(spec, f"A >= {UNREACHABLE} or B >= 16")
    chased = probe(problem, "ppo", penalty, iterations=120, kappa_rate=3e-4)
    return jax.tree.map(lambda leaf: np.asarray(leaf[0]), chased.learn())


def test_the_smallest_penalty_chases_what_cannot_be_reached() -> None:
    """SCRL-min pays kappa_A for every step in A, however large it grows: the vehicle stays there.

    The violation of A is the larger one, so kappa_A passes 0.1, the most that a step can cost, long
    before kappa_B could slow the vehicle down in B; and then B is never reached.
    """
    seen = chasing(Smallest())
    last = jax.tree.map(lambda leaf: leaf[:, -10:], seen)
    assert np.all(last.steps == HORIZON)
    assert np.all(last.density[..., 0] == HORIZON)
    assert np.all(last.violation > 5.0)
    # A is 10 units short for ever: with half a step of inset, 3e-4 * 10.5 more in every round.
    assert np.allclose(np.diff(last.kappa[..., 0], axis=1), 3e-4 * 10.5, rtol=1e-2)
    assert np.all(seen.best_violation[:, -1] > 0.0)


def test_the_draw_keeps_the_rule_that_can_be_kept() -> None:
    """In expectation the draw charges 1 / sum(1/kappa): never more than the smaller kappa.

    A sharper draw pushes the hopeless atom less and less, and so wastes less time in A.
    """
    soft, sharp = chasing(Drawn(1.0)), chasing(Drawn(2.0))
    for seen in (soft, sharp):
        assert np.all(seen.best_violation[:, -1] <= 1e-6)
        # Speed 1.25 everywhere takes 24 steps at 0.1 / 2.25 each: 1.07, and as much again to spare.
        assert np.all(seen.best_return[:, -1] > -2.1)
        assert np.all(seen.steps[:, -10:] < HORIZON)
    assert sharp.density[:, -10:, 0].mean() < soft.density[:, -10:, 0].mean()
