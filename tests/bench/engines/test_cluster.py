"""Clusters: joined and left running, or started for a bench and gone after it; refusals."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import scrl.bench.engines.ray as engine
from scrl.bench import Workers
from scrl.errors import ScrlError

from .small import CELLS, ROUNDS, arguments, assert_same, assert_same_run, bench, environment

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.usefixtures("quick_compiling")


def test_another_scrl_on_a_worker_is_refused_before_anything_is_written(
    two: Workers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "identity", lambda: {"scrl": "0.0.9"})
    with pytest.raises(ScrlError, match=r"another version: scrl 0\..*, here 0\.0\.9; install"):
        bench(tmp_path / "out", workers=two)
    assert not (tmp_path / "out").exists()


def test_a_cluster_that_was_joined_before_is_used_and_not_left(
    cluster: str, tmp_path: Path
) -> None:
    with ray.init(address=cluster, log_to_driver=False, logging_level="ERROR"):
        with pytest.raises(ScrlError, match="no machine of the cluster has 3 cores for a worker"):
            bench(tmp_path, workers=Workers(cores=3))
        assert ray.is_initialized()


def test_a_cluster_that_is_joined_by_its_address_is_left_running(
    cluster: str, local: Path, tmp_path: Path
) -> None:
    done = subprocess.run(
        arguments(tmp_path, "--tasks", "agri-priority", "--engine", "ray"),
        env=environment() | {"RAY_ADDRESS": cluster}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == "100% agri-priority scrl (1 of 1 runs done) 0:00:00 left"
    assert_same_run(tmp_path, local, CELLS[1])
    with ray.init(address=cluster, log_to_driver=False, logging_level="ERROR"):
        assert ray.cluster_resources()["CPU"] == 2.0


def children(pid: int) -> set[int]:
    """All processes below one, however deep."""
    parents: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    found = {pid}
    while more := {each for each, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {pid}


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_ctrl_c_saves_leaves_nothing_behind_and_either_engine_goes_on(
    local: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    started = subprocess.Popen(
        arguments(out, "--engine", "ray", "--workers", "2"), env=environment(), text=True,
        start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    folders = [out / cell.folder for cell in CELLS]
    end = time.monotonic() + 120
    while started.poll() is None and time.monotonic() < end and not all(
        (folder / "run.json").exists() for folder in folders
    ):  # fmt: skip
        time.sleep(0.2)
    below = children(started.pid)
    assert len(below) > 4
    # Ctrl-C in a terminal goes to all processes of its group.
    os.killpg(started.pid, signal.SIGINT)
    _, said = started.communicate(timeout=120)
    assert started.returncode == 130, said
    assert "everything is saved. Resume with: the same command again" in said
    assert "Traceback" not in said
    # A process that has been told to end is still listed until the system has cleared it away.
    end = time.monotonic() + 10
    while (
        left := [pid for pid in below if Path(f"/proc/{pid}").exists()]
    ) and time.monotonic() < end:
        time.sleep(0.1)
    assert not left
    assert not list(Path("/tmp").glob(f"scrl-ray-{started.pid}-*"))  # noqa: S108
    stopped = [folder for folder in folders if not (folder / "result.json").exists()]
    assert stopped
    for folder in stopped:
        rounds = json.loads((folder / "checkpoint" / "checkpoint.json").read_text())["iteration"]
        assert 1 <= rounds <= ROUNDS
    bench(out, engine="local", workers=None)
    assert_same(out, local)


# What is wrong is said before anything is started.


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"engine": "rya"}, "unknown engine 'rya': did you mean 'ray'"),
        (
            {"workers": Workers(address="127.0.0.1:1")},
            "joined at 127.0.0.1:1: .*refused; give HOST",
        ),
        ({"workers": Workers(address="ray://there:1")}, "this is no address of the form HOST:PORT"),
        (
            {"engine": "local", "workers": Workers(count=2)},
            "workers, their cores and an address are for --engine ray",
        ),
    ],
)
def test_wrong_engines_are_named(tmp_path: Path, options: Any, message: str) -> None:
    with pytest.raises(ScrlError, match=message):
        bench(tmp_path, **options)
    assert not any(tmp_path.iterdir())


def test_without_ray_it_is_said_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ScrlError, match=r"which is not installed .*: pip install 'scrl\[ray\]'"):
        bench(tmp_path)
    assert not any(tmp_path.iterdir())


OWN = """
import os, sys, time
from scrl.bench.engines import Workers
from scrl.bench.engines.cluster import cluster

with cluster(Workers(count=1)) as ours:
    class Worker:
        def process(self):
            return os.getpid()

    made = ours.ray.remote(Worker).remote()
    ours.ray.get(made.process.remote())
    print(ours.folder, os.environ.get("RAY_AUTH_TOKEN"), flush=True)
    time.sleep(120)
"""
"""A process with a cluster of its own, in which a worker waits."""


def listening(processes: set[int]) -> set[str]:
    """The addresses on which processes listen, by what the system says of their sockets."""
    addresses: dict[str, str] = {}
    for family, name in ((socket.AF_INET, "tcp"), (socket.AF_INET6, "tcp6")):
        for line in Path("/proc/net", name).read_text().splitlines()[1:]:
            parts = line.split()
            if parts[3] == "0A":  # listens
                numbers = bytes.fromhex(parts[1].partition(":")[0])
                words = [numbers[at : at + 4][::-1] for at in range(0, len(numbers), 4)]
                addresses[f"socket:[{parts[9]}]"] = socket.inet_ntop(family, b"".join(words))
    links = [link for pid in processes for link in Path(f"/proc/{pid}/fd").glob("*")]
    return {addresses[name] for link in links if (name := str(link.readlink())) in addresses}


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_our_own_cluster_is_closed_to_others_and_dies_with_its_process(tmp_path: Path) -> None:
    """Nobody else may look into its folder, read its token or reach it; nothing outlives a kill."""
    own = {key: text for key, text in environment().items() if not key.startswith("RAY_AUTH")}
    started = subprocess.Popen(
        [sys.executable, "-c", OWN], env=own | {"HOME": str(tmp_path)}, text=True,
        stdout=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    with started, ExitStack() as stack:
        stack.callback(started.kill)
        assert started.stdout is not None
        path, token = started.stdout.readline().split()
        folder, below = Path(path), children(started.pid)
        assert len(below) > 4
        assert folder.stat().st_mode & 0o777 == 0o700
        assert not list(tmp_path.iterdir())  # no token that others could read
        texts = [file.read_bytes() for file in folder.rglob("*") if file.is_file()]
        commands = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in below]
        assert not any(token.encode() in text for text in (*texts, *commands))
        assert listening({started.pid, *below}) == {"127.0.0.1", "::ffff:127.0.0.1"}
    end = time.monotonic() + 20
    while (any(Path(f"/proc/{pid}").exists() for pid in below) or folder.exists()) and (
        time.monotonic() < end
    ):
        time.sleep(0.1)
    assert not [pid for pid in below if Path(f"/proc/{pid}").exists()]
    assert not folder.exists()
