"""The worked examples with several seeds, beside a grid of controllers and training without rules.

    python -m benchmarks.examples [NAME ...] [--seeds 5] [--first 0] [--out FILE]

Parts that the file has already are not repeated, and training goes on from its last checkpoint.
Seeds are trained together. Every figure is of episodes that had no part in a choice: at least 200
for a seed, 1,000 for the best controller of the grid.
"""

from __future__ import annotations

import argparse
import importlib
import json
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import scrl

NAMES = ("pendulum", "mountain_car", "lunar_lander")
OUT = Path("docs/results/examples.json")
RUNS = Path("runs/examples")
EPISODES = 1000
"""Episodes that choose or judge the best controller."""
AGAIN, FRESH = 76, 77
"""The seeds of episodes that choose a controller, and of those that judge it."""
NO_RULES = {"method": "ddpg", "learner": "ppo"}
"""A method that is told no rules, with our usual learner."""


def with_rules(module: ModuleType, seeds: Sequence[int], run: Path) -> Any:
    """What the example trains."""
    return _trained(module, seeds, run)


def without_rules(module: ModuleType, seeds: Sequence[int], run: Path) -> Any:
    """The same with a learner that is not told the rules."""
    return _trained(module, seeds, run, **NO_RULES)


def grid(module: ModuleType, seeds: Sequence[int], run: Path) -> Any:
    """The best controller of the grid that keeps the rules."""
    del seeds, run
    known = [numbers for numbers, _ in module.search()]
    again = (each for each in known if _evaluated(module, each, AGAIN).is_satisfied)
    numbers = next(again, known[0])  # few episodes keep a rule by chance
    found = _evaluated(module, numbers, FRESH)
    return {"controller": numbers, **_row(found)}


PARTS = {"with rules": with_rules, "without rules": without_rules, "grid": grid}


def _evaluated(module: ModuleType, numbers: Sequence[float], seed: int) -> Any:
    act = module.controller(*numbers)
    return scrl.evaluate(module.problem(), act, episodes=EPISODES, seed=seed)


def _trained(module: ModuleType, seeds: Sequence[int], run: Path, **options: Any) -> Any:
    is_begun = (run / "run.json").is_file()
    result: Any = (
        scrl.resume(run, module.problem())
        if is_begun
        else module.train(seeds=seeds, out=run, **options)
    )
    rows = [{"seed": each.seed, **_row(each.evaluation)} for each in result.seeds]
    return {"steps": result.env_steps // len(rows), "seeds": rows}


def _row(found: Any) -> dict[str, Any]:
    return {
        "return": found.return_,
        "density": dict(found.density),
        "satisfied": found.is_satisfied,
        "episodes": found.episodes,
    }


def main() -> None:
    """Run what the file lacks."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of {', '.join(NAMES)}")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--without", type=int, default=2, help="seeds of training without rules")
    parser.add_argument("--out", type=Path, default=OUT)
    chosen = parser.parse_args()
    known = json.loads(chosen.out.read_text()) if chosen.out.is_file() else {}
    for name in chosen.names or NAMES:
        module = importlib.import_module(f"examples.{name}")
        own = known.setdefault(name, {"rules": module.RULES})
        for part, measure in PARTS.items():
            if part not in own:
                run = RUNS / f"{name}-{part.replace(' ', '-')}"
                count = chosen.without if part == "without rules" else chosen.seeds
                own[part] = measure(module, range(chosen.first, chosen.first + count), run)
                chosen.out.write_text(json.dumps(known, indent=1) + "\n")
                print(name, part, own[part], flush=True)


if __name__ == "__main__":
    main()
