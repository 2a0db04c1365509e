"""`scrl learn` and `scrl ask FOLDER` as a user's shell sees them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .shell import call

WALK = """
import gymnasium
import numpy as np

class Walk(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-9.0, 9.0, (1,), np.float32)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        self.place = 0.0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.place += float(action[0])
        info = {"west": max(-float(action[0]), 0.0), "right": max(float(action[0]), 0.0)}
        return np.array([self.place], np.float32), float(action[0]), False, False, info

gymnasium.register("Walk-v0", "walks:Walk", max_episode_steps=4)
"""
TINY = ("worlds=4", "rollout_steps=16", "iterations=2", "width=4", "depth=1", "epochs=1",
        "minibatches=2", "episodes=4")  # fmt: skip


def test_learning_by_id_and_asking_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "walks.py").write_text(WALK)
    monkeypatch.syspath_prepend(str(tmp_path))
    settings = [each for setting in TINY for each in ("--set", setting)]
    labels = ("--label", "west", "--label", "east=right")
    done = call(
        "learn", "--env", "walks:Walk-v0", *labels, *settings, "--out", "run", "--json",
        cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["regions"] == ["west", "east"]
    asked = call("ask", "run", "west <= 4; east <= 4", "--out", "plan", cwd=tmp_path)
    assert asked.returncode == 0, asked.stderr
    assert "Prices of a unit" in asked.stdout
    kept = json.loads((tmp_path / "plan" / "environment.json").read_text())
    assert list(kept["rules"].values()) == ["west <= 4", "east <= 4"]
    resumed = call("learn", "--resume", "run", cwd=tmp_path)
    assert resumed.returncode == 0, resumed.stderr
    wrong = call("ask", "run", "west <= 4", "--with-rules", cwd=tmp_path)
    assert (wrong.returncode, "--with-rules is for maps" in wrong.stderr) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("learn",), "say with --env where to learn"),
        (("learn", "agri"), "nothing is learned for maps, whose plans are computed: scrl ask agri"),
        (("learn", "--env", "Pendulum-v1"), "say with --label"),
        (("learn", "--resume", "run", "--steps", "9"), "keeps its environment"),
        (("learn", "--env", "Pendulum-v1", "--label", "fast"), "no 'fast' in `info`"),
    ],
)
def test_wrong_input_is_one_message(
    tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    done = call(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []
