"""Every kind of space of Gymnasium is encoded, or refused in one sentence that says what to do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.spaces import Box, Discrete, MultiBinary, MultiDiscrete

import scrl
from scrl.environments import EnvironmentFault
from scrl.environments.rollout import run_at_random
from scrl.environments.spaces import Actions
from scrl.opening import open_problem
from scrl.runs.environment import EnvironmentRecord

from ..runs.small import rewrite
from .small import LOOP, loaded

PAIR = Box(-1.0, 1.0, (2,))

BOOL: Any = np.bool_
"""`Box` takes this type, although its annotations leave it out."""


class Mission(spaces.Space[str]):
    """A space of somebody's own, of which Gymnasium knows nothing: as in MiniGrid."""

    @property
    def is_np_flattenable(self) -> bool:
        return True

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        return "get to the goal"

    def contains(self, x: Any) -> bool:
        return isinstance(x, str)


class Sampled(gymnasium.Env[Any, Any]):
    """Shows what its observation space has, and takes only what its action space has."""

    def __init__(self, seen: Any = PAIR, taken: Any = PAIR, shown: Any = None) -> None:
        self.observation_space, self.action_space = seen, taken
        self._shown = shown

    def _seen(self) -> Any:
        return self.observation_space.sample() if self._shown is None else self._shown

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self.observation_space.seed(seed)
        return self._seen(), {}

    def step(self, action: Any) -> Any:
        # A scalar of NumPy's would be taken too, with a warning, which is an error here.
        assert self.action_space.contains(action)
        return self._seen(), 1.0, False, False, {}


def problem(**of_sampled: Any) -> Any:
    def make() -> Sampled:
        return Sampled(**of_sampled)

    return scrl.environment(make, labels=lambda seen: [1.0], rules="S1 >= 1", horizon_steps=4)


# Each with an observation and the numbers that networks see of it, worked by hand.
SEEN = [
    (Box(-1.0, 1.0, (2,), np.float64), np.array([0.5, -1.0]), [0.5, -1.0]),
    (Box(-np.inf, np.inf, (1,), np.float16), np.array([3.0], np.float16), [3]),
    (Box(0, 255, (1, 2, 1), np.uint8), np.array([[[7], [255]]], np.uint8), [7, 255]),
    (Box(-np.inf, np.inf, (2,), np.int64), np.array([-5, 2**40]), [-5, 2.0**40]),
    (Box(0, 1, (2,), BOOL), np.array([True, False]), [1, 0]),
    (Box(-1.0, 1.0, ()), np.array(0.5, np.float32), [0.5]),
    (Discrete(3), 1, [0, 1, 0]),
    (Discrete(3, start=-1), 1, [0, 0, 1]),
    (MultiBinary((2, 2)), np.array([[1, 0], [0, 1]], np.int8), [1, 0, 0, 1]),
    (MultiDiscrete([2, 3]), np.array([1, 0]), [0, 1, 1, 0, 0]),
    (spaces.Text(3, charset="ab"), "ba", [1, 0, 2]),
    (spaces.Dict(a=PAIR, b=Discrete(2)), {"a": np.ones(2, np.float32), "b": 0}, [1, 1, 1, 0]),
    (spaces.Tuple((Discrete(2), PAIR)), (1, np.ones(2, np.float32)), [0, 1, 1, 1]),
    (spaces.OneOf((Discrete(2), PAIR)), (np.int64(1), np.ones(2, np.float32)), [1, 1, 1]),
]


@pytest.mark.parametrize(("space", "seen", "row"), SEEN, ids=lambda each: type(each).__name__)
def test_observations_of_every_kind_are_rows_of_numbers(space: Any, seen: Any, row: Any) -> None:
    made = problem(seen=space, shown=seen)
    assert made.observations.features == len(row)
    with made.open(2) as lanes:
        first = run_at_random(lanes, made.actions, seeds=[1, 2])
    assert np.array_equal(first.features, np.broadcast_to(row, first.features.shape))


MAKE_IT_A_BOX = "gymnasium.wrappers.TransformObservation to make it a Box"
LEAVE_IT_OUT = "gymnasium.wrappers.FilterObservation to leave it out"


