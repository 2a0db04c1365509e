"""Checkpoints survive a kill at any moment."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from scrl.runs.folder import RunFolder

from .small import mark_of, rows


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


def test_two_states_are_kept_even_where_an_iteration_is_saved_twice(run: RunFolder) -> None:
    for iteration in (1, 2, 2):
        run.save_checkpoint(np.full(3, iteration), iteration=iteration, wall_s=0)
    (mark_of(run).parent / "state-2-0.eqx.tmp").write_bytes(b"left by a kill")
    run.save_checkpoint(np.full(3, 7), iteration=2, wall_s=0)
    assert len(list(mark_of(run).parent.iterdir())) == 4
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
from scrl.runs.folder import RunFolder

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
