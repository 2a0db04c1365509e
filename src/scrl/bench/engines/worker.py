"""A worker: trains one pack on its own machine, in a folder that is gone afterwards.

It is asked for news, and answers with numbers and with the files of the last checkpoint. So a
cluster needs no disk that all machines share, and who dies takes along one checkpoint's work at
most. Nothing in here knows the cluster.
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
"""Who asks for news waits at most this long."""

NUMERIC = (
    "jax_enable_x64", "jax_disable_most_optimizations", "jax_default_matmul_precision",
    "jax_default_prng_impl", "jax_threefry_partitionable", "jax_numpy_dtype_promotion",
)  # fmt: skip
"""Settings of JAX that decide bits: a worker takes them over."""
CACHING = ("jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs")
"""Where compiled code is kept: taken over only on the same machine."""


class Manner(NamedTuple):
    """How a worker is to train, so that it finds the bits that this process would find."""

    jax: dict[str, Any]
    """Settings, among them how many devices share the seeds out."""
    cores: int
    checkpoint_every_s: float
    folder: str | None
    """Where its files go; none: where temporary files go on its machine."""

    @classmethod
    def here(cls, cores: int, folder: Path | None) -> Manner:
        """As this process does; with a folder, the worker is on this machine."""
        names = NUMERIC if folder is None else NUMERIC + CACHING
        settings = {name: jax.config.values[name] for name in names}
        settings["jax_platforms"] = "cpu"  # workers know nothing of each other's GPU memory
        settings["jax_num_cpu_devices"] = jax.local_device_count("cpu")
        every_s = loop.CHECKPOINT_EVERY_S
        return cls(settings, cores, every_s, None if folder is None else str(folder))


class Parcelled(NamedTuple):
    """A run on its way to a worker."""

    home: str
    """Its folder at home, for messages."""
    files: Parcel


class RoundNews(NamedTuple):
    """The numbers of `TrainingProgress`."""

    rounds: int
    env_steps: int
    wall_s: float
    metrics: tuple[Any, ...]


class End(NamedTuple):
    """How it ended: `done`, `stopped`, `refused` (a ScrlError), or `crashed`."""

    how: str
    kind: str = ""
    """Name of the error's class."""
    text: str = ""


class News(NamedTuple):
    """What has happened since the last time, for each run by its place in the pack."""

    rounds: dict[int, RoundNews]
    files: dict[int, Parcel]
    end: End | None


def identity() -> dict[str, str]:
    """What must be the same on all machines of a cluster."""
    return {"scrl": __version__, "files of scrl": _fingerprint(), "jax": jax.__version__}


def _fingerprint() -> str:
    """Short for all source files: checkouts with one version may differ."""
    found = hashlib.sha256()
    for path in sorted(PACKAGE_FOLDER.rglob("*.py")):
        found.update(path.relative_to(PACKAGE_FOLDER).as_posix().encode() + b"\0")
        found.update(path.read_bytes().replace(b"\r\n", b"\n") + b"\0")
    return found.hexdigest()[:12]


class Worker:
    """Trains in a thread of its own, so that it can be asked meanwhile."""

    def __init__(self, manner: Manner) -> None:
        self._folder = manner.folder
        self._changed = threading.Condition()
        self._stopped = threading.Event()
        self._rounds: dict[int, RoundNews] = {}
        self._files: dict[int, Parcel] = {}
        self._end: End | None = None
        # Read by XLA when its first device is made, which is later.
        os.environ["NPROC"] = str(manner.cores)
        for name, value in manner.jax.items():
            jax.config.update(name, value)
        loop.CHECKPOINT_EVERY_S = manner.checkpoint_every_s

    def identity(self) -> dict[str, str]:
        """Who this is."""
        return {**identity(), "machine": platform.node(), "process": str(os.getpid())}

    def begin(self, runs: Sequence[Parcelled]) -> None:
        """Start training; everything else is news."""
        threading.Thread(target=self._train, args=(list(runs),), daemon=True).start()

    def news(self, is_stopping: bool) -> News:
        """What is new, or nothing after a while; who is stopping wants the round to be the last."""
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
        except BaseException:  # nobody else would hear of it
            end, files = End("crashed", text=traceback.format_exc()), {}
        # Whoever hears of the end may end this process: the folder must be gone before.
        self._end_with(end, files)

    def _in_folder(self, runs: list[Parcelled], root: Path) -> tuple[End, dict[int, Parcel]]:
        """How it ended, and the files that are new since the last news."""
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
        """One more round, and what was saved since the last."""
        with self._changed:
            self._rounds[index] = now
            self._add(files)
            self._changed.notify_all()

    def _add(self, files: Mapping[int, Parcel]) -> None:
        """A newer checkpoint takes the place of one that nobody has asked for."""
        for index, parcel in files.items():
            waiting = self._files.setdefault(index, {})
            waiting.update(parcel)
            if MARK in parcel:
                for name in [name for name in waiting if name.startswith("checkpoint/state-")]:
                    if not is_named(Path(name).name, waiting):
                        del waiting[name]


class _Sender:
    """Watches the runs and hands on what is new: their numbers, and whole checkpoints."""

    def __init__(self, worker: Worker, folders: Sequence[Path]) -> None:
        self.worker, self.folders = worker, folders
        self.sent: list[Stamps] = [stamps_of(folder) for folder in folders]
        self.marks = [_mark(folder) for folder in folders]

    def __call__(self, now: TrainingProgress) -> None:
        numbers = tuple(np.asarray(leaf) for leaf in now.metrics)
        news = RoundNews(now.rounds, now.env_steps, now.wall_s, numbers)
        # Saved just before this call, in this thread, or not at all: no file is half-written.
        marks = [_mark(folder) for folder in self.folders]
        files = self.changed() if marks != self.marks else {}
        self.marks = marks
        self.worker.note(self.folders.index(now.run), news, files)

    def changed(self) -> dict[int, Parcel]:
        """The files that have changed since the last time."""
        found = {}
        for index, folder in enumerate(self.folders):
            found[index] = pack(folder, self.sent[index])
            self.sent[index] = stamps_of(folder)
        return found


def _mark(folder: Path) -> bytes:
    return (folder / MARK).read_bytes() if (folder / MARK).exists() else b""


def _opened(folder: Path) -> TrainingRun:
    """The run; one that begins here remembers what it is trained on."""
    run = RunFolder.open(folder)
    device = jax.devices()[0].device_kind
    if not (folder / MARK).exists() and run.record.device != device:
        run.trained_on(device)
    return training_run(run)
