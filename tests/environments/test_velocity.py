"""The velocity tasks: what a step gives, all trainings, and the tables."""

from __future__ import annotations

import json
from argparse import ArgumentTypeError
from pathlib import Path
from typing import Any

import pytest
from benchmarks import velocity


def test_trainings_are_written_as_ranges_of_seeds() -> None:
    found = velocity.specified("Swimmer:gaits:dcrl-2:3-5:1000")
    assert [each.seed for each in found] == [3, 4, 5]
    assert velocity.specified(found[1].text) == [found[1]]
    for wrong in ("Swimmer", "Swimmer:gaits:scrl:3:many", "Hopper:gaits:scrl:3:1000"):
        with pytest.raises(ArgumentTypeError, match=wrong):
            velocity.specified(wrong)


def test_labels_of_a_step() -> None:
    above = velocity.Above(3.2)
    assert [above(None, None, 0.0, {"x_velocity": each}) for each in (3.2, 3.3)] == [False, True]
    assert velocity.energy(None, None, 0.0, {"reward_ctrl": -0.25}) == 0.25


@pytest.mark.filterwarnings("ignore:.*out of date:DeprecationWarning")
def test_energy_is_not_counted_in_steps() -> None:
    pytest.importorskip("mujoco")
    problem = velocity.problem_of("Swimmer", "if fast > 25 then energy <= 0.5")
    assert [problem.unit_of([name]) for name in ("fast", "energy")] == ["steps", "units"]


def test_a_table_has_published_rows_and_intervals(tmp_path: Path) -> None:
    about: dict[str, Any] = {
        "is_finished": True,
        "satisfied": True,
        "env_steps": 100,
        "wall_s": 2.0,
    }
    for seed, return_ in enumerate((2900.0, 3000.0)):
        one = velocity.Training("HalfCheetah", seed=seed)
        document = {**one._asdict(), **about, "return": return_, "density": {"fast": 20.0}}
        (tmp_path / f"{one.name}.json").write_text(json.dumps(document))
    lines = "\n".join(velocity.tables(tmp_path))
    assert "| FOCOPS (published) | 2965 | 2.4 | True | 1e7 | |" in lines
    # Half the interval is t(0.975, 1) = 12.706 times the standard error 50.
    assert "| scrl | 2,950.0 ± 635.3 | 20.0 ± 0.0 | 2 of 2 | 100 | 2 |" in lines


@pytest.mark.filterwarnings("ignore:.*out of date:DeprecationWarning")
def test_a_task_trains_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scrl.environments.training.REPORT_EPISODES", 1)
    monkeypatch.setattr(velocity, "SO_FAR", 1)
    small = (
        "worlds=1,rollout_steps=1000,rollouts=1,episodes=1,settle=0,settle_episodes=1,epochs=1,"
        "width=4"
    )
    # Three rounds and the first episode.
    one = velocity.Training("Swimmer", "gaits", steps=7000, changes=small)
    before = velocity.train(one, tmp_path, time_limit_s=0.0)
    # The first round asks for an end, and one more is saved.
    assert (before["is_finished"], before["env_steps"]) == (False, 1000 + 2 * 2000)
    assert (before["episodes"], before["density"]["plus"] + before["density"]["minus"]) == (1, 1000)
    assert f"| scrl {small} (so far) |" in "\n".join(velocity.tables(tmp_path))
    found = velocity.train(one, tmp_path)
    assert (found["is_finished"], found["env_steps"]) == (True, 1000 + 3 * 2000)
    assert found["density"]["plus"] + found["density"]["minus"] == 1000
    assert velocity.train(one, tmp_path)["return"] == found["return"]
    assert json.loads((tmp_path / f"{one.name}.json").read_text()) == found
