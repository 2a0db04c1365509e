"""Rules in wind: `scrl ask`, jointly in a share of single runs and on average, and a controller.

`python -m benchmarks.wind [PROBLEM...] [--wind 0.1] [--share 0.95] [--runs 10000] [--out FILE]`
prints a table: the share of fresh single runs that keep every rule with the lower end of its
interval, the gap of the mean return to the calm fluid, whether the means keep the rules, and the
seconds of a question that is asked again. `--sets N` takes N random rule sets on each of the worlds
of `benchmarks.asking` instead of the built-in problems.
"""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path

import numpy as np

from benchmarks import controller
from benchmarks.asking import rule_sets, world_of
from benchmarks.measured import write_rows
from scrl.evaluation import evaluate
from scrl.planning import planner
from scrl.planning.planner import Planner
from scrl.problems import Problem, builtin_names, load
from scrl.reference.answer import Question
from scrl.reference.sweep import best_fluid
from scrl.violation import cons_vio

FRESH = 77_000_000
"""Seeds of runs that nothing was chosen by."""


def in_wind(problem: Problem, strength: float) -> Problem:
    """The same problem with gusts."""
    spec = problem.world_spec
    wind = dataclasses.replace(spec.wind, strength=strength)
    return dataclasses.replace(problem, world_spec=dataclasses.replace(spec, wind=wind))


@dataclasses.dataclass(frozen=True)
class Row:
    """What one method did on one problem."""

    problem: str
    method: str
    share: float
    """Of the fresh runs that keep every rule."""
    lower: float
    """End of the 95 % interval of the share."""
    gap: float | None
    """(calm fluid - mean return) / |calm fluid|."""
    mean_violation: float
    seconds: float
    rules: list[str]

    def line(self) -> str:
        gap = "" if self.gap is None else f"{self.gap:.2%}"
        cells = (
            self.problem, self.method, f"{self.share:.2%}", f"{self.lower:.2%}", gap,
            f"{self.mean_violation:.2f}", f"{self.seconds:.2f}",
        )  # fmt: skip
        return "| " + " | ".join(cells) + " |"


def lower_end(share: float, runs: int, z: float = 1.96) -> float:
    """Of the 95 % interval of a share, by Wilson."""
    middle, width = share + z**2 / (2 * runs), share * (1 - share) / runs + (z / (2 * runs)) ** 2
    return (middle - z * width**0.5) / (1 + z**2 / runs)


def _row(
    problem: Problem, method: str, returns: float, kept: int, violation: float, seconds: float,
    runs: int,
) -> Row:  # fmt: skip
    question = Question.of(problem)
    best = best_fluid(question.fluid, question.atoms).best
    gap = None if best is None else (best.return_ - returns) / abs(best.return_)
    lower = lower_end(kept / runs, runs)
    texts = [rule.text for rule in problem.rules.rules]
    return Row(problem.name, method, kept / runs, lower, gap, violation, seconds, texts)


def asked(
    asking: Planner, problem: Problem, share: float | None, runs: int, *, is_warm: bool
) -> Row:
    """The answer of `scrl ask` in fresh runs."""
    if not is_warm:
        asking.ask(problem, confidence=share)
    answer = asking.ask(problem, confidence=share)
    seen = evaluate(problem, answer.plans[0].policy, episodes=runs, seed=FRESH)
    method = "ask, on average" if share is None else f"ask, {share:.0%} of runs"
    return _row(
        problem, method, seen.return_, seen.episodes_satisfied, seen.cons_vio, answer.wall_s, runs
    )


def controlled(problem: Problem, runs: int) -> Row | None:
    """The controller in fresh runs; none where it has no targets."""
    found = controller.drive(problem, runs=runs, seed=FRESH)
    if found is None:
        return None
    violation = float(cons_vio(problem.atoms, found.amounts.mean(axis=0)))
    kept = int(found.is_kept.sum())
    return _row(problem, "controller", found.returns.mean(), kept, violation, 0.0, runs)


def problems_of(names: list[str], sets: int, strength: float, seed: int) -> list[Problem]:
    """The built-in problems, or random rule sets on all worlds of `benchmarks.asking`."""
    if not sets:
        return [in_wind(load(name), strength) for name in names]
    found = []
    for number in range(22):
        world = world_of(number, wind=strength)
        for index, rules in enumerate(rule_sets(world, sets, seed + number)):
            found.append(dataclasses.replace(world.with_rules(rules), options=dataclasses.replace(
                world.options, name=f"{world.name} {index}")))  # fmt: skip
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("problems", nargs="*", default=builtin_names())
    parser.add_argument("--wind", type=float, default=0.1)
    parser.add_argument("--share", type=float, default=0.95)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--sets", type=int, default=0)
    parser.add_argument("--seed", type=int, default=5000)
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    asking, rows = planner(), []
    print("| problem | method | runs kept | at least | gap | mean violation | seconds |")
    print("|---" * 7 + "|")
    for problem in problems_of(chosen.problems, chosen.sets, chosen.wind, chosen.seed):
        is_warm = bool(chosen.sets)
        found = [
            controlled(problem, chosen.runs),
            asked(asking, problem, chosen.share, chosen.runs, is_warm=is_warm),
            asked(asking, problem, None, chosen.runs, is_warm=is_warm),
        ]
        for row in found:
            if row is not None:
                rows.append(row)
                print(row.line(), flush=True)
        write_rows(chosen.out, (dataclasses.asdict(each) for each in rows))
    summarise(rows, chosen.share)


def summarise(rows: list[Row], share: float) -> None:
    """How often what any method reaches is reached, and how long answers take."""
    reached: dict[str, bool] = {}
    for row in rows:
        reached[row.problem] = reached.get(row.problem, False) or row.share >= share
    ours = sum(row.share >= share for row in rows if row.method.endswith("runs"))
    means = [row for row in rows if row.method.endswith("average")]
    gap = np.mean([row.gap for row in means if row.gap is not None])
    seconds = [row.seconds for row in rows if row.method.startswith("ask")]
    print(
        f"\n{share:.0%} of runs: {ours} of {sum(reached.values())} that any method reaches; "
        f"means kept: {sum(row.mean_violation <= 1e-6 for row in means)} of {len(means)}, "
        f"{gap:.2%} below the calm fluid; seconds: median {np.median(seconds):.2f}, "
        f"95 % {np.quantile(seconds, 0.95):.2f}, worst {max(seconds):.2f}"
    )


if __name__ == "__main__":
    main()
