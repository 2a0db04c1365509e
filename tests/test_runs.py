"""Run folders: what is written is read back, whatever is killed, torn, damaged or too new."""

from __future__ import annotations

import dataclasses
import json
import os
import random
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scrl
from scrl.problems import MapSource, Problem, ProblemOptions
from scrl.runs import RunError, RunFolder, RunRecord, git_commit, new_run_path
from scrl.worlds.spec import SweepSpec

RECORD = RunRecord(
    problem="strip",
    method="scrl",
    settings={"steps": 10, "rate": 0.5, "sizes": [64, 64]},
    seeds=(0, 1),
    version="0.1.0",
    commit=None,
    command="scrl train strip",
    python="3.11",
    jax="0.10",
    device="cpu",
    created="2026-11-15T14:25:30+00:00",
)


@pytest.fixture
def problem(strip: SweepSpec) -> Problem:
    return Problem.create(strip, {"adequacy": "S1 >= 1"}, ProblemOptions(name="strip"))


@pytest.fixture
def run(tmp_path: Path, problem: Problem) -> RunFolder:
    return RunFolder.create(tmp_path / "run", problem, RECORD)


def rows(iteration: int, **values: Any) -> list[dict[str, Any]]:
    return [{"iteration": iteration, "seed": seed, **values} for seed in RECORD.seeds]


def mark_of(run: RunFolder) -> Path:
    return run.path / "checkpoint" / "checkpoint.json"


def rewrite(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


# What a folder holds.


def test_a_run_stands_on_its_own(tmp_path: Path) -> None:
    problem = scrl.load("agri-joint")
    RunFolder.create(tmp_path / "a" / "run", problem, RECORD)
    again = RunFolder.open(tmp_path / "a" / "run")
    assert again.record == RECORD
    assert again.problem().rules.rules == problem.rules.rules
    assert np.array_equal(
        again.problem().world_spec.regions.masks, problem.world_spec.regions.masks
    )
    assert scrl.load(tmp_path / "a" / "run").name == "agri-joint"


def test_a_record_made_now_says_where_it_was_made(
    tmp_path: Path, problem: Problem, monkeypatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["/somewhere/bin/scrl", "train", "my farm.toml"])
    record = RunRecord.now("strip", "scrl", {"rate": np.float32(0.5), "cap": np.inf}, range(2))
    assert record.command == "scrl train 'my farm.toml'"
    assert record.settings == {"rate": 0.5, "cap": None}
    assert (record.jax, record.device) == (jax.__version__, jax.devices()[0].device_kind)
    assert record.created.endswith("+00:00")
    RunFolder.create(tmp_path / "run", problem, record)
    assert RunFolder.open(tmp_path / "run").record == record


def test_an_empty_folder_is_filled_and_a_full_one_never_touched(
    tmp_path: Path, problem: Problem
) -> None:
    (tmp_path / "run").mkdir()
    RunFolder.create(tmp_path / "run", problem, RECORD)
    with pytest.raises(RunError, match=r"choose another --out, or go on with --resume .*run$"):
        RunFolder.create(tmp_path / "run", problem, RECORD)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "letter.txt").write_text("keep me")
    for taken in (tmp_path / "other", tmp_path / "other" / "letter.txt"):
        with pytest.raises(RunError, match=r"choose another --out$"):
            RunFolder.create(taken, problem, RECORD)
    assert [path.name for path in (tmp_path / "other").iterdir()] == ["letter.txt"]


@pytest.mark.parametrize("name", ["run.json", "Result.json"])
def test_a_map_may_not_be_called_like_a_file_of_the_run(
    tmp_path: Path, problem: Problem, name: str
) -> None:
    known = scrl.load("agri-joint").source
    assert known is not None
    source = MapSource(tmp_path / name, known.options)
    with pytest.raises(RunError, match="rename the map"):
        RunFolder.create(tmp_path / "run", dataclasses.replace(problem, source=source), RECORD)
    assert not (tmp_path / "run").exists()


def test_the_result_ends_the_run(run: RunFolder) -> None:
    assert (run.is_finished, run.result()) == (False, None)
    run.save_result({"gap": np.float64(0.25), "worst": float("nan"), "seeds": (1, 2)})
    again = RunFolder.open(run.path)
    assert again.is_finished
    assert again.result() == {"gap": 0.25, "worst": None, "seeds": [1, 2]}


# Metrics.


def test_rows_are_read_back_and_json_stays_json(run: RunFolder) -> None:
    run.log(rows(1, gain=jnp.float32(0.5), loss=float("nan"), note=np.inf))
    run.log(rows(2, gain=np.float64(2.0), count=np.int32(3)))
    text = (run.path / "metrics.jsonl").read_text()
    assert "NaN" not in text
    assert "Infinity" not in text
    assert json.loads(text.splitlines()[0]) == {"schema": 1}
    assert RunFolder.open(run.path).metrics() == [
        *rows(1, gain=0.5, loss=None, note=None),
        *rows(2, gain=2.0, count=3),
    ]


def test_a_torn_last_line_is_left_out_and_a_torn_middle_one_is_an_error(run: RunFolder) -> None:
    run.log(rows(1, gain=0.5))
    path = run.path / "metrics.jsonl"
    whole = path.read_bytes()
    for size in range(len(whole) - 20, len(whole)):
        path.write_bytes(whole[:size])
        assert run.metrics() == rows(1, gain=0.5)[:1]
    path.write_bytes(whole[:-20] + b"\n" + whole)
    with pytest.raises(RunError, match=r"metrics.jsonl line 3: damaged, not JSON"):
        run.metrics()


# Pytrees.


class Network(eqx.Module):
    """Numbers, and a function that no file can hold."""

    weights: list[jax.Array]
    activation: Callable[[jax.Array], jax.Array]


def network(scale: float = 1.0) -> Network:
    shapes = [(8, 3), (8,), (1, 8)]
    chance = np.random.default_rng(0)
    weights = [jnp.asarray(scale * chance.normal(size=shape), jnp.float32) for shape in shapes]
    return Network(weights, jnp.tanh)


def state_of_training() -> dict[str, Any]:
    return {
        "network": network(),
        "key": jax.random.key(7),
        "keys": jax.random.key(8, impl="rbg")[None],
        "half": jnp.arange(3, dtype=jnp.bfloat16),
        "columns": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "scalars": (True, 3, 0.1, np.float32(0.2), 2j),
        "empty": (jnp.zeros((0, 4)), None),
    }


def abstract(leaf: Any) -> Any:
    is_array = isinstance(leaf, jax.Array)
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) if is_array else leaf


def numbers_of(tree: Any) -> list[Any]:
    leaves = [leaf for leaf in jax.tree.leaves(tree) if not callable(leaf)]
    is_key = [jnp.issubdtype(getattr(leaf, "dtype", int), jax.dtypes.prng_key) for leaf in leaves]
    pairs = zip(leaves, is_key, strict=True)
    return [jax.random.key_data(leaf) if key else leaf for leaf, key in pairs]


@pytest.mark.parametrize("is_abstract", [False, True])
def test_every_kind_of_leaf_comes_back_bit_for_bit(run: RunFolder, is_abstract: bool) -> None:
    state = state_of_training()
    run.save_checkpoint(state, iteration=5, wall_s=1.5)
    like = jax.tree.map(abstract, state) if is_abstract else state
    found = RunFolder.open(run.path).load_checkpoint(like)
    assert found is not None
    assert (found.iteration, found.wall_s) == (5, 1.5)
    for old, new in zip(numbers_of(state), numbers_of(found.state), strict=True):
        assert np.asarray(old).dtype == np.asarray(new).dtype
        assert np.array_equal(old, new)
    assert found.state["keys"].dtype == state["keys"].dtype
    assert jax.random.uniform(found.state["key"]) == jax.random.uniform(state["key"])
    assert found.state["network"].activation is jnp.tanh


