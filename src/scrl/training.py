"""`scrl.train`: seeds side by side, round after round, into a run folder that can be gone on with.

A round is one call of compiled code; `together` calls it, for one run or for many.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from scrl.errors import ScrlError
from scrl.methods import TrainingConfig, configure
from scrl.outcome import TrainingResult
from scrl.problems import Problem
from scrl.problems import load as load_problem
from scrl.rules import told
from scrl.runs import RunFolder, RunRecord, new_run_path
from scrl.together import run_together
from scrl.trained import REPORT_SEED, read_result
from scrl.underway import Underway, Watcher

LARGEST_SEED = 2**32 - REPORT_SEED
"""Seeds below this give different keys, in training and in the report."""


def train(  # noqa: PLR0913 (one for each thing that a user may want to say)
    problem: Problem | str,
    *,
    method: str | None = None,
    seeds: int | Sequence[int] = 1,
    seed: int = 0,
    learner: str | None = None,
    penalty: str | None = None,
    preset: str | None = None,
    steps: int | None = None,
    settings: Mapping[str, Any] | None = None,
    out: Path | str | None = None,
    watch: Watcher | None = None,
) -> TrainingResult:
    """Learn to keep the rules of a problem at the least cost, for some seeds at once.

    `seeds` is how many (from `seed` on), or which. The run folder is `out`, or a new one in
    `runs/`.
    """
    loaded = load_problem(problem) if isinstance(problem, str) else problem
    config = configure(
        method, learner=learner, penalty=penalty, preset=preset, steps=steps, settings=settings
    )
    chosen = tuple(range(seed, seed + seeds)) if isinstance(seeds, int) else tuple(seeds)
    path = Path(out) if out else new_run_path(Path("runs"), loaded.name, config.method)
    return run_together([begin_run(loaded, config, chosen, path)], watch)[0]


def begin_run(
    problem: Problem, config: TrainingConfig, seeds: tuple[int, ...], path: Path
) -> Underway:
    """A new run in a folder of its own; what cannot be run is refused before it is written."""
    is_whole = all(isinstance(each, int) and 0 <= each < LARGEST_SEED for each in seeds)
    if not seeds or not is_whole or len(set(seeds)) < len(seeds):
        raise ScrlError(
            "seeds must be one or more different whole numbers of at least 0 and below "
            f"{LARGEST_SEED:,}"
        )
    told(problem.rules, config.told)
    record = RunRecord.now(problem.name, config.method, config.to_json(), seeds)
    return Underway(problem, config, RunFolder.create(path, problem, record))


def resume(path: Path | str, *, watch: Watcher | None = None) -> TrainingResult:
    """Go on with a run that was interrupted; a finished one is read."""
    folder = RunFolder.open(path)
    if (finished := read_result(folder)) is not None:
        return finished
    return run_together([Underway.again(folder)], watch)[0]
