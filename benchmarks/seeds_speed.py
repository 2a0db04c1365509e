"""Training steps per second against the number of seeds, on whatever device there is.

`python -m benchmarks.seeds_speed [--problem agri-joint] [--method scrl] [--out TABLE.json]`
compiles the rounds of 1 to 1,000 seeds and times a few of each; every step is driven, measured,
priced and learned from, with the settings that `scrl train` has by default.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import jax

from scrl.problems import Problem, load
from scrl.training.config import configure
from scrl.training.devices import DeviceRounds, task_of

SEEDS = (1, 3, 10, 30, 100, 300, 1_000)
FEWEST_ROUNDS, LEAST_SECONDS = 3, 4.0


def measure(problem: Problem, method: str, seeds: int) -> dict[str, Any]:
    """Steps per second over some rounds, after one that compiles."""
    config = configure(method)
    rounds = DeviceRounds([task_of(problem, config)], range(seeds))
    started = time.perf_counter()
    state, _ = rounds.learn(rounds.begin()[0])
    jax.block_until_ready(state)
    compiling = time.perf_counter() - started
    done, started = 0, time.perf_counter()
    while done < FEWEST_ROUNDS or time.perf_counter() - started < LEAST_SECONDS:
        state, _ = rounds.learn(state)
        jax.block_until_ready(state)
        done += 1
    seconds = time.perf_counter() - started
    steps = done * seeds * config.loop.worlds * config.loop.rollout_steps
    memory = jax.local_devices()[0].memory_stats() or {}
    return {
        "seeds": seeds,
        "steps_per_s": steps / seconds,
        "round_s": seconds / done,
        "first_s": compiling,
        "memory_bytes": memory.get("peak_bytes_in_use"),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--problem", default="agri-joint")
    parser.add_argument("--method", default="scrl")
    parser.add_argument("--most", type=int, default=SEEDS[-1])
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    problem, rows = load(chosen.problem), []
    print(
        "| seeds | training steps per second | seconds per round | first round, s | peak memory |"
    )
    print("|---" * 5 + "|")
    for seeds in (each for each in SEEDS if each <= chosen.most):
        row = measure(problem, chosen.method, seeds)
        rows.append(row)
        memory = row["memory_bytes"]
        shown = "" if memory is None else f"{memory / 2**20:,.0f} MiB"
        print(
            f"| {seeds:,} | {row['steps_per_s']:,.0f} | {row['round_s']:.3f} | "
            f"{row['first_s']:.1f} | {shown} |",
            flush=True,
        )
    if chosen.out:
        chosen.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
