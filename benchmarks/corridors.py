"""Windy corridors: `scrl ask` against the exact optimum of a finite MDP.

`python -m benchmarks.corridors [--runs 10000] [--out FILE]` prints a table: rules on average and in
95 % of single runs, the states of the MDP, its optimum, what fresh runs of the plan return and
keep, and the gap. The optimum gives up 5 % of the runs on purpose, by lot if need be, which no plan
of `scrl ask` does; so the last column is the gap to the optimum for the share that the plan keeps.
"""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path

import numpy as np

from benchmarks.measured import write_rows
from benchmarks.wind import FRESH
from scrl.evaluation import evaluate
from scrl.planning import planner
from scrl.planning.planner import Planner
from scrl.problems import Problem, ProblemOptions
from scrl.reference.corridor import Corridor
from scrl.worlds.sweep.regions import from_labels
from scrl.worlds.sweep.spec import SweepRoute, SweepSpec
from scrl.worlds.sweep.vehicle import Vehicle, Wind

PLACES = 4
"""Of a cell."""
SHARE = 0.95


def corridor(lengths: tuple[int, ...], rules: tuple[str, ...]) -> Problem:
    """Stretches of S1 and S2 in turn, gusts of 10 %."""
    labels = np.repeat(np.arange(len(lengths)) % 2 + 1, lengths)[None]
    vehicle, wind = Vehicle(inertia=0.0, crawl=0.1), Wind(strength=0.1, persistence=0.0)
    spec = SweepSpec(from_labels(labels), vehicle, wind, SweepRoute(service="landing"))
    return Problem.create(spec, rules, ProblemOptions(name="; ".join(rules)))


CORRIDORS = (
    corridor((30, 15), ("S1 >= 67.5",)),
    corridor((20, 10), ("S1 >= 45", "S2 <= 9")),
    corridor((15, 15), ("S1 >= 27 or S2 >= 31.5",)),
    corridor((8, 8, 8), ("S1 >= 36", "S2 >= 18")),
    corridor((20, 20), ("S1 <= 14 or S2 >= 36",)),
)


@dataclasses.dataclass(frozen=True)
class Row:
    """One corridor, and how surely its rules must hold."""

    rules: str
    share: float | None
    states: int
    optimum: float | None
    return_: float
    kept: float
    """Share of fresh runs that keep every rule."""
    gap: float | None
    """(optimum - return) / |optimum|."""
    gap_at_kept: float | None
    """The same for the optimum that keeps as large a share as the plan."""

    def line(self) -> str:
        share = "on average" if self.share is None else f"{self.share:.0%}"
        optimum = "" if self.optimum is None else f"{self.optimum:.4f}"
        gap = "" if self.gap is None else f"{self.gap:.2%}"
        cells = (
            self.rules, share, f"{self.states:,}", optimum, f"{self.return_:.4f}",
            f"{self.kept:.1%}", gap,
            "" if self.gap_at_kept is None else f"{self.gap_at_kept:.2%}",
        )  # fmt: skip
        return "| " + " | ".join(cells) + " |"


def measure(asking: Planner, problem: Problem, share: float | None, runs: int) -> Row:
    """The optimum, and the answer of `scrl ask` in fresh runs of the true world."""
    problem = problem.with_confidence(share)
    exact = Corridor(problem, PLACES)
    optimum = exact.solve().return_
    answer = asking.ask(problem)
    found = evaluate(problem, answer.plans[0].policy, episodes=runs, seed=FRESH)
    kept, worth = found.episodes_satisfied / runs, found.return_
    at_kept = None
    if share is not None:
        at_kept = Corridor(problem.with_confidence(min(kept, 0.9999)), PLACES).solve().return_
    gaps = (_gap(each, worth) for each in (optimum, at_kept))
    return Row(problem.name, share, exact.states, optimum, worth, kept, *gaps)


def _gap(optimum: float | None, return_: float) -> float | None:
    return None if optimum is None else (optimum - return_) / abs(optimum)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    asking, rows = planner(), []
    print(
        "| rules | asked | states | optimum | ask | runs kept | gap | gap at kept |\n"
        + "|---" * 8
        + "|"
    )
    for problem in CORRIDORS:
        for share in (None, SHARE):
            rows.append(measure(asking, problem, share, chosen.runs))
            print(rows[-1].line(), flush=True)
            write_rows(chosen.out, (dataclasses.asdict(each) for each in rows))


if __name__ == "__main__":
    main()
