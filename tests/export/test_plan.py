"""QGroundControl plans, read by MAVSDK, which flies them, and by the documented format."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from scrl.export import ROUTE_FORMATS, ExportOptions, segments
from scrl.route import Route

WAYPOINT, RETURN, TAKEOFF, SPEED = 16, 20, 22, 178

READ_WITH_MAVSDK = """
import json, sys
from mavsdk.component_type import ComponentType
from mavsdk.mavsdk import Configuration, Mavsdk
from mavsdk.plugins.mission_raw.mission_raw import MissionRaw

# MAVSDK reads plans for a vehicle: here one of which a single MAVLink heartbeat is known.
HEARTBEAT = bytes.fromhex("fd09000000010100000000000000020c000403b6bd")
sdk = Mavsdk(Configuration.create_with_component_type(ComponentType.GROUND_STATION))
sdk.add_any_connection("raw://")
sdk.pass_received_raw_bytes(HEARTBEAT)
found = MissionRaw(sdk.first_autopilot(10.0)).import_qgroundcontrol_mission(sys.argv[1])
items = [
    [item.seq, item.frame, item.command, item.autocontinue, item.param1, item.param2,
     item.param3, item.x, item.y, item.z]
    for item in found.mission_items
]
fence = [[item.command, item.param1, item.x, item.y] for item in found.geofence_items]
open(sys.argv[2], "w").write(json.dumps([items, fence]))
"""


@pytest.fixture(scope="module")
def plan(route: Route, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plan") / "route.plan"
    path.write_bytes(ROUTE_FORMATS["plan"].write(route, ExportOptions(altitude=25.0)))
    return path


def read_with_mavsdk(plan: Path, out: Path) -> tuple[list[Any], list[Any]]:
    """Mission and fence, as they would be sent to a vehicle."""
    done = subprocess.run(
        [sys.executable, "-c", READ_WITH_MAVSDK, str(plan), str(out)],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert out.exists(), done.stderr[-2000:]
    items, fence = json.loads(out.read_text())
    return items, fence


def test_mavsdk_reads_the_geofence(farm_route: Route, tmp_path: Path) -> None:
    plan = tmp_path / "route.plan"
    plan.write_bytes(ROUTE_FORMATS["plan"].write(farm_route, ExportOptions(), ["mind the pond"]))
    document = json.loads(plan.read_text())
    assert document["warnings"] == ["mind the pond"]
    polygons = [each["polygon"] for each in document["geoFence"]["polygons"]]
    _, fence = read_with_mavsdk(plan, tmp_path / "items.json")
    exclusion = 5002  # MAV_CMD_NAV_FENCE_POLYGON_VERTEX_EXCLUSION, with the number of vertices
    assert [each[:2] for each in fence] == [[exclusion, len(p)] for p in polygons for _ in p]
    corners = [[latitude * 1e7, longitude * 1e7] for p in polygons for latitude, longitude in p]
    assert [each[2:] for each in fence] == [pytest.approx(each, abs=1.0) for each in corners]


def test_mavsdk_reads_the_route_speed_by_speed(plan: Path, route: Route, tmp_path: Path) -> None:
    items, fence = read_with_mavsdk(plan, tmp_path / "items.json")
    assert not fence
    assert [item[0] for item in items] == list(range(len(items)))
    assert (items[0][2], items[-1][2]) == (TAKEOFF, RETURN)
    flown, speed = [], None
    for _, frame, command, goes_on, first, second, throttle, x, y, z in items:
        assert goes_on
        if command == SPEED:
            assert (frame, first, throttle) == (2, 1.0, -1.0)  # speed over ground
            speed = second
        elif command == WAYPOINT:
            assert (frame, z) == (3, 25.0)  # metres above the start
            flown.append((y / 1e7, x / 1e7, speed))
    expected = segments(route)
    assert len(flown) == len(expected)
    where = route.georeference
    assert where is not None
    for (longitude, latitude, metres_per_second), segment in zip(flown, expected, strict=True):
        end = where.places(segment.ends[1:])[0]
        assert (longitude, latitude) == pytest.approx(tuple(end), abs=2e-7)
        fastest = 3.0 if segment.is_transit else segment.speed
        assert metres_per_second == pytest.approx(7.0 * fastest, abs=1e-3)


def test_the_plan_takes_as_long_as_the_route(plan: Path, route: Route) -> None:
    """Lengths on the ground over the commanded speeds: 70 m a cell, 10 s a step."""
    items = json.loads(plan.read_text())["mission"]["items"]
    speeds = [item["params"][1] for item in items if item["command"] == SPEED]
    assert len(speeds) > 3
    assert max(speeds) <= 21.0
    changes = [now != then for now, then in itertools.pairwise(speeds)]
    assert all(changes), "a speed is told only when it changes"
    seconds = sum(
        each.length * 70.0 / round(7.0 * each.speed, 3)
        for each in segments(route) if not each.is_transit
    )  # fmt: skip
    assert seconds == pytest.approx(10.0 * route.steps, abs=10.0)


def test_a_crawl_is_not_a_halt(route: Route) -> None:
    """A tenth of a millimetre per second and less still moves."""
    spec = route.problem.world_spec
    slow = replace(spec, units=replace(spec.units, cell=0.001))
    crawling = replace(route, problem=replace(route.problem, world_spec=slow))
    document = json.loads(ROUTE_FORMATS["plan"].write(crawling, ExportOptions()))
    items = document["mission"]["items"]
    speeds = [item["params"][1] for item in items if item["command"] == SPEED]
    expected = [3.0 if each.is_transit else each.speed for each in segments(crawling)]
    assert min(speeds) == pytest.approx(1e-4 * min(expected), rel=1e-5)
    assert document["mission"]["cruiseSpeed"] == pytest.approx(3e-4)


ITEM_KEYS = {"type": str, "autoContinue": bool, "command": int, "frame": int, "doJumpId": int}
MISSION_KEYS = {
    "version": int, "firmwareType": int, "vehicleType": int, "globalPlanAltitudeMode": int,
    "cruiseSpeed": float, "hoverSpeed": float, "plannedHomePosition": list, "items": list,
}  # fmt: skip


def has_keys(document: dict[str, Any], keys: dict[str, type]) -> bool:
    return all(isinstance(document.get(key), kind) for key, kind in keys.items())


def test_the_file_has_what_the_documented_format_asks_for(plan: Path) -> None:
    """The keys that QGroundControl's "Plan File Format" calls required, with their types."""
    document = json.loads(plan.read_text())
    assert (document["fileType"], document["version"]) == ("Plan", 1)
    assert document["geoFence"] == {"circles": [], "polygons": [], "version": 2}
    assert document["rallyPoints"] == {"points": [], "version": 2}
    mission = document["mission"]
    assert has_keys(mission, MISSION_KEYS)
    assert mission["version"] == 2
    latitude, longitude, _ = mission["plannedHomePosition"]
    assert (latitude, longitude) == pytest.approx((49.9995, 10.0))
    assert {TAKEOFF, WAYPOINT, SPEED} <= {item["command"] for item in mission["items"]}
    for number, item in enumerate(mission["items"], start=1):
        assert has_keys(item, ITEM_KEYS)
        assert (item["type"], item["doJumpId"], len(item["params"])) == ("SimpleItem", number, 7)
        if item["command"] in (WAYPOINT, TAKEOFF):
            assert item["params"][3] is None  # the autopilot chooses the yaw
            assert item["params"][6] == item["Altitude"] == 25.0
