"""The best single plans known of the seven built-in problems, and bounds that no policy exceeds.

`python -m benchmarks.best_plans [--seconds 300] [--jobs N]` runs `scrl.solve` on each problem and
writes docs/results/best.json, which the tables measure `gap_to_best` against.
"""

from __future__ import annotations

import argparse
import json
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import jax

from benchmarks.measured import write_rows
from scrl.planning.solve import solve
from scrl.problems import builtin_names, load

PLANS = Path(__file__).parents[1] / "docs" / "results" / "best.json"


def main() -> None:
    """Solve and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=300.0, help="for each problem")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, default=PLANS)
    given = parser.parse_args()
    with ProcessPoolExecutor(given.jobs, get_context("spawn"), _on_cpu) as processes:
        rows = list(processes.map(partial(solved, seconds=given.seconds), builtin_names()))
    write_rows(given.out, rows)
    for row in rows:
        print(row, flush=True)


def solved(name: str, *, seconds: float) -> dict[str, Any]:
    """The plan and the bound of one problem."""
    found = solve(load(name), time_limit_s=seconds)
    return {
        "problem": name, "status": found.status, "return": found.return_, "bound": found.bound,
        "fluid": found.fluid,
    }  # fmt: skip


def best_known() -> dict[str, tuple[float, float]]:
    """The return of the best plan and the bound of each problem, as they were measured last."""
    rows = json.loads(PLANS.read_text())["rows"]
    return {row["problem"]: (row["return"], row["bound"]) for row in rows}


def _on_cpu() -> None:
    jax.config.update("jax_platforms", "cpu")


if __name__ == "__main__":
    main()
