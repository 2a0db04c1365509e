"""A sprayer on a drone that knows only an exported plan or map: its time, its way, what it gives.

The pump is ArduPilot's (AC_Sprayer): percent = speed x SPRAY_PUMP_RATE, at least SPRAY_PUMP_MIN and
at most 100, and 0 below SPRAY_SPEED_MIN. SPRAY_PUMP_RATE is the percentage at 1 m/s. Along the boom
are nozzles that share the flow equally. Nothing here is computed by scrl.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyproj
import shapely

EARTH = pyproj.Geod(ellps="WGS84")
NOZZLE_M, STEP_M = 1.0, 1.0
"""Metres from nozzle to nozzle, and from one place along the way to the next."""


@dataclass(frozen=True)
class Pump:
    """The settings of the sprayer; at 100 % it gives `full` a second."""

    full: float
    rate: float = 10.0
    least: float = 0.0
    speed_min: float = 1.0

    def flow(self, speed: float) -> float:
        """What it gives in a second at a speed in m/s."""
        if speed < self.speed_min:
            return 0.0
        return self.full * min(max(speed * self.rate, self.least), 100.0) / 100.0


class Line(NamedTuple):
    """A straight way of a plan."""

    ends: np.ndarray
    """Longitude and latitude of its two ends."""
    speed: float
    is_on: bool

    @property
    def metres(self) -> float:
        (x, y), (then_x, then_y) = self.ends
        return EARTH.inv(x, y, then_x, then_y)[2]


def lines_of(plan: dict[str, Any]) -> list[Line]:
    """The ways of a QGroundControl plan from waypoint to waypoint."""
    at, speed, is_on, found = None, plan["mission"]["cruiseSpeed"], False, []
    for item in plan["mission"]["items"]:
        params = item["params"]
        match item["command"]:
            case 178:  # MAV_CMD_DO_CHANGE_SPEED
                speed = params[1]
            case 216:  # MAV_CMD_DO_SPRAYER
                is_on = params[0] == 1
            case 16 | 22:  # MAV_CMD_NAV_WAYPOINT, MAV_CMD_NAV_TAKEOFF
                to = np.array([params[5], params[4]])
                if at is not None and (at != to).any():
                    found.append(Line(np.stack([at, to]), speed, is_on))
                at = to
    return found


def time_and_way(plan: dict[str, Any], turn_seconds: float) -> tuple[float, float]:
    """Seconds and metres; between two ways with the pump on the vehicle turns once."""
    lines = lines_of(plan)
    seconds = sum(each.metres / each.speed for each in lines)
    working = [index for index, each in enumerate(lines) if each.is_on]
    turns = sum(after - before > 1 for before, after in pairwise(working))
    return seconds + turns * turn_seconds, sum(each.metres for each in lines)


def along(lines: list[Line]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Middles of short ways with the pump on, their metres, their speeds, and unit vectors aside.

    The vectors are in degrees per metre.
    """
    found = []
    for line in lines:
        if not line.is_on:
            continue
        count = max(1, round(line.metres / STEP_M))
        share = ((np.arange(count) + 0.5) / count)[:, None]
        middle = line.ends[0] * (1.0 - share) + line.ends[1] * share
        course = EARTH.inv(*line.ends[0], *line.ends[1])[0]
        x, y = line.ends[0]
        then_x, then_y, _ = EARTH.fwd(x, y, course + 90.0, 1.0)
        aside = np.tile([then_x - x, then_y - y], (count, 1))
        size, speed = np.full(count, line.metres / count), np.full(count, line.speed)
        found.append((middle, size, speed, aside))
    middle, size, speed, aside = (np.concatenate(each) for each in zip(*found, strict=True))
    return middle, size, speed, aside


def nozzles(boom: float) -> np.ndarray:
    """Metres from the middle of the boom."""
    count = round(boom / NOZZLE_M)
    return ((np.arange(count) + 0.5) / count - 0.5) * boom


def given_by_plan(
    plan: dict[str, Any], pump: Pump, boom: float, shapes: dict[str, shapely.Geometry]
) -> dict[str, float]:
    """What the pump gives to each shape on the plan's way at the plan's speeds."""
    middle, size, speed, aside = along(lines_of(plan))
    amount = np.array([pump.flow(each) for each in speed.tolist()]) * size / speed
    offsets = nozzles(boom)
    return {
        name: sum(
            float(amount[shapely.contains_xy(shape, *(middle + offset * aside).T)].sum())
            for offset in offsets
        ) / len(offsets)
        for name, shape in shapes.items()
    }  # fmt: skip


def given_by_map(
    plan: dict[str, Any], zones: np.ndarray, doses: np.ndarray, boom: float,
    shapes: dict[str, shapely.Geometry],
) -> dict[str, float]:  # fmt: skip
    """What a rate controller gives that follows a map of doses per hectare on the plan's way.

    Its pump rate is the dose times the width: flow = speed x dose x width, so speed times time is
    the distance, and every nozzle follows the zone under it.
    """
    middle, size, _, aside = along(lines_of(plan))
    tree, found = shapely.STRtree(zones), dict.fromkeys(shapes, 0.0)
    offsets = nozzles(boom)
    for offset in offsets:
        places = middle + offset * aside
        at, zone = tree.query(shapely.points(places), predicate="intersects")
        dose = np.zeros(len(places))
        dose[at] = doses[zone]
        amount = dose * size * boom / len(offsets) / 10_000.0
        for name, shape in shapes.items():
            found[name] += float(amount[shapely.contains_xy(shape, *places.T)].sum())
    return found