@pytest.mark.parametrize(
    ("space", "parts"),
    [
        (spaces.Sequence(Discrete(3)), ("Sequence(Discrete(3), stack=False) are", MAKE_IT_A_BOX)),
        (spaces.Graph(PAIR, None), ("from Graph(", "no fixed number of numbers", MAKE_IT_A_BOX)),
        (Mission(), ("observations from Mission are no fixed number", MAKE_IT_A_BOX)),
        (spaces.Dict(image=PAIR, mission=Mission()), ("Mission (at ['mission'])", LEAVE_IT_OUT)),
        (spaces.Tuple((spaces.Dict(a=spaces.Sequence(PAIR)),)), ("(at [0]['a'])", MAKE_IT_A_BOX)),
        (spaces.OneOf((PAIR, Mission())), ("Mission (at [1])", MAKE_IT_A_BOX)),
        (Box(0.0, 1.0, (0,)), ("hold nothing to see",)),
        (spaces.Dict(), ("observations from Dict() hold nothing to see",)),
    ],
)
def test_observations_of_no_fixed_size_are_refused(space: Any, parts: tuple[str, ...]) -> None:
    with pytest.raises(EnvironmentFault) as error:
        problem(seen=space)
    assert all(part in str(error.value) for part in parts)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("space", "ends"),
    [
        (Box(-2.0, 1.0, (2,), np.float64), ([-2.0, -2.0], [1.0, 1.0])),
        (Box(-1.0, 1.0, (1, 2), np.float16), ([[-1.0, -1.0]], [[1.0, 1.0]])),
        (Box(-1.0, 1.0, ()), (-1.0, 1.0)),
        (Box(0, 2, (1,), np.int32), ([0], [2])),
        (Box(0, 255, (1,), np.uint8), ([0], [255])),
        (Box(0, 1, (1,), BOOL), ([False], [True])),
    ],
)
def test_actions_of_every_box_reach_its_bounds(space: Any, ends: Any) -> None:
    made = problem(taken=space)
    with made.open(2) as lanes:
        run_at_random(lanes, made.actions, seeds=[1, 2])  # which takes what the space holds
    corners = made.actions.to_environment(np.stack([np.zeros(space.shape), np.ones(space.shape)]))
    assert np.array_equal(corners, ends)
    assert corners.dtype == space.dtype


def test_whole_numbers_are_taken_about_equally_often() -> None:
    """Cut off, the highest of 0, 1 and 2 would never be; rounded, each end is half as often."""
    actions = Actions.of(Box(0, 2, (1,), np.int64))
    chosen = actions.to_environment(np.linspace(0.0, 1.0, 1001)[:, None])
    assert np.bincount(chosen.ravel()).tolist() == pytest.approx([250, 500, 250], abs=1)


@pytest.mark.parametrize(
    ("space", "part"),
    [
        (Box(-np.inf, np.inf, (1,)), "Box(-inf, inf, (1,), float32) have no bounds to learn"),
        (Box(0, np.inf, (1,), np.int64), "have no bounds to learn between: give them some with"),
        (Box(-3e38, 3e38, (1,)), "have no bounds to learn between: give them some with gymnasium"),
        (Box(0.0, 1.0, (0,)), "hold no number to be chosen"),
        (MultiDiscrete(np.zeros(0, int)), "actions from MultiDiscrete([]) hold no number to be"),
        (spaces.Text(5, charset="ab"), "actions from Text(1, 5, charset="),
        (
            spaces.Dict(a=PAIR),
            "only those from Box, Discrete, MultiDiscrete and MultiBinary can; wrap the "
            "environment in gymnasium.wrappers.TransformAction, with",
        ),
        (spaces.Tuple((PAIR,)), "actions from Tuple(Box(-1.0, 1.0, (2,), float32)) cannot be"),
        (spaces.Sequence(PAIR), "actions from Sequence("),
        (spaces.Graph(PAIR, None), "actions from Graph("),
        (spaces.OneOf((PAIR,)), "actions from OneOf("),
        (Mission(), "actions from Mission cannot be learned"),
    ],
)
def test_actions_that_cannot_be_learned_are_refused(space: Any, part: str) -> None:
    with pytest.raises(EnvironmentFault) as error:
        problem(taken=space)
    assert part in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("space", "shown"),
    [
        (spaces.Dict(a=Box(-np.inf, np.inf, (1,))), {"a": np.array([np.inf], np.float32)}),
        (Box(-np.inf, np.inf, (1,), np.float64), np.array([1e300])),  # not as 32 bits
    ],
)
def test_what_is_no_number_to_the_networks_is_found(space: Any, shown: Any) -> None:
    made = problem(seen=space, shown=shown)
    with made.open(1) as lanes, pytest.raises(EnvironmentFault) as error:
        lanes.reset([0])
    assert str(error.value).startswith("environment 0, episode 1, at its start: the observation is")


def test_parts_of_many_kinds_and_an_action_of_no_dimension_are_trained(tmp_path: Path) -> None:
    space = spaces.Dict(a=PAIR, b=Discrete(2, start=5), c=spaces.Text(2), d=MultiBinary(2))
    made = problem(seen=space, taken=Box(-1.0, 1.0, ()))
    budget = LOOP | {"iterations": 1, "settle": 1, "minibatches": 1}
    result = scrl.train(made, settings=budget, out=tmp_path / "run")
    assert result.seeds[0].evaluation.density == {"S1": 4.0}
    action = loaded(tmp_path / "run")(spaces.flatten(space, space.sample()))
    assert made.source.maker(0)().action_space.contains(action)


