"""An environment that breaks the contract is named, with the step and what was wrong."""

from __future__ import annotations

import inspect
import multiprocessing
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec

import scrl
from scrl.environments import EnvironmentFault
from scrl.environments.labels import LabelError
from scrl.environments.problem import OPTIONS
from scrl.problems import ProblemOptions

from .small import (
    HORIZON,
    LOOP,
    REGIONS,
    RULES,
    Make,
    Walk,
    make_choices,
    make_longer,
    make_nothing,
    make_walk,
)

BREACHES = {
    "shape": "step 3: an observation of shape (3,), and its space says (2,)",
    "observation": "step 3: the observation is not finite: array([nan,  0.]",
    "reward": "step 3: the reward is nan",
    "text": "step 3: the reward must be a number, not 'much'",
    "four": "step 3: step must return (observation, reward, terminated, truncated, info), not",
    "flag": "step 3: terminated must be true or false, not 'no'",
    "info": "step 3: info must be a dictionary, not None",
    "raises": "step 3: step raised RuntimeError: the wheel came off",
    "label": "step 3: the label of 'east' is no finite number: array([ 1., nan])",
    "length": "step 3: labels of shape (3,), but there are 2 regions (west, east)",
    "missing": "step 3: there is no 'amounts' in `info`: did you mean 'amount'?",
}


def problem(env: Any, **options: Any) -> Any:
    known = {"labels": "amounts", "regions": REGIONS, "rules": RULES, "horizon_steps": HORIZON}
    return scrl.environment(env, **{**known, **options})


def stand(observation: Any) -> np.ndarray:
    return np.zeros(1, np.float32)


@pytest.mark.parametrize("broken", BREACHES)
def test_a_breach_is_named_with_its_place(broken: str) -> None:
    """Lane 0 is sound and lane 1 is not."""
    made = problem([make_walk, Make(broken)])
    with pytest.raises(EnvironmentFault) as error:
        made.evaluate(stand, episodes=2)
    assert str(error.value).startswith("environment 1, episode 1, step 3: ")
    assert BREACHES[broken] in str(error.value)


def test_workers_are_gone_after_a_breach_and_after_an_end() -> None:
    made = problem([make_walk, Make("raises")], processes=True)
    with pytest.raises(EnvironmentFault, match="environment 1, episode 1, step 3: step raised"):
        made.evaluate(stand, episodes=2)
    assert multiprocessing.active_children() == []
    sound = problem([make_walk, make_walk], processes=True)
    plain = problem([make_walk, make_walk])
    assert sound.evaluate(stand, episodes=4) == plain.evaluate(stand, episodes=4)
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize("processes", [False, True])
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (make_nothing, "environment 1: making it raised RuntimeError: no wheels in stock"),
        (make_longer, "the environments cannot be put side by side: RuntimeError: "),
    ],
)
def test_where_one_cannot_be_made_none_is_left(processes: bool, make: Any, message: str) -> None:
    class Closing(Walk):
        open = 0

        def __init__(self) -> None:
            super().__init__()
            Closing.open += 1

        def close(self) -> None:
            Closing.open -= 1

    made = problem([make_walk if processes else Closing, make], processes=processes)
    with pytest.raises(EnvironmentFault) as error:
        made.evaluate(stand, episodes=2)
    assert message in str(error.value)
    assert Closing.open == 0
    assert multiprocessing.active_children() == []


def test_a_breach_in_training_ends_it_and_says_where(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFault, match="environment 0, episode 1, step 3: the reward is"):
        scrl.train(problem(Make("reward")), settings=LOOP, out=tmp_path / "run")
    assert multiprocessing.active_children() == []


def test_an_environment_that_never_ends_needs_a_horizon() -> None:
    with pytest.raises(EnvironmentFault, match="'make_walk' does not say when its episodes end"):
        problem(make_walk, horizon_steps=None)


