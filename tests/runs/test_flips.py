"""A bit that turns in a file of a run is noticed, or changes nothing."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scrl.api import load_policy
from scrl.errors import ScrlError
from scrl.runs.folder import RunError, RunFolder

from .small import KINDS, OLD, answer, flip, mark_of, renewed, rewrite, rows

FLIPS = 50


@pytest.mark.parametrize("kind", KINDS)
def test_fifty_turned_bits_in_each_file_are_refused_by_name_or_change_nothing(
    tmp_path: Path, kind: str
) -> None:
    run = renewed(OLD / kind, tmp_path / "run")
    whole, chance = answer(run), random.Random(kind)
    for path in [each for each in run.rglob("*") if each.is_file()]:
        data = path.read_bytes()
        for place in chance.sample(range(8 * len(data)), min(FLIPS, 8 * len(data))):
            flip(path, place)
            found = answer_or_refusal(run)
            assert path.name in found if isinstance(found, str) else found == whole, (path, place)
            path.write_bytes(data)


def answer_or_refusal(run: Path) -> Any:
    try:
        return answer(run)
    except ScrlError as error:
        return str(error)


def test_a_weight_that_is_no_number_is_refused(tmp_path: Path) -> None:
    """In folders of old too, which have no checksums."""
    for file in (OLD / "environment").iterdir():
        if file.is_file():
            (tmp_path / file.name).write_bytes(file.read_bytes())
    data = (tmp_path / "policy.eqx").read_bytes()
    (tmp_path / "policy.eqx").write_bytes(data[:-4] + np.float32(np.nan).tobytes())
    with pytest.raises(RunError, match=r"policy.eqx: .*damaged: .* not a number \(NaN\)"):
        load_policy(tmp_path)


def test_the_message_says_how_to_have_a_policy_again(tmp_path: Path) -> None:
    run = renewed(OLD / "trained", tmp_path / "run")
    flip(run / "policy.eqx")
    with pytest.raises(RunError, match=r"remove it and result.json, and `scrl train --resume .*`"):
        RunFolder.open(run)


def saved_twice(run: RunFolder) -> list[Path]:
    """The states of the last checkpoint and of the one before."""
    for iteration in (1, 2):
        run.log(rows(iteration))
        run.save_checkpoint(np.full(3, iteration), iteration=iteration, wall_s=iteration)
    run.log(rows(3))
    return sorted(mark_of(run).parent.glob("state-*"), reverse=True)


@pytest.mark.parametrize("what", ["state", "mark", "missing state", "missing mark", "metrics"])
def test_a_damaged_checkpoint_gives_way_to_the_one_before_it(run: RunFolder, what: str) -> None:
    last, before = saved_twice(run)
    metrics = run.path / "metrics.jsonl"
    match what:
        case "state":
            flip(last)
        case "mark":
            flip(mark_of(run), 8 * 40)
        case "missing state":
            last.unlink()
        case "missing mark":
            mark_of(run).unlink()
        case _:  # behind the end of the first checkpoint
            flip(metrics, 8 * metrics.read_bytes().index(b'"iteration": 2'))
    again = RunFolder.open(run.path)
    found = again.load_checkpoint(np.zeros(3, int))
    assert found is not None
    assert (found.state.tolist(), found.iteration, found.wall_s) == ([1, 1, 1], 1, 1.0)
    assert found.warning is not None
    assert "The run goes on from the checkpoint before it (round 1)" in found.warning
    assert again.metrics() == rows(1)
    second = RunFolder.open(run.path).load_checkpoint(np.zeros(3, int))
    assert second is not None
    assert second.warning is None
    again.log(rows(2))
    again.save_checkpoint(np.full(3, 7), iteration=2, wall_s=2)
    assert before in mark_of(run).parent.glob("state-*")
    assert len(list(mark_of(run).parent.iterdir())) == 4


def test_where_both_checkpoints_are_damaged_the_last_is_named(run: RunFolder) -> None:
    states = saved_twice(run)
    for state in states:
        flip(state)
    with pytest.raises(RunError, match=f"{states[0].name}: damaged: its checksum"):
        RunFolder.open(run.path).load_checkpoint(np.zeros(3, int))
    assert run.metrics() == [*rows(1), *rows(2), *rows(3)]


def test_a_newer_checkpoint_is_not_given_up_for_an_older_one(run: RunFolder) -> None:
    saved_twice(run)
    rewrite(mark_of(run), schema=9)
    with pytest.raises(RunError, match="written by a newer scrl"):
        RunFolder.open(run.path).load_checkpoint(np.zeros(3, int))
