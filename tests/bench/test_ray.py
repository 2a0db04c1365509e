"""The Ray engine against the local one: the same tables, whoever is killed; nothing left behind.

One cluster of two cores serves all tests but that of Ctrl-C, which is about a cluster of its own.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import scrl.bench.engines.ray as engine
from scrl.bench import TABLES, BenchProgress, Workers, cells_of, run_bench
from scrl.bench.engines import worker
from scrl.bench.engines.cluster import MANNERS
from scrl.errors import ScrlError
from scrl.methods import configure
from scrl.problems import load
from scrl.runfiles.files import sha256
from scrl.runs import RunFolder
from scrl.training import begin_run
from scrl.underway import DivergedError

# Before Ray is imported: clusters of tests are for nobody else, and write into nobody's home.
os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=secrets.token_hex(16))
ray = pytest.importorskip("ray")
pytestmark = pytest.mark.usefixtures("quick_compiling")

TABLE = TABLES["table4"]
SETTINGS = {"worlds": 2, "steps": 32, "iterations": 2, "settle": 100, "width": 4, "depth": 1}
CELLS = cells_of(TABLE, methods=["scrl"])
"""Two runs of one shape: what is compiled for one serves both."""
ROUNDS, SEEDS = 102, 2
WRITTEN = [f"table4.{ending}" for ending in ("md", "csv", "tex")]


class Watching:
    """Keeps what it is told, and does something at every round."""

    def __init__(self, at_round: Any = lambda now: None) -> None:
        self.seen: list[BenchProgress] = []
        self.said: list[str] = []
        self.at_round = at_round

    def __call__(self, now: BenchProgress) -> None:
        self.seen.append(now)
        if now.run is not None:
            self.at_round(now)

    def say(self, text: str) -> None:
        self.said.append(text)


def bench(out: Path, watch: Any = None, cells: Any = CELLS, **options: Any) -> None:
    given = {"engine": "ray", **options}
    run_bench(TABLE, cells, out, seeds=SEEDS, settings=SETTINGS, watch=watch, **given)


def numbers(out: Path, cell: Any) -> dict[str, Any]:
    """What a run has found, without the time that it took and its place."""
    result = json.loads((out / cell.folder / "result.json").read_text())["result"]
    del result["wall_s"]
    return result | {"seeds": [{**seed, "run": ""} for seed in result["seeds"]]}


def assert_same_run(out: Path, other: Path, cell: Any) -> None:
    """The same result, policy and metrics, with no round more or less."""
    assert numbers(out, cell) == numbers(other, cell)
    for name in ("policy.eqx", "metrics.jsonl"):
        content = (out / cell.folder / name).read_bytes()
        assert content == (other / cell.folder / name).read_bytes()
    assert content.count(b"\n") == 1 + ROUNDS * SEEDS
    assert len(list((out / cell.folder / "checkpoint").iterdir())) == 2


def assert_same(out: Path, other: Path) -> None:
    """The same tables and runs, with no run more or less."""
    for name in WRITTEN:
        assert (out / name).read_text() == (other / name).read_text()
    assert {path.name for path in out.iterdir()} == {path.name for path in other.iterdir()}
    for cell in CELLS:
        assert_same_run(out, other, cell)


def unfinished(out: Path, local: Path, cell: Any) -> Path:
    """A copy of a run of the local engine that only has to be evaluated."""
    shutil.copytree(local / cell.folder, out / cell.folder)
    (out / cell.folder / "result.json").unlink()
    return out / cell.folder


def spoil(run: Path) -> None:
    """One round less, and no number in the state is one."""
    mark = run / "checkpoint" / "checkpoint.json"
    document = json.loads(mark.read_text())
    state = mark.with_name(document["state"])
    leaves = []
    with state.open("rb") as file:
        while file.tell() < state.stat().st_size:
            leaf = np.load(file)
            leaves.append(np.full_like(leaf, np.nan) if leaf.dtype.kind == "f" else leaf)
    with state.open("wb") as file:
        for leaf in leaves:
            np.save(file, leaf)
    document |= {"iteration": ROUNDS - 1, "sha256": sha256(state)}
    mark.write_text(json.dumps(document))


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory, quick_compiling: None) -> Path:
    """What the local engine finds."""
    out = tmp_path_factory.mktemp("local")
    bench(out, engine="local", workers=None)
    return out


def environment() -> dict[str, str]:
    """As this process computes: one device, and quick compiling."""
    return {
        **os.environ,
        **MANNERS,
        "JAX_NUM_CPU_DEVICES": "1",
        "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
        "JAX_COMPILATION_CACHE_DIR": jax.config.jax_compilation_cache_dir or "",
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.3",
    }


CLUSTER = """
import sys, ray
ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False,
         logging_level="ERROR", _temp_dir=sys.argv[1])
