"""A worker: trains one group of runs on its own machine, in a temporary folder.

It is polled for progress and answers with metrics and the files of the last checkpoint. So a
cluster needs no shared disk, and a lost worker costs at most the work since its last checkpoint.
This module does not depend on Ray.
"""

from __future__ import annotations

import hashlib
import os
import platform
import tempfile
import threading
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from scrl._version import __version__
from scrl.bench.engines.parcels import MARK, Parcel, Stamps, is_named, pack, stamps_of, unpack
from scrl.errors import ScrlError
from scrl.runs.folder import RunFolder
from scrl.runs.record import PACKAGE_FOLDER
from scrl.training import loop
from scrl.training.maps import train_side_by_side, training_run
from scrl.training.progress import TrainingProgress
from scrl.training.run import TrainingRun

NEWS_WITHIN_S = 1.0
"""A poll waits at most this long, in seconds."""

NUMERIC = (
    "jax_enable_x64", "jax_disable_most_optimizations", "jax_default_matmul_precision",
    "jax_default_prng_impl", "jax_threefry_partitionable", "jax_numpy_dtype_promotion",
)  # fmt: skip
"""Settings of JAX that affect results, which a worker copies."""
CACHING = ("jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs")
"""Settings of the compilation cache, which a worker copies only on the same machine."""


class Manner(NamedTuple):
    """The settings that make a worker reproduce the results of this process."""

    jax: dict[str, Any]
    """JAX settings, including the number of devices."""
    cores: int
    checkpoint_every_s: float
    folder: str | None
    """The folder for its files; None: the temporary folder of its machine."""

    @classmethod
    def here(cls, cores: int, folder: Path | None) -> Manner:
        """The settings of this process; with a folder, the worker is on this machine."""
        names = NUMERIC if folder is None else NUMERIC + CACHING
        settings = {name: jax.config.values[name] for name in names}
        settings["jax_platforms"] = "cpu"  # several workers share the memory of a GPU
        settings["jax_num_cpu_devices"] = jax.local_device_count("cpu")
        every_s = loop.CHECKPOINT_EVERY_S
        return cls(settings, cores, every_s, None if folder is None else str(folder))


class Parcelled(NamedTuple):
    """A run as sent to a worker."""

    home: str
    """Its folder on the head, for messages."""
    files: Parcel


class RoundNews(NamedTuple):
    """The numbers of `TrainingProgress`."""

    rounds: int
    env_steps: int
    wall_s: float
    metrics: tuple[Any, ...]


class End(NamedTuple):
    """How the training ended: `done`, `stopped`, `refused` (a ScrlError), or `crashed`."""

    how: str
    kind: str = ""
    """Name of the error's class."""
    text: str = ""


class News(NamedTuple):
    """The progress since the last poll, for each run by its index in the group."""

    rounds: dict[int, RoundNews]
    files: dict[int, Parcel]
    end: End | None


def identity() -> dict[str, str]:
    """What must be the same on all machines of a cluster."""
    return {"scrl": __version__, "files of scrl": _fingerprint(), "jax": jax.__version__}


def _fingerprint() -> str:
    """A hash of all source files, since checkouts of one version may differ."""
    found = hashlib.sha256()
    for path in sorted(PACKAGE_FOLDER.rglob("*.py")):
        found.update(path.relative_to(PACKAGE_FOLDER).as_posix().encode() + b"\0")
        found.update(path.read_bytes().replace(b"\r\n", b"\n") + b"\0")
    return found.hexdigest()[:12]


