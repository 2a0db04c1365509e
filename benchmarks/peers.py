"""Seconds until the first policy that keeps the rule of agri-situational, ours and others'.

`python -m benchmarks.peers [--python sbx=PATH]` prints Markdown. Every contestant runs as a process
of its own, from its start (imports and compiling included) until it has a policy that keeps the
rule within 10 % of the reference, or until the limit. Policies are measured in whole episodes
without noise. PATH is a Python that has `scrl` and the contestant's package.

Why 10 %: an untrained policy that happens to crawl keeps this rule at once, at several times the
cost. Both times are told.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from benchmarks.machine import described, matmul_gflops

PROBLEM = "agri-situational"
GOOD_GAP = 0.10
TOLERANCE = 1e-6
WORLDS, STRETCH, PASSES, PARTS = 16, 1024, 2, 8


def tell(return_: float, violation: float, is_whole: bool, steps: int) -> None:
    """One measured policy, to whoever watches."""
    measured = {"return": return_, "violation": violation, "whole": is_whole, "steps": steps}
    print(json.dumps(measured), flush=True)


def by_scrl() -> None:
    """`scrl train` with its defaults."""
    import scrl
    from scrl.underway import Progress

    problem = scrl.load(PROBLEM)
    horizon = problem.world_spec.route.horizon_steps

    def watch(progress: Progress) -> None:
        seen = progress.metrics
        is_whole = float(seen.steps[0]) < horizon
        tell(float(seen.return_[0]), float(seen.violation[0]), is_whole, progress.env_steps)

    with tempfile.TemporaryDirectory() as folder:
        scrl.train(problem, out=f"{folder}/run", watch=watch)


def by_asking() -> None:
    """`scrl ask`: the shipped policy, nothing trained."""
    import scrl

    problem = scrl.load(PROBLEM)
    found = scrl.planner().ask(problem, problem.rules.rules[0].text).evaluation
    tell(found.return_, found.cons_vio, found.episodes_truncated == 0, 0)


def by_sb3(learner: Any, **options: Any) -> None:
    """An algorithm with the interface of SB3, and our wrapper and callback."""
    import gymnasium
    import numpy as np
    from stable_baselines3.common.callbacks import BaseCallback

    import scrl

    problem = scrl.load(PROBLEM)
    low, high = np.float32(-1.0), np.float32(1.0)

    def make() -> Any:
        return gymnasium.wrappers.RescaleAction(scrl.gym.make(problem), low, high)

    class Telling(BaseCallback):
        told = 0

        def _on_step(self) -> bool:
            for each in keep.history[self.told :]:
                tell(each.return_, each.violation, each.is_whole, each.timesteps)
            self.told = len(keep.history)
            return True

    env = scrl.sb3.Ruled(make, problem.rules, worlds=WORLDS)
    keep = scrl.sb3.KeepRules(env, every=WORLDS * STRETCH // 2)
    model = learner("MlpPolicy", env, gamma=1.0, seed=0, device="cpu", **options)
    model.learn(10_000_000, callback=[keep, Telling()])


def ppo_options() -> dict[str, Any]:
    """Our own settings, and half of our stretch: SB3's rounds are slower."""
    stretch = STRETCH // 2
    size = WORLDS * stretch // PARTS
    return {
        "n_steps": stretch, "batch_size": size, "n_epochs": PASSES, "gae_lambda": 0.97,
        "learning_rate": 2e-3,
    }  # fmt: skip


def by_sb3_ppo() -> None:
    import torch
    from stable_baselines3 import PPO

    torch.set_num_threads(1)
    nets = {"net_arch": [64, 64], "activation_fn": torch.nn.Tanh}
    by_sb3(PPO, policy_kwargs=nets, **ppo_options())


def by_sbx_ppo() -> None:
    from sbx import PPO  # pyright: ignore[reportMissingImports]

    by_sb3(PPO, policy_kwargs={"net_arch": [64, 64]}, **ppo_options())


CONTESTANTS: dict[str, tuple[str, Callable[[], None]]] = {
    "ask": ("`scrl ask` (no training)", by_asking),
    "scrl": ("`scrl train`", by_scrl),
    "again": ("`scrl train`, compiled code on disk", by_scrl),
    "sb3": ("SB3 PPO + `scrl.sb3`", by_sb3_ppo),
    "sbx": ("SBX PPO + `scrl.sb3`", by_sbx_ppo),
}


class Race(NamedTuple):
    """When a contestant had what; none: not within the limit."""

    kept_s: float | None
    good_s: float | None
    steps: int
    best: float | None
    note: str


def race(name: str, python: str, limit_s: float, good: float, cache: str) -> Race:
    """Run a contestant until it is good, or the limit."""
    began = time.perf_counter()
    child = subprocess.Popen(
        [python, "-m", "benchmarks.peers", "--run", name],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "JAX_COMPILATION_CACHE_DIR": cache, "OMP_NUM_THREADS": "1",
             "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.1"},
    )  # fmt: skip
    kept_s = good_s = best = None
    steps = 0
    for line in child.stdout or ():
        seconds = time.perf_counter() - began
        seen = json.loads(line)
        steps = seen["steps"]
        if seen["whole"] and seen["violation"] <= TOLERANCE:
            kept_s = kept_s or seconds
            best = max(best or seen["return"], seen["return"])
            if seen["return"] >= good:
                good_s = seconds
                break
        if seconds > limit_s:
            break
    child.kill()
    said = child.stderr.read() if child.stderr else ""
    last = (said.strip().splitlines() or [""])[-1]
    return Race(kept_s, good_s, steps, best, last if kept_s is None else "")


def main() -> None:
    """Race and print."""
    asked = argparse.ArgumentParser()
    asked.add_argument("--run", choices=CONTESTANTS)
    asked.add_argument("--limit", type=float, default=180.0, help="seconds for each")
    asked.add_argument("--python", action="append", default=[], metavar="NAME=PATH")
    asked.add_argument("--only", nargs="*", default=list(CONTESTANTS))
    given = asked.parse_args()
    if given.run:
        CONTESTANTS[given.run][1]()
        return
    import scrl

    reference = scrl.solve(scrl.load(PROBLEM)).return_ or 0.0
    good = reference - GOOD_GAP * abs(reference)
    pythons = dict(each.split("=", 1) for each in given.python)
    print(f"| {PROBLEM} | first kept, s | within 10 %, s | steps | best return |")
    print("|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as cold, tempfile.TemporaryDirectory() as warm:
        for name in given.only:
            cache = warm if name in ("scrl", "again") else cold
            python = pythons.get(name, sys.executable)
            found = race(name, python, given.limit, good, cache)
            times = [f"{each:.1f}" if each else "-" for each in (found.kept_s, found.good_s)]
            best = f"{found.best:.2f}" if found.best is not None else found.note or "-"
            row = [CONTESTANTS[name][0], *times, f"{found.steps:,}", best]
            print(f"| {' | '.join(row)} |", flush=True)
    print(
        f"\nThe reference is {reference:.2f}, 10 % from it {good:.2f}; limit {given.limit:.0f} s. "
        f"{described()} `python -m benchmarks.peers`, plain matrix product "
        f"{matmul_gflops():,.0f} GFLOP/s."
    )


if __name__ == "__main__":
    main()
