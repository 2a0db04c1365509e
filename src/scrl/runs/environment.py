"""All that a run folder can hold of an external environment; it cannot hold the environment."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from scrl.problems import BaseProblem, ProblemOptions
from scrl.rules import RuleSet
from scrl.runs.files import Each, Range, RunError, conform, damage_in, read_json
from scrl.worlds.sweep.vehicle import Units

_MOST = 2**31 - 1
_NUMBER = int | float
_FIELDS: Mapping[str, Any] = {
    "name": str, "description?": str, "environment": str, "regions": [str], "rules": Each(str),
    "horizon_steps": Range(int, 1, _MOST), "features": Range(int, 1, _MOST), "actions": dict,
    "unit": str | dict, "tolerance": _NUMBER, "discount": _NUMBER, "margin": _NUMBER,
    "equality_band": _NUMBER, "confidence?": _NUMBER | None,
    "labels?": str | dict | None,
}  # fmt: skip
_CHOICES = {"choices": Range(int, 1, _MOST), "first": int, "dtype": str}
_SEVERAL = {
    "choices": [Range(int, 1, _MOST)], "first": [int], "dtype": str,
    "shape": [Range(int, 1, _MOST)],
}  # fmt: skip
_BOX = {"shape": [Range(int, 1, _MOST)], "low": [_NUMBER], "high": [_NUMBER], "dtype": str}
_OPTIONS = ("name", "tolerance", "discount", "margin", "equality_band")


NEUTRAL = Units().unit
"""The word where nobody said what is counted, or where several things are."""


class BaseEnvironmentProblem(BaseProblem):
    """What holds in any environment, at hand or written down."""

    counts: str | Mapping[str, str]
    """What densities count: one word for all regions, or one for each."""
    horizon_steps: int

    @property
    def units(self) -> Units:
        return Units(unit=self.unit_of(self.regions))

    def unit_of(self, regions: Iterable[str]) -> str:
        if isinstance(self.counts, str):
            return self.counts
        found = {self.counts[name] for name in regions}
        return found.pop() if len(found) == 1 else NEUTRAL

    @property
    def return_text(self) -> str:
        weighed = (
            ""
            if self.discount == 1.0
            else f", each weighing {self.discount:g} times the one before"
        )
        return (
            f"the sum of the environment's own rewards in an episode{weighed}, on average over "
            "episodes; what 1 more means, the environment says"
        )

    @property
    def is_random(self) -> bool:
        """Nobody can tell, so it is taken to be."""
        return True

    def expected_episode_steps(self, last: float) -> float:
        """As long as can be: nobody knows how long episodes will be."""
        del last
        return self.horizon_steps


@dataclass(frozen=True)
class EnvironmentRecord(BaseEnvironmentProblem):
    """What environment.json holds; the environment itself must be made again."""

    environment: str
    """Its id, or the name of what made it."""
    rules: RuleSet
    horizon_steps: int
    features: int
    """Numbers in an observation."""
    actions: Mapping[str, Any]
    """What it takes, as plain values."""
    options: ProblemOptions
    counts: str | Mapping[str, str] = NEUTRAL
    labels: str | Mapping[str, str] | None = None
    """The keys of `info` that labels come from; none if some are functions."""

    @property
    def is_id(self) -> bool:
        """Whether it is an id such as Pendulum-v1: no function or class has such a name."""
        return "-v" in self.environment

    def parts(self) -> dict[str, Any]:
        return {
            "environment": self.environment,
            "regions": self.regions,
            "horizon": self.horizon_steps,
            "observations": self.features,
            "actions": self.actions,
            "unit": self.counts,
            **self.judged_by(),
        }

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "name": self.name,
            "description": self.options.description,
            "environment": self.environment,
            "regions": list(self.regions),
            "rules": {rule.name: rule.text for rule in self.rules.rules},
            "horizon_steps": self.horizon_steps,
            "features": self.features,
            "actions": dict(self.actions),
            "unit": self.counts if isinstance(self.counts, str) else dict(self.counts),
            "tolerance": self.tolerance,
            "discount": self.discount,
            "margin": self.options.margin,
            "equality_band": self.options.equality_band,
            "confidence": self.options.confidence,
            "labels": self.labels if isinstance(self.labels, str | None) else dict(self.labels),
        }

    @classmethod
    def read(cls, path: Path) -> EnvironmentRecord:
        """The same again from a file, checked."""
        found = read_json(path, _FIELDS)
        _check_actions(found["actions"], path)
        unit = found["unit"]
        if isinstance(unit, dict) and (
            set(unit) != set(found["regions"])
            or not all(isinstance(each, str) for each in unit.values())
        ):
            raise RunError(f"{path}: damaged: 'unit' must be a text, or one for each region")
        with damage_in(path):
            options = ProblemOptions(
                description=found.get("description", ""),  # folders of old have none
                confidence=found.get("confidence"),
                **{name: found[name] for name in _OPTIONS},
            )
            rules = RuleSet.from_texts(
                found["rules"], found["regions"], options.conventions, options.confidence
            )
        return cls(
            environment=found["environment"],
            rules=rules,
            horizon_steps=found["horizon_steps"],
            features=found["features"],
            actions=found["actions"],
            options=options,
            counts=found["unit"],
            labels=found.get("labels"),
        )


def _check_actions(actions: Mapping[str, Any], path: Path) -> None:
    """Raise where what is written of actions is not of one piece."""
    shape, sized = _BOX, ("low", "high")
    if "choices" in actions:
        shape, sized = (_SEVERAL, ("choices", "first")) if "shape" in actions else (_CHOICES, ())
    conform(actions, shape, str(path), "actions")
    with damage_in(path):
        is_number = np.dtype(actions["dtype"]).kind in "iuf"
    if not is_number or any(len(actions[each]) != math.prod(actions["shape"]) for each in sized):
        raise RunError(f"{path}: damaged: 'actions' has another shape or type than its bounds")
