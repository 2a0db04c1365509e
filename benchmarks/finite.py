"""Small environments under a rule that binds, against the best that any policy can do.

    python -m benchmarks.finite [NAME ...] [--seeds 5] [--first 0] [--out FILE]

writes a line for each seed and for the best, and prints the file as a Markdown table. The best is
that of the finite MDP over (step, state), by `scrl.reference`: policies may know the step there and
draw actions by chance. Trained policies see the state alone, and draw their actions too. CartPole
is not finite; there the best is the horizon, since a step earns 1. Treasure and gathering are of
mo-gymnasium. Problems that the file has are not run again.
"""

from __future__ import annotations

import argparse
import json
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

OUT = Path("docs/results/finite.jsonl")


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
    table: Callable[[], Table] | None
    """None where states are not finite: then a step earns 1, and the best is the horizon."""
    settings: Mapping[str, Any]
    episodes: int = 4000
    """Behind a row."""

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


def is_left(seen: Any) -> bool:
    """Whether the pole leans left."""
    return bool(seen[2] < 0)


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
        {"iterations": 60, "rollout_steps": 1000, "rollouts": 1, "episodes": 256, "settle": 10,
         "settle_episodes": 2048, "epochs": 5, "minibatches": 32, "learning_rate": 1e-3,
         "ent_coef": 0.01, "discount": 1.0, "kappa_pace": 0.5, "proportional": 1.0,
         "kappa_decay": 0.95, "kappa_spread": 0.5},
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
    "cart": Finite(
        "CartPole-v1", "left", "left <= 100", 500, {"labels": {"left": is_left}}, None,
        {"worlds": 8, "iterations": 30, "episodes": 8, "settle": 5, "settle_episodes": 32},
        episodes=200,
    ),
}  # fmt: skip


def mdp_of(given: Finite) -> FiniteMDP:
    """The environment as a finite MDP whose states are (step, state)."""
    assert given.table is not None  # noqa: S101 (for the type checker)
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


def measure(name: str, seeds: range) -> Iterator[dict[str, Any]]:
    """The best without the rule and under it, and a row for each seed."""
    given = PROBLEMS[name]
    first = {"problem": name, "rules": given.rules, "horizon_steps": given.horizon_steps}
    if given.table is None:
        yield first | {"policy": "best", "return": float(given.horizon_steps)}
    else:
        for policy, found in (
            ("best without", best_of(given, has_rules=False)),
            ("best", best_of(given)),
        ):
            yield first | {"policy": policy, "return": found.return_, "density": found.density}
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        result = scrl.train(given.problem, seeds=seeds, settings=given.settings, out=run)
        for seed in seeds:
            found = scrl.evaluate_run(run, given.problem, policy_seed=seed, episodes=given.episodes)
            yield first | {
                "policy": f"seed {seed}",
                "return": found.return_,
                "density": dict(found.density),
                "satisfied": found.is_satisfied,
                "violation": found.cons_vio,
                "episodes": found.episodes,
                "steps": result.env_steps // len(seeds),
            }


def show(rows: list[dict[str, Any]]) -> None:
    """The rows as a Markdown table."""
    print("| problem | policy | return | received | kept |")
    print("|---" * 5 + "|")
    for row in rows:
        density = row.get("density") or {}
        received = ", ".join(f"{key} {value:.3f}" for key, value in density.items())
        kept = {None: "", True: "yes", False: "no"}[row.get("satisfied")]
        cells = (row["problem"], row["rules"], row["policy"], f"{row['return']:.3f}")
        print("|", " | ".join((f"{cells[0]}: {cells[1]}", *cells[2:], received, kept)), "|")


def main() -> None:
    """Solve, train and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of {', '.join(PROBLEMS)}")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--out", type=Path, default=OUT)
    chosen = parser.parse_args()
    text = chosen.out.read_text() if chosen.out.is_file() else ""
    rows = [json.loads(line) for line in text.splitlines()]
    for name in chosen.names or PROBLEMS:
        if not any(row["problem"] == name for row in rows):
            found = list(measure(name, range(chosen.first, chosen.first + chosen.seeds)))
            with chosen.out.open("a") as file:
                file.writelines(json.dumps(row) + "\n" for row in found)
            rows += found
    show(rows)


if __name__ == "__main__":
    main()
