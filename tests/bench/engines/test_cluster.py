"""Clusters of our own, and what is refused before anything is started."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from scrl.bench import Workers
from scrl.errors import ScrlError

from .small import bench, children, environment

ray = pytest.importorskip("ray")


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
