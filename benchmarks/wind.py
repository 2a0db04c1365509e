"""Rules in wind: `scrl ask`, jointly in a share of single runs and on average, and a controller.

`python -m benchmarks.wind [PROBLEM...] [--wind 0.1] [--share 0.95] [--runs 10000] [--out FILE]`
prints a table: the share of fresh single runs that keep every rule with the lower end of its
interval, the gap of the mean return to the calm fluid, whether the means keep the rules, and the
seconds of a question that is asked again. `--sets N` takes N random rule sets on each of the worlds
of `benchmarks.asking` instead of the built-in problems. `--train SEEDS` trains that many seeds for
single runs instead of asking; its rows also have the environment steps of a seed.
"""

from __future__ import annotations

import argparse
import dataclasses
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np

import scrl
from benchmarks import controller
from benchmarks.asking import rule_sets, world_of
from benchmarks.measured import write_rows
from scrl.evaluation import evaluate
from scrl.opening import open_run
from scrl.planning import planner
from scrl.planning.planner import Planner
from scrl.problems import Problem, builtin_names, load
from scrl.reference.answer import Question
from scrl.reference.fluid_search import best_fluid
from scrl.violation import cons_vio

MEANS, RUNS = "ask, on average", "ask, in single runs"
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
    cpu_seconds: float
    """Of all cores together: a busy machine makes the others longer."""
    rules: list[str]
    env_steps: int | None = None
    """Of training one seed: learning, measuring and settling."""

    def line(self) -> str:
        gap = "" if self.gap is None else f"{self.gap:.2%}"
        cells = (
            self.problem, self.method, f"{self.share:.2%}", f"{self.lower:.2%}", gap,
            f"{self.mean_violation:.2f}", f"{self.seconds:.2f}", f"{self.cpu_seconds:.2f}",
            "" if self.env_steps is None else f"{self.env_steps:,}",
        )  # fmt: skip
        return "| " + " | ".join(cells) + " |"


def lower_end(share: float, runs: int, z: float = 1.96) -> float:
    """Of the 95 % interval of a share, by Wilson."""
    middle, width = share + z**2 / (2 * runs), share * (1 - share) / runs + (z / (2 * runs)) ** 2
    return (middle - z * width**0.5) / (1 + z**2 / runs)


class Seen(NamedTuple):
    """What fresh runs did."""

    return_: float
    kept: int
    mean_violation: float
    runs: int


def _row(problem: Problem, method: str, seen: Seen, seconds: tuple[float, float]) -> Row:
    question = Question.of(problem)
    best = best_fluid(question.fluid, question.atoms).best
    gap = None if best is None else (best.return_ - seen.return_) / abs(best.return_)
    share = seen.kept / seen.runs
    texts = [rule.text for rule in problem.rules.rules]
    lower = lower_end(share, seen.runs)
    return Row(
        problem.name, method, share, lower, gap, seen.mean_violation, *seconds, texts
    )  # fmt: skip


def asked(asking: Planner, problem: Problem, share: float | None, runs: int) -> Row:
    """The answer of `scrl ask` in fresh runs; it is asked twice, and the second time counts."""
    problem = problem.with_confidence(share)
    asking.ask(problem)
    before = time.process_time()
    answer = asking.ask(problem)
    seconds = answer.wall_s, time.process_time() - before
    found = evaluate(problem, answer.plans[0].policy, episodes=runs, seed=FRESH)
    violation = float(cons_vio(problem.atoms, np.array(list(found.density.values()))))
    seen = Seen(found.return_, found.episodes_satisfied, violation, runs)
    return _row(problem, MEANS if share is None else RUNS, seen, seconds)


def controlled(problem: Problem, runs: int) -> Row | None:
    """The controller in fresh runs; none where it has no targets."""
    found = controller.drive(problem, runs=runs, seed=FRESH)
    if found is None:
        return None
    violation = float(cons_vio(problem.atoms, found.amounts.mean(axis=0)))
    seen = Seen(float(found.returns.mean()), int(found.is_kept.sum()), violation, runs)
    return _row(problem, "controller", seen, (0.0, 0.0))


