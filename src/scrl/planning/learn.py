"""`scrl.learn`: train a price policy in a resumable run folder.

Without worlds it is a general policy, trained on random paths, vehicles and winds; with worlds, a
policy for their maps, vehicles and winds.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import jax
import numpy as np

from scrl.errors import PolicyError, did_you_mean
from scrl.planning import store
from scrl.planning.ranges import Ranges
from scrl.planning.training import LearningConfig, LearningState, begin, some_updates
from scrl.problems import Problem, find_world
from scrl.runs.files import damage_in
from scrl.runs.folder import RunFolder, RunRecord, new_run_path
from scrl.terminal import Auto, ProgressBar, warn, watching
from scrl.training.loop import (
    CHECKPOINT_EVERY_S,
    InterruptedTrainingError,
    explaining_interruption,
    finishing_the_round,
)
from scrl.training.run import DivergedError

METHOD = "prices"
GENERAL = "general"
UPDATES_AT_ONCE = 100
"""Updates in one compiled call."""


@dataclass(frozen=True)
class LearningProgress:
    """The progress of the training."""

    run: Path
    updates: int
    updates_in_all: int
    error: float
    """Mean error of the last updates."""
    wall_s: float


LearningWatcher = Callable[[LearningProgress], None]


def learn(
    worlds: Sequence[Problem | Path | str] = (),
    *,
    seed: int = 0,
    settings: Mapping[str, Any] | None = None,
    out: Path | str | None = None,
    watch: LearningWatcher | Auto | None = "auto",
) -> store.Learned:
    """Train a price policy: the general one, or one for the worlds that are named.

    `watch` is called with the progress. The default is a progress bar on standard error if that is
    a terminal or a notebook; None shows nothing.
    """
    names = [each.name if isinstance(each, Problem) else str(each) for each in worlds]
    config = _configured(settings or {})
    title = "-".join(names) or GENERAL
    path = Path(out) if out else new_run_path(Path("runs"), title, METHOD)
    document = {"worlds": names, "settings": dataclasses.asdict(config)}
    record = RunRecord.now(title, METHOD, document, (seed,))
    found = [each if isinstance(each, Problem) else find_world(each) for each in worlds]
    folder = RunFolder.create(path, None, record)
    with (
        watching(watch, LearningProgressBar) as screen,
        explaining_interruption(folder, is_new=True),
    ):
        return _Learning(folder, config, found, seed).run(screen)


def resume_learning(
    path: Path | str, *, watch: LearningWatcher | Auto | None = "auto"
) -> store.Learned:
    """Resume an interrupted training; if it has ended, load its result."""
    folder = RunFolder.open(path)
    if folder.record.method != METHOD:
        raise PolicyError(
            f"{path}: this run trains no price policy; resume it with `scrl train --resume`"
        )
    if (folder.path / store.CARD).exists():
        return store.load(folder.path)
    with damage_in(folder.path / "run.json"):
        config = _configured(folder.record.settings.get("settings", {}))
    worlds = [find_world(name) for name in folder.record.settings.get("worlds", [])]
    with (
        watching(watch, LearningProgressBar) as screen,
        explaining_interruption(folder, is_new=False),
    ):
        return _Learning(folder, config, worlds, folder.record.seeds[0]).run(screen)


def _configured(settings: Mapping[str, Any]) -> LearningConfig:
    known = [field.name for field in dataclasses.fields(LearningConfig)]
    for key in settings:
        if key not in known:
            raise PolicyError(f"unknown setting '{key}'{did_you_mean(key, known)}")
    return LearningConfig(**settings)


class _Learning:
    """A running training."""

    def __init__(
        self, folder: RunFolder, config: LearningConfig, worlds: list[Problem], seed: int
    ) -> None:
        self.folder, self.config, self.seed = folder, config, seed
        specs = [each.world_spec for each in worlds]
        self.worlds = [each.world for each in worlds]
        self.ranges = Ranges.around(specs) if specs else Ranges()

    def run(self, watch: LearningWatcher | None) -> store.Learned:
        with self.folder.writing(), finishing_the_round(watch) as is_interrupted:
            fresh = begin(self.config, key=jax.random.key(self.seed))
            found = self.folder.load_checkpoint(fresh)
            state, before_s = (fresh, 0.0) if found is None else (found.state, found.wall_s)
            warn(watch, None if found is None else found.warning)
            began = saved = time.monotonic()
            while (done := int(state.done)) < self.config.updates:
                count = min(UPDATES_AT_ONCE, self.config.updates - done)
                state, error = some_updates(self.config, self.ranges, self.worlds, state, count)
                wall_s = before_s + time.monotonic() - began
                self._log(state, float(error))
                if is_interrupted() or time.monotonic() - saved > CHECKPOINT_EVERY_S:
                    self._save(state, wall_s)
                    saved = time.monotonic()
                if is_interrupted():
                    raise InterruptedTrainingError(self.folder.path)
                if watch is not None:
                    watch(
                        LearningProgress(
                            self.folder.path, int(state.done), self.config.updates,
                            float(error), wall_s,
                        )
                    )  # fmt: skip
            self._save(state, before_s + time.monotonic() - began)
            return self._finish(state)

    def _log(self, state: LearningState, error: float) -> None:
        if not np.isfinite(error):
            raise DivergedError(
                f"learning diverged after {int(state.done)} updates: its error is no longer a "
                f"number. {self.folder.kept_so_far}; try a smaller learning_rate"
            )
        self.folder.log([{"iteration": int(state.done), "seed": self.seed, "loss": error}])

    def _save(self, state: LearningState, wall_s: float) -> None:
        self.folder.save_checkpoint(state, iteration=int(state.done), wall_s=wall_s)

    def _finish(self, state: LearningState) -> store.Learned:
        record = self.folder.record
        made = {
            "worlds": record.settings["worlds"],
            "seed": self.seed,
            "commit": record.commit,
            "command": record.command,
            "device": record.device,
            "version": record.version,
        }
        learned = store.Learned(state.slow, self.ranges, self.config, made)
        store.save(self.folder.path, learned)
        return learned


class LearningProgressBar(ProgressBar):
    """A progress bar with the number of updates and their mean error."""

    run: Path | None = None

    def __call__(self, now: LearningProgress) -> None:
        self.run = now.run
        share = now.updates / now.updates_in_all
        left = timedelta(seconds=round(now.wall_s / share * (1.0 - share)))
        text = f"{now.updates:,} of {now.updates_in_all:,} updates, error {now.error:.4f}"
        self.show(share, text, f"{left} left")
