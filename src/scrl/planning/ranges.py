"""The vehicles and winds that a price policy was trained for."""

from __future__ import annotations

from typing import Any, NamedTuple

from scrl.worlds.sweep.spec import SweepSpec


class SettingRange(NamedTuple):
    """An interval of a setting."""

    low: float
    high: float

    def holds(self, value: float) -> bool:
        return self.low <= value <= self.high


class Ranges(NamedTuple):
    """The ranges of vehicle and wind; rate and effort only set the units and are left out."""

    max_speed: SettingRange = SettingRange(0.5, 8.0)
    inertia: SettingRange = SettingRange(0.0, 0.85)
    crawl: SettingRange = SettingRange(0.002, 0.1)
    wind_strength: SettingRange = SettingRange(0.0, 0.3)
    wind_persistence: SettingRange = SettingRange(0.0, 0.95)

    @classmethod
    def around(cls, specs: list[SweepSpec]) -> Ranges:
        """The smallest ranges that hold the vehicles and winds of these worlds."""
        values = [settings_of(spec) for spec in specs]
        return cls(*(SettingRange(min(each), max(each)) for each in zip(*values, strict=True)))

    def outside(self, spec: SweepSpec) -> list[str]:
        """The settings of a world outside the ranges, as text."""
        return [
            f"{name.replace('_', ' ')} {value:g} (trained for {trained.low:g} to {trained.high:g})"
            for name, value, trained in zip(self._fields, settings_of(spec), self, strict=True)
            if not trained.holds(value) and not (name == "wind_persistence" and spec.wind.is_calm)
        ]

    def to_json(self) -> dict[str, list[float]]:
        return {name: list(value) for name, value in self._asdict().items()}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Ranges:
        return cls(**{name: SettingRange(*map(float, value)) for name, value in document.items()})


def settings_of(spec: SweepSpec) -> tuple[float, ...]:
    """A world's settings, in the order of `Ranges`."""
    vehicle, wind = spec.vehicle, spec.wind
    return (
        vehicle.max_speed, vehicle.inertia, vehicle.crawl, wind.strength,
        0.0 if wind.is_calm else wind.persistence,
    )  # fmt: skip