def trained(problem: Problem, share: float, runs: int, seeds: int) -> Iterator[Row]:
    """The policies of `scrl train` for single runs in fresh ones, one row for each seed."""
    problem = problem.with_confidence(share)
    with TemporaryDirectory() as folder:
        before = time.process_time()
        result = scrl.train(problem, seeds=seeds, out=Path(folder) / "run", watch=None)
        seconds = result.wall_s / seeds, (time.process_time() - before) / seeds
        run = open_run(result.run)
        for seed in result.seeds:
            found = evaluate(problem, run.policy(seed.seed), episodes=runs, seed=FRESH)
            violation = float(cons_vio(problem.atoms, np.array(list(found.density.values()))))
            seen = Seen(found.return_, found.episodes_satisfied, violation, runs)
            row = _row(problem, f"train, seed {seed.seed}", seen, seconds)
            yield dataclasses.replace(row, env_steps=result.env_steps // seeds)


def random_problems(worlds: int, sets: int, strength: float, seed: int) -> list[Problem]:
    """Random rule sets on the worlds of `benchmarks.asking`."""
    found = []
    for number in range(worlds):
        world = world_of(number, wind=strength)
        for index, rules in enumerate(rule_sets(world, sets, seed + number)):
            named = dataclasses.replace(world.options, name=f"{world.name}, set {index}")
            found.append(dataclasses.replace(world.with_rules(rules), options=named))
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("problems", nargs="*", default=builtin_names())
    parser.add_argument("--wind", type=float, default=0.1)
    parser.add_argument("--share", type=float, default=0.95)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--sets", type=int, default=0)
    parser.add_argument("--worlds", type=int, default=22)
    parser.add_argument("--seed", type=int, default=5000)
    parser.add_argument("--train", type=int, default=0, metavar="SEEDS")
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    asking, rows = planner(), []
    titles = (
        "problem | method | runs kept | at least | gap | mean violation | seconds | CPU | steps"
    )
    print(f"| {titles} |\n" + "|---" * 9 + "|")
    problems = [in_wind(load(name), chosen.wind) for name in chosen.problems]
    if chosen.sets:
        problems = random_problems(chosen.worlds, chosen.sets, chosen.wind, chosen.seed)
    for problem in problems:
        for row in _rows(asking, problem, chosen):
            if row is not None:
                rows.append(row)
                print(row.line(), flush=True)
                write_rows(chosen.out, (dataclasses.asdict(each) for each in rows))
    if not chosen.train:
        summarise(rows, chosen.share)


def _rows(asking: Planner, problem: Problem, chosen: argparse.Namespace) -> Iterator[Row | None]:
    """What is measured on one problem."""
    if chosen.train:
        yield from trained(problem, chosen.share, chosen.runs, chosen.train)
        return
    yield controlled(problem, chosen.runs)
    yield asked(asking, problem, chosen.share, chosen.runs)
    yield asked(asking, problem, None, chosen.runs)


def summarise(rows: list[Row], share: float) -> None:
    """How often what any method reaches is reached, and how long answers take."""
    reached: dict[str, bool] = {}
    for row in rows:
        reached[row.problem] = reached.get(row.problem, False) or row.share >= share
    ours = sum(row.share >= share for row in rows if row.method == RUNS)
    means = [row for row in rows if row.method == MEANS]
    gap = np.mean([row.gap for row in means if row.gap is not None])
    seconds = [row.seconds for row in rows if row.method != "controller"]
    print(
        f"\n{share:.0%} of runs: {ours} of {sum(reached.values())} that any method reaches; "
        f"means kept: {sum(row.mean_violation <= 1e-6 for row in means)} of {len(means)}, "
        f"{gap:.2%} below the calm fluid; seconds: median {np.median(seconds):.2f}, "
        f"95 % {np.quantile(seconds, 0.95):.2f}, worst {max(seconds):.2f}"
    )


if __name__ == "__main__":
    main()
