"""Audits of whole logs: amounts, verdicts, the command and the page."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from scrl.audit import AuditOptions, LogError, audit
from scrl.cli.app import app
from scrl.export import ROUTE_FORMATS, ExportOptions
from scrl.policies import fixed_policy
from scrl.problems import Problem, load
from scrl.report.page.audit import audit_page_text
from scrl.route import Route, drive

from .conftest import HEADER, clock, driven, rows_of, write_field


@pytest.fixture(scope="module")
def route(field: Problem) -> Route:
    return drive(field, fixed_policy("constant:0.7", field))


def steps_of(route: Route) -> list[dict[str, str]]:
    text = ROUTE_FORMATS["csv"].write(route, ExportOptions()).decode()
    return list(csv.DictReader(io.StringIO(text)))


def test_an_exported_plan_gives_its_own_amounts(
    field: Problem, route: Route, tmp_path: Path
) -> None:
    path = tmp_path / "steps.csv"
    path.write_bytes(ROUTE_FORMATS["csv"].write(route, ExportOptions()))
    found = audit(field, path)
    assert found.gap_count == 0
    assert found.density == pytest.approx(route.totals, rel=0.005)
    assert found.given_out == pytest.approx(float(route.amount.sum()), rel=1e-5)


@pytest.mark.parametrize("kind", ["flow", "flow (l/min)", "total", "pump"])
def test_a_log_simulated_from_a_plan_gives_its_amounts(
    kind: str, field: Problem, route: Route, logged: Callable[..., Path]
) -> None:
    """A sprayer that follows the plan's places at its times, logged five times a second."""
    steps = steps_of(route)
    known = np.array([[float(row[name]) for name in ("seconds", "longitude", "latitude")]
                      for row in steps])  # fmt: skip
    time = np.arange(0.0, known[-1, 0], 0.2)
    x, y = (np.interp(time, known[:, 0], known[:, index]) for index in (1, 2))
    values = {"flow": np.ones_like(time), "flow (l/min)": np.full_like(time, 60.0), "total": time,
              "pump": np.ones_like(time)}[kind]  # fmt: skip
    rows = [
        f"{a:.3f},{b:.8f},{c:.8f},{d:.4f}" for a, b, c, d in zip(time, x, y, values, strict=True)
    ]
    found = audit(field, logged(rows, f"seconds,lon,lat,{kind}"))
    # The last row stands up to 0.2 s before the end.
    assert found.density == pytest.approx(route.totals, rel=0.005)


def test_time_and_used_are_judged_too(field: Problem, route: Route, tmp_path: Path) -> None:
    path = tmp_path / "steps.csv"
    path.write_bytes(ROUTE_FORMATS["csv"].write(route, ExportOptions()))
    seconds, used = float(route.steps), float(route.amount.sum())  # steps of one second
    limits = (
        f"time <= {seconds + 1.5}; time <= {seconds - 3}; used <= {used + 1}; used >= {used + 1}"
    )
    found = audit(field.with_rules(limits), path)
    assert found.density["used"] == pytest.approx(used, rel=1e-4)
    assert found.density["time"] == pytest.approx(seconds, abs=1.5)
    assert [rule.status for rule in found.rules] == ["held", "broken", "held", "broken"]
    assert "used" in audit_page_text(found)
    in_steps = dataclasses.replace(
        field.world_spec, units=dataclasses.replace(field.units, step=None)
    )
    problem = dataclasses.replace(
        Problem.create(in_steps, "time <= 1", field.options), source=field.source
    )
    assert audit(problem, path).status == "unknown"


def test_a_map_of_cells_is_counted_in_its_cells(tmp_path: Path) -> None:
    """A plan over cells without a location, in the metres of its export."""
    np.save(tmp_path / "map.npy", np.repeat([[1] * 8 + [2] * 9 + [0] * 3], 10, axis=0))
    path = tmp_path / "cells.toml"
    path.write_text('[world]\nmap = "map.npy"\ncell = 10.0\nstep = 1.0\n[rules]\na = "S1 >= 1"\n')
    problem = load(path)
    route = drive(problem, fixed_policy("constant:0.5", problem))
    log = tmp_path / "steps.csv"
    log.write_bytes(ROUTE_FORMATS["csv"].write(route, ExportOptions()))
    found = audit(problem, log)
    assert found.density == pytest.approx(route.totals, rel=0.005)
    assert "the cells of the map" in found.counted_from


