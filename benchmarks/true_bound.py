"""No drive above the proven bound, and how near the best drives come to it.

`python -m benchmarks.true_bound [drives] [rules] [builtin] [--service landing poured] [--out FILE]
[--drives 5000] [--maps 20] [--sets 2] [--search 120] [--seed 0] [--jobs 1] [--time-limit S]`

- `drives` drives Agri, Med, random maps and a map of narrow strips in every way there is (constant,
  random, stop and go, by the cell, the lattice's, the fluid policy's, and locally improved ones),
  with the world's own float32 places and speeds, and compares return + prices . amounts - per_step
  steps with the bound at many prices: of the dynamic program, and for poured service also of the
  fluid. Every world is one line of FILE, written at once; the same command goes on with those that
  are missing there.
- `rules`: random rule sets, against the plans of `ask`.
- `builtin`: the built-in problems, against the plans of `solve`, `ask` and a search.

It ends with an error if anything is above its bound.
"""

from __future__ import annotations

import argparse
import dataclasses
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import jax
import numpy as np

import scrl
from benchmarks import jobs
from benchmarks.asking import GRID, rule_sets, world_of
from benchmarks.machine import described
from scrl.planning.drives import PriceDriver
from scrl.planning.planner import planner
from scrl.problems import Problem, ProblemOptions, builtin_names, load
from scrl.reference.answer import Question
from scrl.reference.fluid import FluidSweep
from scrl.reference.lattice import SpeedLattice, drive
from scrl.reference.solve import bounded, fluid_reference
from scrl.reference.true_bound import Leaf, prove
from scrl.violation import cons_vio
from scrl.worlds.sweep import dynamics
from scrl.worlds.sweep.bound import step_bound
from scrl.worlds.sweep.dynamics import Place
from scrl.worlds.sweep.regions import from_masks
from scrl.worlds.sweep.service import service_table
from scrl.worlds.sweep.spec import Service, SweepRoute, SweepSpec

PRICES = 32
"""Vectors of prices that every drive is compared at."""
BEST_OF = 8
"""As many of them have drives made for them."""
SERVICES: tuple[Service, ...] = ("landing", "poured")
MOST_STEPS = 3000
PARTS = 8
"""Stretches of the path with prices of their own, in the search for good single plans."""
PENALTY = 0.06
"""For one unit of violation, in that search."""


@dataclass(frozen=True)
class Moment:
    """Where drives side by side are."""

    step: int
    kind: np.ndarray
    """Of the cell after the one where each drive is."""
    speed: np.ndarray


Choose = Callable[[Moment], np.ndarray]
"""The throttles of drives side by side."""


@dataclass(frozen=True)
class Drove:
    """Drives that came to their end."""

    returns: np.ndarray
    amounts: np.ndarray
    steps: np.ndarray
    throttles: np.ndarray

    def worth(self, prices: np.ndarray, per_step: np.ndarray) -> np.ndarray:
        """[drive, price vector]"""
        return self.returns[:, None] + self.amounts @ prices.T - np.outer(self.steps, per_step)


def drive_all(spec: SweepSpec, count: int, choose: Choose) -> Drove:
    """Drives side by side, by the functions of the world, in float32; sums are float64."""
    vehicle, service, served = spec.vehicle, spec.service, spec.service.of_regions
    cells = len(spec.path.cells)
    cell, steps = np.zeros(count, int), np.zeros(count, int)
    offset, speed = np.zeros(count, np.float32), np.zeros(count, np.float32)
    returns, shares = np.zeros(count), np.zeros((len(spec.regions.names), count))
    throttles = []
    for step in range(min(MOST_STEPS, spec.route.horizon_steps)):
        is_running = cell < cells
        if not is_running.any():
            break
        kind = service.kind_of_part[service.parts * np.minimum(cell + 1, cells)]
        throttle = np.broadcast_to(choose(Moment(step, kind, speed)), count).astype(np.float32)
        throttles.append(throttle)
        speed = dynamics.next_speed(vehicle, speed, throttle, np).astype(np.float32)
        before = Place.of(cell, offset, service.parts, lambda place: place.astype(int))
        whole, offset = dynamics.advance(offset, speed, np)
        cell = np.minimum(cell + whole.astype(int), cells)
        returns += is_running * dynamics.step_reward(vehicle, speed.astype(float))
        shares += is_running * dynamics.share_of_step(
            served,
            before,
            Place.of(cell, offset, service.parts, lambda place: place.astype(int)),
            service.parts * speed,
            is_poured=spec.is_poured,
            look=lambda table, index: table[index].T,
        )
        steps += is_running
    done = cell >= cells
    amounts = vehicle.rate * shares.T
    return Drove(returns[done], amounts[done], steps[done], np.array(throttles).T[done])


