"""All forms of labels say the same of a step, and wrong ones say what is wrong."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import scrl
from scrl.environments.labels import LabelError, Labels, Step

SAMPLE = Step(np.array([-0.5, 2.0]), np.array([0.1]), -1.5, {"served": [1.0, 0.0], "fuel": 2.5})


def is_left(observation: np.ndarray) -> bool:
    return observation[0] < 0


def by_all(
    observation: np.ndarray, action: np.ndarray, reward: float, info: dict[str, Any]
) -> dict[str, float]:
    return {"cost": -reward, "fuel": info["fuel"], "pushed": action[0]}


@pytest.mark.parametrize(
    ("source", "regions", "names", "amounts"),
    [
        (lambda o: [o[0] < 0, o[0] >= 0], None, ("S1", "S2"), [1, 0]),
        (lambda o: [o[0] < 0, o[0] >= 0], ("left", "right"), ("left", "right"), [1, 0]),
        (lambda o: {"left": o[0] < 0, "high": o[1]}, None, ("left", "high"), [1, 2]),
        (by_all, None, ("cost", "fuel", "pushed"), [1.5, 2.5, 0.1]),
        ("served", None, ("S1", "S2"), [1, 0]),
        ("served", ("north", "south"), ("north", "south"), [1, 0]),
        ("fuel", None, ("fuel",), [2.5]),
        ({"left": is_left, "burnt": "fuel"}, None, ("left", "burnt"), [1, 2.5]),
        ({"left": is_left, "burnt": "fuel"}, ("burnt", "left"), ("burnt", "left"), [2.5, 1]),
        (lambda o: {"left": o[0] < 0, "high": o[1]}, ("high", "left"), ("high", "left"), [2, 1]),
        (is_left, ("left",), ("left",), [1]),
        (lambda *step: [step[0][0]], ("x",), ("x",), [-0.5]),
    ],
)
def test_every_form_is_read(
    source: Any, regions: tuple[str, ...] | None, names: tuple[str, ...], amounts: list[float]
) -> None:
    labels = Labels.of(source, regions, sample=SAMPLE)
    assert labels.names == names
    found = labels(SAMPLE)
    assert found.dtype == np.float64
    assert found == pytest.approx(amounts)


def test_labels_that_are_read_already_stay_as_they_are():
    labels = Labels.of({"left": is_left})
    assert Labels.of(labels) is labels


def test_a_method_and_defaults_count_as_one_would_think():
    class Field:
        def labels(self, observation: np.ndarray, scale: float = 2.0) -> list[float]:
            return [scale * observation[1]]

    assert Labels.of(Field().labels, ("amount",))(SAMPLE) == pytest.approx([4.0])


@pytest.mark.parametrize(
    ("source", "regions", "message"),
    [
        (3, None, "labels are a function of the observation, the key of a vector in `info`, or"),
        ({}, None, "regions must be one or more names, not ()"),
        ({"left": 1}, None, "the label of 'left' must be a function or a key of `info`, not 1"),
        (lambda one, two: 0, ("a",), "must take (observation) or (observation, action, reward,"),
        (lambda: 0, ("a",), "and this one takes 0 arguments"),
        (lambda o: [1, 2], ("a", "a"), "a region is named twice: a, a"),
        (lambda o: [1, 2], (), "regions must be one or more names"),
        (lambda o: [1, 2], ("a",), "labels of shape (2,), but there are 1 regions (a): [1, 2]"),
        (lambda o: [[1], [2]], ("a", "b"), "labels of shape (2, 1), but there are 2 regions"),
        (lambda o: [1, math.nan], ("a", "b"), "the label of 'b' is no finite number: [1, nan]"),
        (lambda o: "much", ("a",), "labels must be numbers, not 'much'"),
        (lambda o: 1 / 0, ("a",), "labels: ZeroDivisionError: division by zero"),
        ({"a": lambda o: o}, None, "the label of 'a' must be one number (or true or false), not ["),
        ({"a": lambda o: o[9]}, None, "the label of 'a': IndexError: "),
        ("fule", ("a",), "there is no 'fule' in `info`: did you mean 'fuel'?"),
        (lambda o: {"a": 1}, ("a", "b"), "labels lack the region 'b'"),
        (lambda o: {"a": 1, "b": 1}, ("a",), "labels name an unknown region 'b'"),
        ({"left": is_left}, ("lift",), "labels lack the region 'lift': did you mean 'left'?"),
        ({"a": is_left, "b": is_left}, ("a",), "labels name an unknown region 'b'"),
    ],
)
def test_what_is_wrong_is_said(source: Any, regions: tuple[str, ...] | None, message: str) -> None:
    with pytest.raises(LabelError) as error:
        Labels.of(source, regions)(SAMPLE)
    assert message in str(error.value)


def test_without_names_a_sample_is_needed():
    with pytest.raises(LabelError, match="the regions have no names: give `regions`"):
        Labels.of(lambda observation: [1.0])


def test_the_density_near_a_point() -> None:
    # exp(-((3 - 1)^2 / 2^2 + (1 - 0)^2 / 1^2) / 2) = exp(-1)
    top = scrl.near([1.0, 0.0], [2.0, 1.0], entries=[0, 2])
    seen = np.array([3.0, 99.0, 1.0], np.float32)
    assert top(seen) == pytest.approx(np.exp(-1.0))
    assert top([1.0, 99.0, 0.0]) == 1.0
    # It is the kernel estimate of density.py up to the norm: in one dimension its integral over all
    # points is the steps, here 2 of them.
    points = np.linspace(-9.0, 11.0, 2001)
    at = [sum(scrl.near(point, 0.5)([step]) for step in (0.0, 1.0)) for point in points]
    assert np.trapezoid(at, points) / np.sqrt(2 * np.pi * 0.25) == pytest.approx(2.0, rel=0.01)


def test_a_point_may_be_in_a_part_of_the_observation() -> None:
    seen = {"goal": 1, "body": (np.array([5.0]), np.array([3.0, 2.0]))}
    for part in (("body", 1), ["body", 1]):
        assert scrl.near([3.0, 2.0], 1.0, part=part)(seen) == 1.0
    assert scrl.near(1.0, 1.0, part="goal")(seen) == 1.0
    assert scrl.near([3.0, 2.0], 1.0, part=1)(seen["body"]) == 1.0
    assert scrl.near([3.0, 2.0], 1.0)((3.0, 2.0)) == 1.0  # plain numbers have no parts


@pytest.mark.parametrize(
    ("part", "text"),
    [
        ((), r"the observation has the parts 'goal', 'body'; say which .* part='goal'"),
        ("body", "the observation has the parts 0, 1; say which"),
        ("bodies", r"there is no part 'bodies' in \['goal', 'body'\]"),
        (("goal", 0), "there is no part 0 in 1"),
        (("body", 0), r"the point has the entry 1 \(counted from 0\), but there are 1 numbers"),
    ],
)
def test_a_point_that_is_in_no_part_is_told(part: Any, text: str) -> None:
    seen = {"goal": 1, "body": (np.array([5.0]), np.array([3.0, 2.0]))}
    with pytest.raises(LabelError, match=text):
        scrl.near([3.0, 2.0], 1.0, part=part)(seen)


@pytest.mark.parametrize(
    ("given", "options", "text"),
    [
        (([0.0], 0.0), {}, "the bandwidth above 0"),
        (([np.nan], 1.0), {}, "the point must be finite"),
        ((["a"], 1.0), {}, "numbers are needed"),
        (([0.0, 1.0], 1.0), {"entries": [0]}, "as many whole numbers of at least 0 as the point"),
        (([0.0], 1.0), {"entries": [-1]}, "at least 0"),
    ],
)
def test_a_kernel_that_cannot_be_is_refused(given: Any, options: Any, text: str) -> None:
    with pytest.raises(scrl.ScrlError, match=text):
        scrl.near(*given, **options)
