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

from scrl.export import ROUTE_FORMATS, ExportError, ExportOptions, export, segments
from scrl.export.qgroundcontrol import autopilot_warnings, count_items
from scrl.opening import open_run
from scrl.planning import planner
from scrl.problems import Problem
from scrl.route import Route
from scrl.worlds.sweep.regions import from_labels
from scrl.worlds.sweep.spec import SweepSpec

from .conftest import LABELS

WAYPOINT, RETURN, TAKEOFF, SPEED, ACTUATOR, SPRAYER = 16, 20, 22, 178, 187, 216

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
    flown, speed, pump = [], None, -1.0
    for _, frame, command, goes_on, first, second, throttle, x, y, z in items:
        assert goes_on
        if command == SPEED:
            assert (frame, first, throttle) == (2, 1.0, -1.0)  # speed over ground
            speed = second
        elif command == ACTUATOR:
            assert first == -pump, "the pump is told only what changes"
            pump = first
        elif command == WAYPOINT:
            assert (frame, z) == (3, 25.0)  # metres above the start
            flown.append((y / 1e7, x / 1e7, speed, pump))
    assert pump == -1.0
    expected = segments(route)
    where = route.georeference
    assert where is not None
    start, *flown = flown
    assert start[:2] == pytest.approx(tuple(where.places(expected[0].ends[:1])[0]), abs=2e-7)
    ends = [tuple(where.places(each.ends[1:])[0]) for each in expected]
    at = 0
    for longitude, latitude, metres_per_second, on in flown:
        # Every waypoint is the end of a segment; those between lie on the straight way to it.
        near = [ends[at] == pytest.approx((longitude, latitude), abs=2e-7)]
        while not near[-1]:
            at += 1
            near.append(ends[at] == pytest.approx((longitude, latitude), abs=2e-7))
        for segment in expected[at + 1 - len(near) : at + 1]:
            fastest = 3.0 if segment.is_transit else segment.speed
            assert metres_per_second == pytest.approx(7.0 * fastest, rel=0.02)
            assert on == (-1.0 if segment.is_transit else 1.0)
        at += 1
    assert at == len(expected)


@pytest.mark.parametrize("tolerance", [0.0, 0.02, 0.3])
def test_the_plan_takes_as_long_as_the_route(tolerance: float, route: Route) -> None:
    """Lengths on the ground over the commanded speeds: 70 m a cell, 10 s a step."""
    options = ExportOptions(tolerance=tolerance)
    items = json.loads(ROUTE_FORMATS["plan"].write(route, options))["mission"]["items"]
    speeds = [item["params"][1] for item in items if item["command"] == SPEED]
    assert len(speeds) > 3
    assert max(speeds) <= 21.0
    changes = [now != then for now, then in itertools.pairwise(speeds)]
    assert all(changes), "a speed is told only when it changes"
    east, north = 0.001, 0.001
    seconds, speed, here, is_on = 0.0, 1.0, None, False
    for item in items:
        if item["command"] == SPEED:
            speed = item["params"][1]
        elif item["command"] == ACTUATOR:
            is_on = item["params"][0] == 1
        elif item["command"] == WAYPOINT:
            latitude, longitude = item["params"][4:6]
            if here is not None and is_on:
                # A move between rows is a cell too, however high a cell is.
                cells = abs(longitude - here[1]) / east + abs(latitude - here[0]) / north
                seconds += 70.0 * cells / speed
            here = latitude, longitude
    assert seconds == pytest.approx(10.0 * route.steps, abs=10.0)


def test_a_larger_tolerance_makes_fewer_items(farm_route: Route) -> None:
    counts = [count_items(farm_route, ExportOptions(tolerance=each)) for each in (0.0, 0.02, 0.2)]
    assert counts == sorted(counts, reverse=True)
    assert counts[2] < 0.7 * counts[1]
    speeds = [
        sum(item["command"] == SPEED for item in items_of(farm_route, tolerance=each))
        for each in (0.0, 0.02, 0.2)
    ]
    assert speeds == sorted(speeds, reverse=True)


def items_of(route: Route, **options: Any) -> list[dict[str, Any]]:
    written = ROUTE_FORMATS["plan"].write(route, ExportOptions(**options))
    return json.loads(written)["mission"]["items"]


def test_ardupilot_switches_its_sprayer(farm_route: Route) -> None:
    """On at the start and after each transit, off before it and at the end."""
    items = items_of(farm_route, autopilot="ardupilot")
    switched = [item["params"][0] for item in items if item["command"] == SPRAYER]
    assert switched == [1, 0] * (len(farm_route.transits) + 1)
    assert not any(item["command"] == ACTUATOR for item in items)
    assert [item["command"] for item in items[:3]] == [TAKEOFF, WAYPOINT, SPRAYER]
    assert [item["command"] for item in items[-2:]] == [SPRAYER, RETURN]
    options = ExportOptions(autopilot="ardupilot")
    document = json.loads(ROUTE_FORMATS["plan"].write(farm_route, options))
    assert document["mission"]["firmwareType"] == 3
    with pytest.raises(ExportError, match="unknown autopilot 'arduplane': did you mean"):
        ExportOptions(autopilot="arduplane")


def test_what_an_autopilot_does_not_follow_is_warned_of(route: Route, farm_route: Route) -> None:
    """Between the islands it flies at 21 m/s, over the farm at up to 8.3 m/s, or a tenth of it."""
    (fast,) = autopilot_warnings(route, ExportOptions())
    assert "up to 21.0 m/s, and PX4 caps speeds at MPC_XY_VEL_MAX, 12 m/s unless it is" in fast
    assert autopilot_warnings(farm_route, ExportOptions()) == []
    spec = farm_route.problem.world_spec
    slower = replace(spec, units=replace(spec.units, step=40.0))
    crawling = replace(farm_route, problem=replace(farm_route.problem, world_spec=slower))
    (same,) = autopilot_warnings(farm_route, ExportOptions(autopilot="ardupilot"))
    also, slow = autopilot_warnings(crawling, ExportOptions(autopilot="ardupilot"))
    assert same == also
    assert "set SPRAY_PUMP_MIN = 100 for a constant flow" in same
    assert "below 1 m/s, where ArduPilot stops its sprayer" in slow


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


def test_without_degrees_or_scales_a_plan_is_refused_before_it_is_warned_about(
    tmp_path: Path,
) -> None:
    answer = planner().ask(Problem.create(SweepSpec(from_labels(LABELS)), "S1 >= 1"))
    run = planner().keep(answer, tmp_path / "run")
    with pytest.raises(ExportError, match="degrees"):
        export(open_run(run), "plan", tmp_path / "x.plan")