def test_policies_are_files_that_equinox_reads(run: RunFolder) -> None:
    with pytest.raises(RunError, match="there is no policy yet"):
        run.load_policy(network())
    run.save_policy(network())
    blank = network(scale=0.0)
    assert eqx.tree_equal(run.load_policy(blank), network())
    assert eqx.tree_equal(eqx.tree_deserialise_leaves(run.path / "policy.eqx", blank), network())
    eqx.tree_serialise_leaves(run.path / "policy.eqx", network(scale=2.0))
    assert eqx.tree_equal(run.load_policy(blank), network(scale=2.0))


@pytest.mark.parametrize(
    ("like", "message"),
    [
        ({"w": jnp.ones(4)}, r"\['w'\]: the file holds float32 of shape \(3,\), asked for is"),
        ({"w": jnp.ones(3, jnp.int32)}, r"float32 .* asked for is int32 of shape \(3,\)"),
        ({"w": np.ones(3)}, r"asked for is float64"),
        ({}, "holds more than is asked for"),
        ({"w": jnp.ones(3), "x": 1.0}, r"\['x'\]: damaged, or the file ends here"),
        ({"w": jax.random.key(0)}, r"asked for is uint32 of shape \(2,\)"),
    ],
)
def test_trees_of_other_settings_are_refused(run: RunFolder, like: Any, message: str) -> None:
    run.save_policy({"w": jnp.ones(3)})
    with pytest.raises(RunError, match=message):
        run.load_policy(like)


def test_objects_are_neither_written_nor_read(run: RunFolder) -> None:
    like = {"w": np.array([{"a": 1}], dtype=object)}
    with pytest.raises(ValueError, match="allow_pickle"):
        run.save_policy(like)
    np.save(run.path / "policy.npy", like["w"], allow_pickle=True)
    (run.path / "policy.npy").rename(run.path / "policy.eqx")
    with pytest.raises(RunError, match="object"):
        run.load_policy({"w": jnp.ones(1)})


def test_whatever_bytes_a_policy_holds_it_loads_or_says_so(run: RunFolder) -> None:
    chance = random.Random(0)
    like = {"w": np.ones(3, np.float32), "b": np.ones((), np.float32)}
    run.save_policy(like)
    whole = (run.path / "policy.eqx").read_bytes()
    refused = 0
    for _ in range(400):
        damaged = bytearray(whole[: chance.choice([len(whole), chance.randrange(len(whole))])])
        for _ in range(chance.randrange(1, 6)):
            if damaged:
                damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        (run.path / "policy.eqx").write_bytes(damaged)
        try:
            run.load_policy(like)
        except RunError:
            refused += 1
    assert refused > 300


# Checkpoints.


def test_without_a_checkpoint_a_run_starts_anew(run: RunFolder) -> None:
    run.log(rows(1, gain=0.5))
    again = RunFolder.open(run.path)
    assert again.load_checkpoint({"w": jnp.ones(3)}) is None
    assert again.metrics() == []
    again.log(rows(1, gain=0.7))
    assert again.metrics() == rows(1, gain=0.7)


def test_what_was_logged_after_the_checkpoint_is_logged_once(run: RunFolder) -> None:
    run.log(rows(1))
    run.save_checkpoint(np.ones(3), iteration=1, wall_s=2)
    run.log(rows(2))
    with (run.path / "metrics.jsonl").open("ab") as file:
        file.write(b'{"iteration": 3, "se')
    again = RunFolder.open(run.path)
    assert again.load_checkpoint(np.zeros(3)) is not None
    again.log(rows(2))
    assert again.metrics() == [*rows(1), *rows(2)]


def test_one_state_is_kept_even_where_an_iteration_is_saved_twice(run: RunFolder) -> None:
    for iteration in (1, 2, 2):
        run.save_checkpoint(np.full(3, iteration), iteration=iteration, wall_s=0)
    (mark_of(run).parent / "state-2-0.eqx.tmp").write_bytes(b"left by a kill")
    run.save_checkpoint(np.full(3, 7), iteration=2, wall_s=0)
    assert len(list(mark_of(run).parent.iterdir())) == 2
    found = run.load_checkpoint(np.zeros(3, int))
    assert found is not None
    assert found.state.tolist() == [7, 7, 7]


