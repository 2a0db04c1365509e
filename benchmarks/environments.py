"""Training in environments whose trained episodes are unlike random ones.

`python -m benchmarks.environments [--seeds 3] [--iterations 60] [--kappa-rate BETA] [NAME ...]`
prints a Markdown table: for every seed the return, what the regions receive and the largest kappa.
A random CartPole episode has about 22 steps and a trained one 500.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import scrl
from scrl.runs.folder import RunFolder


def cart_pole(by: int, rules: str) -> Any:
    """CartPole; `by` is the observation whose sign is the side: 0 the cart's place, 2 the angle."""
    return scrl.environment(
        "CartPole-v1",
        labels={"left": lambda seen: seen[by] < 0, "right": lambda seen: seen[by] >= 0},
        rules=rules,
    )


PROBLEMS: dict[str, Callable[[], Any]] = {
    "angle, left <= 100": lambda: cart_pole(2, "left <= 100"),
    "angle, if left > 100 then right >= 200": lambda: cart_pole(
        2, "if left > 100 then right >= 200"
    ),
    "place, left <= 100": lambda: cart_pole(0, "left <= 100"),
    "place, if left > 100 then right >= 200": lambda: cart_pole(
        0, "if left > 100 then right >= 200"
    ),
}


SMALL: dict[str, Any] = {"worlds": 8, "episodes": 8, "settle": 5, "settle_episodes": 32}


def measure(name: str, seeds: int, settings: dict[str, Any]) -> None:
    """One row for each seed."""
    with tempfile.TemporaryDirectory() as folder:
        result = scrl.train(
            PROBLEMS[name](), seeds=seeds, settings=settings, out=Path(folder) / "run"
        )
        rows = RunFolder.open(result.run).metrics()
    for each in result.seeds:
        found = each.evaluation
        largest = max(
            row[key]
            for row in rows
            for key in row
            if row["seed"] == each.seed and key.startswith("kappa/")
        )
        received = ", ".join(f"{region} {amount:.1f}" for region, amount in found.density.items())
        kept = "yes" if found.is_satisfied else f"violated by {found.cons_vio:.2f}"
        columns = (name, each.seed, f"{found.return_:.1f}", received, kept, f"{largest:,.2f}")
        print("|", " | ".join(map(str, columns)), "|", flush=True)


def main() -> None:
    """Train and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of {[*PROBLEMS]}")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--iterations", type=int, default=60)
    parser.add_argument("--kappa-rate", type=float, default=None)
    chosen = parser.parse_args()
    settings: dict[str, Any] = {**SMALL, "iterations": chosen.iterations}
    if chosen.kappa_rate is not None:
        settings["kappa_rate"] = chosen.kappa_rate
    print("| problem | seed | return | received | rules kept | largest kappa |")
    print("|---" * 6 + "|")
    for name in chosen.names or PROBLEMS:
        measure(name, chosen.seeds, settings)


if __name__ == "__main__":
    main()
