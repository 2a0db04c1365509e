"""Steps per second: the Gymnasium environment, and the JAX world in a batch of 4,096.

`python -m benchmarks.world_speed` prints a Markdown table; the ratio comes from one run, the two
measured in turn, medians of five.
"""

from __future__ import annotations

import time
from statistics import median

import jax
import jax.numpy as jnp
import numpy as np

import scrl
from benchmarks.machine import matmul_gflops
from scrl.worlds.sweep.world import SweepState, SweepWorld

BATCH = 4096
JAX_STEPS = 800
GYM_STEPS = 100_000
REPEATS = 5


def gym_steps_per_second() -> float:
    """Step one environment, resetting when it ends, as a user's loop would."""
    env = scrl.gym.make("agri-joint")
    action = np.array([0.9], np.float32)
    env.reset(seed=0)
    started = time.perf_counter()
    for _ in range(GYM_STEPS):
        _, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            env.reset()
    return GYM_STEPS / (time.perf_counter() - started)


@jax.jit
def sweep_batch(
    world: SweepWorld, states: SweepState, actions: jax.Array
) -> tuple[SweepState, jax.Array, jax.Array]:
    """Step a batch: transition, reward, labels, observation, and a reset at the end of the path."""
    start = world.initial(key=jax.random.key(0))

    def one(
        state: SweepState, action: jax.Array
    ) -> tuple[SweepState, jax.Array, jax.Array, jax.Array]:
        after = world.transition(state, action)
        is_over = world.is_terminal(after) | world.is_truncated(after)
        kept = jax.tree.map(lambda fresh, old: jnp.where(is_over, fresh, old), start, after)
        return kept, world.reward(after), world.labels(state, after), world.observe(after)

    def body(carry, _):
        states, returns, seen = carry
        states, rewards, labels, observed = jax.vmap(one)(states, actions)
        return (states, returns + rewards, seen + observed.sum(axis=-1) + labels.sum(axis=-1)), None

    nothing = jnp.zeros(BATCH)
    (states, returns, seen), _ = jax.lax.scan(body, (states, nothing, nothing), length=JAX_STEPS)
    return states, returns, seen


def jax_steps_per_second(world: SweepWorld) -> float:
    """Step 4,096 worlds at once for 800 steps."""
    keys = jax.random.split(jax.random.key(0), BATCH)
    states = jax.vmap(lambda key: world.initial(key=key))(keys)
    actions = jnp.linspace(0.3, 1.0, BATCH)
    jax.block_until_ready(sweep_batch(world, states, actions))
    started = time.perf_counter()
    jax.block_until_ready(sweep_batch(world, states, actions))
    return BATCH * JAX_STEPS / (time.perf_counter() - started)


def main() -> None:
    """Measure in turn, print the table."""
    world = scrl.load("agri-joint").world
    gym, batched = [], []
    for _ in range(REPEATS):
        gym.append(gym_steps_per_second())
        batched.append(jax_steps_per_second(world))
    ratios = [fast / slow for fast, slow in zip(batched, gym, strict=True)]
    print("| world | steps per second |")
    print("|---|---|")
    print(f"| Gymnasium, one environment | {median(gym):,.0f} |")
    print(f"| JAX, batch of {BATCH:,} | {median(batched):,.0f} |")
    print(f"| ratio (median of {REPEATS}) | {median(ratios):,.0f} |")
    print(f"\nA plain matrix product on this machine: {matmul_gflops():,.0f} GFLOP/s.")


if __name__ == "__main__":
    main()