class Killed(BaseException):
    """Stands for the end of the process."""


def test_a_stop_before_any_step_of_saving_leaves_one_of_the_two_checkpoints(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The steps: opens, syncs, renames, removals. Iteration 1 is saved twice, then 2."""
    steps_left = -1

    def stopping(step: Callable[..., Any]) -> Callable[..., Any]:
        def stepped(*arguments: Any, **options: Any) -> Any:
            nonlocal steps_left
            steps_left -= 1
            if steps_left == -1:
                raise Killed
            return step(*arguments, **options)

        return stepped

    for owner, name in [
        (os, "fsync"), (Path, "open"), (Path, "replace"), (Path, "unlink"), (np, "save"),
    ]:  # fmt: skip
        monkeypatch.setattr(owner, name, stopping(getattr(owner, name)))
    stops, loaded = 0, []
    for again in (1, 2):
        is_saved = False
        while not is_saved:
            run.save_checkpoint(np.full(3, 1), iteration=1, wall_s=0)
            run.log(rows(2))
            steps_left = stops
            try:
                run.save_checkpoint(np.full(3, again * 10), iteration=again, wall_s=0)
                is_saved = steps_left >= 0
            except Killed:
                stops += 1
            steps_left = -1
            found = RunFolder.open(run.path).load_checkpoint(np.zeros(3, int))
            assert found is not None
            assert found.state.tolist() in ([1] * 3, [again * 10] * 3)
            loaded.append(found.state[0])
        stops = 0
    assert {1, 10, 20} == set(loaded)
    assert len(loaded) > 20


KILLED_WRITER = """
import itertools, os, random, signal, sys, time
import jax, numpy as np
from scrl.runs import RunFolder

try:
    import tensorboardX  # now, so that the writers do not spend their short lives on it
except ImportError:
    pass
path, like = sys.argv[1], {"w": np.zeros(2000, int)}

def rows(iteration):
    return [{"iteration": iteration, "seed": seed, "gain": 0.5} for seed in (0, 1)]

def write_until_killed():
    run = RunFolder.open(path)
    saved = run.load_checkpoint(like)
    for iteration in itertools.count(saved.iteration + 1 if saved else 1):
        run.log(rows(iteration))
        if iteration % 2 == 0:
            run.save_checkpoint({"w": np.full(2000, iteration)}, iteration=iteration, wall_s=1.0)

chance, reached = random.Random(), []
for _ in range(12):
    writer = os.fork()
    if writer == 0:
        write_until_killed()
    time.sleep(chance.uniform(0.02, 0.1))
    os.kill(writer, signal.SIGKILL)
    os.waitpid(writer, 0)
    run = RunFolder.open(path)
    run.metrics()
    saved = run.load_checkpoint(like)
    reached.append(saved.iteration if saved else 0)
    assert saved is None or set(saved.state["w"].tolist()) == {saved.iteration}, "mixed states"
    expected = [row for one in range(reached[-1]) for row in rows(one + 1)]
    assert run.metrics() == expected, "metrics of another moment"
assert reached == sorted(reached), "a checkpoint was lost"
print(reached[-1])
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the writers are forked, to be quick")
def test_kill_9_at_any_moment_leaves_a_checkpoint_and_its_metrics(run: RunFolder) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", KILLED_WRITER, run.path],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 0


# Damage.


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("run.json", '{"schema": 1, "probl', r"run.json: damaged, not JSON: Unterminated string"),
        ("run.json", "", "run.json: damaged, not JSON"),
        ("run.json", "[" * 100_000, "run.json: damaged, not JSON"),
        ("run.json", "\xff", "run.json: damaged, not JSON"),
        ("run.json", "[1]", r"must hold a table in braces, not \[1\]"),
        ("run.json", "{}", "'schema' must be a whole number, and is missing"),
        ("run.json", '{"schema": 1}', "'problem' must be a text, and is missing"),
        ("result.json", '{"schema": 1, "result": [3]}', r"'result' must be a table, not \[3\]"),
        ("metrics.jsonl", "", "metrics.jsonl: damaged: the header is missing"),
        ("metrics.jsonl", '{"schema": 2}\n', "metrics.jsonl line 1: written by a newer scrl"),
        ("metrics.jsonl", '{"schema": 1}\n{"seed": 1}\n', "line 2: 'iteration' must be a whole"),
    ],
)
def test_damaged_files_are_named(run: RunFolder, name: str, text: str, message: str) -> None:
    (run.path / name).write_text(text, encoding="latin-1")
    with pytest.raises(RunError, match=message):
        read_all(run.path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"schema": 2}, r"written by a newer scrl \(schema 2, and this one reads up to 1\)"),
        ({"schema": 0}, "schema 0 is unknown"),
        ({"schema": True}, "'schema' must be a whole number, not True"),
        ({"seeds": [1, "two"]}, "'seeds' must hold whole numbers"),
        ({"commit": 7}, "'commit' must be a text or null, not 7"),
    ],
)
def test_records_that_cannot_be_used(run: RunFolder, changes: Any, message: str) -> None:
    rewrite(run.path / "run.json", **changes)
    with pytest.raises(RunError, match=message):
        read_all(run.path)


