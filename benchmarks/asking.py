"""How good answers without training are: random rule sets on Agri, Med and random maps.

`python -m benchmarks.asking --out FILE [--sets 200] [--solved 50] [--maps 20] [--service landing]
[--wind 0.1] [--seed 1000] [--jobs 1]` draws rule sets of 1 to 5 rules with up to 4
disjuncts each, and discards none. It asks for a plan for each of them, solves the first ones too,
each within `--solve-limit` seconds, and prints a table. A set is lost if a plan for it is known and
the answer breaks a rule.

Each job keeps to one world until that is done, so that it compiles once, and appends every answer
to FILE at once. The same command goes on with what is missing there, and `--table` prints what is
there.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from benchmarks.machine import matmul_gflops
from scrl.planning import planner
from scrl.planning.solve import solve
from scrl.problems import Problem, ProblemOptions, find_world
from scrl.rules.show import show_name
from scrl.worlds.sweep.regions import from_masks
from scrl.worlds.sweep.spec import Service, SweepSpec

GRID = 50


def random_map(seed: int) -> Problem:
    """3 to 12 regions on a square, blobs that keep clear of each other or (every third) overlap."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(3, 13))
    may_overlap = seed % 3 == 0
    row, column = np.mgrid[0:GRID, 0:GRID] + 0.5
    free, masks = np.ones((GRID, GRID), bool), []
    while len(masks) < count:
        centre, angle = rng.uniform(3, GRID - 3, 2), rng.uniform(0, np.pi)
        radii = np.exp(rng.uniform(np.log(3), np.log(16), 2))
        along = (row - centre[0]) * np.cos(angle) + (column - centre[1]) * np.sin(angle)
        across = (column - centre[1]) * np.cos(angle) - (row - centre[0]) * np.sin(angle)
        wobble = 1.0 + 0.3 * np.sin(3 * np.arctan2(across, along) + rng.uniform(0, 6))
        mask = (along / radii[0]) ** 2 + (across / radii[1]) ** 2 < wobble**2
        mask &= free | may_overlap
        if mask.sum() >= 20:
            masks.append(mask)
            free &= ~mask
    spec = SweepSpec(from_masks(np.array(masks), [f"R{number}" for number in range(1, count + 1)]))
    return Problem.create(spec, (), ProblemOptions(name=f"map-{seed}"))


def random_rules(world: Problem, rng: np.random.Generator) -> list[str]:
    """1 to 5 rules, each with up to 4 disjuncts, with bounds around what full speed gives."""
    spec = world.world_spec
    names = tuple(map(show_name, spec.regions.names))
    full = dict(
        zip(names, spec.regions.sizes / spec.vehicle.max_speed * spec.vehicle.rate, strict=True)
    )
    return [_rule(names, full, rng) for _ in range(rng.integers(1, 6))]


def _rule(names: tuple[str, ...], full: dict[str, float], rng: np.random.Generator) -> str:
    kind = rng.uniform()
    if kind < 0.4:
        return _atom(names, full, rng)
    if kind < 0.7:
        some = rng.choice(names)
        premise = f"{some} > {full[some] * rng.uniform(0.8, 1.3):.0f}"
        return f"if {premise} then {_atom(names, full, rng)}"
    return " or ".join(_atom(names, full, rng) for _ in range(rng.integers(2, 5)))


def _atom(names: tuple[str, ...], full: dict[str, float], rng: np.random.Generator) -> str:
    some = list(rng.choice(names, size=min(int(rng.integers(1, 4)), len(names)), replace=False))
    kind = rng.uniform()
    total = sum(full[name] for name in some)
    if kind < 0.65:
        return f"{' + '.join(some)} >= {total * rng.uniform(1.0, 2.2):.0f}"
    if kind < 0.8 or len(some) < 2:
        return f"{' + '.join(some)} <= {total * rng.uniform(0.9, 1.6):.0f}"
    first, *rest = some
    least = 0.02 * total + 6.0
    return f"{first} == {' + '.join(rest)} within {least * rng.uniform(1.0, 3.0):.0f}"


def rule_sets(world: Problem, count: int, seed: int) -> list[list[str]]:
    """Rule sets as they are drawn, whether they can be kept or not."""
    rng = np.random.default_rng(seed)
    return [random_rules(world, rng) for _ in range(count)]


@dataclasses.dataclass(frozen=True)
class Settings:
    """What is measured."""

    sets: int
    solved: int
    service: Service
    wind: float
    seed: int
    solve_limit: float


@dataclasses.dataclass(frozen=True)
class Asked:
    """The answer to one rule set."""

    world: int
    set: int
    rules: list[str]
    status: str
    return_: float
    violation: float
    gap: float | None
    """To the proven bound."""
    gap_to_fluid: float | None
    seconds: float
    driven: float | None
    """Return of the plan of `solve`; none where it was not asked or found none."""

    @property
    def gap_to_best(self) -> float | None:
        """To the better of the two plans."""
        if self.driven is None or self.status != "satisfied":
            return None
        best = max(self.driven, self.return_)
        return (best - self.return_) / abs(best)

    @property
    def is_lost(self) -> bool:
        """Whether a plan is known, and the answer breaks a rule."""
        return self.driven is not None and self.status != "satisfied"


