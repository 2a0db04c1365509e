"""A QGroundControl plan: take off, fly the segments, each at its speed, and come back.

The file is the JSON that QGroundControl documents as "Plan File Format"; commands, frames and
their parameters are MAVLink's (MAV_CMD, MAV_FRAME, SPEED_TYPE).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from scrl.export.frame import Frame, degrees
from scrl.export.options import ExportOptions
from scrl.export.segments import ExportError, Segment, segments
from scrl.route import Route

NAV_WAYPOINT, NAV_RETURN_TO_LAUNCH, NAV_TAKEOFF, DO_CHANGE_SPEED = 16, 20, 22, 178
FRAME_MISSION, FRAME_RELATIVE_ALTITUDE = 2, 3
GROUND_SPEED, KEEP_THROTTLE = 1, -1
ALTITUDE_MODE_RELATIVE = 1
PX4, QUADROTOR = 12, 2
SPEED_DIGITS = 6
"""Of which the first is not 0, so that a crawl does not become a halt."""


MANY_ITEMS = 500
"""More than some autopilots hold."""


def count_items(route: Route, options: ExportOptions) -> int:
    """How many a plan of this route has."""
    return len(list(_items(route, degrees(route.problem.world_spec, "a flight plan"), options)))


def write_plan(route: Route, options: ExportOptions) -> bytes:
    """Needs a map in degrees, and the lengths of a cell and of a step."""
    spec = route.problem.world_spec
    frame = degrees(spec, "a flight plan")
    missing = [f"{key} = {hint}" for key, hint in _NEEDED if getattr(spec.units, key) is None]
    if missing:
        raise ExportError(
            "a flight plan needs speeds in metres per second: write "
            f"{' and '.join(missing)} in [world] of the problem file"
        )
    items = list(_items(route, frame, options))
    for number, item in enumerate(items, start=1):
        item["doJumpId"] = number
    top_speed = _metres_per_second(spec.vehicle.max_speed, route)
    longitude, latitude = frame.places(route.cells[:1])[0].tolist()
    document = {
        "fileType": "Plan",
        "version": 1,
        "groundStation": "QGroundControl",
        "mission": {
            "version": 2,
            "firmwareType": PX4,
            "vehicleType": QUADROTOR,
            "globalPlanAltitudeMode": ALTITUDE_MODE_RELATIVE,
            "cruiseSpeed": top_speed,
            "hoverSpeed": top_speed,
            "plannedHomePosition": [latitude, longitude, 0],
            "items": items,
        },
        "geoFence": {"circles": [], "polygons": [], "version": 2},
        "rallyPoints": {"points": [], "version": 2},
    }
    return (json.dumps(document, indent=1, allow_nan=False) + "\n").encode()


_NEEDED = (("cell", "10.0  # metres"), ("step", "1.0  # seconds"))


def _items(route: Route, frame: Frame, options: ExportOptions) -> Iterator[dict[str, Any]]:
    """Up at the start; then the speed, where it changes, and the far end of each segment."""
    parts = segments(route, options.tolerance)
    yield _to(NAV_TAKEOFF, parts[0].ends[:1], frame, options.altitude)
    last_speed = None
    for segment in parts:
        speed = _speed(segment, route)
        if speed != last_speed:
            yield _command(DO_CHANGE_SPEED, [GROUND_SPEED, speed, KEEP_THROTTLE, 0, 0, 0, 0])
            last_speed = speed
        yield _to(NAV_WAYPOINT, segment.ends[1:], frame, options.altitude)
    yield _command(NAV_RETURN_TO_LAUNCH, [0, 0, 0, 0, 0, 0, 0])


def _speed(segment: Segment, route: Route) -> float:
    """Between legs as fast as the vehicle can."""
    fastest = route.problem.world_spec.vehicle.max_speed
    return _metres_per_second(fastest if segment.is_transit else segment.speed, route)


def _metres_per_second(speed: float, route: Route) -> float:
    exact = route.problem.world_spec.units.metres_per_second(speed)
    return float(f"{exact:.{SPEED_DIGITS}g}")


def _to(command: int, place: Any, frame: Frame, altitude: float) -> dict[str, Any]:
    """A command with a place; the yaw is left to the autopilot."""
    longitude, latitude = frame.places(place)[0].tolist()
    return {
        **_command(command, [0, 0, 0, None, latitude, longitude, altitude]),
        "frame": FRAME_RELATIVE_ALTITUDE,
        "AMSLAltAboveTerrain": None,
        "Altitude": altitude,
        "AltitudeMode": ALTITUDE_MODE_RELATIVE,
    }


def _command(command: int, params: list[float | None]) -> dict[str, Any]:
    return {
        "type": "SimpleItem",
        "autoContinue": True,
        "command": command,
        "frame": FRAME_MISSION,
        "params": params,
    }
