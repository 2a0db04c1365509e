"""`scrl.learn`: train a price policy, resumable from its run folder.

Without worlds it is a general policy, trained on random paths, vehicles and winds; with worlds, a
policy for their maps, vehicles and winds.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import jax
import numpy as np

from scrl.errors import PolicyError, did_you_mean
from scrl.planning import store
from scrl.planning.fitting import LearningConfig, begin, some_updates
from scrl.planning.ranges import Ranges
from scrl.problems import Problem, find_world
from scrl.runs.files import damage_in
from scrl.runs.folder import RunFolder, RunRecord, new_run_path
from scrl.terminal import Auto, ProgressBar, watching
from scrl.training.loop import DivergedError, explaining_interruption, run_to_end

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

    `watch` is called now and then; without it progress is shown on standard error, if that is a
    terminal or a notebook, and with None nothing is.
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
        watching(watch, LearningProgressBar) as bar,
        explaining_interruption(folder, is_new=True),
    ):
        return run_to_end(_Learning(folder, config, found, seed), bar)


def resume_learning(
    path: Path | str, *, watch: LearningWatcher | Auto | None = "auto"
) -> store.Learned:
    """Resume an interrupted training; if it has ended, load its result."""
    folder = RunFolder.open(path)
    if folder.record.method != METHOD:
        raise PolicyError(f"{path}: this run trains no price policy; resume it with `scrl train`")
    if (folder.path / store.CARD).exists():
        return store.load(folder.path)
    with damage_in(folder.path / "run.json"):
        config = _configured(folder.record.settings.get("settings", {}))
    worlds = [find_world(name) for name in folder.record.settings.get("worlds", [])]
    with (
        watching(watch, LearningProgressBar) as bar,
        explaining_interruption(folder, is_new=False),
    ):
        return run_to_end(_Learning(folder, config, worlds, folder.record.seeds[0]), bar)


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
        self.warnings: list[str] = []
        self._state = begin(config, key=jax.random.key(seed))
        self._wall_s = 0.0

    @property
    def folders(self) -> list[RunFolder]:
        return [self.folder]

    @property
    def is_over(self) -> bool:
        return self._done >= self.config.updates

    def begin(self) -> float:
        found = self.folder.load_checkpoint(self._state)
        if found is not None:
            self._state, self._wall_s = found.state, found.wall_s
            self.warnings = [] if found.warning is None else [found.warning]
        return self._wall_s

    def advance(self, clock: Callable[[], float]) -> list[LearningProgress]:
        count = min(UPDATES_AT_ONCE, self.config.updates - self._done)
        self._state, error = some_updates(self.config, self.ranges, self.worlds, self._state, count)
        error, self._wall_s = float(error), clock()
        if not np.isfinite(error):
            raise DivergedError(
                f"learning diverged after {self._done} updates: its error is no longer a "
                f"number. {self.folder.saved_so_far}; try a smaller learning_rate"
            )
        self.folder.log([{"iteration": self._done, "seed": self.seed, "loss": error}])
        updates = self.config.updates
        return [LearningProgress(self.folder.path, self._done, updates, error, self._wall_s)]

    def save(self) -> None:
        self.folder.save_checkpoint(self._state, iteration=self._done, wall_s=self._wall_s)

    def finish(self) -> store.Learned:
        record = self.folder.record
        made = {
            "worlds": record.settings["worlds"],
            "seed": self.seed,
            "commit": record.commit,
            "command": record.command,
            "device": record.device,
            "version": record.version,
        }
        learned = store.Learned(self._state.slow, self.ranges, self.config, made)
        store.save(self.folder.path, learned)
        return learned

    @property
    def _done(self) -> int:
        return int(self._state.done)


class LearningProgressBar(ProgressBar):
    """A progress bar with the number of updates and their mean error."""

    run: Path | None = None

    def __call__(self, now: LearningProgress) -> None:
        self.run = now.run
        share = now.updates / now.updates_in_all
        left = timedelta(seconds=round(now.wall_s / share * (1.0 - share)))
        text = f"{now.updates:,} of {now.updates_in_all:,} updates, error {now.error:.4f}"
        self.show(share, text, f"{left} left")
