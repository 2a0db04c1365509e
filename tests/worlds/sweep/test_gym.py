"""The Gymnasium face of the world."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import scrl
from scrl.policies import Constant
from scrl.problems import builtin_names
from scrl.rollout import run_episodes
from scrl.worlds.sweep.gym import SweepEnv
from scrl.worlds.sweep.spec import SweepRoute, SweepSpec
from scrl.worlds.sweep.vehicle import Vehicle, Wind
from scrl.worlds.sweep.world import SweepWorld


@pytest.mark.parametrize("name", builtin_names())
def test_every_builtin_problem_is_registered_and_passes_the_checker(name: str) -> None:
    env = gymnasium.make(f"scrl/{name}-v0")
    check_env(env.unwrapped, skip_render_check=True)


@pytest.mark.parametrize("imports", ["import scrl, gymnasium", "import gymnasium, scrl"])
def test_the_order_of_imports_does_not_matter(imports: str) -> None:
    script = (
        f"{imports}; print(gymnasium.make('scrl/med-joint-v0').spec.id, gymnasium.__spec__.loader)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.startswith("scrl/med-joint-v0"), done.stderr
    assert "ThenRegister" not in done.stdout


def test_an_env_with_wind_and_start_noise_passes_the_checker(strip: SweepSpec) -> None:
    random = dataclasses.replace(strip, wind=Wind(strength=0.3), vehicle=Vehicle(start_noise=2.0))
    check_env(SweepEnv(random), skip_render_check=True)


def test_a_rate_that_varies_gives_the_same_on_average(strip: SweepSpec) -> None:
    """Deviations of 50 %, which persist; the time does not vary, and the compiled world agrees."""
    vehicle = Vehicle(rate_noise=0.5, rate_persistence=0.5)
    uneven = dataclasses.replace(strip, vehicle=vehicle, totals=("time",))
    check_env(SweepEnv(uneven), skip_render_check=True)
    labels = []
    env = SweepEnv(uneven)
    for episode in range(400):
        env.reset(seed=episode)
        found, is_over = np.zeros(len(uneven.amounts)), False
        while not is_over:
            _, _, is_over, _, info = env.step(np.array([1.0]))
            found += info["labels"]
        labels.append(found)
    keys = jax.random.split(jax.random.key(0), 400)
    policy = Constant(jnp.ones(()))
    ran = run_episodes(SweepWorld.from_spec(uneven), policy, keys=keys)
    steady = dataclasses.replace(uneven, vehicle=Vehicle())
    calm = run_episodes(SweepWorld.from_spec(steady), policy, keys=keys[:1])
    for seen in (np.array(labels), np.asarray(ran.service)):
        assert seen.mean(axis=0) == pytest.approx(np.asarray(calm.service[0]), rel=0.1)
        assert np.ptp(seen[:, -1]) == 0.0
        assert (seen[:, :-1].std(axis=0) > 0.1).all()


def test_full_throttle_takes_835_steps() -> None:
    env = scrl.gym.make("agri-joint")
    env.reset(seed=0)
    total, steps, terminated = 0.0, 0, False
    while not terminated:
        _, reward, terminated, truncated, _ = env.step(np.array([1.0]))
        total, steps = total + reward, steps + 1
        assert not truncated
    assert steps == 835
    assert total == pytest.approx(-20.916, abs=1e-3)


def test_the_horizon_truncates(strip: SweepSpec) -> None:
    env = SweepEnv(dataclasses.replace(strip, route=SweepRoute(horizon_steps=2)))
    env.reset(seed=0)
    assert env.step(np.array([0.0]))[2:4] == (False, False)
    assert env.step(np.array([0.0]))[2:4] == (False, True)


def test_same_seed_same_episode(strip: SweepSpec) -> None:
    env = SweepEnv(dataclasses.replace(strip, wind=Wind(strength=0.3)))

    def run() -> list[float]:
        env.reset(seed=5)
        return [env.step(np.array([0.3]))[1] for _ in range(5)]

    assert run() == run()


def test_rendering_shows_the_vehicle_on_the_map(strip: SweepSpec) -> None:
    env = SweepEnv(strip, render_mode="rgb_array")
    env.reset(seed=0)
    frame = env.render()
    assert frame is not None
    assert frame.shape == (8, 96, 3)
    assert tuple(frame[0, 0]) == (20, 20, 20)
    assert tuple(frame[0, 95]) != (20, 20, 20)
