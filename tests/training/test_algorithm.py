"""The loop: what counts as better, what is measured, units, traces, and the same bits again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from scrl.learners import Encoder, TrainedPolicy
from scrl.learners.encoders import SweepEncoder
from scrl.penalty import Atoms, Lagrangian
from scrl.policies import Constant
from scrl.rollout import Episode
from scrl.training.algorithm import (
    Best,
    Explorer,
    LoopState,
    Metrics,
    better,
    improve,
    iterate,
    kappa_rate,
    kappa_rate_share,
    round_keys,
    settle,
)
from scrl.training.config import LearningPlan, configure
from scrl.training.devices import (
    SweepTask,
    begin_all,
    begin_sweep,
    learn_round,
    measure,
    mesh_for,
    settle_round,
    side_by_side,
    sweep_driver,
)
from scrl.violation import AUTOMATIC_KAPPA_RATE

from .tasks import problem, task

ROUNDS = 4


def small(learner: str = "ppo", **settings: object) -> LearningPlan:
    """A plan that compiles quickly: two worlds of 16 steps, networks of 4."""
    few = {"worlds": 2, "rollout_steps": 16, "width": 4, "depth": 1, "settle": 4}
    few["iterations"] = ROUNDS
    if learner == "ppo":
        few |= {"minibatches": 2}
    else:
        few |= {"buffer_size": 64, "batch_size": 8, "updates": 4}
    return configure("scrl", learner=learner, settings=few | settings).plan


class TestBetter:
    """`better` with what was found on one side and the best so far on the other."""

    @pytest.mark.parametrize(
        ("old", "new", "is_better"),
        [
            # (violation, return); the tolerance is 1.
            ((np.inf, -np.inf), (7.0, -9.0), True),  # anything whole beats nothing
            ((0.0, -5.0), (0.0, -4.0), True),  # both keep the rules: the larger return
            ((0.0, -5.0), (0.0, -6.0), False),
            ((0.0, -5.0), (1.0, -4.0), True),  # within the tolerance is kept
            ((1.0, -5.0), (0.0, -6.0), False),  # and a smaller violation is then no gain
            ((3.0, -1.0), (0.5, -9.0), True),  # kept rules beat any return
            ((0.5, -9.0), (1.5, -1.0), False),
            ((3.0, -1.0), (2.0, -9.0), True),  # both violate: the smaller violation
            ((2.0, -9.0), (3.0, -1.0), False),
            ((2.0, -9.0), (2.0, -1.0), False),
        ],
    )
    def test_rules_come_first_then_the_return(
        self, old: tuple[float, float], new: tuple[float, float], is_better: bool
    ) -> None:
        assert chosen(old, new) == (new if is_better else old)

    def test_an_episode_that_was_cut_off_is_never_chosen(self) -> None:
        assert chosen((9.0, -9.0), (0.0, -1.0), is_whole=False) == (9.0, -9.0)
        assert chosen((np.inf, -np.inf), (0.0, -1.0), is_whole=False) == (np.inf, -np.inf)

    @pytest.mark.parametrize("new", [(0.0, np.nan), (np.nan, -1.0), (np.nan, np.nan)])
    def test_what_is_not_a_number_is_never_chosen(self, new: tuple[float, float]) -> None:
        for old in [(9.0, -9.0), (0.0, -9.0), (np.inf, -np.inf)]:
            assert chosen(old, new) == old

    def test_all_parts_of_the_better_one_are_taken(self) -> None:
        found = pick(best(5.0, -1.0, 3), best(2.0, -7.0, 8))
        price = found.policy.price
        parts = (price, found.kappa, found.reading_violation, found.return_, found.iteration)
        assert [float(np.ravel(part)[0]) for part in parts] == [8.0, 8.0, 2.0, -7.0, 8.0]


def best(violation: float, return_: float, iteration: int) -> Best:
    """With the iteration in place of the policy's price and of kappa."""
    number = jnp.asarray(iteration, float)
    encoder = SweepEncoder(jnp.ones(()), jnp.ones(1), regions=1, sees_prices=False)
    policy = TrainedPolicy(Constant(jnp.ones(())), encoder, number[None])
    return Best(
        policy, number[None], jnp.asarray(violation), jnp.zeros(()), jnp.asarray(return_),
        jnp.asarray(iteration),
    )  # fmt: skip


def pick(old: Best, new: Best, *, is_whole: bool = True) -> Best:
    of = replace(task(problem()), tolerance=1.0)
    return better(of, old, new, jnp.asarray(is_whole))


def chosen(
    old: tuple[float, float], new: tuple[float, float], *, is_whole: bool = True
) -> tuple[float, float]:
    found = pick(best(*old, 3), best(*new, 8), is_whole=is_whole)
    return float(found.reading_violation), float(found.return_)


@jax.jit
def run(of: SweepTask, key: jax.Array) -> tuple[LoopState, LoopState, Metrics]:
    """The state before the first round, after the last one, and what every round saw."""
    first, _ = begin_sweep(of, key=key)
    driver = sweep_driver(of)
    last, metrics = jax.lax.scan(
        lambda state, _: iterate(of, driver, state), first, None, length=ROUNDS
    )
    return first, last, metrics


