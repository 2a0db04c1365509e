"""A Ray cluster: an existing one at an address, or a temporary local one.

The local one sends no usage statistics, listens on the loopback address only, requires a token,
keeps its files in a folder that only its owner can enter, and ends with all its processes when it
is no longer needed or when this process is killed.
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
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # avoids a warning about a future default
    "RAY_worker_niceness": "0",  # keeps workers from being killed when other programs use memory
}
"""Environment variables for Ray."""
KNOCK_S = 10.0
"""Seconds within which an address must answer."""


@dataclass(frozen=True)
class Cluster:
    """A joined Ray cluster."""

    ray: Any
    """The module `ray`, untyped because it may not be installed."""
    workers: Workers
    folder: Path | None
    """The folder for files of the workers of a local cluster; None otherwise."""

    def room(self) -> int:
        """How many workers the cluster can hold now."""
        if self.workers.count is not None:
            return self.workers.count
        return max(1, int(self.ray.cluster_resources().get("CPU", 0) // self.workers.cores))


@contextmanager
def cluster(workers: Workers) -> Iterator[Cluster]:
    """Join the requested cluster, or use one that this process has already joined."""
    os.environ.update({name: text for name, text in MANNERS.items() if name not in os.environ})
    ray = _import_ray()
    if ray.is_initialized():
        yield _checked(Cluster(ray, workers, None))
        return
    address = workers.address or os.environ.get("RAY_ADDRESS")
    with _left(ray) if address else _own(ray, workers) as folder:
        if address:
            _join(ray, address)
        if _has_signals():  # Ray installs its own handler, which would abort
            signal.signal(signal.SIGTERM, _exit)
        yield _checked(Cluster(ray, workers, folder))


@contextmanager
def _left(ray: Any) -> Iterator[None]:
    """Leave the cluster joined inside, and restore the signal handlers."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        _leave(ray)
        if _has_signals():
            signal.signal(signal.SIGTERM, before)


@contextmanager
def _own(ray: Any, workers: Workers) -> Iterator[Path]:
    """A temporary local cluster and the folder with its files."""
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
    """Raise if nothing listens at the address; Ray itself would wait for many minutes."""
    if address == "auto":
        return
    host, colon, port = address.rpartition(":")
    if not (host and colon and port.isdecimal()) or "/" in host:
        raise ValueError("this is no address of the form HOST:PORT")
    socket.create_connection((host.strip("[]"), int(port)), timeout=KNOCK_S).close()


def _new_folder() -> Path:
    """A folder that only its owner can enter."""
    # Socket paths have a length limit, which some temporary folders exceed.
    short = "/tmp" if sys.platform != "win32" and Path("/tmp").is_dir() else None  # noqa: S108
    return Path(tempfile.mkdtemp(prefix=f"scrl-ray-{os.getpid()}-", dir=short))


@contextmanager
def _closed_to_others(ray: Any) -> Iterator[None]:
    """Configure Ray in this process for a local cluster: loopback only, with its own token.

    The token is only in the environment of these processes, which other users cannot read; Ray
    itself would store one for all clusters in a world-readable file.
    """
    constants, name = ray._private.ray_constants, "ENABLE_RAY_CLUSTER"
    has_network = getattr(constants, name)
    own = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    before = {key: os.environ.get(key) for key in own}
    try:
        # As on macOS and Windows: all processes use the loopback address.
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
    """Have Ray read its environment again, in case it was imported before."""
    ray._raylet.Config.initialize("")
    ray._raylet.AuthenticationTokenLoader.instance().reset_cache()


def _start(ray: Any, workers: Workers, folder: Path) -> None:
    count = workers.count or max(1, (os.cpu_count() or 1) // workers.cores)
    with warnings.catch_warnings():
        # Ray forks to start other programs, which is safe with JAX in this process.
        warnings.filterwarnings("ignore", r"os\.fork\(\) was called", RuntimeWarning)
        ray.init(
            address="local", num_cpus=count * workers.cores, num_gpus=0, include_dashboard=False,
            log_to_driver=False, logging_level=logging.ERROR,
            _temp_dir=str(folder / "r"),  # Ray makes it world-accessible; its parent folder is not
        )  # fmt: skip


@contextmanager
def _reaper(folder: Path) -> Iterator[Callable[[], None]]:
    """A process that ends the local cluster if this process is killed; it receives the PIDs."""
    psutil: Any = importlib.import_module("psutil")  # Ray bundles psutil
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
    """Raise if no machine has enough cores for a worker, which would wait for ever."""
    nodes = [node for node in joined.ray.nodes() if node["Alive"]]
    most = max((node["Resources"].get("CPU", 0) for node in nodes), default=0)
    if most < joined.workers.cores:
        raise ScrlError(
            f"no machine of the cluster has {joined.workers.cores} cores for a worker; the largest "
            f"has {most:g}"
        )
    return joined


def _leave(ray: Any) -> None:
    """Disconnect, which also ends a local cluster; Ctrl-C does not interrupt it."""
    if not _has_signals():
        ray.shutdown()
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        ray.shutdown()
    finally:
        signal.signal(signal.SIGINT, before)


def _has_signals() -> bool:
    """Whether this thread may set signal handlers."""
    return threading.current_thread() is threading.main_thread()


def _exit(number: int, frame: Any) -> None:
    """Leave the cluster, then end as the signal would have done."""
    del frame
    raise SystemExit(128 + number)


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
