"""A QGroundControl plan: take off, fly the segments at their speeds, and return.

Forbidden cells are a geofence: polygons that must not be entered.

The file is the JSON that QGroundControl documents as "Plan File Format"; commands, frames and
their parameters are MAVLink's (MAV_CMD, MAV_FRAME, SPEED_TYPE).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from scrl.export.frame import Frame, degrees
from scrl.export.segments import ExportError, ExportOptions, segments
from scrl.route import Route
from scrl.worlds.sweep.spec import SweepSpec
from scrl.worlds.sweep.transits import forbidden_area

if TYPE_CHECKING:
    from shapely import Polygon

NAV_WAYPOINT, NAV_RETURN_TO_LAUNCH, NAV_TAKEOFF, DO_CHANGE_SPEED = 16, 20, 22, 178
FRAME_MISSION, FRAME_RELATIVE_ALTITUDE = 2, 3
GROUND_SPEED, KEEP_THROTTLE = 1, -1
ALTITUDE_MODE_RELATIVE = 1
PX4, QUADROTOR = 12, 2
SPEED_DIGITS = 6
"""Significant digits, so that a low speed is not rounded to 0."""


MANY_ITEMS = 500
"""Mission items above which some autopilots run out of memory."""


MANY_FENCE_POINTS = 64
"""Geofence points above which some autopilots run out of memory."""


def count_items(route: Route, options: ExportOptions) -> int:
    """The number of mission items of a plan of this route."""
    return len(list(_items(route, checked_frame(route.problem.world_spec), options)))


def count_fence_points(route: Route) -> int:
    """The number of corners of the geofence."""
    spec = route.problem.world_spec
    return sum(len(each["polygon"]) for each in _fence(spec, checked_frame(spec)))


def checked_frame(spec: SweepSpec) -> Frame:
    """The frame in degrees; raises without degrees or without the lengths of cell and step."""
    frame = degrees(spec, "a flight plan")
    missing = [f"{key} = {hint}" for key, hint in _NEEDED if getattr(spec.units, key) is None]
    if missing:
        raise ExportError(
            "a flight plan needs speeds in metres per second: write "
            f"{' and '.join(missing)} in [world] of the problem file"
        )
    return frame


def write_plan(route: Route, options: ExportOptions, warnings: Sequence[str] = ()) -> bytes:
    """The plan; it needs a map in degrees and the lengths of a cell and of a step."""
    spec = route.problem.world_spec
    frame = checked_frame(spec)
    items = list(_items(route, frame, options))
    for number, item in enumerate(items, start=1):
        item["doJumpId"] = number
    top_speed = _metres_per_second(spec.vehicle.max_speed, route)
    longitude, latitude = frame.places(route.cells[:1])[0].tolist()
    document = {
        "fileType": "Plan",
        "version": 1,
        "groundStation": "QGroundControl",
        "warnings": list(warnings),
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
        "geoFence": {"circles": [], "polygons": _fence(spec, frame), "version": 2},
        "rallyPoints": {"points": [], "version": 2},
    }
    return (json.dumps(document, indent=1, allow_nan=False) + "\n").encode()


def _fence(spec: SweepSpec, frame: Frame) -> list[dict[str, Any]]:
    """Polygons around the forbidden cells, each of latitudes and longitudes."""
    if not spec.regions.forbidden.any():
        return []
    rings = [np.array(each.exterior.coords)[:-1] for each in _without_holes(spec)]
    return [
        {
            "inclusion": False,
            "polygon": frame.places(ring[:, ::-1])[:, ::-1].tolist(),
            "version": 1,
        }
        for ring in rings
    ]


def _without_holes(spec: SweepSpec) -> Iterator[Polygon]:
    """The forbidden area as polygons without holes; a polygon is cut through its hole."""
    import shapely

    left = forbidden_area(spec.regions)
    while left:
        polygon = left.pop()
        if not polygon.interiors:
            yield polygon
            continue
        west, south, east, north = polygon.bounds
        middle = polygon.interiors[0].centroid.x
        for half in (
            shapely.box(west, south, middle, north),
            shapely.box(middle, south, east, north),
        ):
            parts = shapely.get_parts(polygon.intersection(half)).tolist()
            left += [each for each in parts if each.geom_type == "Polygon"]


_NEEDED = (("cell", "10.0  # metres"), ("step", "1.0  # seconds"))


def _items(route: Route, frame: Frame, options: ExportOptions) -> Iterator[dict[str, Any]]:
    """Take-off at the start, then for each segment a speed change, if any, and its end."""
    parts = segments(route, options.tolerance)
    yield _to(NAV_TAKEOFF, parts[0].ends[:1], frame, options.altitude)
    last_speed = None
    for segment in parts:
        speed = _metres_per_second(segment.speed, route)
        if speed != last_speed:
            yield _command(DO_CHANGE_SPEED, [GROUND_SPEED, speed, KEEP_THROTTLE, 0, 0, 0, 0])
            last_speed = speed
        yield _to(NAV_WAYPOINT, segment.ends[1:], frame, options.altitude)
    yield _command(NAV_RETURN_TO_LAUNCH, [0, 0, 0, 0, 0, 0, 0])


def _metres_per_second(speed: float, route: Route) -> float:
    exact = route.problem.world_spec.units.metres_per_second(speed)
    return float(f"{exact:.{SPEED_DIGITS}g}")


def _to(command: int, place: Any, frame: Frame, altitude: float) -> dict[str, Any]:
    """A command with a position; the autopilot chooses the yaw."""
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
