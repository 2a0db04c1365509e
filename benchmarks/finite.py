"""Small finite environments under a rule that binds, against the best that any policy can do.

    python -m benchmarks.finite [NAME ...] [--seeds 5] [--first 0]

prints a Markdown table. The best is that of the finite MDP over (step, state), by
`scrl.reference`: policies may know the step there and draw actions by chance. Trained policies see
the state alone, and draw their actions too. The last two environments are of mo-gymnasium.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from scipy import sparse

import scrl
from scrl.reference.finite import FiniteMDP
from scrl.reference.solve_finite import FiniteSolution, solve_mdp

EPISODES = 4000
"""Episodes behind a row."""


class Outcome(NamedTuple):
    """What an action may lead to."""

    chance: float
    after: int
    reward: float
    label: float
    is_terminated: bool


class Table(NamedTuple):
    """An environment as numbers: its first state, and the outcomes of each state and action."""

    first: int
    outcomes: list[list[list[Outcome]]]


class Finite(NamedTuple):
    """An environment, a rule about one label that binds, and the table of its transitions."""

    env: str
    label: str
    rules: str
    horizon_steps: int
    options: Mapping[str, Any]
    """Its labels, or its rewards."""
    table: Callable[[], Table]
    settings: Mapping[str, Any]

    @property
    def problem(self) -> Any:
        return scrl.environment(
            self.env, rules=self.rules, horizon_steps=self.horizon_steps, **self.options
        )


def in_edge(state: Any) -> bool:
    """Whether a place is in the row beside the cliff."""
    return int(state) // 12 == 2


def in_corner(state: Any) -> bool:
    """Whether a place is the corner of the lake where episodes begin."""
    return int(state) == 0


def toy_text(env: str, is_there: Callable[[Any], bool]) -> Table:
    """A table that Gymnasium has itself."""
    made: Any = gymnasium.make(env).unwrapped
    outcomes = [
        [
            [
                Outcome(chance, after, float(reward), float(is_there(after)), bool(is_terminated))
                for chance, after, reward, is_terminated in made.P[state][action]
            ]
            for action in range(len(made.P[state]))
        ]
        for state in range(len(made.P))
    ]
    return Table(int(np.argmax(made.initial_state_distrib)), outcomes)


MOVES = ((-1, 0), (1, 0), (0, -1), (0, 1))


def deep_sea() -> Table:
    """Deep-sea treasure: the reward is the treasure, the label the time."""
    made: Any = gymnasium.make("mo_gymnasium:deep-sea-treasure-v0").unwrapped
    rows, columns = made.sea_map.shape

    def outcome(place: tuple[int, ...], move: tuple[int, int]) -> Outcome:
        row, column = place
        there = (row + move[0], column + move[1])
        is_free = 0 <= there[0] < rows and 0 <= there[1] < columns
        if not is_free or made.sea_map[there] == -10.0:
            there = (row, column)
        found = max(float(made.sea_map[there]), 0.0)
        return Outcome(1.0, there[0] * columns + there[1], found, -1.0, found > 0.0)

    places = np.ndindex(rows, columns)
    return Table(0, [[[outcome(place, move)] for move in MOVES] for place in places])


def gathering() -> Table:
    """Resource gathering: the reward counts what is brought home, the label is -1 for a death."""
    made: Any = gymnasium.make("mo_gymnasium:resource-gathering-v0").unwrapped
    size = len(made.map)
    shape = (size, size, 2, 2)

    def outcomes(state: tuple[int, ...], move: tuple[int, int]) -> list[Outcome]:
        row, column, gold, gem = state
        there = (row + move[0], column + move[1])
        there = there if min(there) >= 0 and max(there) < size else (row, column)
        cell = made.map[there]
        gold, gem = int(gold or cell == "R1"), int(gem or cell == "R2")
        after = int(np.ravel_multi_index((*there, gold, gem), shape))
        if cell in ("E1", "E2"):
            return [Outcome(0.1, after, 0.0, -1.0, True), Outcome(0.9, after, 0.0, 0.0, False)]
        is_home = cell == "H"
        return [Outcome(1.0, after, float(is_home * (gold + gem)), 0.0, is_home)]

    first = int(np.ravel_multi_index((*made.initial_pos, 0, 0), shape))
    return Table(first, [[outcomes(at, move) for move in MOVES] for at in np.ndindex(shape)])


PROBLEMS = {
    "cliff": Finite(
        "CliffWalking-v1", "edge", "edge <= 4", 50, {"labels": {"edge": in_edge}},
        lambda: toy_text("CliffWalking-v1", in_edge),
        {"iterations": 111, "ent_coef": 0.1, "settle": 13, "settle_episodes": 256},
    ),
    "lake": Finite(
        "FrozenLake-v1", "corner", "corner <= 9", 100, {"labels": {"corner": in_corner}},
        lambda: toy_text("FrozenLake-v1", in_corner),
        {"iterations": 80, "rollouts": 2, "episodes": 256, "settle": 8, "settle_episodes": 1024,
         "ent_coef": 0.05, "discount": 1.0, "kappa_pace": 0.5, "proportional": 1.0},
    ),
    "treasure": Finite(
        "mo_gymnasium:deep-sea-treasure-v0", "time", "time >= -10", 100,
        {"rewards": {"treasure": 1, "time": 0}}, deep_sea,
        {"iterations": 120, "rollouts": 1, "episodes": 32, "settle": 20, "settle_episodes": 256,
         "ent_coef": 0.1, "discount": 1.0, "kappa_pace": 0.05, "proportional": 2.0},
    ),
    "gathering": Finite(
        "mo_gymnasium:resource-gathering-v0", "death", "death >= -0.05", 14,
        {"rewards": {"death": 0, "gold": 1, "gem": 1}}, gathering,
        {"iterations": 60, "rollouts": 2, "episodes": 256, "settle": 25, "settle_episodes": 2048,
         "ent_coef": 0.1, "kappa_pace": 30.0, "proportional": 1.0, "windup": 2.0},
    ),
}  # fmt: skip


def mdp_of(given: Finite) -> FiniteMDP:
    """The environment as a finite MDP whose states are (step, state)."""
    table, horizon = given.table(), given.horizon_steps
    states, actions = len(table.outcomes), len(table.outcomes[0])
    rewards = np.zeros((horizon, states, actions))
    labels = np.zeros((horizon, states, actions, 1))
    entries: list[tuple[int, int, float]] = []
    for state, action, each in _outcomes(table):
        rewards[:, state, action] += each.chance * each.reward
        labels[:, state, action, 0] += each.chance * each.label
        for step in range(0 if each.is_terminated else horizon - 1):
            row = (step * states + state) * actions + action
            entries.append((row, (step + 1) * states + each.after, each.chance))
    rows, columns, chances = zip(*entries, strict=True)
    size = horizon * states
    moves = sparse.coo_array((chances, (rows, columns)), shape=(size * actions, size)).tocsr()
    start = np.zeros(size)
    start[table.first] = 1.0
    return FiniteMDP(
        transitions=moves,
        rewards=rewards.reshape(size, actions),
        labels=labels.reshape(size, actions, 1),
        start=start,
        regions=[given.label],
    )


def _outcomes(table: Table) -> Iterator[tuple[int, int, Outcome]]:
    for state, of_state in enumerate(table.outcomes):
        for action, outcomes in enumerate(of_state):
            for each in outcomes:
                yield state, action, each


def best_of(given: Finite, *, has_rules: bool = True) -> FiniteSolution:
    """The best policy under the rule, or without it."""
    return solve_mdp(mdp_of(given), given.rules if has_rules else [])


def measure(name: str, seeds: range) -> None:
    """One row for each seed."""
    given = PROBLEMS[name]
    free, best = best_of(given, has_rules=False), best_of(given)
    print(f"| {name}: {given.rules} | best without | {_cells(free.return_, free.density)} | |")
    print(f"| {name}: {given.rules} | best under it | {_cells(best.return_, best.density)} | |")
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        scrl.train(given.problem, seeds=seeds, settings=given.settings, out=run)
        for seed in seeds:
            found = scrl.evaluate_run(run, given.problem, policy_seed=seed, episodes=EPISODES)
            kept = "yes" if found.is_satisfied else f"violated by {found.cons_vio:.3f}"
            cells = _cells(found.return_, found.density)
            print(f"| {name}: {given.rules} | seed {seed} | {cells} | {kept} |", flush=True)


def _cells(return_: float | None, density: Mapping[str, float] | None) -> str:
    if return_ is None or density is None:
        return "none | "
    return f"{return_:.3f} | " + ", ".join(f"{key} {value:.2f}" for key, value in density.items())


def main() -> None:
    """Solve, train and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of {', '.join(PROBLEMS)}")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    chosen = parser.parse_args()
    print("| problem | policy | return | received | kept |")
    print("|---" * 5 + "|")
    for name in chosen.names or PROBLEMS:
        measure(name, range(chosen.first, chosen.first + chosen.seeds))


if __name__ == "__main__":
    main()
