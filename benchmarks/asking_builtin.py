"""The seven built-in problems without training: gap, and seconds of a question asked again.

`python -m benchmarks.asking_builtin` prints a table: medians of five, each with its own seed.
"""

from __future__ import annotations

import csv
import statistics
from pathlib import Path

from benchmarks.machine import matmul_gflops
from scrl.prices.planner import planner
from scrl.problems import builtin_names, load

SEEDS = range(5)
TRAINED = Path(__file__).parents[1] / "docs" / "results"


def trained() -> dict[str, float]:
    """The mean gap of `scrl train` over ten seeds."""
    gaps: dict[str, list[float]] = {}
    with (TRAINED / "seeds.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["method"] == "scrl" and not row["variant"]:
                gaps.setdefault(row["problem"], []).append(float(row["gap"]))
    return {name: statistics.mean(each) for name, each in gaps.items()}


def main() -> None:
    """Ask and print."""
    asking, known = planner(), trained()
    print("| problem | satisfied | gap | worst gap | seconds, asked again | gap, trained anew |")
    print("|---" * 6 + "|")
    for name in builtin_names():
        problem = load(name)
        asking.ask(problem)
        answers = [asking.ask(problem, seed=seed) for seed in SEEDS]
        gaps = [answer.gap or 0.0 for answer in answers]
        kept = sum(answer.is_satisfied for answer in answers)
        seconds = statistics.median(answer.wall_s for answer in answers)
        print(
            f"| {name} | {kept} of {len(answers)} | {statistics.median(gaps):.2%} | "
            f"{max(gaps):.2%} | {seconds:.2f} | {known[name]:.2%} |",
            flush=True,
        )
    print(f"\nMatrix product {matmul_gflops():,.0f} GFLOP/s.")


if __name__ == "__main__":
    main()
