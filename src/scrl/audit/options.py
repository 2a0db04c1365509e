"""How to read and judge a log, and what was found in it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from scrl.errors import ScrlError, did_you_mean

FlowTime = Literal["second", "minute", "hour"]
SECONDS: dict[str, float] = {"second": 1.0, "minute": 60.0, "hour": 3600.0}


class LogError(ScrlError):
    """A log cannot be read, or cannot belong to this problem."""


@dataclass(frozen=True)
class Finding:
    """Something in the log that a reader of the verdict must know."""

    kind: str
    count: int
    text: str


@dataclass
class Findings:
    """What was found so far, in order."""

    found: list[Finding] = field(default_factory=list)

    def add(self, kind: str, count: int, text: str) -> None:
        """Record a finding, unless it occurs 0 times."""
        if count:
            self.found.append(Finding(kind, int(count), text))


@dataclass(frozen=True)
class AuditOptions:
    """Settings of an audit."""

    columns: Mapping[str, str] = field(default_factory=dict)
    """The column of the log for a role: time, x, y, total, amount, flow, pump."""
    flow_per: FlowTime | None = None
    """The time unit of the flow; default from the column's name, else second."""
    gap_seconds: float | None = None
    """The longest time between two points over which the log is trusted."""
    max_speed: float | None = None
    """The highest plausible speed in metres per second."""
    crs: str | None = None
    """The coordinate system of the log, such as EPSG:27700; default that of the map."""

    def __post_init__(self) -> None:
        if self.flow_per is not None and self.flow_per not in get_args(FlowTime):
            known = did_you_mean(str(self.flow_per), get_args(FlowTime))
            raise LogError(f"flow per '{self.flow_per}'{known}")
        for name in ("gap_seconds", "max_speed"):
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and value > 0.0):
                raise LogError(f"{name} = {value:g} must be above 0")


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """A number with its noun: 1 point, 2,000 points."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
