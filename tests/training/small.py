"""Training at a tiny budget, and what its runs are compared by."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

import scrl
from scrl.problems import Problem
from scrl.training.progress import TrainingProgress
from scrl.training.result import TrainingResult

LOOP = {"worlds": 2, "rollout_steps": 32, "iterations": 4, "settle": 6, "width": 8, "depth": 1}
ROUNDS = LOOP["iterations"] + LOOP["settle"]
REPLAY = {"buffer_size": 100, "batch_size": 8, "updates": 4}  # the ring is full in the second round
SHORT = {"settle": 0, "depth": 0}
LEARNERS: dict[str, dict[str, Any]] = {
    "ppo": {"learner": "ppo", "penalty": "scrl", "settings": {"epochs": 1, "minibatches": 2}},
    "ddpg": {"learner": "ddpg", "penalty": "lagrangian", "settings": REPLAY},
    "sac": {"learner": "sac", "penalty": "scrl-min", "settings": REPLAY | SHORT},
    "cal": {"learner": "cal", "penalty": "none", "settings": REPLAY | SHORT},
    "cpo": {
        "learner": "cpo", "penalty": "none", "settings": {"epochs": 1, "minibatches": 2} | SHORT,
    },
    "unpunished": {"learner": "ddpg", "penalty": "none", "settings": REPLAY | SHORT},
}  # fmt: skip
"""Every learner and every penalty once."""


class Stopped(Exception):  # noqa: N818 (nothing is wrong)
    """What ends a run in the middle here."""


def train(problem: Problem, name: str, out: Path | None, **options: Any) -> TrainingResult:
    """A run of two seeds; `name` is a row of the table above."""
    known = LEARNERS[name]
    settings = LOOP | known["settings"]
    return scrl.train(
        problem, **{"seeds": 2, **known, "settings": settings, "out": out, **options}
    )  # fmt: skip


def stop_after(round_: int) -> Callable[[TrainingProgress], None]:
    def watch(now: TrainingProgress) -> None:
        if now.rounds == round_:
            raise Stopped

    return watch


def result_of(run: Path) -> dict[str, Any]:
    """The result without what may differ: how long it took, and where it lies."""
    document = json.loads((run / "result.json").read_text())
    assert document.pop("checksum")  # which is also that of the time and the place
    assert document["result"].pop("wall_s") > 0
    for each in document["result"]["seeds"]:
        assert each.pop("run") == str(run)
    return document


def assert_same_bits(run: Path, other: Path) -> None:
    assert (run / "policy.eqx").read_bytes() == (other / "policy.eqx").read_bytes()
    assert (run / "metrics.jsonl").read_bytes() == (other / "metrics.jsonl").read_bytes()
    assert json.dumps(result_of(run)) == json.dumps(result_of(other))


def leaves(tree: Any) -> list[list[Any]]:
    return [np.asarray(leaf).tolist() for leaf in jax.tree.leaves(tree)]


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
