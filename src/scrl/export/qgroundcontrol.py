"""A QGroundControl plan: take off, fly the segments at their speeds with the pump on, and return.

Successive segments whose speeds differ by little are flown at one speed, which keeps their time. In
transits the pump is off. Forbidden cells are a geofence: polygons that must not be entered.

The file is the JSON that QGroundControl documents as "Plan File Format"; commands, frames and
their parameters are MAVLink's (MAV_CMD, MAV_FRAME, SPEED_TYPE).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from scrl.export.frame import Frame, degrees
from scrl.export.geojson import totals
from scrl.export.segments import ExportError, ExportOptions, Segment, segments
from scrl.route import Route
from scrl.worlds.sweep.spec import SweepSpec
from scrl.worlds.sweep.transits import forbidden_area

if TYPE_CHECKING:
    from shapely import Polygon

NAV_WAYPOINT, NAV_RETURN_TO_LAUNCH, NAV_TAKEOFF, DO_CHANGE_SPEED = 16, 20, 22, 178
DO_SET_ACTUATOR, DO_SPRAYER = 187, 216
FRAME_MISSION, FRAME_RELATIVE_ALTITUDE = 2, 3
GROUND_SPEED, KEEP_THROTTLE = 1, -1
ALTITUDE_MODE_RELATIVE = 1
FIRMWARE = {"px4": 12, "ardupilot": 3}
QUADROTOR = 2
FASTEST_M_S = {
    "px4": (12.0, "PX4 caps speeds at MPC_XY_VEL_MAX, {limit:g} m/s unless it is raised"),
    "ardupilot": (20.0, "ArduPilot documents speeds up to {limit:g} m/s (WPNAV_SPEED)"),
}
"""The speed from which on an autopilot may be slower than the plan, and why."""
SLOWEST_SPRAYING_M_S = 1.0
"""Below this speed ArduPilot stops its pump, unless SPRAY_SPEED_MIN says otherwise."""
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
    longitude, latitude = frame.places(route.first_place[None])[0].tolist()
    document = {
        "fileType": "Plan",
        "version": 1,
        "groundStation": "QGroundControl",
        "warnings": list(warnings),
        **totals(route),
        "mission": {
            "version": 2,
            "firmwareType": FIRMWARE[options.autopilot],
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
    """Take-off, then for each stretch of one speed: pump and speed, if they change, and its way.

    A command without a position is carried out at the waypoint before it.
    """
    stretches = _stretches(route, options.tolerance)
    begin = stretches[0].places[:1]
    yield _to(NAV_TAKEOFF, begin, frame, options.altitude)
    yield _to(NAV_WAYPOINT, begin, frame, options.altitude)
    last_speed, opening = None, 0.0
    for stretch in stretches:
        wanted = stretch.opening if options.autopilot == "px4" else float(stretch.is_working)
        if opening != wanted:
            opening = wanted
            yield _pump(options.autopilot, opening)
        if stretch.speed != last_speed:
            last_speed = stretch.speed
            yield _command(DO_CHANGE_SPEED, [GROUND_SPEED, last_speed, KEEP_THROTTLE, 0, 0, 0, 0])
        for place in stretch.places[1:]:
            yield _to(NAV_WAYPOINT, place[None], frame, options.altitude)
    if opening > 0.0:
        yield _pump(options.autopilot, 0.0)
    yield _command(NAV_RETURN_TO_LAUNCH, [0, 0, 0, 0, 0, 0, 0])


def _pump(autopilot: str, opening: float) -> dict[str, Any]:
    """Switch the sprayer on or off (ArduPilot), or set the first actuator, which has the full flow
    at 1 and none at -1 (PX4)."""
    if autopilot == "ardupilot":
        return _command(DO_SPRAYER, [int(opening > 0.0), 0, 0, 0, 0, 0, 0])
    value = int(2 * opening - 1) if opening in (0.0, 1.0) else round(2.0 * opening - 1.0, 4)
    return _command(DO_SET_ACTUATOR, [value, None, None, None, None, None, 0])


@dataclass(frozen=True, eq=False)
class FlownStretch:
    """A way that is flown at one speed, with the pump on or off."""

    places: Float[np.ndarray, "place 2"]
    """Row and column of its begin, its turns and its end."""
    speed: float
    """Metres per second."""
    opening: float
    """The flow, as a share of the full one."""

    @property
    def is_working(self) -> bool:
        return self.opening > 0.0


def _stretches(route: Route, tolerance: float) -> list[FlownStretch]:
    """Segments whose speeds differ by at most `tolerance` of themselves, joined in order."""
    groups: list[list[Segment]] = []
    for part in segments(route, tolerance):
        if groups and _belongs(part, groups[-1], tolerance, route):
            groups[-1].append(part)
        else:
            groups.append([part])
    return [_stretch(group, route) for group in groups]


def _belongs(part: Segment, group: list[Segment], tolerance: float, route: Route) -> bool:
    speeds = [part.speed, *(each.speed for each in group)]
    is_alike = max(speeds) <= (1.0 + tolerance) * min(speeds)
    openings = [_opening([each], route) for each in (part, *group)]
    is_alike &= max(openings) - min(openings) <= tolerance
    is_alike &= (max(openings) > 0.0) == (min(openings) > 0.0)
    return is_alike and part.is_transit == group[-1].is_transit


def _opening(group: list[Segment], route: Route) -> float:
    """The mean flow on some segments as a share of the full one; 1 or 0 where it is fixed."""
    vehicle = route.problem.world_spec.vehicle
    if not vehicle.has_flow:
        return float(not group[0].is_transit)
    steps = sum(each.steps for each in group)
    amount = sum(each.amount for each in group)
    return min(amount / (vehicle.rate * steps), 1.0) if steps > 0.0 else 0.0


def _stretch(group: list[Segment], route: Route) -> FlownStretch:
    length = sum(each.length for each in group)
    time = sum(each.length / each.speed for each in group)
    speed = length / time if time > 0.0 else group[0].speed
    places = [group[0].ends[0]]
    for part, after in zip_longest(group, group[1:]):
        if after is None or not _is_straight_on(part, after):
            places.append(part.ends[1])
    return FlownStretch(np.array(places), _metres_per_second(speed, route), _opening(group, route))


def _is_straight_on(part: Segment, after: Segment) -> bool:
    """Whether the next segment goes on in the same direction."""
    (down, right), (then_down, then_right) = (each.ends[1] - each.ends[0] for each in (part, after))
    turn = down * then_right - right * then_down
    ahead = down * then_down + right * then_right
    return bool(abs(turn) <= STRAIGHT * abs(ahead) and ahead > 0.0)


STRAIGHT = 1e-6
"""The largest sine of a turn over its cosine that is taken for none."""


def _flown(count: int) -> str:
    return "1 stretch is flown" if count == 1 else f"{count:,} stretches are flown"


def autopilot_warnings(route: Route, options: ExportOptions) -> list[str]:
    """What the autopilot will not do as the plan says."""
    checked_frame(route.problem.world_spec)  # what cannot be written gets no warnings
    stretches = _stretches(route, options.tolerance)
    found = []
    limit, why = FASTEST_M_S[options.autopilot]
    too_fast = [each.speed for each in stretches if each.speed > limit]
    if too_fast:
        found.append(
            f"{_flown(len(too_fast))} at up to {max(too_fast):.1f} m/s, and "
            f"{why.format(limit=limit)}"
        )
    if options.autopilot != "ardupilot":
        return found
    if route.problem.world_spec.vehicle.has_flow:
        found.append(
            "ArduPilot sets the flow of its sprayer by the ground speed: this plan switches the "
            "sprayer on and off, and cannot tell it a flow; for other doses than that of "
            "SPRAY_PUMP_RATE write a prescription map"
        )
    else:
        found.append(
            "ArduPilot sets the flow of its sprayer by the ground speed, and then speeds do not "
            "change what a region receives: set SPRAY_PUMP_MIN = 100 for a constant flow"
        )
    slow = [each for each in stretches if each.is_working and each.speed < SLOWEST_SPRAYING_M_S]
    if slow:
        found.append(
            f"{_flown(len(slow))} below {SLOWEST_SPRAYING_M_S:g} m/s, where ArduPilot stops its "
            "sprayer: lower SPRAY_SPEED_MIN"
        )
    return found


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