def read_all(path: Path) -> None:
    run = RunFolder.open(path)
    run.metrics()
    run.result()


def test_folders_that_are_no_runs(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="there is no such folder"):
        RunFolder.open(tmp_path / "nowhere")
    with pytest.raises(RunError, match=r"this folder holds no run.json; name a folder that"):
        RunFolder.open(tmp_path)


@pytest.mark.parametrize("name", ["run.json", "metrics.jsonl"])
def test_files_that_are_too_large_are_not_read(run: RunFolder, name: str) -> None:
    os.truncate(run.path / name, 2**30 + 1)  # a sparse file: it takes no room
    with pytest.raises(RunError, match="1,073,741,825 bytes are more than"):
        read_all(run.path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"state": "../x"}, r"'state' names no state file: '../x'"),
        ({"state": "/etc/passwd"}, "'state' names no state file"),
        ({"state": "state-1-a/../../run.json"}, "'state' names no state file"),
        ({"state": "state-1-a.eqx\n"}, "'state' names no state file"),
        ({"state": "state-1-a.eqx"}, "state-1-a.eqx: missing, but checkpoint.json names it"),
        ({"state": None}, "'state' must be a text, not None"),
        ({"sha256": "0"}, "its checksum is not the one in checkpoint.json"),
        ({"metrics_bytes": 10**30}, "metrics.jsonl: damaged: shorter than at"),
        ({"metrics_bytes": -1}, "metrics.jsonl: damaged: shorter than at"),
        ({"metrics_bytes": 5}, "metrics.jsonl: damaged: no line ends at"),
        ({"wall_s": "long"}, "'wall_s' must be a number, not 'long'"),
        ({"schema": 9}, "written by a newer scrl"),
    ],
)
def test_checkpoints_that_cannot_be_used(run: RunFolder, changes: Any, message: str) -> None:
    run.save_checkpoint(np.ones(3), iteration=1, wall_s=0)
    run.log(rows(2))
    rewrite(mark_of(run), **changes)
    with pytest.raises(RunError, match=message):
        run.load_checkpoint(np.ones(3))
    assert run.metrics() == rows(2)


def test_one_flipped_bit_in_the_state_is_noticed(run: RunFolder) -> None:
    run.save_checkpoint(np.ones(3), iteration=1, wall_s=0)
    (kept,) = mark_of(run).parent.glob("*.eqx")
    data = bytearray(kept.read_bytes())
    data[-1] ^= 1
    kept.write_bytes(data)
    with pytest.raises(RunError, match="damaged: its checksum"):
        run.load_checkpoint(np.ones(3))


def test_metrics_that_are_gone_are_an_error_of_the_run(run: RunFolder) -> None:
    (run.path / "metrics.jsonl").unlink()
    for act in (run.metrics, lambda: run.load_checkpoint(np.ones(3))):
        with pytest.raises(RunError, match=r"metrics.jsonl: missing"):
            act()


# TensorBoard.


