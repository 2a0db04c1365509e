"""Run folders made by hand: real evaluations of constant speeds, made-up learning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from scrl.evaluation import evaluate
from scrl.problems import Problem, ProblemOptions
from scrl.reference.answer import gap_to
from scrl.runs.folder import RunFolder, RunRecord
from scrl.runs.result import SeedResult
from scrl.training.result import TrainingResult
from scrl.worlds.sweep.regions import from_labels
from scrl.worlds.sweep.spec import SweepSpec

RULES = {
    "situational": "if S2 > 10 then S1 >= 18",
    "either": "S1 >= 100 or S2 <= 40",
    "all": "S1 >= 5 and S2 >= 5",
}


def small_problem(rules: dict[str, str] | None = None, **options: object) -> Problem:
    """Four rows, half S1, half S2; full speed gives S1 14.52 and S2 12.85."""
    spec = SweepSpec(from_labels(np.repeat([[1] * 4 + [2] * 4], 4, axis=0)))
    known = ProblemOptions(name="small", description="A field in two halves.")
    chosen = RULES if rules is None else rules
    return Problem.create(spec, chosen, replace(known, **options))


def make_run(
    path: Path,
    problem: Problem,
    *,
    method: str = "scrl",
    speeds: Sequence[float] = (1.5, 1.6, 1.7),
    seeds: Sequence[int] | None = None,
    bound: float | None = -0.5,
    rounds: int = 30,
    is_finished: bool = True,
    settings: dict[str, Any] | None = None,
) -> Path:
    """A seed for each speed; no policy is kept, so that there is no plan to draw."""
    numbers = list(range(len(speeds))) if seeds is None else list(seeds)
    known = settings or {"told": "all", "settings": {"iterations": 20, "settle": 10}}
    folder = RunFolder.create(path, problem, RunRecord.now(problem.name, method, known, numbers))
    for number in range(1, rounds + 1):
        folder.log(
            [
                {"iteration": number, "seed": seed, "return": -20.0 / number - 3.0 - 0.1 * seed,
                 "violation": 9.0 / number, "kappa/0": 0.1 * number, "kappa/1": 0.2}
                for seed in numbers
            ]
        )  # fmt: skip
    if is_finished:
        folder.save_result(_result(problem, method, speeds, numbers, bound, path).to_json())
    return path


def _result(
    problem: Problem,
    method: str,
    speeds: Sequence[float],
    seeds: Sequence[int],
    bound: float | None,
    path: Path,
) -> TrainingResult:
    found = []
    for seed, speed in zip(seeds, speeds, strict=True):
        judged = evaluate(problem, f"constant:{speed}", name=method)
        gap = gap_to(bound, judged.return_) if judged.is_satisfied else None
        found.append(SeedResult(seed, judged, gap))
    return TrainingResult(problem.name, method, bound, tuple(found), 2.0, path, 1_000)
