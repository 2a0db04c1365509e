"""Rules in wind: `scrl ask`, a controller and the plans for calm air, in runs nobody has seen.

`python -m benchmarks.wind [sets] [builtin] [curve] --out FILE [--jobs 1] [--time-limit 3600]` (all
three by default) measures

- sets: `--sets` 5 random rule sets on each of `--worlds` 22 worlds of `benchmarks.asking` in gusts
  of 10 %, jointly in 95 % of single runs and on average;
- builtin: the same for the seven built-in problems;
- curve: gusts of 20 and 30 % on four of them, jointly in 50, 80, 95 and 99 % of single runs.

Every result is appended to FILE, and the same command goes on with what is missing there; `--table`
prints what is there. Questions are asked twice, and the second time counts: the first one compiles.
The controller and the calm plans have the best of some margins, chosen for each problem and share
by runs of their own.

`--train SEEDS` trains the built-in problems for 95 % of single runs instead, in folders beside
FILE; the same command resumes them, and `--first` is the first seed. `--names` limits the built-in
problems.
"""

from __future__ import annotations

import argparse
import dataclasses
import time
from collections.abc import Callable, Iterator
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

import scrl
from benchmarks import controller, jobs
from benchmarks.asking import rule_sets, world_of
from benchmarks.controller import Settings
from benchmarks.machine import described
from benchmarks.wind_tables import draw_curves, is_reached, print_tables
from scrl.bench.engines import Workers
from scrl.bench.engines.local import train_jobs
from scrl.bench.packing import Job
from scrl.bench.progress import ProgressCounter
from scrl.bench.tables import Cell
from scrl.density import standard_error
from scrl.opening import open_run
from scrl.planning import planner
from scrl.policies import PlacedPolicy, Schedule
from scrl.problems import Problem, builtin_names, load
from scrl.reference.answer import Question
from scrl.reference.fluid_search import best_fluid
from scrl.rollout import run_episodes
from scrl.rules.show import show_sum
from scrl.training.maps import configure_map
from scrl.training.result import TrainingResult
from scrl.violation import cons_vio
from scrl.worlds.sweep import dynamics
from scrl.worlds.sweep.lookup import on_device
from scrl.worlds.sweep.world import SweepState, SweepWorld

SHARE, WIND = 0.95, 0.1
CURVE = ("agri-situational", "agri-joint", "med-situational", "med-joint")
CURVE_WINDS, CURVE_SHARES = (0.2, 0.3), (0.5, 0.8, 0.95, 0.99)
FRESH, TUNING = 77_000_000, 78_000_000
"""Seeds of runs that nothing was chosen by, and of those that margins are chosen by."""
TUNING_RUNS, DEVIATIONS = 500, 2.0
"""Behind each choice of margins, and the standard errors that it is on the safe side."""
PER_CELL = 8
"""Places at which a plan for calm air has a throttle."""
MARGINS, RESERVES = (0.0, 2.0, 5.0, 10.0, 20.0), (0.0, 0.02, 0.05, 0.1, 0.2)
OPEN_MARGINS = (0.0, 5.0, 20.0, 50.0, 100.0)
"""Units. A plan for calm air counts on where its steps end, which gusts undo."""


@dataclasses.dataclass(frozen=True)
class Task:
    """One method on one problem."""

    part: str
    problem: str
    """A built-in problem, or WORLD SET for a random rule set on a world of `benchmarks.asking`."""
    method: str
    wind: float
    share: float | None
    """Of single runs that must keep all rules together; none: they must hold on average."""
    runs: int
    seed: int
    """Of the random rules and of the runs."""


class Seen(NamedTuple):
    """What runs returned and gave."""

    returns: Float[np.ndarray, " run"]
    amounts: Float[np.ndarray, "run region"]

    def kept(self, problem: Problem) -> float:
        """The share of the runs that keep every rule."""
        return float((cons_vio(problem.atoms, self.amounts) <= problem.tolerance).mean())

    def mean_violation(self, problem: Problem, deviations: float = 0.0) -> float:
        """Cons.Vio of the mean amounts, with every atom so many standard errors worse."""
        table = problem.atoms
        worse = deviations * standard_error(self.amounts @ table.coefficients.T)
        safe = dataclasses.replace(table, bounds=table.bounds - worse)
        return float(cons_vio(safe, self.amounts.mean(axis=0)))


