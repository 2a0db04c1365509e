"""Runs side by side in one compiled call, round after round, each into its own folder.

What decides the numbers is the states alone; when checkpoints are written does not, so runs that
were interrupted end with the same bits. A kill may leave some of them one checkpoint ahead: those
stand still until the others have caught up, in the same compiled call as before.
"""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from scrl.errors import ScrlError, UnfinishedError
from scrl.runs.folder import RunFolder
from scrl.terminal import tell, warn
from scrl.training.algorithm import LoopState, Metrics
from scrl.training.devices import Rounds, TaskRounds
from scrl.training.progress import Watcher
from scrl.training.result import TrainingResult
from scrl.training.run import TrainingRun

CHECKPOINT_EVERY_S = 20.0


class InterruptedTrainingError(ScrlError):
    """Somebody pressed Ctrl-C; everything up to here is saved."""

    def __init__(self, run: Path) -> None:
        super().__init__(f"interrupted; all is saved in {run}")
        self.run = run


class StoppedTrainingError(KeyboardInterrupt):
    """Somebody wanted training to end at once: what was under way is lost."""

    def __init__(self, kept: str, run: Path | None) -> None:
        super().__init__(kept)
        self.kept = kept
        """What is saved, in words."""
        self.run = run
        """What can be gone on with; none where nothing is left."""


@contextmanager
def explaining_interruption(folder: RunFolder, *, is_new: bool) -> Iterator[None]:
    """Training that ends before its time says what is saved, and where.

    A new run folder in which nothing is saved is removed.
    """
    try:
        yield
    except KeyboardInterrupt:
        raise StoppedTrainingError(*_what_is_kept(folder, is_new=is_new)) from None
    except OSError as error:
        kept, run = _what_is_kept(folder, is_new=is_new)
        way = "begin again" if run is None else f"go on with {folder.going_on}"
        raise UnfinishedError(
            f"{error.filename or folder.path}: {error.strerror or error}. Training has stopped; "
            f"{kept}. When the cause is removed, {way}"
        ) from error


def _what_is_kept(folder: RunFolder, *, is_new: bool) -> tuple[str, Path | None]:
    """What is saved of a run, in words, and its folder if there is still one."""
    if (saved := folder.saved_iteration) is not None:
        return f"it is saved up to iteration {saved:,} in {folder.path}", folder.path
    if not is_new:
        return f"nothing is saved yet in {folder.path}", folder.path
    shutil.rmtree(folder.path, ignore_errors=True)
    return f"nothing was saved yet, and {folder.path} is removed", None


def train_side_by_side(
    runs: Sequence[TrainingRun],
    watch: Watcher | None = None,
    *,
    is_stopped: Callable[[], bool] = lambda: False,
) -> list[TrainingResult]:
    """Train runs with one plan, the same seeds and tasks of one shape to the end.

    `is_stopped` is asked after each round: who cannot press Ctrl-C here may stop the runs so.
    """
    rounds = Rounds(runs[0].config.plan, [run.task() for run in runs], runs[0].seeds)
    return TrainingLoop(runs, rounds, watch, is_stopped).run()


class TrainingLoop:
    """Some runs and their common state."""

    def __init__(
        self,
        runs: Sequence[TrainingRun],
        rounds: TaskRounds,
        watch: Watcher | None,
        is_stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        self.runs, self.rounds, self.watch, self.is_stopped = runs, rounds, watch, is_stopped

    def run(self) -> list[TrainingResult]:
        """To the end: advance, log, save now and then, evaluate, write the results.

        A watcher with a method `starting` is told before anything is compiled.
        """
        tell(self.watch, "starting")
        with ExitStack() as held, finishing_the_round(self.watch) as is_interrupted:
            for run in self.runs:
                held.enter_context(run.folder.writing())
            began = time.monotonic()
            state = self._begin_or_go_on()
            before_s = max(run.wall_s for run in self.runs)
            saved = time.monotonic()
            while not all(run.is_over for run in self.runs):
                state, seen = self._round(state)
                counted = self.rounds.counted_steps()
                for run, metrics in seen:
                    wall_s = before_s + time.monotonic() - began
                    run.round_done(metrics, wall_s=wall_s, counted_steps=counted)
                is_last = is_interrupted() or self.is_stopped()
                if is_last or time.monotonic() - saved > CHECKPOINT_EVERY_S:
                    self._save(state)
                    saved = time.monotonic()
                if is_last:
                    paths = [run.folder.path for run in self.runs]
                    raise InterruptedTrainingError(Path(os.path.commonpath(paths)))
                if self.watch is not None:
                    for run, metrics in seen:
                        self.watch(run.progress(metrics))
            self._save(state)
            return [
                run.finish(self.rounds.part(state, index).best.policy)
                for index, run in enumerate(self.runs)
            ]

    def _begin_or_go_on(self) -> LoopState:
        fresh = self.rounds.begin()
        parts = [run.restore(self.rounds.part(fresh, index)) for index, run in enumerate(self.runs)]
        for run in self.runs:
            warn(self.watch, run.warning)
        counted = self.rounds.counted_steps()
        for part, run in zip(parts, self.runs, strict=True):
            if run.done == 0:
                run.begun(_first_steps(part) if counted is None else counted)
        return self.rounds.whole(parts) if any(run.done for run in self.runs) else fresh

    def _round(self, state: LoopState) -> tuple[LoopState, list[tuple[TrainingRun, Metrics]]]:
        """One more round of those that have done the fewest, and what they saw."""
        now = min(run.done for run in self.runs)
        is_behind = [run.done == now for run in self.runs]
        # The old state is used up by the call: whoever stands still needs a copy.
        before = None if all(is_behind) else jax.tree.map(jnp.copy, state)
        is_learning = now < self.runs[0].config.loop.iterations
        state, metrics = (self.rounds.learn if is_learning else self.rounds.settle)(state)
        if before is not None:
            states = [state if is_new else before for is_new in is_behind]
            parts = [self.rounds.part(each, index) for index, each in enumerate(states)]
            state = self.rounds.whole(parts)
        metrics = jax.tree.map(np.asarray, metrics)
        return state, [
            (run, self.rounds.own(metrics, index))
            for index, run in enumerate(self.runs)
            if is_behind[index]
        ]

    def _save(self, state: LoopState) -> None:
        for index, run in enumerate(self.runs):
            run.save(self.rounds.part(state, index), self.rounds.actor(state, index))


def _first_steps(state: LoopState) -> int:
    """Steps of the drive from which the units were read, of all seeds: its return by its mean."""
    encoder = state.encoder
    steps = np.asarray(encoder.channel_unit)[:, 0] / np.asarray(encoder.price_unit)
    return int(np.round(steps).sum())


@contextmanager
def finishing_the_round(watch: Any) -> Iterator[Callable[[], bool]]:
    """The first Ctrl-C lets the round end, so that its state can be saved; the second does not.

    A watcher with a method `stopping` is told of the first.
    """
    pressed = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield pressed.is_set
        return
    before = signal.getsignal(signal.SIGINT)

    def note(number: int, frame: Any) -> None:
        del number, frame
        if pressed.is_set():
            raise KeyboardInterrupt
        pressed.set()
        tell(watch, "stopping")

    signal.signal(signal.SIGINT, note)
    try:
        yield pressed.is_set
    finally:
        signal.signal(signal.SIGINT, before)
