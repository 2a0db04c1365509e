"""Steps of training per second: `scrl` and Stable-Baselines3 on the same world, nets and updates.

`python -m benchmarks.against_sb3` prints Markdown. All workers are started first, compile, and are
then timed in turn, so that each ratio comes from neighbours in time; medians of some rounds.

Ours: rules, kappa and measuring included, seeds side by side, each core a device. SB3: no rules,
and for ten seeds one process per core. Both: agri-situational, 64 x 64 tanh, and
- DDPG: one update of 256 transitions for every step (SB3's default);
- PPO: 16 worlds, 1,024 steps each, then 2 passes of 8 parts (ours).
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from statistics import median
from typing import Any, NamedTuple

from benchmarks.machine import matmul_gflops

PROBLEM = "agri-situational"
CORES = 2
BATCH, WIDTH = 256, 64
WORLDS, STRETCH, PASSES, PARTS = 16, 1024, 2, 8
SB3_STEPS = {"ddpg": 1_000, "ppo": WORLDS * STRETCH}
"""Steps behind one timing; ours takes about as long."""
OUR_DDPG_STRETCH = 64
"""Steps in each of 16 worlds before as many updates as there were steps."""


def our_worker(learner: str, seeds: int, told: Connection) -> None:
    """Compile, then answer every message with steps per second over all seeds."""
    os.environ["JAX_NUM_CPU_DEVICES"] = str(CORES)
    import jax

    import scrl
    from scrl.training.config import configure
    from scrl.training.devices import DeviceRounds, task_of

    settings: dict[str, Any] = {"sees_prices": False, "worlds": WORLDS}
    if learner == "ddpg":
        steps = OUR_DDPG_STRETCH
        settings |= {
            "rollout_steps": steps,
            "updates": WORLDS * steps,
            "batch_size": BATCH,
            "buffer_size": 100_000,
        }
    else:
        steps = STRETCH
        settings |= {"rollout_steps": steps, "epochs": PASSES, "minibatches": PARTS}
    config = configure(learner=learner, settings=settings)
    rounds = DeviceRounds([task_of(scrl.load(PROBLEM), config)], range(seeds))
    began = time.perf_counter()
    state, _ = rounds.learn(rounds.begin()[0])
    jax.block_until_ready(state)
    told.send(time.perf_counter() - began)
    calls = 1 if learner == "ddpg" else 2
    while told.recv():
        began = time.perf_counter()
        for _ in range(calls):
            state, _ = rounds.learn(state)
        jax.block_until_ready(state)
        told.send(calls * seeds * WORLDS * steps / (time.perf_counter() - began))


def sb3_worker(learner: str, threads: int, told: Connection) -> None:
    """One seed in one process."""
    import torch
    from stable_baselines3 import DDPG, PPO
    from stable_baselines3.common.noise import NormalActionNoise
    from stable_baselines3.common.vec_env import DummyVecEnv

    import scrl

    torch.set_num_threads(threads)
    problem = scrl.load(PROBLEM)
    nets = {"net_arch": [WIDTH, WIDTH], "activation_fn": torch.nn.Tanh}
    common: dict[str, Any] = {"policy_kwargs": nets, "gamma": 1.0, "seed": 0, "device": "cpu"}
    if learner == "ddpg":
        env = DummyVecEnv([lambda: scrl.gym.make(problem)])
        noise = NormalActionNoise([0.0], [0.2])  # pyright: ignore[reportArgumentType]
        model = DDPG(
            "MlpPolicy", env, batch_size=BATCH, train_freq=1, gradient_steps=1,
            learning_starts=BATCH, buffer_size=100_000, action_noise=noise, **common,
        )  # fmt: skip
    else:
        env = DummyVecEnv([lambda: scrl.gym.make(problem) for _ in range(WORLDS)])
        size = WORLDS * STRETCH // PARTS
        model = PPO("MlpPolicy", env, n_steps=STRETCH, batch_size=size, n_epochs=PASSES, **common)
    began = time.perf_counter()
    model.learn(2 * BATCH if learner == "ddpg" else WORLDS * STRETCH)
    told.send(time.perf_counter() - began)
    while told.recv():
        began, before = time.perf_counter(), model.num_timesteps
        model.learn(SB3_STEPS[learner], reset_num_timesteps=False)
        told.send((model.num_timesteps - before) / (time.perf_counter() - began))


class Team:
    """Workers that are timed together; their steps add up."""

    def __init__(self, work: Callable[..., None], size: int, *given: Any) -> None:
        context = multiprocessing.get_context("spawn")
        pipes = [context.Pipe() for _ in range(size)]
        self.ends = [ours for ours, _ in pipes]
        for _, theirs in pipes:
            context.Process(target=work, args=(*given, theirs), daemon=True).start()
        self.first_s = max(end.recv() for end in self.ends)
        """Seconds of the first round: for ours mostly compiling."""

    def steps_per_second(self) -> float:
        for end in self.ends:
            end.send(True)
        return sum(end.recv() for end in self.ends)

    def close(self) -> None:
        for end in self.ends:
            end.send(False)


class Sizes(NamedTuple):
    """Floating-point operations of one row through actor and critic, a product counted as two."""

    actor: float
    critic: float

    @classmethod
    def of(cls, inputs: int, critic_inputs: int) -> Sizes:
        hidden = WIDTH * WIDTH + WIDTH
        return cls(2.0 * (inputs * WIDTH + hidden), 2.0 * (critic_inputs * WIDTH + hidden))


def operations_per_step(learner: str) -> float:
    """In matrix products alone. Backwards costs twice forwards, and once if only inputs count.

    DDPG, for each of 256 rows: targets A + C, critic 3 C, actor 3 A and through the critic 2 C.
    PPO: acting A, two values 2 C, and in each pass 3 A + 3 C.
    """
    import scrl
    from scrl.worlds.sweep.observation import observation_size

    inputs = observation_size(len(scrl.load(PROBLEM).world_spec.regions.names))
    if learner == "ddpg":
        size = Sizes.of(inputs, inputs + 1)
        return BATCH * (4 * size.actor + 6 * size.critic)
    size = Sizes.of(inputs, inputs)
    return size.actor + 2 * size.critic + PASSES * 3 * (size.actor + size.critic)


ASKED = {("ddpg", 1): 5, ("ddpg", 10): 4, ("ppo", 1): 3, ("ppo", 10): 2}


def measure(learner: str, rounds: int, threads: list[int], product_gflops: float) -> list[str]:
    """Two rows of the table: one seed, and ten."""
    one, ten = (Team(our_worker, 1, learner, seeds) for seeds in (1, 10))
    alone = [Team(sb3_worker, 1, learner, each) for each in threads]
    per_core = Team(sb3_worker, CORES, learner, 1)
    timed: dict[int, list[tuple[float, float]]] = {1: [], 10: []}
    for _ in range(rounds):
        theirs = max(team.steps_per_second() for team in alone)
        timed[1].append((one.steps_per_second(), theirs))
        timed[10].append((ten.steps_per_second(), per_core.steps_per_second()))
        print(learner, {seeds: pairs[-1] for seeds, pairs in timed.items()}, file=sys.stderr)
    for team in (one, ten, *alone, per_core):
        team.close()
    floor = product_gflops * 1e9 / operations_per_step(learner)
    rows = []
    for seeds, team in ((1, one), (10, ten)):
        ours, theirs = (median(column) for column in zip(*timed[seeds], strict=True))
        ratio = median(mine / other for mine, other in timed[seeds])
        cells = [
            f"{learner.upper()}, {seeds} seed{'s' if seeds > 1 else ''}",
            f"{ours:,.0f}", f"{theirs:,.0f}", f"{ratio:.1f}", f"{ASKED[learner, seeds]}",
            f"{floor:,.0f}", f"{ours / floor:.0%}", f"{team.first_s:.0f}",
        ]  # fmt: skip
        rows.append(f"| {' | '.join(cells)} |")
    return rows


HEAD = "| steps per second | scrl | SB3 | ratio | asked | at most | reached | compiling, s |"


def main() -> None:
    """Measure and print."""
    asked = argparse.ArgumentParser()
    asked.add_argument("learners", nargs="*", default=["ddpg", "ppo"])
    asked.add_argument("--rounds", type=int, default=5)
    # Two threads of torch on cores that others use wait for each other most of the time.
    asked.add_argument("--threads", nargs="+", type=int, default=[1, CORES])
    given = asked.parse_args()
    began, product = time.perf_counter(), matmul_gflops()
    rows = [
        row
        for each in given.learners
        for row in measure(each, given.rounds, given.threads, product)
    ]
    sizes = ", ".join(
        f"{each.upper()} {operations_per_step(each) / 1e6:.2f}" for each in given.learners
    )
    print("\n".join([HEAD, "|---|---|---|---|---|---|---|---|", *rows]))
    print(
        f"\nMedians of {given.rounds} rounds, timed in turn. SB3 runs with the best of "
        f"{given.threads} threads, and for ten seeds in {CORES} processes. *At most*: if a step "
        f"took only its matrix products (million operations: {sizes}) at the {product:,.0f} "
        f"GFLOP/s of a plain product of 1,024 x 1,024. "
        f"Measured in {time.perf_counter() - began:.0f} s."
    )


if __name__ == "__main__":
    main()