def in_wind(problem: Problem, strength: float) -> Problem:
    """The same problem with gusts."""
    spec = problem.world_spec
    wind = dataclasses.replace(spec.wind, strength=strength)
    return dataclasses.replace(problem, world_spec=dataclasses.replace(spec, wind=wind))


@cache
def problem_of(name: str, wind: float, seed: int) -> Problem:
    """The problem of a task, with its rules on average."""
    if name in builtin_names():
        return in_wind(load(name), wind)
    world, index = map(int, name.split())
    rules = rule_sets(world_of(world), index + 1, seed + world)[index]
    return world_of(world, wind=wind).with_rules(rules)


def driven(problem: Problem, policy: PlacedPolicy, *, runs: int, seed: int) -> Seen:
    """Runs of a policy in the world."""
    keys = jax.random.split(jax.random.key(seed), runs)
    if jax.default_backend() != "cpu":
        scrl.rollout.CHUNK_EPISODES = runs  # a GPU takes all runs in one call
    ran = run_episodes(problem.world, policy, keys=keys, discount=problem.discount)
    amounts = problem.world_spec.vehicle.rate * np.asarray(ran.service, float)
    return Seen(np.asarray(ran.return_, float), amounts)


Candidate = Callable[[int, int], Seen | None]
"""Drives so many runs with a seed; None if it has nothing to aim at."""


def chosen(problem: Problem, tried: list[Seen | None], share: float | None) -> int | None:
    """Which of some candidates has the best return and keeps what is asked, on the safe side.

    Where none does, the one that comes nearest; None if there is none.
    """
    best: tuple[tuple[float, float], int] | None = None
    for index, seen in enumerate(tried):
        if seen is None:
            continue
        if share is None:
            kept = -seen.mean_violation(problem, DEVIATIONS)
        else:
            asked = share + DEVIATIONS * np.sqrt(share * (1.0 - share) / TUNING_RUNS)
            kept = min(seen.kept(problem), asked)
        value = (kept, float(seen.returns.mean()))
        best = max(best or (value, index), (value, index))
    return None if best is None else best[1]


def controlled(problem: Problem, settings: Settings, *, runs: int, seed: int) -> Seen | None:
    """Runs of the controller."""
    found = controller.drive(problem, settings, runs=runs, seed=seed)
    return None if found is None else Seen(found.returns, found.amounts)


class ByPlace(eqx.Module):
    """A plan for calm air in wind: at every place the throttle that it has there."""

    throttles: Float[Array, " place"]

    @classmethod
    def of(cls, problem: Problem, plan: Schedule) -> ByPlace:
        """The throttles at places 1 / `PER_CELL` of a cell apart."""
        numbers, cells = problem.world.numbers, len(problem.world_spec.path.cells)
        throttles, place, speed, begun = np.asarray(plan.throttles), 0.0, 0.0, []
        for throttle in throttles:
            begun.append(place)
            speed = dynamics.next_speed(numbers, speed, throttle, np)
            place += float(speed)
        at = np.arange(PER_CELL * cells + 1) / PER_CELL
        return cls(on_device(throttles[np.searchsorted(begun, at, side="right") - 1], float))

    @property
    def is_random(self) -> bool:
        return False

    def begin(self) -> tuple[()]:
        return ()

    def at(
        self, world: SweepWorld, state: SweepState, service: Float[Array, " region"], memory: Any
    ) -> tuple[Float[Array, ""], Any]:
        del world, service
        place = (PER_CELL * (state.cell + state.offset)).astype(int)
        return self.throttles[jnp.minimum(place, len(self.throttles) - 1)], memory


