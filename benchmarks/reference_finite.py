"""Finite MDPs at scale: the linear program, and columns by dynamic programming, on the same worlds.

python -m benchmarks.reference_finite [--quick] prints a Markdown table with seconds.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter

import numpy as np
from scipy import sparse

from scrl.reference.finite import FiniteMDP
from scrl.reference.solve_finite import FiniteSolution, solve_mdp

ACTIONS = 5
REGIONS = ("A", "B", "C", "D", "E", "F")
DISCOUNT = 0.95
SEED = 20_240
LIMIT_S = 600.0


def grid_world(states: int, seed: int = SEED) -> FiniteMDP:
    """A map: stay or move to a neighbour, 0.8 as meant and 0.05 to each other of the five cells."""
    random = np.random.default_rng(seed)
    height = max(int(np.sqrt(states)), 1)
    width = -(-states // height)
    row, column = np.divmod(np.arange(height * width), width)
    moves = [(0, 0), (1, 0), (-1, 0), (0, 1), (0, -1)]
    target = np.stack(
        [
            np.clip(row + down, 0, height - 1) * width + np.clip(column + right, 0, width - 1)
            for down, right in moves
        ],
        axis=1,
    )
    chance = np.full((ACTIONS, ACTIONS), 0.05)
    np.fill_diagonal(chance, 0.8)
    centres = random.integers(0, [height, width], size=(len(REGIONS), 2))
    away = np.hypot(row[:, None] - centres[:, 0], column[:, None] - centres[:, 1])
    return _world(
        np.repeat(target, ACTIONS, axis=0),
        np.tile(chance, (len(row), 1)),
        away < height / 5,
        random,
    )


def random_world(states: int, seed: int = SEED) -> FiniteMDP:
    """No map at all: five random successors for each action, so factors fill up. The hard case."""
    random = np.random.default_rng(seed)
    target = random.integers(0, states, size=(states * ACTIONS, 5))
    chance = random.dirichlet(np.ones(5), size=states * ACTIONS)
    return _world(target, chance, random.random((states, len(REGIONS))) < 0.2, random)


def _world(
    target: np.ndarray, chance: np.ndarray, is_inside: np.ndarray, random: np.random.Generator
) -> FiniteMDP:
    """The MDP with these successors, random rewards, and a uniform start."""
    states = len(is_inside)
    rows = np.repeat(np.arange(states * ACTIONS), target.shape[1])
    transitions = sparse.csr_array(
        (chance.ravel(), (rows, target.ravel())), shape=(states * ACTIONS, states)
    )
    return FiniteMDP(
        transitions=transitions,
        rewards=random.normal(size=(states, ACTIONS)),
        labels=is_inside * 1.0,
        start=np.full(states, 1 / states),
        discount=DISCOUNT,
        regions=REGIONS,
    )


def rules_for(mdp: FiniteMDP, *, has_choice: bool) -> dict[str, str]:
    """Rules that bite: what the best free policy gives keeps none of them."""
    free = solve_mdp(mdp, [], method="columns", time_limit_s=LIMIT_S)
    now = free.density or {}
    b, c, d = (0.5 * now[name] for name in "BCD")
    rules = {
        "less": f"A <= {0.7 * now['A']:.6f}",
        "more": f"B + C >= {2.2 * (b + c):.6f}",
        "enough": f"D >= {2.1 * d:.6f}",
    }
    if not has_choice:
        return rules
    return rules | {
        "enough": f"D >= {2.4 * d:.6f} or E >= {1.2 * now['E']:.6f}",
        "if-then": f"if F > {0.8 * now['F']:.6f} then D >= {2.1 * d:.6f}",
    }


WORLDS: dict[str, Callable[[int], FiniteMDP]] = {"grid": grid_world, "random": random_world}


@dataclass(frozen=True)
class Case:
    """A world, whether its rules leave a choice, and the methods that must agree on it."""

    world: str
    states: int
    has_choice: bool
    methods: tuple[str, ...]


CASES = (
    Case("grid", 1_000, True, ("milp", "branches", "columns")),
    Case("random", 1_000, True, ("milp", "branches", "columns")),
    Case("grid", 5_000, False, ("milp", "columns")),
    Case("random", 5_000, False, ("milp", "columns")),
    Case("grid", 20_000, True, ("columns",)),
    Case("random", 20_000, True, ("columns",)),
)
"""With method "milp", rules that leave no choice are one linear program."""


@dataclass(frozen=True)
class Measured:
    """One line of the table."""

    case: Case
    states: int
    method: str
    seconds: float
    solution: FiniteSolution

    def line(self) -> str:
        found = self.solution
        worth = "-" if found.return_ is None else f"{found.return_:.6f}"
        proof = "-" if found.certificate is None else f"{found.certificate.worst:.0e}"
        return (
            f"| {self.case.world} | {self.states:,} | {'yes' if self.case.has_choice else 'no'} "
            f"| {self.method} | {self.seconds:.1f} "
            f"| {found.status.value} | {worth} | {found.bound:.6f} | {proof} |"
        )


def measure(case: Case, method: str) -> Measured:
    """Build and solve one world; the seconds are those of `solve_mdp`."""
    mdp = WORLDS[case.world](case.states)
    rules = rules_for(mdp, has_choice=case.has_choice)
    began = perf_counter()
    solution = solve_mdp(mdp, rules, method=method, time_limit_s=LIMIT_S)
    return Measured(case, mdp.states, method, perf_counter() - began, solution)


def main() -> None:
    """Print the table; raise if two methods disagree on a world."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="only the worlds of 1,000 states")
    is_quick = parser.parse_args().quick
    print("| world | states | choice | method | seconds | status | return | bound | certificate |")
    print("|---|---|---|---|---|---|---|---|---|")
    for case in CASES:
        if is_quick and case.states > 1_000:
            continue
        lines = [measure(case, method) for method in case.methods]
        print("\n".join(each.line() for each in lines), flush=True)
        found = [each.solution.return_ or 0.0 for each in lines if each.solution.return_]
        if not np.allclose(found, found[:1], rtol=1e-5, atol=1e-6):
            raise SystemExit(f"the methods disagree on {case}: {found}")


if __name__ == "__main__":
    main()
