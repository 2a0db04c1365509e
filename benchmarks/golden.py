"""Small runs whose numbers a refactoring must not change: on two maps, in an external environment,
of the planner and of Stable-Baselines3.

`python -m benchmarks.golden FILE` writes them; with a FILE that is there already it compares, names
every array that differs, and exits with 1 if there is one. Both must be run on the same machine.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import jax
import numpy as np

import scrl
from scrl.sb3 import KeepRules, Ruled

Arrays = dict[str, np.ndarray]
LABELS = {"left": lambda observation: observation[0] < 0}


def main(file: Path) -> int:
    """Write the file, or compare with it: the exit code."""
    with tempfile.TemporaryDirectory() as folder:
        found = dict(all_runs(Path(folder)))
    if not file.exists():
        np.savez(file, allow_pickle=False, **found)
        print(f"{file}: {len(found)} arrays")
        return 0
    kept = np.load(file)
    differing = [
        name
        for name in sorted({*kept.files, *found})
        if name not in found
        or name not in kept.files
        or kept[name].tobytes() != found[name].tobytes()
    ]
    print(f"{len(found)} arrays, {len(differing)} differ: {', '.join(differing) or 'none'}")
    return 1 if differing else 0


def all_runs(folder: Path) -> Iterator[tuple[str, np.ndarray]]:
    """Every array of every run, named by its run."""
    runs: dict[str, Arrays] = {
        "map-ppo": trained(folder / "ppo", "agri-situational", seeds=2),
        "map-ddpg": trained(folder / "ddpg", "med-joint", learner="ddpg"),
        "environment": trained(
            folder / "environment", "CartPole-v1", labels=LABELS, rules="left <= 100",
            settings={"iterations": 4, "settle": 2},
        ),
        "ask": asked(),
        "sb3": with_sb3(),
    }  # fmt: skip
    for run, arrays in runs.items():
        for name, array in arrays.items():
            yield f"{run}/{name}", array


def trained(out: Path, problem: str, **options: Any) -> Arrays:
    """The metrics of a short training, and the policy it ends with."""
    if problem == "CartPole-v1":
        result = scrl.train(lambda: gymnasium.make(problem), out=out, watch=None, **options)
    else:
        settings = {"iterations": 6, "settle": 4, "worlds": 4}
        result = scrl.train(problem, settings=settings, out=out, watch=None, **options)
    lines = (out / "metrics.jsonl").read_text().splitlines()[1:]
    policy = scrl.load_policy(out)
    leaves = jax.tree.leaves(getattr(policy, "policy", policy))
    return {
        "metrics": np.array(lines),
        "result": np.array(result.best.evaluation.return_),
        **{f"policy/{index}": np.asarray(leaf) for index, leaf in enumerate(leaves)},
    }


def asked() -> Arrays:
    """A plan for rules that bind: its prices and what it does."""
    answer = scrl.planner().ask("agri", ["if S1 > 300 then S2 >= 500", "S3 >= 400 or S4 <= 100"])
    found = answer.evaluation
    return {
        "return": np.array(found.return_),
        "density": np.array(list(found.density.values())),
        "plans": np.array(json.dumps([plan.to_json() for plan in answer.plans])),
    }


def with_sb3() -> Arrays:
    """A short training of PPO in a ruled environment."""
    import torch
    from stable_baselines3 import PPO

    torch.set_num_threads(1)
    env = Ruled(gymnasium.make("CartPole-v1"), "left <= 100", labels=LABELS)
    callback = KeepRules(env, every=512, episodes=4, settle=3)
    PPO("MlpPolicy", env, seed=0, n_steps=256, device="cpu").learn(1024, callback=callback)
    return {
        "return": np.array([each.return_ for each in callback.history]),
        "kappa": np.array([each.kappa for each in callback.history]),
        "violation": np.array([each.violation for each in callback.history]),
    }


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1])))