def calm_plan(problem: Problem, margin: float) -> ByPlace | None:
    """The plan of `scrl ask` for calm air that keeps the rules by a margin; None if none does."""
    table = problem.atoms
    texts = [
        f"{show_sum(atom.coefficients)} <= {bound:.4f}"
        for atom, bound in zip(table.atoms, controller.inside(table, margin), strict=True)
    ]
    rules = [" or ".join(texts[index] for index in listed if index >= 0) for listed in table.listed]
    calm = in_wind(problem, 0.0)
    answer = planner().ask(calm, rules)
    policy = answer.plans[0].policy
    if answer.status != "satisfied" or not isinstance(policy, Schedule):
        return None
    return ByPlace.of(calm, policy)


@cache
def candidates(method: str, name: str, wind: float, seed: int) -> list[Candidate]:
    """The margins of a rival."""
    problem = problem_of(name, wind, seed)
    if method == "controller":
        has_sums = any(
            aim is not None and len(aim.effect)
            for aim in (controller.targets(problem, margin) for margin in MARGINS)
        )
        reserves = RESERVES if has_sums else RESERVES[:1]
        settings = [Settings(*each) for each in product(MARGINS, reserves)]
        return [
            lambda runs, seed, each=each: controlled(problem, each, runs=runs, seed=seed)
            for each in settings
        ]
    plans = [calm_plan(problem, margin) for margin in OPEN_MARGINS]
    return [
        lambda runs, seed, plan=plan: driven(problem, plan, runs=runs, seed=seed)
        for plan in plans
        if plan is not None
    ]


@cache
def tried(method: str, name: str, wind: float, seed: int) -> list[Seen | None]:
    """What the margins of a rival do in the runs that they are chosen by."""
    some = candidates(method, name, wind, seed)
    return [each(TUNING_RUNS, TUNING + seed) for each in some]


@cache
def asking() -> scrl.planning.planner.Planner:
    """The planner of this process."""
    return planner()


def measure(task: Task) -> dict[str, Any]:
    """What a method does in fresh runs, and how long it takes."""
    problem, seed = problem_of(task.problem, task.wind, task.seed), FRESH + task.seed
    if task.method != "ask":
        some = task.method, task.problem, task.wind, task.seed
        index = chosen(problem, tried(*some), task.share)
        seen = None if index is None else candidates(*some)[index](task.runs, seed)
        return {"status": "none"} if seen is None else _told(problem, seen)
    asked = problem.with_confidence(task.share)
    first = asking().ask(asked).wall_s
    before = time.process_time()
    answer = asking().ask(asked)
    times = {
        "first_seconds": first,
        "seconds": answer.wall_s,
        "cpu_seconds": time.process_time() - before,
    }
    seen = driven(problem, answer.plans[0].policy, runs=task.runs, seed=seed)
    return {"status": answer.status, **times, **_told(problem, seen)}


def _told(problem: Problem, seen: Seen) -> dict[str, Any]:
    question = Question.of(problem)
    best = best_fluid(question.fluid, question.atoms).best
    return {
        "kept": seen.kept(problem),
        "return": float(seen.returns.mean()),
        "calm_fluid": None if best is None else best.return_,
        "mean_violation": seen.mean_violation(problem),
        "rules": [rule.text for rule in problem.rules.rules],
    }


def groups(options: argparse.Namespace) -> list[list[Task]]:
    """What is measured; one process takes a group, so that it compiles and tunes once."""
    seed, runs, in_share = (
        options.seed,
        options.runs,
        [*product(("ask", "controller"), (SHARE, None))],
    )
    found = []
    if "curve" in options.parts:
        every = [*product(("ask", "controller", "open"), CURVE_SHARES)]
        for name, wind in product(CURVE, CURVE_WINDS):
            found.append(
                [Task("curve", name, how, wind, share, runs, seed) for how, share in every]
            )
    if "builtin" in options.parts:
        for name in options.names:
            found.append(
                [Task("builtin", name, how, WIND, share, runs, seed) for how, share in in_share]
            )
    if "sets" in options.parts:
        for index, world in product(range(options.sets), range(options.worlds)):
            name, some = f"{world} {index}", runs // 5
            tasks = [Task("sets", name, how, WIND, share, some, seed) for how, share in in_share]
            found.append([task for task in tasks if task.method in options.methods])
    if options.missed:
        reached = {
            (row["problem"], row["wind"], row["share"], row["seed"])
            for row in jobs.read(options.out)
            if row["method"] == "ask" and is_reached(row)
        }
        found = [
            [
                task
                for task in group
                if (task.problem, task.wind, task.share, task.seed) not in reached
            ]
            for group in found
        ]
    return found