def test_one_that_goes_on_after_its_horizon_is_caught() -> None:
    class Endless(Walk):
        spec = EnvSpec("Endless-v0", max_episode_steps=5)

    vector = gymnasium.vector.SyncVectorEnv([Endless])
    made = problem(vector, horizon_steps=None)
    assert made.horizon_steps == 5
    with pytest.raises(EnvironmentFault, match="step 5: the episode should have ended after 5"):
        made.evaluate(stand, episodes=1)
    with pytest.raises(EnvironmentFault, match=r"horizon_steps = 4, but episodes .* up to 5 steps"):
        problem(vector, horizon_steps=4)
    vector.close()


@pytest.mark.parametrize(
    ("env", "message"),
    [
        (3, "an environment is an id such as 'Pendulum-v1', a function that makes one"),
        ([], "an environment is an id"),
        ("Pendulun-v1", "environment 'Pendulun-v1': "),
        (lambda: 3, "made 3, which is no Gymnasium environment"),
        (lambda: 1 / 0, "making it raised ZeroDivisionError: division by zero"),
    ],
)
def test_what_is_no_environment_is_refused(env: Any, message: str) -> None:
    with pytest.raises(EnvironmentFault) as error:
        problem(env)
    assert message in str(error.value)


def test_wrong_labels_and_rules_are_seen_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(LabelError, match="labels of shape"):
        problem(make_walk, regions=("west",))
    with pytest.raises(scrl.ScrlError, match="unknown region 'north'"):
        problem(make_walk, rules="north >= 1")
    with pytest.raises(scrl.ScrlError, match="say with `labels`"):
        scrl.train(make_walk, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("of", "options", "message"),
    [
        ("agri-situational", {"sed": 3}, "unknown option 'sed': did you mean 'seed'?"),
        ("agri-situational", {"rules": "S1 > 1"}, "rules: no options of 'agri-situational'; if it"),
        (scrl.load("agri-situational"), {"rules": "S1 > 1"}, "and agri-situational is a problem"),
        (Path("nowhere.toml"), {}, "nowhere.toml: no such problem file"),
        (make_walk, {}, "this is no problem: <function make_walk"),
        (make_walk, {"label": "amounts"}, "unknown option 'label': did you mean 'labels'?"),
    ],
)
def test_a_mistyped_option_is_named(
    of: Any, options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(scrl.ScrlError) as error:
        scrl.train(of, out=tmp_path / "run", **options)
    assert message in str(error.value)


def test_the_options_of_an_environment_are_known() -> None:
    with pytest.raises(EnvironmentFault, match="unknown option 'margn': did you mean 'margin'"):
        problem(make_walk, margn=1.0)
    taken = inspect.signature(scrl.environment).parameters
    assert set(OPTIONS) == {*taken, *inspect.signature(ProblemOptions).parameters} - {
        "env",
        "options",
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"settings": {"rollout_steps": 4}},
            "rollout_steps = 4 is less than the 8 steps of an episode",
        ),
        ({"learner": "sac"}, "the learner 'sac' needs actions that are numbers"),
        ({"seeds": [1, 1]}, "seeds must be one or more different whole numbers"),
    ],
)
def test_what_cannot_be_trained_is_refused(
    options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(scrl.ScrlError) as error:
        scrl.train(problem(make_choices), out=tmp_path / "run", **options)
    assert message in str(error.value)
    assert not (tmp_path / "run").exists()


def test_given_environments_are_not_closed() -> None:
    class Closing(Walk):
        closed = 0

        def close(self) -> None:
            Closing.closed += 1

    walks = [Closing(), Closing()]
    made = problem(walks)
    assert made.evaluate(stand, episodes=4) == made.evaluate(stand, episodes=4)
    assert Closing.closed == 0
    problem([Closing]).evaluate(stand, episodes=1)  # what we make, we close: to look, and to run
    assert Closing.closed == 2


def test_given_environments_keep_their_number(tmp_path: Path) -> None:
    walks = [Walk(), Walk()]
    with pytest.raises(scrl.ScrlError, match="2 environments cannot be shared out evenly to 3"):
        scrl.train(problem(walks), seeds=3, out=tmp_path / "run")
    with pytest.raises(scrl.ScrlError, match="worlds = 4, but there are 2 environments"):
        scrl.train(problem(walks), settings={"worlds": 4}, out=tmp_path / "run")
    with pytest.raises(EnvironmentFault, match="cannot move to a process of its own"):
        problem(walks, processes=True).evaluate(stand)
