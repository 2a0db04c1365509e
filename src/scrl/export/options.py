"""What can be chosen for an exported file."""

from __future__ import annotations

from dataclasses import dataclass

from scrl.export.segments import DEFAULT_TOLERANCE, ExportError


@dataclass(frozen=True)
class ExportOptions:
    """Settings of the formats; each takes what concerns it."""

    tolerance: float = DEFAULT_TOLERANCE
    """Share of the top speed by which speeds in one segment may differ."""
    altitude: float = 30.0
    """Metres: above the start for a plan's flight, above the ground for a KML line."""

    def __post_init__(self) -> None:
        if not 0.0 <= self.tolerance <= 1.0:
            raise ExportError(f"tolerance = {self.tolerance:g} must lie between 0 and 1")
        if not 0.0 < self.altitude <= 10_000.0:
            raise ExportError(f"altitude = {self.altitude:g} must be above 0 and at most 10,000 m")
