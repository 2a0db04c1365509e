"""All that a run folder can hold of somebody's environment; the environment itself it cannot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scrl.problems import ProblemOptions, Terms
from scrl.rules import RuleSet
from scrl.runfiles.files import RunError, read_json
from scrl.worlds.units import Units

_FIELDS = {
    "name": str, "environment": str, "regions": list, "rules": dict, "horizon_steps": int,
    "features": int, "actions": dict, "unit": str, "tolerance": int | float,
    "discount": int | float, "margin": int | float, "equality_band": int | float,
}  # fmt: skip
_OPTIONS = ("name", "tolerance", "discount", "margin", "equality_band")


class EnvironmentTerms(Terms):
    """What holds in any environment, at hand or written down."""

    counts: str
    """What densities count."""

    @property
    def units(self) -> Units:
        return Units(unit=self.counts)

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
    counts: str = "steps"

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
            "unit": self.unit,
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
            "unit": self.unit,
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