FACTOR = 8.0
"""A power of two: products with it are exact, so no chance rounding moves a step over an edge."""


class Units(NamedTuple):
    """A world in other units, and what becomes of amounts and costs in them."""

    change: Callable[[SweepTask], SweepTask]
    amount: float
    cost: float


UNITS = {
    "amounts": Units(
        lambda of: eqx.tree_at(
            lambda of: (of.world.numbers.rate, of.rules.bounds, of.reading.bounds), of,
            (FACTOR * of.world.numbers.rate, FACTOR * of.rules.bounds, FACTOR * of.reading.bounds),
        ),
        FACTOR, 1.0,
    ),
    "costs": Units(
        lambda of: eqx.tree_at(
            lambda of: of.world.numbers.effort, of, FACTOR * of.world.numbers.effort
        ),
        1.0, FACTOR,
    ),
}  # fmt: skip
SITUATIONAL = ("A >= 14 or B >= 13", "A + B <= 30")


class TestUnits:
    """Units are read off the world: what is learned does not depend on how it is counted."""

    @pytest.mark.parametrize("learner", ["ppo", "ddpg", "sac"])
    def test_learning_is_the_same_in_other_units(self, learner: str) -> None:
        of, key = task(problem(SITUATIONAL), LINEAR, small(learner)), jax.random.key(0)
        _, _, plain = run(of, key)
        assert float(plain.kappa[-1].max()) > 0.0
        assert float(jnp.abs(jnp.diff(plain.return_)).max()) > 1e-4
        for units in UNITS.values():
            _, _, other = run(units.change(of), key)
            assert np.allclose(other.return_ / units.cost, plain.return_, rtol=1e-4)
            assert np.allclose(other.density / units.amount, plain.density, rtol=1e-4)
            assert np.allclose(other.violation / units.amount, plain.violation, rtol=1e-4)
            assert np.allclose(other.kappa / units.cost, plain.kappa, rtol=1e-4)

    def test_the_units_are_those_of_a_drive_with_the_first_throttle(self) -> None:
        """Its cost per step is a large price; 9 such prices per all it gave out move kappa.

        With a pace of 0.5, half of that does.
        """
        for change in (lambda of: of, *(units.change for units in UNITS.values())):
            plan = small("ppo", is_decomposed=True, kappa_pace=0.5)
            of = change(task(problem(SITUATIONAL), LINEAR, plan))
            first, driven = begin_one(of, jax.random.key(0))
            drive, found = first_drive(of, first.encoder, jax.random.key(1))
            cost, steps = float(-drive.return_[0]), float(drive.steps[0])
            assert int(driven) == steps
            rate = float(of.world.numbers.rate)
            assert float(first.encoder.price_unit) == pytest.approx(cost / steps, rel=1e-5)
            most = np.maximum(rate * steps, np.abs(of.reading.bounds))
            beta = 0.5 * AUTOMATIC_KAPPA_RATE * (cost / steps) / most
            assert np.allclose(found, beta, rtol=1e-5)
            assert np.allclose(first.encoder.channel_unit, [cost, *drive.service[0]], rtol=1e-5)


@jax.jit
def begin_one(of: SweepTask, key: jax.Array) -> tuple[LoopState, jax.Array]:
    return begin_sweep(of, key=key)


@jax.jit
def settle_one(of: SweepTask, state: LoopState) -> tuple[LoopState, Metrics]:
    return settle(of, sweep_driver(of), state)


@jax.jit
def first_drive(of: SweepTask, encoder: Encoder, key: jax.Array) -> tuple[Episode, jax.Array]:
    """A drive with the first throttle, and beta for episodes of its length."""
    drive = measure(of, Constant(jnp.asarray(of.plan.settings.first_mean)), 1, key=key)
    return drive, kappa_rate(of, encoder, drive.steps[0].astype(float))


LINEAR = Lagrangian()


def test_same_key_same_bits_and_other_key_other_policy() -> None:
    of = task(problem(SITUATIONAL), LINEAR, small("ppo"))
    one, again, other = (run(of, jax.random.key(seed)) for seed in (0, 0, 1))
    same = jax.tree.map(lambda mine, theirs: np.array_equal(bits(mine), bits(theirs)), one, again)
    assert all(jax.tree.leaves(same))
    assert not np.array_equal(one[2].return_, other[2].return_)
    assert not np.array_equal(one[1].key, other[1].key)


def bits(leaf: jax.Array) -> np.ndarray:
    is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    return np.asarray(jax.random.key_data(leaf) if is_key else leaf)


