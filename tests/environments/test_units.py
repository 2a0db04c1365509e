"""Units that follow the policy, rollouts between measurements, settings by episode length."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import scrl
from scrl.environments.encoder import FOLLOWING, LEAST_SHARE, EnvironmentEncoder, RunningMoments
from scrl.environments.training import configure_environment
from scrl.learners.actions import Continuous
from scrl.rollout import Rollout
from scrl.runs.folder import RunFolder
from scrl.training.progress import TrainingProgress

from .small import HORIZON, LOOP, REGIONS, RULES, Walk, make_walk

ENCODER = EnvironmentEncoder(
    price_unit=jnp.asarray(2.0),
    channel_unit=jnp.asarray([20.0, 5.0, -10.0]),
    label_unit=jnp.asarray([1.0, -4.0]),
    moments=RunningMoments(jnp.asarray(1.0), jnp.zeros(2), jnp.ones(2)),
    actions=Continuous((1,)),
    own_features=2,
    regions=2,
    sees_prices=True,
    atoms=1,
)


def rollout(reward: Any, labels: Any) -> Rollout:
    """Two steps in three worlds, all alike."""
    shape = (2, 3)
    seen, no = jnp.zeros((*shape, 2)), jnp.zeros(shape, bool)
    given = jnp.broadcast_to(jnp.asarray(labels, float), (*shape, 2))
    paid = jnp.full(shape, reward, float)
    return Rollout._make((seen, jnp.zeros((*shape, 1)), paid, paid, given, no, no, seen))


def test_units_go_towards_those_of_the_last_rollout() -> None:
    found = ENCODER.updated(rollout(-12.0, [3.0, -4.0]))
    assert found.price_unit == pytest.approx(2.0 + FOLLOWING * 10.0)
    assert found.label_unit == pytest.approx(np.array([1.0 + FOLLOWING * 2.0, -4.0]))
    steps = 10.0  # the sums of the critic are over 20 / 2 steps
    assert found.channel_unit[0] == pytest.approx(steps * found.price_unit)
    assert found.channel_unit[1] == pytest.approx(5.0 + FOLLOWING * (steps * 3.0 - 5.0))
    assert found.channel_unit[2] == pytest.approx(-10.0 + FOLLOWING * (-steps * 4.0 + 10.0))
    assert found.moments.count == 7


def test_units_come_to_those_of_a_policy_and_never_vanish() -> None:
    found = ENCODER
    for _ in range(400):
        found = found.updated(rollout(0.5, [0.0, 0.0]))
    assert found.price_unit == pytest.approx(0.5, rel=1e-4)
    assert found.label_unit == pytest.approx(np.array([1.0, -4.0])), "no step tells another size"
    least = 10.0 * LEAST_SHARE * np.array([1.0, -4.0])
    assert found.channel_unit[1:] == pytest.approx(least, rel=1e-4)


def walk(**options: Any) -> dict[str, Any]:
    known = {"labels": "amounts", "regions": REGIONS, "rules": RULES, "horizon_steps": HORIZON}
    return {**known, **options}


class Endless(Walk):
    """Episodes of one length."""

    def step(self, action: Any) -> Any:
        seen, reward, _, truncated, info = super().step(action)
        return seen, reward, False, truncated, info


def test_several_rollouts_lie_between_two_measurements(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many rounds are measured, each collects three times as much; resuming changes no bit."""
    monkeypatch.setattr("scrl.training.loop.CHECKPOINT_EVERY_S", 0.0)
    settings = {**LOOP, "settle": 0, "rollouts": 1}
    once, more, stopped = (tmp_path / name for name in ("once", "more", "stopped"))
    options = walk(rules="west <= 0")
    one = scrl.train(Endless, **options, settings=settings, out=once, watch=None)
    settings["rollouts"] = 3
    three = scrl.train(Endless, **options, settings=settings, out=more, watch=None)

    def stop(now: TrainingProgress) -> None:
        if now.rounds == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        scrl.train(Endless, **options, settings=settings, out=stopped, watch=stop)
    scrl.resume(stopped, Endless, labels="amounts", watch=None)
    assert (stopped / "policy.eqx").read_bytes() == (more / "policy.eqx").read_bytes()
    assert [len(RunFolder.open(run).metrics()) for run in (once, more)] == [LOOP["iterations"]] * 2
    measured = LOOP["iterations"] * LOOP["episodes"] * HORIZON
    collected = LOOP["iterations"] * LOOP["worlds"] * HORIZON
    first = LOOP["worlds"] * HORIZON
    assert one.env_steps == first + measured + collected
    assert three.env_steps == first + measured + 3 * collected


@pytest.mark.parametrize(
    ("horizon", "worlds", "rollout_steps", "episodes", "rollouts"),
    [(200, 16, 400, 16, 1), (1000, 4, 1000, 4, 3), (8, 16, 256, 16, 1), (5000, 4, 5000, 4, 3)],
)
def test_settings_follow_from_the_length_of_episodes(
    horizon: int, worlds: int, rollout_steps: int, episodes: int, rollouts: int
) -> None:
    problem = scrl.environment(make_walk, **walk(horizon_steps=horizon))
    config = configure_environment(problem)
    loop: Any = config.loop
    learner: Any = config.learner_settings
    assert (loop.worlds, loop.rollout_steps) == (worlds, rollout_steps)
    assert (loop.episodes, loop.rollouts) == (episodes, rollouts)
    assert loop.iterations * rollouts == 150
    assert learner.minibatches == worlds * rollout_steps // 128
    assert configure_environment(problem, settings={"rollouts": 2}).loop.rollouts == 2