def ask_some(number: int, *, settings: Settings, out: Path, done: frozenset[int]) -> None:
    """The rule sets of one world that are not done yet; each answer is written at once."""
    world = world_of(number, settings.service, settings.wind)
    asking = planner()
    drawn = rule_sets(world, settings.sets, settings.seed + number)
    missing = [index for index in range(settings.sets) if index not in done]
    if missing:
        asking.ask(world, drawn[missing[0]])  # compiles
    for index in missing:
        answer = asking.ask(world, drawn[index])
        driven = None
        if index < settings.solved and not world.is_random:
            solved = solve(world.with_rules(drawn[index]), time_limit_s=settings.solve_limit)
            driven = solved.return_
        asked = Asked(
            number, index, drawn[index], answer.status, answer.evaluation.return_,
            answer.evaluation.cons_vio, answer.gap, answer.gap_to_fluid, answer.wall_s, driven,
        )  # fmt: skip
        with out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(dataclasses.asdict(asked)) + "\n")


def read(out: Path) -> list[Asked]:
    """The answers in a file; a last line that was cut off is not one."""
    if not out.exists():
        return []
    whole = out.read_text(encoding="utf-8").rpartition("\n")[0]
    return [Asked(**json.loads(line)) for line in whole.splitlines()]


def world_of(number: int, service: Service = "landing", wind: float = 0.0) -> Problem:
    """Agri, Med, then the random maps."""
    world = find_world(("agri", "med")[number]) if number < 2 else random_map(number - 1)
    spec = world.world_spec
    return dataclasses.replace(
        world,
        world_spec=dataclasses.replace(
            spec,
            wind=dataclasses.replace(spec.wind, strength=wind),
            route=dataclasses.replace(spec.route, service=service),
        ),
    )


def row_of(name: str, asked: list[Asked]) -> str:
    """One line of the table."""
    status = [each.status for each in asked]
    lost = sum(each.is_lost for each in asked)
    seconds = [each.seconds for each in asked]
    cells = [
        name, len(asked), *(status.count(each) for each in ("satisfied", "impossible", "unknown")),
        lost, *_shares([each.gap_to_best for each in asked]),
        *_shares([each.gap for each in asked]), *_shares([each.gap_to_fluid for each in asked]),
        f"{np.median(seconds):.2f}", f"{np.quantile(seconds, 0.95):.2f}", f"{max(seconds):.2f}",
    ]  # fmt: skip
    return "| " + " | ".join(map(str, cells)) + " |"


def _shares(gaps: list[float | None]) -> list[str]:
    """Mean, 99th percentile and worst."""
    known = [each for each in gaps if each is not None]
    if not known:
        return ["", "", ""]
    return [f"{each:.2%}" for each in (np.mean(known), np.quantile(known, 0.99), max(known))]


HEAD = (
    "world", "sets", "satisfied", "impossible", "unknown", "lost", "to best: mean", "99 %", "worst",
    "to bound: mean", "99 %", "worst", "to fluid: mean", "99 %", "worst", "median, s", "95 %, s",
    "longest, s",
)  # fmt: skip


def print_table(everything: list[Asked]) -> None:
    """One row for each world, and one for all."""
    print("| " + " | ".join(HEAD) + " |")
    print("|---" * len(HEAD) + "|")
    for number in sorted({each.world for each in everything}):
        print(row_of(world_of(number).name, [each for each in everything if each.world == number]))
    if everything:
        print(row_of("all", everything))
    for each in everything:
        if each.is_lost or (each.gap_to_best or 0.0) > WORTH_A_LOOK:
            print(f"look: {each}", file=sys.stderr)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--table", action="store_true", help="measure nothing more")
    parser.add_argument("--sets", type=int, default=200)
    parser.add_argument("--solved", type=int, default=50)
    parser.add_argument("--maps", type=int, default=20)
    parser.add_argument("--service", choices=("landing", "poured"), default="landing")
    parser.add_argument("--wind", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=1000)
    parser.add_argument("--solve-limit", type=float, default=20.0)
    parser.add_argument("--jobs", type=int, default=1)
    chosen = parser.parse_args()
    settings = Settings(
        chosen.sets, chosen.solved, chosen.service, chosen.wind, chosen.seed, chosen.solve_limit,
    )  # fmt: skip
    if not chosen.table:
        before = read(chosen.out)
        with ProcessPoolExecutor(chosen.jobs, mp_context=get_context("spawn")) as pool:
            running = [
                pool.submit(
                    ask_some, number, settings=settings, out=chosen.out,
                    done=frozenset(each.set for each in before if each.world == number),
                )
                for number in range(2 + chosen.maps)
            ]  # fmt: skip
            for each in as_completed(running):
                each.result()
                print(".", end="", file=sys.stderr, flush=True)
    print_table(read(chosen.out))
    print(f"\nMatrix product {matmul_gflops():,.0f} GFLOP/s.")


WORTH_A_LOOK = 0.04


if __name__ == "__main__":
    main()