def test_rounds_after_the_first_trace_nothing_anew() -> None:
    """A penalty that counts how often Python comes by: at tracing time, and never again."""
    traced = []

    class Counted(Lagrangian):
        def price(self, atoms: Atoms, kappa: jax.Array) -> jax.Array:
            traced.append("price")
            return super().price(atoms, kappa)

    of = task(problem(SITUATIONAL), Counted(), small())
    mesh = mesh_for(1)
    tasks = side_by_side([of])
    state, _ = begin_all(mesh, tasks, jax.random.key(0)[None, None])
    state, _ = learn_round(mesh, tasks, state)
    learned = len(traced)
    assert learned > 0
    for _ in range(3):
        state, _ = learn_round(mesh, tasks, state)
    assert len(traced) == learned
    state, _ = settle_round(mesh, tasks, state)
    settled = len(traced)
    assert settled > learned
    # Other numbers in a world of the same size, and of rounds, are no reason to trace either.
    faster = eqx.tree_at(lambda of: of.world.numbers.max_speed, of, 5.0 * jnp.ones(()))
    bolder = eqx.tree_at(lambda of: of.plan.loop.inset, of, 0.7)
    longer = eqx.tree_at(lambda of: (of.plan.loop.iterations, of.plan.loop.settle), of, (9, 3))
    for each in (of, faster, bolder, longer):
        state, _ = settle_round(mesh, side_by_side([each]), state)
    assert len(traced) == settled


@pytest.mark.parametrize("windup", [1e9, 0.25])
def test_a_pid_controller_adds_what_is_missing_now_and_how_much_it_grew(windup: float) -> None:
    """`2*B >= 40`: kappa = beta / 2 (short + 2 short + 3 short) at first, as all grew from 0.

    The first term may be cut off at a share of the bound.
    """
    plan = small(
        proportional=2.0, derivative=3.0, kappa_rate=0.125, inset=0.0, first_mean=0.9, windup=windup
    )
    of = task(problem(("2*B >= 40",)), LINEAR, plan)
    first, _ = begin_one(of, jax.random.key(0))
    once, metrics = settle_one(of, first)
    short = 40.0 - 2.0 * float(metrics.density[1])
    beta = 0.125 * float(of.plan.loop.settling_share(-1.0)) / 2.0  # d = 2
    followed = min(short, 40.0 * windup)
    assert short > 10.0
    assert float(once.integral[0]) == pytest.approx(beta * followed, rel=1e-5)
    assert float(once.kappa[0]) == pytest.approx(beta * (followed + 5.0 * short), rel=1e-5)
    assert float(once.excess[0]) == pytest.approx(short, rel=1e-5)


def test_kappa_moves_less_and_less_while_its_rate_decays() -> None:
    of = task(problem(("B >= 20",)), LINEAR, small(kappa_decay=0.8, iterations=8))
    first, _ = begin_one(of, jax.random.key(0))
    for done, share in ((0, 1.0), (2, 0.8), (4, 0.6)):
        state = first._replace(iteration=jnp.asarray(done))
        assert float(kappa_rate_share(of, state, is_learning=True)) == pytest.approx(share)


class CollectedError(Exception):
    """Steps were to be collected."""


@pytest.mark.parametrize("spread", [0.0, 0.5])
def test_worlds_are_driven_under_kappas_around_the_present_one(spread: float) -> None:
    """The price of `B >= 20` is kappa; logarithms are uniform from -spread to spread."""
    of = task(problem(("B >= 20",)), LINEAR, small(kappa_spread=spread, worlds=64))
    state = begin_one(of, jax.random.key(0))[0]._replace(kappa=jnp.asarray([8.0]))

    def collect(explorer: Explorer, worlds: object, key: object) -> object:
        del worlds, key
        np.testing.assert_array_equal(explorer.prices[:, 0], 0.0)
        logs = np.log(explorer.prices[:, 1] / 8.0)
        assert abs(logs).max() <= spread + 1e-6
        assert np.ptp(logs) >= 1.8 * spread
        assert len(np.unique(logs)) == (64 if spread else 1)
        raise CollectedError

    driver = sweep_driver(of)._replace(collect=collect)
    with pytest.raises(CollectedError):
        improve(of, driver, state, None, round_keys(of, state))  # pyright: ignore[reportArgumentType]


def test_settling_moves_kappa_alone_and_keeps_the_best_that_was_seen() -> None:
    """`B >= 20` is out of reach at 0.9 of the top speed: kappa grows, the policy stays."""
    of = task(problem(("B >= 20",)), LINEAR, small(first_mean=0.9, kappa_rate=0.125))
    first, _ = begin_one(of, jax.random.key(0))
    first = first._replace(iteration=jnp.asarray(4))
    settled, metrics = settle_one(of, first)
    # 20 - B units short, half a step (0.5 units) of inset, and half of beta in the first round.
    short = 20.0 - float(metrics.density[1])
    assert short > 10.0
    assert float(settled.kappa[0]) == pytest.approx(0.5 * 0.125 * (short + 0.5), rel=1e-5)
    for mine, theirs in zip(
        jax.tree.leaves(settled.learner), jax.tree.leaves(first.learner), strict=True
    ):
        assert np.array_equal(mine, theirs)
    assert float(settled.best.violation) == pytest.approx(short, rel=1e-5)
    assert float(settled.best.return_) == float(metrics.return_)
    assert int(settled.best.iteration) == 4
    assert int(settled.iteration) == 5
