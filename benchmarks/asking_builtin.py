"""The seven built-in problems without training: gap, and seconds of a question asked again.

`python -m benchmarks.asking_builtin [PROBLEM...] [--train]` prints a table: medians of five, each
with its own seed; with `--train` beside one seed that is trained anew for each problem, as a user
would, compiling included.
"""

from __future__ import annotations

import argparse
import csv
import statistics
import tempfile
from pathlib import Path

from benchmarks.machine import matmul_gflops
from scrl.api import train
from scrl.planning.planner import planner
from scrl.problems import Problem, builtin_names, load
from scrl.training.result import TrainingResult

SEEDS = range(5)
TRAINED = Path(__file__).parents[1] / "docs" / "results"


def trained() -> dict[str, float]:
    """The mean gap of `scrl train` over ten seeds."""
    gaps: dict[str, list[float]] = {}
    with (TRAINED / "seeds.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["method"] == "scrl" and not row["terms"]:
                gaps.setdefault(row["problem"], []).append(float(row["gap"]))
    return {name: statistics.mean(each) for name, each in gaps.items()}


def train_anew(problem: Problem) -> TrainingResult:
    """One seed with default settings."""
    with tempfile.TemporaryDirectory() as folder:
        return train(problem, out=Path(folder) / "run")


def main() -> None:
    """Ask and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("problems", nargs="*", default=builtin_names())
    parser.add_argument("--train", action="store_true")
    chosen = parser.parse_args()
    asking, known = planner(), trained()
    print(
        "| problem | satisfied | gap | worst gap | seconds, asked again "
        "| gap, trained anew (ten seeds) | seconds, trained anew |"
    )
    print("|---" * 7 + "|")
    for name in chosen.problems:
        problem = load(name)
        asking.ask(problem)
        answers = [asking.ask(problem, seed=seed) for seed in SEEDS]
        gaps = [answer.gap or 0.0 for answer in answers]
        kept = sum(answer.is_satisfied for answer in answers)
        seconds = statistics.median(answer.wall_s for answer in answers)
        anew = train_anew(problem) if chosen.train else None
        took = "" if anew is None else f"{anew.wall_s:.0f}"
        print(
            f"| {name} | {kept} of {len(answers)} | {statistics.median(gaps):.2%} | "
            f"{max(gaps):.2%} | {seconds:.2f} | {known[name]:.2%} | {took} |",
            flush=True,
        )
    print(f"\nMatrix product {matmul_gflops():,.0f} GFLOP/s.")


if __name__ == "__main__":
    main()
