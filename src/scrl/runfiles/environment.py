"""All that a run folder can hold of somebody's environment; the environment itself it cannot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scrl.problems import ProblemOptions, Terms
from scrl.rules import RuleSet
from scrl.runfiles.files import RunError, read_json
from scrl.worlds.units import Units

_FIELDS = {
    "name": str, "environment": str, "regions": list, "rules": dict, "horizon_steps": int,
    "features": int, "actions": dict, "unit": str | dict, "tolerance": int | float,
    "discount": int | float, "margin": int | float, "equality_band": int | float,
}  # fmt: skip
_OPTIONS = ("name", "tolerance", "discount", "margin", "equality_band")


NEUTRAL = Units().unit
"""The word where nobody said what is counted, or where several things are."""


class EnvironmentTerms(Terms):
    """What holds in any environment, at hand or written down."""

    counts: str | Mapping[str, str]
    """What densities count: one word for all regions, or one for each."""

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


@dataclass(frozen=True)
class KeptEnvironment(EnvironmentTerms):
    """What environment.json says: whoever drives in the environment again must make it anew."""

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
        }

    @classmethod
    def read(cls, path: Path) -> KeptEnvironment:
        """The same again from a file, checked."""
        found = read_json(path, _FIELDS)
        if not all(isinstance(each, str) for each in (*found["regions"], *found["rules"].values())):
            raise RunError(f"{path}: damaged: 'regions' and 'rules' must hold texts")
        unit = found["unit"]
        if isinstance(unit, dict) and (
            set(unit) != set(found["regions"])
            or not all(isinstance(each, str) for each in unit.values())
        ):
            raise RunError(f"{path}: damaged: 'unit' must be a text, or one for each region")
        description = str(found.get("description", ""))  # folders of old have none
        options = ProblemOptions(
            description=description, **{name: found[name] for name in _OPTIONS}
        )
        return cls(
            environment=found["environment"],
            rules=RuleSet.from_texts(found["rules"], found["regions"], options.conventions),
            horizon_steps=found["horizon_steps"],
            features=found["features"],
            actions=found["actions"],
            options=options,
            counts=found["unit"],
        )