def train_all(options: argparse.Namespace) -> None:
    """Train the seeds of one built-in problem after the other, then drive each policy."""
    rows = [row for row in jobs.read(options.out) if row["method"] == "train"]
    done = {(row["problem"], row["seed"]) for row in rows}
    folder = options.out.with_suffix("")
    for name in options.names:
        seeds = range(options.first, options.first + options.train)
        left = tuple(seed for seed in seeds if (name, seed) not in done)
        if not left:
            continue
        problem = in_wind(load(name), WIND).with_confidence(SHARE)
        config = configure_map(problem, steps=options.steps)
        path = folder / f"{name}-{left[0]}-{left[-1]}"
        job = Job(Cell(name, config.method), problem, config, left, path)
        before = time.process_time()
        train_jobs([job], ProgressCounter(1, None), Workers(), at_once=None)
        spent = (time.process_time() - before) / len(left)
        jobs.append(options.out, [{**row, "cpu_seconds": spent} for row in _of_job(job, options)])
        print(f"{name}: {spent:.0f} s of CPU for each seed", flush=True)


def _of_job(job: Job, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """The best policies of trained runs in fresh single runs, one row for each seed."""
    run, runs = open_run(job.path), options.runs
    result = run.result
    assert isinstance(result, TrainingResult)  # noqa: S101 (for the type checker)
    for seed in result.seeds:
        policy: Any = run.policy(seed.seed)
        seen = driven(job.problem, policy, runs=runs, seed=FRESH + seed.seed)
        task = Task("train", job.cell.problem, "train", WIND, SHARE, runs, seed.seed)
        yield {
            **dataclasses.asdict(task), **_told(job.problem, seen),
            "status": "satisfied" if seed.is_satisfied else "violated",
            "seconds": result.wall_s,
            "env_steps": result.env_steps // len(job.seeds),
        }  # fmt: skip


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parts = ("sets", "builtin", "curve")
    parser.add_argument("parts", nargs="*", default=parts, metavar="sets | builtin | curve")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--time-limit", type=float, default=3600.0)
    parser.add_argument("--runs", type=int, default=10_000, help="a fifth for random rule sets")
    parser.add_argument("--sets", type=int, default=5)
    parser.add_argument("--worlds", type=int, default=22)
    parser.add_argument("--seed", type=int, default=5000)
    parser.add_argument(
        "--methods", nargs="*", default=["ask", "controller"], help="for random rule sets"
    )
    parser.add_argument(
        "--missed", action="store_true", help="only where FILE has no answer of ask that reaches it"
    )
    parser.add_argument("--names", nargs="*", default=builtin_names(), metavar="PROBLEM")
    parser.add_argument("--train", type=int, default=0, metavar="SEEDS")
    parser.add_argument("--first", type=int, default=0, help="seed of training")
    parser.add_argument("--steps", type=int, default=10_000_000, help="of a seed in training")
    parser.add_argument("--table", action="store_true", help="measure nothing more")
    parser.add_argument("--picture", type=Path, help="of the curves, to be drawn")
    options = parser.parse_args()
    if unknown := set(options.parts) - set(parts):
        parser.error(f"no such part: {', '.join(unknown)}")
    if options.train and not options.table:
        train_all(options)
    elif not options.table:
        missing = jobs.run(
            groups(options), measure, out=options.out, jobs=options.jobs,
            time_limit_s=options.time_limit,
        )  # fmt: skip
        for task in missing:
            print(f"not reached: {task}")
    rows = jobs.read(options.out)
    print_tables(rows)
    if options.picture is not None:
        draw_curves(rows, options.picture)
    print(f"\n{described()}")


if __name__ == "__main__":
    main()
