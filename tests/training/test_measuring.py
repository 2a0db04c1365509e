"""Measuring in the loop against `evaluate`, which is written for people."""

from __future__ import annotations

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scrl
from scrl.policies import Constant
from scrl.problems import ProblemOptions
from scrl.rollout import run_episodes
from scrl.training.algorithm import Measurement, judge
from scrl.training.devices import SweepTask, measure
from scrl.worlds.sweep.spec import SweepRoute
from scrl.worlds.sweep.vehicle import Wind

from .tasks import problem, task


class TestMeasure:
    """`measure` against `evaluate`, which is written for people and runs outside the loop."""

    RULES = ("A >= 9 or B <= 2", "2*A + B <= 25")

    @pytest.mark.parametrize("throttle", [0.2, 0.5, 1.0])
    def test_a_calm_world(self, throttle: float) -> None:
        of, policy = problem(self.RULES), Constant(jnp.asarray(throttle))
        agrees(seen_in(task(of), policy, 1, key=jax.random.key(0)), scrl.evaluate(of, policy))

    def test_a_calm_discounted_world(self) -> None:
        of, policy = problem(self.RULES), Constant(jnp.asarray(0.4))
        of = dataclasses.replace(of, options=ProblemOptions(name="discounted", discount=0.9))
        agrees(seen_in(task(of), policy, 1, key=jax.random.key(0)), scrl.evaluate(of, policy))

    def test_a_windy_world(self) -> None:
        """The same keys, so the same gusts; atoms of one region have its standard error."""
        of, policy = problem(("A >= 9", "B <= 2"), wind=Wind(strength=0.4)), Constant(jnp.ones(()))
        ran = scrl.evaluate(of, policy, episodes=64, seed=3)
        seen = seen_in(task(of), policy, 64, key=jax.random.key(3))
        agrees(seen, ran)
        errors = np.array([ran.density_se["A"], ran.density_se["B"]])
        assert np.all(errors > 0.01)
        # Each bound is drawn in: 9 - A + 3 se_A, B - 2 + 3 se_B, both above 0 here.
        strict = seen_in(task(of), policy, 64, deviations=3.0, key=jax.random.key(3))
        assert float(strict.violation) == pytest.approx(ran.cons_vio + 3 * errors.sum(), rel=1e-4)
        assert np.allclose((strict.excess - seen.excess) / 3.0, errors, rtol=1e-3)

    def test_the_error_of_a_sum_is_not_the_sum_of_the_errors(self) -> None:
        """Regions may vary together: the error is that of 2 A + B, episode by episode."""
        of, policy = problem(("2*A + B <= 5",), wind=Wind(strength=0.4)), Constant(jnp.ones(()))
        seen, strict = (
            seen_in(task(of), policy, 32, deviations=each, key=jax.random.key(0))
            for each in (0.0, 1.0)
        )
        keys = jax.random.split(jax.random.key(0), 32)
        service = np.asarray(run_episodes(of.world, policy, keys=keys).service, float)
        sides = service @ np.array([2.0, 1.0])
        error = float(strict.excess[0] - seen.excess[0])
        assert error == pytest.approx(sides.std(ddof=1) / np.sqrt(32), rel=1e-3)

    def test_a_drive_that_is_cut_off_is_not_whole(self) -> None:
        of = problem(route=SweepRoute(horizon_steps=5))
        seen = seen_in(task(of), Constant(jnp.ones(())), 1, key=jax.random.key(0))
        assert not bool(seen.is_whole)
        assert float(seen.steps) == 5.0


@partial(jax.jit, static_argnums=2)
def seen_in(
    of: SweepTask, policy: Constant, episodes: int, *, deviations: float = 0.0, key: jax.Array
) -> Measurement:
    return judge(of, measure(of, policy, episodes, key=key), deviations=deviations)


def agrees(seen: Measurement, ran: scrl.Evaluation) -> None:
    assert float(seen.return_) == pytest.approx(ran.return_, rel=1e-5)
    assert np.allclose(seen.density, list(ran.density.values()), rtol=1e-5)
    assert float(seen.violation) == pytest.approx(ran.cons_vio, rel=1e-4, abs=1e-5)
    assert float(seen.steps) == pytest.approx(ran.steps)
    assert bool(seen.is_whole) == (ran.episodes_truncated == 0)