def test_a_wide_swath_is_counted_over_its_width(tmp_path: Path) -> None:
    """A swath of two cells over an upper row of S1 and a lower one of S2 gives half to each."""
    np.save(tmp_path / "map.npy", np.array([[1] * 8, [2] * 8]))
    path = tmp_path / "wide.toml"
    path.write_text('[world]\nmap = "map.npy"\nswath = 2\ncell = 1.0\nstep = 1.0\n')
    problem = load(path)
    log = tmp_path / "log.csv"
    log.write_text("t,x,y,flow\n" + "".join(f"{k},{k * 0.5},1.0,2.0\n" for k in range(17)))
    found = audit(problem, log)
    assert found.density == pytest.approx({"S1": 16.0, "S2": 16.0})
    assert [each.missed_cells for each in found.regions] == [0, 0]


def test_rules_are_judged_and_missed_places_are_named(
    tmp_path: Path, logged: Callable[..., Path]
) -> None:
    """The last four rows of the field are not driven: 120 of 200 litres in each half.

    The log ends in the first cell of the seventh row.
    """
    problem = load(write_field(tmp_path))
    found = audit(problem, logged(rows_of(driven()[:241])))
    least, most = found.rules
    assert (least.status, most.status, found.status) == ("broken", "held", "broken")
    assert least.margin == pytest.approx(-70.0, abs=0.1)
    assert most.margin == pytest.approx(90.0, abs=0.1)
    west, _ = found.regions
    assert west.missed_cells == 39
    assert west.missed_at is not None
    assert west.missed_at[1] < 50.0005


def test_what_no_region_can_have_received_decides_a_rule_in_spite_of_gaps(
    tmp_path: Path, logged: Callable[..., Path]
) -> None:
    """60 litres are unknown: `west >= 190` may hold, `west >= 300` cannot, `west >= 100` does."""
    rules = '[rules]\nmay = "west >= 190"\ncannot = "west >= 300"\ndoes = "west >= 100"\n'
    problem = load(write_field(tmp_path, rules))
    rows = rows_of(driven())
    found = audit(problem, logged(rows[:100] + rows[160:]))
    assert [rule.status for rule in found.rules] == ["unknown", "broken", "held"]
    assert found.status == "broken"


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"speed": "flow"}, "'speed' is no column of a log"),
        ({"flow": "flwo"}, "the log has no column 'flwo': did you mean 'flow'?"),
    ],
)
def test_a_wrong_column_is_named(
    columns: dict[str, str], said: str, field: Problem, logged: Callable[..., Path]
) -> None:
    with pytest.raises(LogError, match=re.escape(said)):
        audit(field, logged(), AuditOptions(columns=columns))


def test_columns_of_any_name_can_be_assigned(field: Problem, logged: Callable[..., Path]) -> None:
    path = logged(header="when,u,v,q")
    columns = {"time": "when", "x": "u", "y": "v", "flow": "q"}
    found = audit(field, path, AuditOptions(columns=columns, flow_per="minute"))
    assert found.density == pytest.approx({"west": 200 / 60, "east": 200 / 60}, rel=1e-3)


def test_a_line_with_times_is_a_log_too(field: Problem, tmp_path: Path) -> None:
    track = driven()
    feature = {
        "type": "Feature",
        "geometry": {"type": "LineString", "coordinates": track[:, 1:].tolist()},
        "properties": {"coordTimes": [clock(each) for each in track[:, 0]], "flow": [1.0] * 401},
    }
    path = tmp_path / "line.geojson"
    path.write_text(json.dumps(feature))
    found = audit(field, path)
    assert found.density == pytest.approx({"west": 200.0, "east": 200.0}, rel=1e-3)


