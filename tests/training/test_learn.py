"""Learning a price policy: it gets better, goes on to the same bits, and files are checked."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import scrl
from scrl.errors import ScrlError
from scrl.planning import Planner, planner, store
from scrl.planning.ranges import Ranges
from scrl.problems import load
from scrl.runs.files import write_json
from scrl.runs.folder import RunFolder
from scrl.training.learn import LearningProgress, resume_learning

TINY = {"updates": 300, "roads": 4, "width": 4, "depth": 1}


class Stopped(Exception):  # noqa: N818 (nothing is wrong)
    """What ends learning in the middle here."""


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("learned") / "run"
    scrl.learn(settings=TINY, out=out)
    return out


def test_learning_that_was_stopped_goes_on_to_the_same_bits(
    learned: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scrl.training.loop.CHECKPOINT_EVERY_S", -1.0)

    def stop(now: LearningProgress) -> None:
        if now.updates == 200:
            raise Stopped

    run = tmp_path / "run"
    with pytest.raises(Stopped):
        scrl.learn(settings=TINY, out=run, watch=stop)
    assert not (run / store.CARD).exists()
    seen: list[int] = []
    resume_learning(run, watch=lambda now: seen.append(now.updates))
    assert seen == [300]
    assert (run / store.NUMBERS).read_bytes() == (learned / store.NUMBERS).read_bytes()


def test_what_was_learned_is_read_again_and_answers(learned: Path) -> None:
    answer = planner(learned).ask("agri", "S1 >= 300")
    assert answer.is_satisfied
    assert resume_learning(learned).made["seed"] == 0
    assert [row["iteration"] for row in RunFolder.open(learned).metrics()] == [100, 200, 300]


@pytest.mark.optimised
def test_learning_for_a_world_serves_it(tmp_path: Path) -> None:
    """A small part of the default updates, on a quarter of the roads: the error falls by half."""
    settings = {"updates": 800, "roads": 16}
    found = scrl.learn(["agri"], settings=settings, out=tmp_path / "run")
    losses = [row["loss"] for row in RunFolder.open(tmp_path / "run").metrics()]
    assert losses[-1] < losses[0] / 2
    assert found.ranges == Ranges.around([load("agri-joint").world_spec])
    assert found.ranges.outside(load("agri-joint").world_spec) == []
    assert found.ranges.outside(load("med-joint").world_spec) == []
    answer = Planner(found).ask("agri-situational")
    assert answer.is_satisfied
    assert answer.gap is not None
    assert answer.gap < 0.02


def test_the_card_says_where_the_shipped_policy_comes_from() -> None:
    found = store.shipped()
    assert found.made["worlds"] == []
    assert found.made["command"].startswith("scrl learn")
    assert len(found.made["commit"]) == 40
    assert found.ranges == Ranges()
    assert all(np.isfinite(leaf).all() for leaf in map(np.asarray, _leaves(found.ahead)))


def _leaves(tree: object) -> list[object]:
    import jax

    return jax.tree.leaves(tree)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda card: card.pop("ranges"), "ranges"),
        (lambda card: card["settings"].update(width=10**9), "width"),
        (lambda card: card["settings"].update(hidden=3), "hidden"),
        (lambda card: card["settings"].update(width=5), "other settings"),
        (lambda card: card["ranges"].update(max_speed=[1]), "damaged"),
    ],
)
def test_a_damaged_policy_is_one_message(
    learned: Path, tmp_path: Path, change: Callable[[dict[str, Any]], object], message: str
) -> None:
    card = json.loads((learned / store.CARD).read_text())
    change(card)
    del card["checksum"]
    write_json(tmp_path / store.CARD, card)
    (tmp_path / store.NUMBERS).write_bytes((learned / store.NUMBERS).read_bytes())
    with pytest.raises(ScrlError, match=message):
        planner(tmp_path)


def test_a_folder_without_a_policy_is_named(tmp_path: Path) -> None:
    with pytest.raises(ScrlError, match="holds no price policy"):
        planner(tmp_path)


def test_an_unknown_setting_is_named(tmp_path: Path) -> None:
    with pytest.raises(ScrlError, match="unknown setting 'widht': did you mean 'width'"):
        scrl.learn(settings={"widht": 3}, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
