"""A Ray cluster: the one at an address, which is left as it was, or our own for as long as needed.

Our own sends no usage statistics, listens on the loopback address only, serves only who has its
token, keeps its files in a folder that only its owner can enter, and is gone with all its processes
when it is left or when this process is killed.
"""

from __future__ import annotations

import importlib
import logging
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scrl.bench.engines import Workers, reaper
from scrl.errors import ScrlError

MANNERS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # else a warning about a coming default
    "RAY_worker_niceness": "0",  # else anything else on the machine would starve the workers
}
"""What Ray looks for in the environment."""
KNOCK_S = 10.0
"""Seconds in which a machine must answer."""


@dataclass(frozen=True)
class Cluster:
    """Where workers run."""

    ray: Any
    """The module; none of its types are known where it is not installed."""
    workers: Workers
    folder: Path | None
    """Where the workers of our own cluster put files; none: elsewhere."""

    def room(self) -> int:
        """How many workers there may be now."""
        if self.workers.count is not None:
            return self.workers.count
        return max(1, int(self.ray.cluster_resources().get("CPU", 0) // self.workers.cores))


@contextmanager
def cluster(workers: Workers) -> Iterator[Cluster]:
    """The cluster that was asked for; one that this process has joined already is used."""
    os.environ.update({name: text for name, text in MANNERS.items() if name not in os.environ})
    ray = _import_ray()
    if ray.is_initialized():
        yield _checked(Cluster(ray, workers, None))
        return
    address = workers.address or os.environ.get("RAY_ADDRESS")
    with _left(ray) if address else _own(ray, workers) as folder:
        if address:
            _join(ray, address)
        if _has_signals():  # Ray has taken this one for itself, and would abort
            signal.signal(signal.SIGTERM, _exit)
        yield _checked(Cluster(ray, workers, folder))


@contextmanager
def _left(ray: Any) -> Iterator[None]:
    """Whatever cluster is joined meanwhile is left, and signals mean what they meant before."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        _leave(ray)
        if _has_signals():
            signal.signal(signal.SIGTERM, before)


@contextmanager
def _own(ray: Any, workers: Workers) -> Iterator[Path]:
    """A cluster of our own for as long as needed, and the folder with its files."""
    folder = _new_folder()
    try:
        with _reaper(folder) as remember, _closed_to_others(ray), _left(ray):
            _start(ray, workers, folder)
            remember()
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _import_ray() -> Any:
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise ScrlError(
            f"--engine ray needs Ray, which is not installed ({error}): pip install 'scrl[ray]'"
        ) from None


def _join(ray: Any, address: str) -> None:
    try:
        _knock(address)
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        raise ScrlError(
            f"no Ray cluster can be joined at {address}: {_first_line(error)}; give HOST:PORT as "
            "`ray start --head` prints it (with RAY_AUTH_MODE=token where it asks for one), or no "
            "address for a cluster on this machine"
        ) from None


def _knock(address: str) -> None:
    """Whether anybody is there: Ray itself would wait for many minutes."""
    if address == "auto":
        return
    host, colon, port = address.rpartition(":")
    if not (host and colon and port.isdecimal()) or "/" in host:
        raise ValueError("this is no address of the form HOST:PORT")
    socket.create_connection((host.strip("[]"), int(port)), timeout=KNOCK_S).close()


def _new_folder() -> Path:
    """A folder that only its owner can enter."""
    # Paths of sockets are short, and those of temporary folders are not everywhere.
    short = "/tmp" if sys.platform != "win32" and Path("/tmp").is_dir() else None  # noqa: S108
    return Path(tempfile.mkdtemp(prefix=f"scrl-ray-{os.getpid()}-", dir=short))


@contextmanager
def _closed_to_others(ray: Any) -> Iterator[None]:
    """Ray in this process as our own cluster needs it: loopback only, with a token of its own.

    The token is only in the environment of our processes, which other users cannot read; Ray itself
    would keep one for all clusters in a file that everybody may read.
    """
    constants, name = ray._private.ray_constants, "ENABLE_RAY_CLUSTER"
    has_network = getattr(constants, name)
    own = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    before = {key: os.environ.get(key) for key in own}
    try:
        # As on macOS and Windows: all processes get the loopback address for the machine's.
        setattr(constants, name, False)
        os.environ.update(own)
        _read_settings_again(ray)
        yield
    finally:
        setattr(constants, name, has_network)
        for key, text in before.items():
            if text is None:
                os.environ.pop(key, None)
            else:
                os.environ[key] = text
        _read_settings_again(ray)


def _read_settings_again(ray: Any) -> None:
    """Ray reads its environment when it is imported; it may have been before."""
    ray._raylet.Config.initialize("")
    ray._raylet.AuthenticationTokenLoader.instance().reset_cache()


def _start(ray: Any, workers: Workers, folder: Path) -> None:
    count = workers.count or max(1, (os.cpu_count() or 1) // workers.cores)
    with warnings.catch_warnings():
        # It forks to start other programs at once, which JAX in this process does not mind.
        warnings.filterwarnings("ignore", r"os\.fork\(\) was called", RuntimeWarning)
        ray.init(
            address="local", num_cpus=count * workers.cores, num_gpus=0, include_dashboard=False,
            log_to_driver=False, logging_level=logging.ERROR,
            _temp_dir=str(folder / "r"),  # which Ray opens to everybody; the folder above is not
        )  # fmt: skip


@contextmanager
def _reaper(folder: Path) -> Iterator[Callable[[], None]]:
    """A process that ends our cluster if this process is killed; it is told whom to remember."""
    psutil: Any = importlib.import_module("psutil")  # Ray brings its own
    library = Path(psutil.__file__).parents[1]
    started = subprocess.Popen(  # noqa: S603 (our own program)
        [sys.executable, "-I", reaper.__file__, str(library), str(folder)], text=True,
        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip

    def remember() -> None:
        others = psutil.Process().children(recursive=True)
        numbers = [str(each.pid) for each in others if each.pid != started.pid]
        assert started.stdin is not None  # noqa: S101 (for the type checker)
        print(*numbers, sep="\n", file=started.stdin, flush=True)

    try:
        yield remember
    finally:
        started.kill()
        started.communicate()


def _checked(joined: Cluster) -> Cluster:
    """A worker that no machine has room for would be waited for without end."""
    nodes = [node for node in joined.ray.nodes() if node["Alive"]]
    most = max((node["Resources"].get("CPU", 0) for node in nodes), default=0)
    if most < joined.workers.cores:
        raise ScrlError(
            f"no machine of the cluster has {joined.workers.cores} cores for a worker; the largest "
            f"has {most:g}"
        )
    return joined


def _leave(ray: Any) -> None:
    """Disconnect, which also ends what we started; a Ctrl-C must not leave half of it behind."""
    if not _has_signals():
        ray.shutdown()
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        ray.shutdown()
    finally:
        signal.signal(signal.SIGINT, before)


def _has_signals() -> bool:
    """Whether this thread may say what happens at a signal."""
    return threading.current_thread() is threading.main_thread()


def _exit(number: int, frame: Any) -> None:
    """End as the signal would have it, but leave the cluster first."""
    del frame
    raise SystemExit(128 + number)


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