print(ray.get_runtime_context().gcs_address, flush=True)
sys.stdin.read()
"""
"""A process with a cluster of two cores, until its input ends."""


@pytest.fixture(scope="module")
def cluster(local: Path) -> Iterator[str]:
    """The address of a cluster whose workers find compiled code."""
    with (
        tempfile.TemporaryDirectory(dir="/tmp", ignore_cleanup_errors=True) as folder,
        subprocess.Popen(
            [sys.executable, "-c", CLUSTER, folder], env=environment() | {"TMPDIR": folder},
            text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        ) as started,
    ):  # fmt: skip
        assert started.stdout is not None
        yield started.stdout.readline().strip()
        started.communicate("")


@pytest.fixture
def two(cluster: str) -> Workers:
    """Two workers there."""
    return Workers(count=2, address=cluster)


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> dict[Path, int]:
    """The process that has each run, by its folder; all of them save every round."""
    found: dict[Path, int] = {}
    begin = engine._Head._begin

    def noting(head: Any, attempt: Any) -> None:
        found.update({job.path: int(attempt.who["process"]) for job in attempt.pack})
        begin(head, attempt)

    monkeypatch.setattr(engine._Head, "_begin", noting)
    monkeypatch.setattr("scrl.together.CHECKPOINT_EVERY_S", -1.0)
    return found


def test_a_worker_that_is_killed_loses_no_run_and_doubles_none(
    two: Workers, local: Path, tmp_path: Path, workers: dict[Path, int]
) -> None:
    killed: list[Path] = []

    def kill(now: BenchProgress) -> None:
        assert now.run is not None
        is_saved = (now.run.run / "checkpoint" / "checkpoint.json").exists()
        if not killed and is_saved and now.run.rounds < ROUNDS - 20:
            killed.append(now.run.run)
            os.kill(workers[now.run.run], signal.SIGKILL)

    watching = Watching(kill)
    bench(tmp_path, watching, workers=two)
    assert_same(tmp_path, local)
    [text] = watching.said
    assert "was lost" in text
    assert "goes on from the last checkpoint (try 2 of 4)" in text
    # The second worker began where the first had saved, not anew.
    rounds = [now.run.rounds for now in watching.seen if now.run and now.run.run == killed[0]]
    assert rounds == sorted(rounds)
    # What was seen on the way is what a local bench shows.
    assert [now.done for now in watching.seen if now.run is None] == [1, 2]
    assert all(0.0 < now.share <= 1.0 for now in watching.seen)
    seen = [now.run for now in watching.seen if now.run is not None]
    assert {run.run for run in seen} == {tmp_path / cell.folder for cell in CELLS}
    assert all(run.metrics.return_.shape == (SEEDS,) for run in seen)
    assert watching.seen[-1].left_s == 0.0
    assert not ray.is_initialized()


def test_a_run_that_loses_all_its_workers_is_named_and_the_others_are_finished(
    two: Workers, local: Path, tmp_path: Path, workers: dict[Path, int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    unlucky, other = (unfinished(tmp_path, local, cell) for cell in CELLS)
    begin = engine._Head._begin

    def killing(head: Any, attempt: Any) -> None:
        begin(head, attempt)
        if unlucky in workers:
            os.kill(workers.pop(unlucky), signal.SIGKILL)

    monkeypatch.setattr(engine._Head, "_begin", killing)
    monkeypatch.setattr(engine, "MOST_TRIES", 2)
    watching = Watching()
    with pytest.raises(engine.LostWorkerError, match=r"med-priority scrl: 2 workers were lost"):
        bench(tmp_path, watching, workers=two)
    assert [text.partition("(")[2] for text in watching.said] == ["try 2 of 2)"]
    assert_same_run(tmp_path, local, CELLS[1])
    assert other.exists()
    assert not (unlucky / "result.json").exists()
    assert not (tmp_path / "table4.md").exists()


def test_an_error_of_a_run_comes_home_and_the_others_are_finished(
    two: Workers, local: Path, tmp_path: Path
) -> None:
    bad, _ = (unfinished(tmp_path, local, cell) for cell in CELLS)
    spoil(bad)
    watching = Watching()
    with pytest.raises(DivergedError, match=f"diverged in round {ROUNDS} ") as diverged:
        bench(tmp_path, watching, workers=two)
    assert f"The last good checkpoint is kept in {bad};" in str(diverged.value)
    assert watching.said == []
    assert_same_run(tmp_path, local, CELLS[1])
    assert not (bad / "result.json").exists()


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


def test_a_run_remembers_the_device_of_the_worker_that_begins_it(tmp_path: Path) -> None:
    record = begin_run(load("agri-joint"), configure(), (0,), tmp_path / "run").folder
    record.trained_on("abacus")
    assert RunFolder.open(tmp_path / "run").record.device == "abacus"
    worker._opened(tmp_path / "run")
    assert RunFolder.open(tmp_path / "run").record.device == jax.devices()[0].device_kind


# As a user's shell sees it.


def arguments(out: Path, *more: str) -> list[str]:
    sets = [text for key, value in SETTINGS.items() for text in ("--set", f"{key}={value}")]
    asked = [sys.executable, "-m", "scrl", "bench", "table4", "--methods", "scrl"]
    return [*asked, "--seeds", str(SEEDS), "--out", str(out), *sets, *more]


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
    assert "everything is saved. Go on with: the same command again" in said
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