def test_the_command_answers_in_text_json_and_a_page(tmp_path: Path) -> None:
    problem, log = str(write_field(tmp_path)), tmp_path / "log.csv"
    rows = rows_of(driven())
    for name, kept, code, status in (
        ("whole", rows, 0, "held"),
        ("gap", rows[:100] + rows[160:], 1, "unknown"),
        ("half", rows[:201], 1, "broken"),
    ):
        log.write_text("\n".join([HEADER, *kept]))
        page = tmp_path / f"{name}.html"
        done = CliRunner().invoke(app, ["audit", problem, str(log), "--page", str(page)])
        assert done.exit_code == code, done.output
        assert f"{status}: " in done.stdout
        html = page.read_text()
        assert f"{status.capitalize()}: " in html
        assert "<script" not in html
        done = CliRunner().invoke(app, ["audit", problem, str(log), "--json"])
        document = json.loads(done.stdout)
        assert (done.exit_code, document["status"]) == (code, status)
        assert set(document["density"]) == {"west", "east"}
        assert document["satisfied"] is {"held": True, "unknown": None, "broken": False}[status]
    said = CliRunner().invoke(app, ["audit", problem, str(log)]).stdout
    assert re.search(r"least +broken +-90.00 +west received 100 litres, 90 less than needed", said)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--column", "flow"], "--column flow: write ROLE=NAME"),
        (["--flow-per", "day"], "--flow-per day: known are second, minute, hour"),
        (["--gap", "-1"], "gap_seconds = -1 must be above 0"),
        (["--page", "page.txt"], "page.txt: a page's name ends in .html"),
        ([], "missing.csv: there is no such file"),
    ],
)
def test_wrong_options_end_with_2(options: list[str], said: str, tmp_path: Path) -> None:
    problem, log = str(write_field(tmp_path)), str(tmp_path / "missing.csv")
    done = CliRunner().invoke(app, ["audit", problem, log, *options])
    assert done.exit_code == 2
    assert said in done.stderr


def test_names_in_a_page_are_escaped(field: Problem, logged: Callable[..., Path]) -> None:
    found = audit(field, logged(header=HEADER.replace("flow", "<b>flow"), rows=None), AuditOptions(
        columns={"flow": "<b>flow"}))  # fmt: skip
    page = audit_page_text(dataclasses.replace(found))
    assert "<b>flow" not in page
    assert "&lt;b&gt;flow" in page


def test_a_log_in_another_coordinate_system_is_transformed(
    field: Problem, logged: Callable[..., Path], tmp_path: Path
) -> None:
    """Spherical Mercator, by its own formula."""
    radius, track = 6_378_137.0, driven()
    x = radius * np.radians(track[:, 1])
    y = radius * np.log(np.tan(np.pi / 4 + np.radians(track[:, 2]) / 2))
    rows = [f"{clock(t)},{a:.3f},{b:.3f},1.0" for t, a, b in zip(track[:, 0], x, y, strict=True)]
    found = audit(field, logged(rows, "time,x,y,flow"), AuditOptions(crs="EPSG:3857"))
    assert found.density == pytest.approx({"west": 200.0, "east": 200.0}, rel=1e-3)
    assert any("EPSG:3857 was transformed" in each.text for each in found.findings)
    with pytest.raises(LogError, match="unknown coordinate system"):
        audit(field, tmp_path / "log.csv", AuditOptions(crs="EPSG:1"))


def test_the_polygons_of_a_projected_map_are_counted_in_degrees(tmp_path: Path) -> None:
    features = [
        {"type": "Feature", "properties": {"name": name}, "geometry": {
            "type": "Polygon", "coordinates": [[[a, 0], [a + 100, 0], [a + 100, 100], [a, 100],
                                                [a, 0]]]}}
        for name, a in (("west", 1000), ("east", 1100))
    ]  # fmt: skip
    crs = {"type": "name", "properties": {"name": "EPSG:3857"}}
    document = {"type": "FeatureCollection", "crs": crs, "features": features}
    (tmp_path / "map.geojson").write_text(json.dumps(document))
    problem = load(tmp_path / "map.geojson")
    radius = 6_378_137.0
    log = tmp_path / "log.csv"
    places = [(1000.0 + each, 50.0) for each in range(0, 201, 2)]
    log.write_text("t,lon,lat,flow\n" + "".join(
        f"{t},{np.degrees(x / radius):.9f},{np.degrees(y / radius):.9f},1.0\n"
        for t, (x, y) in enumerate(places)))  # fmt: skip
    assert audit(problem, log).density == pytest.approx({"west": 50.0, "east": 50.0}, rel=1e-3)