class Worker:
    """Trains in a separate thread, so that it can be polled meanwhile."""

    def __init__(self, manner: Manner) -> None:
        self._folder = manner.folder
        self._changed = threading.Condition()
        self._stopped = threading.Event()
        self._rounds: dict[int, RoundNews] = {}
        self._files: dict[int, Parcel] = {}
        self._end: End | None = None
        # XLA reads these when its first device is created, which is later.
        os.environ["NPROC"] = str(manner.cores)
        for name, value in manner.jax.items():
            jax.config.update(name, value)
        loop.CHECKPOINT_EVERY_S = manner.checkpoint_every_s

    def identity(self) -> dict[str, str]:
        """Machine and versions of this worker."""
        return {**identity(), "machine": platform.node(), "process": str(os.getpid())}

    def begin(self, runs: Sequence[Parcelled]) -> None:
        """Start the training thread."""
        threading.Thread(target=self._train, args=(list(runs),), daemon=True).start()

    def news(self, is_stopping: bool) -> News:
        """The progress since the last poll; `is_stopping` ends the training after this round."""
        if is_stopping:
            self._stopped.set()
        with self._changed:
            self._changed.wait_for(lambda: self._rounds or self._end, NEWS_WITHIN_S)
            found = News(self._rounds, self._files, self._end)
            self._rounds, self._files = {}, {}
        return found

    def _train(self, runs: list[Parcelled]) -> None:
        try:
            with tempfile.TemporaryDirectory(prefix="scrl-run-", dir=self._folder) as root:
                end, files = self._in_folder(runs, Path(root))
        except BaseException:  # otherwise the exception would be lost in the thread
            end, files = End("crashed", text=traceback.format_exc()), {}
        # The folder is removed before the end is reported, since that may end this process.
        self._end_with(end, files)

    def _in_folder(self, runs: list[Parcelled], root: Path) -> tuple[End, dict[int, Parcel]]:
        """Train in a folder; returns the end and the files since the last poll."""
        folders = [root / str(index) for index in range(len(runs))]
        try:
            for run, folder in zip(runs, folders, strict=True):
                unpack(run.files, folder)
            return self._to_the_end(folders)
        except ScrlError as error:
            text = str(error)
            for run, folder in zip(runs, folders, strict=True):
                text = text.replace(str(folder), run.home)
            return End("refused", type(error).__name__, text), {}

    def _to_the_end(self, folders: list[Path]) -> tuple[End, dict[int, Parcel]]:
        sender = _Sender(self, folders)
        runs = [_opened(folder) for folder in folders]
        try:
            train_side_by_side(runs, sender, is_stopped=self._stopped.is_set)
        except loop.InterruptedTrainingError:
            return End("stopped"), sender.changed()
        return End("done"), sender.changed()

    def _end_with(self, end: End, files: Mapping[int, Parcel]) -> None:
        with self._changed:
            self._end = end
            self._add(files)
            self._changed.notify_all()

    def note(self, index: int, now: RoundNews, files: Mapping[int, Parcel]) -> None:
        """Record a round and the files saved since the last one."""
        with self._changed:
            self._rounds[index] = now
            self._add(files)
            self._changed.notify_all()

    def _add(self, files: Mapping[int, Parcel]) -> None:
        """Add files; a newer checkpoint replaces one that was not fetched."""
        for index, parcel in files.items():
            waiting = self._files.setdefault(index, {})
            waiting.update(parcel)
            if MARK in parcel:
                for name in [name for name in waiting if name.startswith("checkpoint/state-")]:
                    if not is_named(Path(name).name, waiting):
                        del waiting[name]


class _Sender:
    """Watches the runs and passes on new metrics and whole checkpoints."""

    def __init__(self, worker: Worker, folders: Sequence[Path]) -> None:
        self.worker, self.folders = worker, folders
        self.sent: list[Stamps] = [stamps_of(folder) for folder in folders]
        self.marks = [_mark(folder) for folder in folders]

    def __call__(self, now: TrainingProgress) -> None:
        numbers = tuple(np.asarray(leaf) for leaf in now.metrics)
        news = RoundNews(now.rounds, now.env_steps, now.wall_s, numbers)
        # Checkpoints are written in this thread before this call, so no file is incomplete.
        marks = [_mark(folder) for folder in self.folders]
        files = self.changed() if marks != self.marks else {}
        self.marks = marks
        self.worker.note(self.folders.index(now.run), news, files)

    def changed(self) -> dict[int, Parcel]:
        """The files that have changed since the last call."""
        found = {}
        for index, folder in enumerate(self.folders):
            found[index] = pack(folder, self.sent[index])
            self.sent[index] = stamps_of(folder)
        return found


def _mark(folder: Path) -> bytes:
    return (folder / MARK).read_bytes() if (folder / MARK).exists() else b""


def _opened(folder: Path) -> TrainingRun:
    """Open the run; a new one records the machine it is trained on."""
    run = RunFolder.open(folder)
    device = jax.devices()[0].device_kind
    if not (folder / MARK).exists() and run.record.device != device:
        run.trained_on(device)
    return training_run(run)