def ways_to_drive(
    spec: SweepSpec, count: int, rng: np.random.Generator
) -> Iterator[tuple[str, int, Choose]]:
    """A name, a number of drives and their throttles."""
    fifth, vehicle = count // 5, spec.vehicle
    constant = rng.uniform(0.03, 1.0, fifth)
    yield "constant", fifth, lambda _: constant
    centre, width = rng.uniform(0.1, 1.0, fifth), rng.uniform(0.0, 1.0, fifth)
    yield "random", fifth, lambda _: centre + width * rng.normal(size=fifth)
    share = rng.uniform(0.1, 1.0, fifth)
    yield "stop and go", fifth, lambda _: rng.random(fifth) < share
    length, blocks = rng.integers(2, 60, fifth), rng.uniform(0.05, 1.3, (MOST_STEPS, fifth))
    every = np.arange(fifth)
    yield "stretches", fifth, lambda now: blocks[now.step // length, every]
    wanted = vehicle.max_speed * rng.uniform(0.1, 1.2, (fifth, len(spec.service.kinds)))
    kept, new = vehicle.inertia, (1.0 - vehicle.inertia) * vehicle.max_speed
    yield "by cell", fifth, lambda now: (wanted[every, now.kind] - kept * now.speed) / new


def lattice_throttles(spec: SweepSpec, per_step: np.ndarray) -> list[np.ndarray]:
    """Throttles of the lattice's best drives at these prices per step in a region."""
    lattice, vehicle = SpeedLattice(spec, 48), spec.vehicle
    driven = drive(lattice, per_step, np.asarray(lattice.values(per_step[:, None])))
    speeds = np.concatenate([np.zeros((1, len(per_step))), driven.speeds])
    new = (1.0 - vehicle.inertia) * vehicle.max_speed
    throttles = (speeds[1:] - vehicle.inertia * speeds[:-1]) / new
    return [throttles[:steps, plan] for plan, steps in enumerate(driven.steps)]


def _replayed(throttles: np.ndarray, now: Moment) -> np.ndarray:
    return throttles[:, min(now.step, throttles.shape[1] - 1)]


def improved(
    spec: SweepSpec, throttles: np.ndarray, worth: Callable[[Drove], np.ndarray], count: int,
    rng: np.random.Generator,
) -> Iterator[Drove]:  # fmt: skip
    """Rounds of a local search from one drive: stretches of throttles are changed."""
    best = np.concatenate([throttles, np.ones(200)])
    for spread in (0.0, 0.5, 0.3, 0.1, 0.03):
        changed = np.repeat(best[None], count, axis=0)
        for one in changed[1:]:
            for first in rng.integers(0, len(throttles), 3):
                one[first : first + rng.integers(1, 8)] += spread * rng.normal()
        driven = drive_all(spec, count, partial(_replayed, changed))
        if len(driven.returns):
            yield driven
            best = driven.throttles[worth(driven).argmax()]


def bounds_at(
    spec: SweepSpec, prices: np.ndarray, per_step: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """What no drive exceeds at each vector of prices: by steps, and by the fluid where it holds."""
    by_steps = step_bound(spec).at(prices, per_step).values
    if not spec.is_poured:
        return by_steps, np.full(len(prices), np.inf)
    fluid, found = FluidSweep.of(spec), []
    for worth in prices @ fluid.amount - np.outer(per_step, fluid.weight):
        times = fluid.best_times(-worth / fluid.weight)
        found.append(fluid.return_of(times) + worth @ times)
    return by_steps, np.array(found)


@dataclass(frozen=True)
class Task:
    """The drives of one world."""

    world: int
    """Agri, Med, the random maps, and last the strips."""
    service: Service
    drives: int
    seed: int

    def problem(self) -> Problem:
        if self.world >= 0:
            return world_of(self.world, self.service)
        # Its rows cross bands of one to three cells, which are shorter than the way of a brake.
        bands = np.repeat(np.arange(25) % 4, np.tile([1, 2, 3, 2, 2], 5))[:GRID]
        masks = np.array([np.broadcast_to(bands == each, (GRID, GRID)) for each in range(3)])
        spec = SweepSpec(from_masks(masks, ["A", "B", "C"]), route=SweepRoute(service=self.service))
        return Problem.create(spec, (), ProblemOptions(name="strips"))


def measure(task: Task) -> dict[str, Any]:
    """For each way to drive a world: drives, how many are above, and how near the best."""
    world = task.problem()
    spec, rng = world.world_spec, np.random.default_rng(task.seed)
    regions = len(spec.regions.names)
    size = spec.vehicle.effort * rng.choice([0.3, 0.7, 1.5], (PRICES, 1))
    a_step = (
        size * rng.uniform(-1.0, 1.0, (PRICES, regions)) * (rng.random((PRICES, regions)) < 0.7)
    )
    prices = a_step / spec.vehicle.rate
    per_step = spec.vehicle.effort * rng.choice([0.0, 0.0, 0.1, 0.5], PRICES)
    started = time.perf_counter()
    by_steps, by_fluid = bounds_at(spec, prices, per_step)
    bounds, took = np.minimum(by_steps, by_fluid), time.perf_counter() - started
    gaps: dict[str, list[np.ndarray]] = {}

    def keep(name: str, driven: Drove) -> None:
        gaps.setdefault(name, []).append(bounds - driven.worth(prices, per_step))

    for name, many, choose in ways_to_drive(spec, task.drives, rng):
        keep(name, drive_all(spec, many, choose))
    free = np.flatnonzero(per_step == 0)[:BEST_OF]
    for number, throttles in zip(free, lattice_throttles(spec, a_step[free]), strict=True):
        for driven in improved(
            spec, throttles, lambda one, at=number: one.worth(prices, per_step)[:, at],
            max(task.drives // 100, 2), rng,
        ):  # fmt: skip
            keep("improved", driven)
    driver = PriceDriver(spec, world.world)
    keys = jax.random.split(jax.random.key(task.seed), 1)
    ran = driver.drive(a_step[:, None], most_steps=MOST_STEPS, keys=keys)
    done = ran.is_finished
    keep(
        "fluid policy", Drove(ran.returns[done, 0], ran.amounts[done, 0], ran.steps[done, 0], done)
    )
    ways = {
        name: {
            "drives": sum(map(len, some)),
            "above": int(sum((each < 0).any(axis=1).sum() for each in some)),
            "nearest": min((float((each / np.abs(bounds)).min()) for each in some if len(each)),
                           default=None),
        }
        for name, some in gaps.items()
    }  # fmt: skip
    # At so many prices inertia makes the bound lower than the fluid.
    below_fluid = int((by_steps < by_fluid).sum()) if spec.is_poured else None
    return {"name": world.name, "ways": ways, "below_fluid": below_fluid, "bounds_s": took}


def searched(problem: Problem, leaf: Leaf, seconds: float, seed: int) -> float:
    """The return of the best single drive found with prices of their own in each part of the path.

    An evolution strategy around the multipliers of the bound; the lattice drives.
    """
    spec, rng = problem.world_spec, np.random.default_rng(seed)
    service, regions = spec.service, len(spec.regions.names)
    served = service.kinds[service.on_path]
    part = np.arange(len(served)) * PARTS // len(served)
    by_part = np.concatenate([served * (part == each)[:, None] for each in range(PARTS)], axis=1)
    in_parts = dataclasses.replace(spec)
    in_parts.__dict__["service"] = service_table(
        by_part, spec.path.outside, is_poured=spec.is_poured, most_cells=service.most_cells
    )
    lattice, chosen = SpeedLattice(in_parts, 48, 4), list(leaf.atoms)
    pool, best = [(np.inf, np.tile(leaf.multipliers[:-1], (PARTS, 1)))], -np.inf
    deadline, spread = time.monotonic() + seconds, 0.1
    while time.monotonic() < deadline:
        tried = np.array([pool[each][1] for each in rng.integers(0, len(pool), 16)])
        some = rng.random(tried.shape) < 0.25
        tried = np.maximum(tried * (1.0 + spread * some * rng.normal(size=tried.shape)), 0.0)
        prices = spec.vehicle.rate * -tried @ problem.atoms.coefficients[chosen]
        prices = prices.reshape(len(tried), -1)
        driven = drive(lattice, prices, np.asarray(lattice.values(prices[:, None])))
        amounts = driven.density.reshape(len(tried), PARTS, regions).sum(axis=1)
        for number in np.flatnonzero(driven.is_finished):
            violation = float(cons_vio(problem.atoms, amounts[number]))
            pool.append((PENALTY * violation - driven.returns[number], tried[number]))
            if violation <= problem.tolerance:
                best = max(best, float(driven.returns[number]))
        pool = sorted(pool, key=lambda each: each[0])[:12]
        spread = max(0.02, 0.985 * spread)
    return best


def built_in(seconds: float, seed: int) -> Iterator[str]:
    """The bounds of the built-in problems against the plans of `solve`, `ask` and a search."""
    yield "| problem | bound | mixture | `ask` | best plan | gap | first bound | in s | in all, s |"
    yield "|---" * 9 + "|"
    for name in builtin_names():
        problem = load(name)
        found, first = prove(problem), prove(problem, time_limit_s=0.0)
        solved = scrl.solve(problem)
        mixture = solved.mixture or solved.plan
        asked = planner().ask(problem).evaluation.return_
        best = max(asked, searched(problem, found.leaves[0], seconds, seed))
        if found.value is None or first.value is None or mixture is None:
            raise SystemExit(f"{name}: no bound: {found.reason}")
        if max(mixture.return_, best) > found.value:
            raise SystemExit(f"{name}: a plan is above its bound")
        gap = (found.value - best) / abs(found.value)
        yield (
            f"| {name} | {found.value:.3f} | {mixture.return_:.3f} | {asked:.3f} | {best:.3f} "
            f"| {gap:.2%} | {first.value:.3f} | {first.wall_s:.2f} | {found.wall_s:.1f} |"
        )


def random_rules(world: Problem, sets: int, seed: int) -> str:
    """Whether the plans of `ask` stay below the bounds of random rule sets."""
    gaps, seconds, impossible, asking = [], [], 0, planner()
    for rules in rule_sets(world, sets, seed):
        problem, started = world.with_rules(rules), time.perf_counter()
        found = bounded(Question.of(problem), fluid_reference(problem), time_limit_s=5.0)
        seconds.append(time.perf_counter() - started)
        answer = asking.ask(world, rules)
        impossible += found.is_impossible
        if not answer.is_satisfied:
            continue
        if found.bound is None or answer.evaluation.return_ > found.bound:
            raise SystemExit(f"{world.name}: a plan above its bound {found.bound}: {rules}")
        gaps.append((found.bound - answer.evaluation.return_) / abs(found.bound))
    mean = f"{np.mean(gaps):.2%}" if gaps else "-"
    return (
        f"| {world.name} | {world.world_spec.route.service} | {len(gaps)} of {sets} | {mean} "
        f"| {impossible} | {np.mean(seconds):.1f} |"
    )


def print_drives(rows: list[dict[str, Any]], service: Service) -> None:
    """The table of one kind of service."""
    print("| way to drive | drives | above the bound | nearest to it |\n|---|---|---|---|")
    for way in dict.fromkeys(way for row in rows for way in row["ways"]):
        some = [row["ways"][way] for row in rows if way in row["ways"]]
        drives, above = (sum(each[name] for each in some) for name in ("drives", "above"))
        nearest = min(each["nearest"] for each in some if each["nearest"] is not None)
        print(f"| {way} | {drives:,} | {above} | {nearest:.2%} |")
    total = sum(way["drives"] for row in rows for way in row["ways"].values())
    took = np.median([row["bounds_s"] for row in rows])
    print(f"\n{service}: {total:,} drives on {len(rows)} worlds at {PRICES} prices each; all "
          f"bounds of a world in {took:.2f} s.")  # fmt: skip
    if service == "poured":
        print(f"Below the fluid at {sum(row['below_fluid'] for row in rows)} prices.")
    print(flush=True)


PARTS_OF_IT = ("drives", "rules", "builtin")


def main() -> None:
    """Drive, compare and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", default=PARTS_OF_IT, metavar=" | ".join(PARTS_OF_IT))
    parser.add_argument("--service", nargs="+", choices=SERVICES, default=SERVICES)
    parser.add_argument("--drives", type=int, default=5000)
    parser.add_argument("--maps", type=int, default=20)
    parser.add_argument("--sets", type=int, default=2)
    parser.add_argument("--search", type=float, default=120.0, help="seconds for each problem")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--time-limit", type=float, default=7200.0)
    parser.add_argument("--out", type=Path, default=Path("bound.jsonl"))
    chosen = parser.parse_args()
    above = 0
    if "drives" in chosen.parts:
        worlds = product(chosen.service, [*range(2 + chosen.maps), -1])
        groups = [[Task(number, service, chosen.drives, chosen.seed + number)]
                  for service, number in worlds]  # fmt: skip
        missing = jobs.run(
            groups, measure, out=chosen.out, jobs=chosen.jobs, time_limit_s=chosen.time_limit
        )
        for task in missing:
            print(f"not reached: {task}")
        tasks = [dataclasses.asdict(task) for [task] in groups]
        for service in chosen.service:
            rows = [row for row in jobs.read(chosen.out) if row["service"] == service
                    and any(row.items() >= task.items() for task in tasks)]  # fmt: skip
            print_drives(rows, service)
            above += sum(way["above"] for row in rows for way in row["ways"].values())
        print(f"{above} drives above the bound.\n{described()}\n", flush=True)
    if "builtin" in chosen.parts:
        for line in built_in(chosen.search, chosen.seed):
            print(line, flush=True)
    if "rules" in chosen.parts:
        print("\n| world | service | plans kept | mean gap | impossible | s |\n" + "|---" * 6 + "|")
        for service, number in product(chosen.service, range(2 + chosen.maps)):
            world = world_of(number, service)
            print(random_rules(world, chosen.sets, 5000 + chosen.seed + number), flush=True)
    if above:
        raise SystemExit("a drive is above the bound")


if __name__ == "__main__":
    main()
