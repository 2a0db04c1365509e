"""The resumable loop: rounds that can be interrupted, saved, and resumed with the same bits.

What decides the numbers is the state alone. When checkpoints are written does not, so work that was
interrupted ends with the same bits.
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
from typing import Any, Protocol, TypeVar

from scrl.errors import ScrlError, UnfinishedError
from scrl.runs.folder import RunFolder
from scrl.terminal import tell, warn

CHECKPOINT_EVERY_S = 20.0
CHECKPOINT_TAKES_S = 2.0
"""Checkpoints that take longer to write are written as much more rarely."""
Result_co = TypeVar("Result_co", covariant=True)


class InterruptedTrainingError(ScrlError):
    """The user pressed Ctrl-C; everything up to here is saved."""

    def __init__(self, run: Path) -> None:
        super().__init__(f"interrupted; all is saved in {run}")
        self.run = run


class StoppedTrainingError(KeyboardInterrupt):
    """The user wanted training to end immediately: the round under way is lost."""

    def __init__(self, saved: str, run: Path | None) -> None:
        super().__init__(saved)
        self.saved = saved
        """What is saved, in words."""
        self.run = run
        """The run that can be resumed; none if nothing is left."""


class DivergedError(ScrlError):
    """A number is no longer finite; the last good checkpoint, if there is one, is kept."""


class Work(Protocol[Result_co]):
    """Rounds of something that is kept in run folders."""

    @property
    def folders(self) -> Sequence[RunFolder]: ...

    def begin(self) -> float:
        """Restore the last checkpoint, if there is one; the seconds spent before."""
        ...

    @property
    def warnings(self) -> Sequence[str]:
        """What was noticed when the checkpoint was restored."""
        ...

    @property
    def is_over(self) -> bool: ...

    def advance(self, clock: Callable[[], float]) -> Sequence[Any]:
        """One more round, checked and logged; what the watcher is told.

        `clock` tells the seconds spent so far. A `DivergedError` is raised if a number is no
        longer finite.
        """
        ...

    def save(self) -> None:
        """Write a checkpoint."""
        ...

    def finish(self) -> Result_co:
        """Write and return the result."""
        ...


def run_to_end(
    work: Work[Result_co],
    watch: Callable[[Any], None] | None = None,
    *,
    is_stopped: Callable[[], bool] = lambda: False,
) -> Result_co:
    """Advance, log and save from time to time until the work is over; then write the result.

    `is_stopped` is asked after each round, for callers that cannot press Ctrl-C. A watcher with a
    method `starting` is called before anything is compiled.
    """
    tell(watch, "starting")
    with ExitStack() as held, finishing_the_round(watch) as is_interrupted:
        for folder in work.folders:
            held.enter_context(folder.writing())
        began = time.monotonic()
        before_s = work.begin()
        for text in work.warnings:
            warn(watch, text)

        def clock() -> float:
            return before_s + time.monotonic() - began

        saved, took = time.monotonic(), 0.0
        while not work.is_over:
            news = work.advance(clock)
            is_last = is_interrupted() or is_stopped()
            began_saving = time.monotonic()
            every_s = CHECKPOINT_EVERY_S * max(1.0, took / CHECKPOINT_TAKES_S)
            if is_last or began_saving - saved > every_s:
                work.save()
                saved = time.monotonic()
                took = saved - began_saving
            if is_last:
                paths = [folder.path for folder in work.folders]
                raise InterruptedTrainingError(Path(os.path.commonpath(paths)))
            if watch is not None:
                for each in news:
                    watch(each)
        work.save()
        return work.finish()


@contextmanager
def explaining_interruption(folder: RunFolder, *, is_new: bool) -> Iterator[None]:
    """Work that ends early says what is saved, and where.

    A new run folder in which nothing is saved is removed.
    """
    try:
        yield
    except KeyboardInterrupt:
        raise StoppedTrainingError(*_what_is_saved(folder, is_new=is_new)) from None
    except OSError as error:
        saved, run = _what_is_saved(folder, is_new=is_new)
        way = "begin again" if run is None else f"resume with {folder.resume_command}"
        raise UnfinishedError(
            f"{error.filename or folder.path}: {error.strerror or error}. Training has stopped; "
            f"{saved}. When the cause is removed, {way}"
        ) from error


def _what_is_saved(folder: RunFolder, *, is_new: bool) -> tuple[str, Path | None]:
    """What is saved of a run, in words, and its folder if there is still one."""
    if (saved := folder.saved_iteration) is not None:
        return f"it is saved up to iteration {saved:,} in {folder.path}", folder.path
    if not is_new:
        return f"nothing is saved yet in {folder.path}", folder.path
    shutil.rmtree(folder.path, ignore_errors=True)
    return f"nothing was saved yet, and {folder.path} is removed", None


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