@pytest.mark.parametrize(
    ("space", "choices"),
    [
        (MultiDiscrete([2, 3], start=[5, -1]), 6),
        (MultiDiscrete(np.array([[2, 3], [3, 2]])), 36),
        (MultiBinary(3), 8),
        (MultiBinary((2, 2)), 16),
    ],
)
def test_several_choices_at_once_are_trained(space: Any, choices: int, tmp_path: Path) -> None:
    """Random actions take all that there are; what is learned lies in the space."""
    made = problem(taken=space)
    drawn = made.actions.to_environment(made.actions.random(2000, np.random.default_rng(0)))
    assert len({each.tobytes() for each in drawn}) == choices
    assert all(space.contains(each) for each in drawn)
    assert Actions.from_json(json.loads(json.dumps(made.actions.to_json()))) == made.actions
    budget = LOOP | {"iterations": 1, "settle": 1, "minibatches": 1, "rollouts": 1}
    result = scrl.train(made, settings=budget, out=tmp_path / "run", watch=None)
    assert result.seeds[0].evaluation.density == {"S1": 4.0}
    assert space.contains(loaded(tmp_path / "run")(np.zeros(2, np.float32)))
    with pytest.raises(scrl.ScrlError, match="are choices: take learner='ppo'"):
        scrl.train(made, learner="ddpg", out=tmp_path / "ddpg")
    kept = tmp_path / "run" / "environment.json"
    rewrite(kept, actions=made.actions.to_json() | {"first": [0]})
    with pytest.raises(scrl.ScrlError, match="'actions' has another shape or type"):
        EnvironmentRecord.read(kept)


@pytest.mark.parametrize(
    ("space", "place"),
    [
        (Box(0, 255, (96, 96, 3), np.uint8), "uint8) are images"),
        (Box(0.0, 1.0, (64, 64, 3)), "float32) are images"),
        (Box(0.0, 1.0, (1, 84, 84)), "float32) are images"),
        (spaces.Dict(a=PAIR, view=Box(0, 255, (84, 84), np.uint8)), "(at ['view']) are images"),
    ],
)
def test_images_are_refused(space: Any, place: str) -> None:
    with pytest.raises(EnvironmentFault) as error:
        problem(seen=space)
    assert place in str(error.value)
    assert "TransformObservation" in str(error.value)


class Objectives(Sampled):
    """Has a vector of rewards, as the environments of MO-Gymnasium."""

    def step(self, action: Any) -> Any:
        seen, _, *rest, _ = super().step(action)
        return seen, np.array([2.0, -1.0]), *rest, {}


def still(_seen: Any) -> np.ndarray:
    return np.zeros(2, np.float32)


def test_vectors_of_rewards_are_labels_by_name() -> None:
    # Four steps of (2, -1): sums of 8 and -4, weighed (0, 1) or (1, 1).
    several = {"treasure": 0.0, "time": 1.0}
    given = scrl.environment(Objectives, rewards=several, rules="treasure >= 8", horizon_steps=4)
    found = given.evaluate(still, episodes=2)
    assert (found.return_, found.density) == (-4.0, {"treasure": 8.0, "time": -4.0})
    assert given.record.labels is None  # the folder does not hold the weights
    # Training and learning take them in the same way, without further labels.
    opened = open_problem(Objectives, {"rewards": several, "horizon_steps": 4}).problem
    assert list(opened.regions) == [*several]
    both = scrl.environment(
        Objectives, rewards=[*several], labels={"steps": lambda _seen: 1}, horizon_steps=4
    ).evaluate(still, episodes=2)
    assert (both.return_, both.density["steps"]) == (4.0, 4.0)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"labels": "vector_reward"}, "step 1: the reward is a vector of 2 numbers: give a name"),
        ({"rewards": ["one"]}, r"the reward has 2 numbers, and rewards=\['one'\] names 1"),
        ({"rewards": ["one", "one"]}, "rewards must be different names"),
        ({"rewards": {"one": np.nan, "two": 1}}, "rewards must be different names"),
        ({}, "labels are missing"),
    ],
)
def test_rewards_that_do_not_fit_are_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(EnvironmentFault, match=text):
        scrl.environment(Objectives, horizon_steps=4, **options)


class Unsure(Objectives):
    """Its second reward is no number."""

    def step(self, action: Any) -> Any:
        seen, _, *rest = super().step(action)
        return seen, np.array([2.0, np.nan]), *rest


def test_a_reward_that_is_no_number_is_named() -> None:
    with pytest.raises(EnvironmentFault, match="episode 1, step 1: the reward 'time' is nan"):
        scrl.environment(Unsure, rewards=["treasure", "time"], horizon_steps=4)
