"""Rule sets near the edge of what is possible: nothing false may be said of them.

`python -m benchmarks.edge [--sets 1000] [--first 0] [--maps 20] [--solved 2] [--seed 190] [--jobs
1] [--out FILE]` takes the worlds of `benchmarks.asking` with both kinds of service. For random
rules it searches by driving for the least amount of some regions (or the least difference of two
sums) while the rules hold. That drive is a witness: with the amount that it gave, loosened by up to
2 %, as one more rule, the rules can be kept (side `inside`). Tightened by up to 2 % nobody knows
(`outside`), nor where the witness, replayed in the Gymnasium environment, breaks a rule by
rounding. Each set is asked, and the first of each world are solved too. Plans called satisfied are
replayed as well. False are: `impossible`, if any drive of that world keeps the rules, and
`satisfied`, if the replayed plan breaks one; then it ends with an error.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np

from benchmarks.asking import random_rules, world_of
from benchmarks.machine import described
from benchmarks.measured import write_rows
from scrl.gym import make
from scrl.planning import planner
from scrl.planning.drives import PARTS, PriceDriver
from scrl.planning.pool import PRICE_OF_A_STOP
from scrl.planning.solve import solve
from scrl.policies import Schedule
from scrl.problems import Problem
from scrl.reference.columns import best_mixture
from scrl.violation import cons_vio, signed_violation
from scrl.worlds.sweep.spec import Service

NEAR = 0.02
"""How far from the edge a bound is, at most, as a share of what the drive gave."""
ROUNDS = 6
SCALES = np.array([0.5, 1.0, 2.0, 4.0])
"""Efforts for a step that serves what is to be least."""
PENALTY = 20.0
"""For one unit by which another rule is broken, in units of what is to be least."""
CLOSE = 1e-3
"""Units by which sums in float32 and in float64 may differ."""
SERVICES: tuple[Service, ...] = ("landing", "poured")
SIDES = ("inside", "outside")


@dataclasses.dataclass(frozen=True)
class Settings:
    """What is measured."""

    sets: int
    solved: int
    seed: int


@dataclasses.dataclass(frozen=True)
class Edge:
    """One rule set and what was said of it."""

    world: str
    service: Service
    side: str
    rules: list[str]
    status: str
    seconds: float
    violation: float
    """Of the plan in the Gymnasium environment."""
    solved: str | None
    """The status of `solve`; none where it was not asked."""
    is_false: bool


class Least(NamedTuple):
    """The drive that gives the least of some regions while random rules hold."""

    rules: list[str]
    expression: str
    value: float
    size: float
    """What all regions of the expression received."""
    drive: int


class Drives:
    """All drives of one world so far, and the search for extreme ones."""

    def __init__(self, world: Problem, seed: int) -> None:
        self.world, self.rng = world, np.random.default_rng(seed)
        self.driver = PriceDriver(world.world_spec, world.world)
        shape = PARTS, len(world.regions)
        self.prices, self.amounts = np.zeros((0, *shape)), np.zeros((0, shape[1]))
        self.throttles: list[np.ndarray] = []
        self.drive(self.rng.uniform(-1.5, 0.9, (8, 1, shape[1])))

    def drive(self, prices: np.ndarray) -> None:
        """The best drives at prices [plan, part or 1, region], in efforts for a step."""
        prices = np.minimum(prices, PRICE_OF_A_STOP)
        prices = np.broadcast_to(prices, (len(prices), *self.prices.shape[1:]))
        effort = self.world.world_spec.vehicle.effort
        driven = self.driver.drive(
            effort * prices, most_steps=np.inf, keys=jax.random.split(jax.random.key(0), 1),
            lattice=self.driver.lattice(effort * prices.max(axis=(0, 1)), 48),
        )  # fmt: skip
        done = driven.is_finished
        self.prices = np.concatenate([self.prices, prices[done]])
        self.amounts = np.concatenate([self.amounts, driven.amounts[done, 0]])
        self.throttles += [driven.throttles[each] for each in np.flatnonzero(done)]

    def least(self, rules: list[str], weights: np.ndarray) -> int | None:
        """The drive with the least of weights . amounts that keeps the rules; none if none does.

        Column generation for the branch of the drive that comes nearest to keeping the rules; the
        drives of the mixture are also spliced at random places, since one drive has to do it.
        """
        table = self.world.with_rules(rules).atoms
        for _ in range(ROUNDS):
            nearest = int((cons_vio(table, self.amounts) + 0.1 * self.amounts @ weights).argmin())
            signed = signed_violation(table.coefficients, table.bounds, self.amounts)
            branch = [atoms[signed[nearest, atoms].argmin()] for atoms in _listed(table.listed)]
            over, rows = signed[:, branch], table.coefficients[branch]
            mixed = best_mixture(-self.amounts @ weights, over, np.full(len(branch), PENALTY))
            one = -(weights + mixed.multipliers @ rows)
            first, second = self.rng.choice(mixed.used, (2, len(SCALES)))
            cut = self.rng.integers(1, PARTS, len(SCALES))
            is_first = (np.arange(PARTS) < cut[:, None])[..., None]
            spliced = np.where(is_first, self.prices[first], self.prices[second])
            by_scale = np.repeat((SCALES[:, None] * one)[:, None], PARTS, axis=1)
            self.drive(np.concatenate([by_scale, spliced]))
        kept = np.flatnonzero(self.keeping(rules))
        return int(kept[(self.amounts[kept] @ weights).argmin()]) if len(kept) else None

    def keeping(self, rules: list[str]) -> np.ndarray:
        """Which drives keep the rules."""
        return cons_vio(self.world.with_rules(rules).atoms, self.amounts) == 0.0

    def draw(self) -> Least:
        """Random rules that some drive keeps, and the least of random regions."""
        while True:
            rules = random_rules(self.world, self.rng)[: self.rng.integers(0, 4)]
            *plus, last = self.rng.permutation(self.world.regions)[: self.rng.integers(1, 4)]
            weights = np.isin(self.world.regions, [*plus, last]).astype(float)
            expression = " + ".join([*plus, last])
            if plus and self.rng.uniform() < 0.3:
                # What is subtracted needs a limit, or its drives would never end.
                weights[self.world.regions.index(last)] = -1.0
                most = np.quantile(self.amounts @ (weights < 0), self.rng.uniform(0.2, 0.8))
                rules = [*rules, f"{last} <= {most:.0f}"]
                expression = f"{' + '.join(plus)} - {last}"
            found = self.least(rules, weights)
            if found is not None:
                given = self.amounts[found]
                value, size = float(given @ weights), float(given @ np.abs(weights))
                return Least(rules, expression, value, size, found)


def _listed(listed: np.ndarray) -> list[np.ndarray]:
    return [atoms[atoms >= 0] for atoms in listed]


def replayed(problem: Problem, throttles: np.ndarray) -> float:
    """The violation of a plan in the Gymnasium environment."""
    env, given, is_over = make(problem), np.zeros(len(problem.regions)), False
    env.reset()
    for throttle in throttles:
        *_, is_over, _, info = env.step(np.array([throttle]))
        given += info["labels"]
    if not is_over:
        return np.inf
    return float(cons_vio(problem.atoms, problem.world_spec.vehicle.rate * given))


def measure(task: tuple[int, Service, int], *, settings: Settings) -> list[Edge]:
    """The rule sets of one world, two for each drive that was searched for."""
    number, service, count = task
    world, asking = world_of(number, service), planner()
    seed = settings.seed + 100 * number + SERVICES.index(service)
    drives, found = Drives(world, seed), []
    while len(found) < count:
        least = drives.draw()
        for sign in (1.0, -1.0):
            shift = sign * (CLOSE + drives.rng.uniform(0.0, NEAR) * least.size)
            rules = [*least.rules, f"{least.expression} <= {least.value + shift:.4f}"]
            problem = world.with_rules(rules)
            is_witness = replayed(problem, drives.throttles[least.drive]) == 0.0
            answer = asking.ask(world, rules)
            solved = solve(problem, time_limit_s=20.0) if len(found) < settings.solved else None
            policy = answer.plans[0].policy
            if not isinstance(policy, Schedule):
                raise SystemExit(f"{world.name}: an answer without throttles: {rules}")
            violation = replayed(problem, np.asarray(policy.throttles))
            side = SIDES[0] if is_witness else SIDES[1]
            edge = Edge(
                world.name, service, side, rules, answer.status, answer.wall_s, violation,
                None if solved is None else solved.status, False,
            )  # fmt: skip
            found.append(edge)
    return [_judged(edge, drives) for edge in found[:count]]


def _judged(edge: Edge, drives: Drives) -> Edge:
    """Whether something false was said, by all that was driven on this world."""
    is_broken = edge.status == "satisfied" and edge.violation > CLOSE
    is_excluded = "impossible" in (edge.status, edge.solved) or edge.solved == "infeasible"
    is_kept = is_excluded and bool(drives.keeping(edge.rules).any())
    return dataclasses.replace(edge, is_false=is_broken or is_kept)


def row_of(name: str, edges: list[Edge]) -> str:
    """One line of the table."""
    statuses = [edge.status for edge in edges]
    counts = [statuses.count(each) for each in ("satisfied", "impossible", "unknown")]
    kept = [edge.violation for edge in edges if edge.status == "satisfied"]
    cells = [
        name, len(edges), *counts, f"{counts[2] / max(len(edges), 1):.1%}",
        *(sum(edge.is_false and edge.status == each for edge in edges)
          for each in ("impossible", "satisfied")),
        sum(edge.is_false and edge.status == "unknown" for edge in edges),
        f"{max(kept, default=0.0):.1g}", f"{np.median([edge.seconds for edge in edges]):.1f}",
        f"{max(edge.seconds for edge in edges):.0f}",
    ]  # fmt: skip
    return "| " + " | ".join(map(str, cells)) + " |"


HEAD = (
    "sets", "number", "satisfied", "impossible", "unknown", "share unknown", "false impossible",
    "false satisfied", "false by `solve`", "largest violation replayed", "median, s", "longest, s",
)  # fmt: skip


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--sets", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="world")
    parser.add_argument("--maps", type=int, default=20)
    parser.add_argument("--solved", type=int, default=2)
    parser.add_argument("--seed", type=int, default=190)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    settings = Settings(chosen.sets, chosen.solved, chosen.seed)
    numbers = range(chosen.first, 2 + chosen.maps)
    worlds: list[tuple[int, Service]] = [*product(numbers, SERVICES)]
    tasks: list[tuple[int, Service, int]] = [
        (number, service, settings.sets // len(worlds) + (index < settings.sets % len(worlds)))
        for index, (number, service) in enumerate(worlds)
    ]
    found: list[Edge] = []
    one = partial(measure, settings=settings)
    with ProcessPoolExecutor(chosen.jobs, mp_context=get_context("spawn")) as pool:
        for each in as_completed([pool.submit(one, task) for task in tasks if task[2]]):
            found += each.result()
            write_rows(chosen.out, map(dataclasses.asdict, found))
            print(row_of(f"{found[-1].world}, {found[-1].service}", each.result()),
                  file=sys.stderr, flush=True)  # fmt: skip
    print("| " + " | ".join(HEAD) + " |\n" + "|---" * len(HEAD) + "|")
    for service in SERVICES:
        for side in SIDES:
            some = [edge for edge in found if (edge.service, edge.side) == (service, side)]
            print(row_of(f"{service}, {side}", some))
    print(row_of("all", found))
    print(f"\n{described()}")
    if false := [edge for edge in found if edge.is_false]:
        raise SystemExit("\n".join(["said falsely:", *map(str, false)]))


if __name__ == "__main__":
    main()