def events_of(run: RunFolder, seed: int) -> list[Any]:
    """The events of a seed in the order in which TensorBoard reads them, checksums tested."""
    protos = pytest.importorskip("tensorboardX.proto.event_pb2")
    checksum = pytest.importorskip("tensorboardX.record_writer").masked_crc32c
    events = []
    for path in sorted((run.path / "tensorboard" / f"seed-{seed}").iterdir()):
        data = path.read_bytes()
        while data:
            (size,) = struct.unpack("<Q", data[:8])
            sums = struct.unpack("<I", data[8:12]) + struct.unpack(
                "<I", data[12 + size : 16 + size]
            )
            assert sums == (checksum(data[:8]), checksum(data[12 : 12 + size]))
            events.append(protos.Event.FromString(data[12 : 12 + size]))
            data = data[16 + size :]
    return events


def test_tensorboard_gets_the_same_numbers_and_forgets_what_was_dropped(run: RunFolder) -> None:
    pytest.importorskip("tensorboardX")
    run.log([*rows(1, gain=0.5, loss=float("nan")), *rows(2, gain=1.5)])
    run.save_checkpoint(np.ones(3), iteration=2, wall_s=0)
    run.log(rows(3, gain=9.0))
    again = RunFolder.open(run.path)
    again.load_checkpoint(np.ones(3))
    again.log(rows(3, gain=2.5))
    events = events_of(run, seed=1)
    assert [event.file_version for event in events if event.file_version] == ["brain.Event:2"] * 2
    starts = [event for event in events if event.session_log.status]
    assert [event.step for event in starts] == [3]
    found = [
        (event.step, one.tag, one.simple_value) for event in events for one in event.summary.value
    ]
    assert found == [(1, "gain", 0.5), (2, "gain", 1.5), (3, "gain", 9.0), (3, "gain", 2.5)]


def test_without_tensorboardx_the_metrics_are_still_logged(run: RunFolder, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorboardX.proto.event_pb2", None)
    run.log(rows(1))
    assert run.metrics() == rows(1)
    assert not (run.path / "tensorboard").exists()


# Names.


def test_new_runs_get_paths_of_their_own(tmp_path: Path) -> None:
    names = []
    for _ in range(3):
        path = new_run_path(tmp_path, "agri-joint", "scrl")
        path.mkdir()
        names.append(path.name)
    assert len(set(names)) == 3
    assert all(name.startswith("agri-joint-scrl-2") for name in names)


@pytest.mark.parametrize("name", ["../../etc", "", "田", "Äcker: Nord/Süd", "\0", ".", "x" * 500])
def test_problem_names_never_lead_out_of_the_root(tmp_path: Path, name: str) -> None:
    path = new_run_path(tmp_path, name, "scrl")
    assert path.parent == tmp_path
    path.mkdir()
    assert path.name.isascii()
    assert not path.name.startswith((".", "-"))


def git(folder: Path, *arguments: str) -> str:
    author = ["-c", "user.name=nobody", "-c", "user.email=nobody@example.org"]
    command = ["git", *author, "-C", str(folder), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_the_commit_is_that_of_the_packages_own_checkout(tmp_path: Path, monkeypatch) -> None:
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    package, stranger = tmp_path / "src" / "scrl", tmp_path / ".venv" / "scrl"
    package.mkdir(parents=True)
    stranger.mkdir(parents=True)
    assert git_commit(package) is None
    git(tmp_path, "init", "-q")
    assert git_commit(package) is None
    (package / "a.py").write_text("1")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "one")
    assert git_commit(package) == git(tmp_path, "rev-parse", "HEAD")
    (tmp_path / "notes.txt").write_text("not part of the package")
    assert git_commit(package) == git(tmp_path, "rev-parse", "HEAD")
    (package / "a.py").write_text("2")
    assert git_commit(package) == git(tmp_path, "rev-parse", "HEAD") + "+changes"
    assert git_commit(stranger) is None
    assert git_commit(tmp_path / "nowhere") is None
    monkeypatch.setenv("PATH", "")
    assert git_commit(package) is None
