"""Small finite environments under a rule that binds, against the best that any policy can do.

    python -m benchmarks.finite [NAME ...] [--seeds 5] [--steps 400000]

prints a Markdown table. The best is that of the finite MDP over (step, state), by
`scrl.reference`: policies may know the step there and draw actions by chance. Trained policies see
the state alone and act without chance.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from scipy import sparse

import scrl
from scrl.reference.finite import FiniteMDP
from scrl.reference.solve_finite import FiniteSolution, solve_mdp


class Finite(NamedTuple):
    """An environment with a table of transitions, a label, and a rule that binds."""

    env: str
    label: str
    is_there: Callable[[int], bool]
    rules: str
    horizon_steps: int

    @property
    def problem(self) -> Any:
        labels = {self.label: lambda seen: self.is_there(int(seen))}
        return scrl.environment(
            self.env, labels=labels, rules=self.rules, horizon_steps=self.horizon_steps
        )


PROBLEMS = {
    "cliff": Finite("CliffWalking-v1", "edge", lambda at: at // 12 == 2, "edge <= 4", 50),
    "lake": Finite("FrozenLake-v1", "corner", lambda at: at == 0, "corner <= 9", 100),
}


def mdp_of(given: Finite) -> FiniteMDP:
    """The environment as a finite MDP whose states are (step, state)."""
    made: Any = gymnasium.make(given.env).unwrapped
    table, horizon = made.P, given.horizon_steps
    states, actions = len(table), len(table[0])
    rewards = np.zeros((horizon, states, actions))
    labels = np.zeros((horizon, states, actions, 1))
    entries: list[tuple[int, int, float]] = []
    for state, action in np.ndindex(states, actions):
        for chance, after, reward, is_terminated in table[state][action]:
            rewards[:, state, action] += chance * reward
            labels[:, state, action, 0] += chance * given.is_there(after)
            for step in range(0 if is_terminated else horizon - 1):
                row = (step * states + state) * actions + action
                entries.append((row, (step + 1) * states + after, chance))
    rows, columns, chances = zip(*entries, strict=True)
    size = horizon * states
    moves = sparse.coo_array((chances, (rows, columns)), shape=(size * actions, size)).tocsr()
    first = np.asarray(made.initial_state_distrib, float)
    return FiniteMDP(
        transitions=moves,
        rewards=rewards.reshape(size, actions),
        labels=labels.reshape(size, actions, 1),
        start=np.concatenate([first, np.zeros(size - states)]),
        regions=[given.label],
    )


def best_of(given: Finite, *, has_rules: bool = True) -> FiniteSolution:
    """The best policy under the rule, or without it."""
    return solve_mdp(mdp_of(given), given.rules if has_rules else [])


def measure(name: str, seeds: int, steps: int) -> None:
    """One row for each seed."""
    given = PROBLEMS[name]
    free, best = best_of(given, has_rules=False), best_of(given)
    print(f"| {name}: {given.rules} | best without | {_cells(free.return_, free.density)} | |")
    print(f"| {name}: {given.rules} | best under it | {_cells(best.return_, best.density)} | |")
    with tempfile.TemporaryDirectory() as folder:
        result = scrl.train(given.problem, seeds=seeds, steps=steps, out=Path(folder) / "run")
    for each in result.seeds:
        found = each.evaluation
        kept = "yes" if found.is_satisfied else f"violated by {found.cons_vio:.2f}"
        cells = _cells(found.return_, found.density)
        print(f"| {name}: {given.rules} | seed {each.seed} | {cells} | {kept} |", flush=True)


def _cells(return_: float | None, density: Any) -> str:
    if return_ is None:
        return "none | "
    return f"{return_:.3f} | " + ", ".join(f"{key} {value:.2f}" for key, value in density.items())


def main() -> None:
    """Solve, train and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of {', '.join(PROBLEMS)}")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=400_000)
    chosen = parser.parse_args()
    print("| problem | policy | return | received | kept |")
    print("|---" * 5 + "|")
    for name in chosen.names or PROBLEMS:
        measure(name, chosen.seeds, chosen.steps)


if __name__ == "__main__":
    main()
