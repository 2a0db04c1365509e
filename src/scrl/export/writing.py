"""Writes the route or the policy of a run to a file in a chosen format."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from scrl.density import from_episodes
from scrl.evaluation import RuleResult, verdict
from scrl.export.formats import FORMATS, RouteFormat, find_format
from scrl.export.frame import frame_of
from scrl.export.geojson import totals
from scrl.export.policies import PortableEnvironmentPolicy, PortableSweepPolicy
from scrl.export.portable import Portable
from scrl.export.qgroundcontrol import (
    MANY_FENCE_POINTS,
    MANY_ITEMS,
    count_fence_points,
    count_items,
)
from scrl.export.segments import ExportError, ExportOptions
from scrl.files import replacing
from scrl.opening import Driver
from scrl.problems import Problem
from scrl.route import Route
from scrl.runs.folder import EnvironmentRecord
from scrl.worlds.sweep.transits import Transit


@dataclass(frozen=True)
class Exported:
    """The result of an export: file, coordinates, warnings and totals."""

    format: str
    paths: tuple[Path, ...]
    coordinates: str | None
    """A description of the coordinates in the file; None if it has none."""
    warnings: tuple[str, ...]
    duration: str | None = None
    """Driving time as text, with that of transits; None if no route was written."""
    totals: dict[str, float | None] = field(default_factory=dict)
    """Time and transits of the route; empty if no route was written."""


def export(
    driver: Driver, format_name: str, out: Path, options: ExportOptions | None = None
) -> Exported:
    """Write a driver's route or policy to a file; nothing is written on an error."""
    known, options = find_format(format_name), options or ExportOptions()
    out = Path(out)
    if out.is_dir() or not out.parent.is_dir():
        raise ExportError(f"{out}: a folder, or in a folder that is not there; name a file")
    warnings = tuple(_broken_rules(driver))
    if isinstance(known, RouteFormat):
        spec = _on_a_map(driver, format_name).world_spec
        warnings = (*warnings, *_route_warnings(driver, format_name, options))
        files = {out: known.write(driver.route, options, warnings)}
        coordinates = None if format_name == "regions" else frame_of(spec)
    else:
        warnings = (*warnings, *filter(None, [driver.warning]))
        data, description = known.write(portable(driver), warnings)
        files = {out: data, out.with_name(f"{out.name}.json"): description}
        coordinates = None
    for path, data in files.items():
        with replacing(path) as file:
            file.write(data)
    sentence = coordinates.sentence if coordinates else None
    written = Exported(format_name, tuple(files), sentence, warnings)
    if not isinstance(known, RouteFormat):
        return written
    return replace(written, duration=driver.route.duration, totals=totals(driver.route))


def portable(driver: Driver) -> Portable:
    """The portable form of a driver's policy."""
    if isinstance(driver.problem, EnvironmentRecord):
        return PortableEnvironmentPolicy(driver.problem, driver.policy)
    return PortableSweepPolicy.of(driver.problem, driver.policy)


def _on_a_map(driver: Driver, format_name: str) -> Problem:
    """The problem on a map; raises for an external environment, which has no routes."""
    if not isinstance(driver.problem, EnvironmentRecord):
        return driver.problem
    others = [name for name, each in FORMATS.items() if not isinstance(each, RouteFormat)]
    raise ExportError(
        f"'{format_name}' writes a route over a map, and this run has none: it was trained in an "
        f"external environment ({driver.problem.environment}). Its policy can be exported as "
        f"{' or '.join(others)}"
    )


def _broken_rules(driver: Driver) -> list[str]:
    """A warning with the violated rules and their violations, where these are known."""
    found, terms = _judgement(driver), driver.problem
    broken = [] if found is None else [rule for rule in found if not rule.is_satisfied]
    if not broken and not driver.conflict:
        return []
    said = []
    if found is not None and broken:
        rules = "; ".join(
            f"'{rule.name}' ({rule.text}), by {_size(-rule.margin)} {terms.unit}" for rule in broken
        )
        count = f"{len(broken)} OF {len(found)} RULES" if len(found) > 1 else "ITS RULE"
        episodes = 1 if driver.judged is None else driver.judged.episodes
        mean = f", on average over {episodes:,} episodes" if episodes > 1 else ""
        said.append(f"THIS PLAN BREAKS {count}{mean}: {rules}")
    if driver.conflict:
        names = ", ".join(f"'{name}'" for name in driver.conflict)
        said.append(f"`scrl ask` found that these rules cannot hold together: {names}")
    return said


def _size(amount: float) -> str:
    return f"{amount:,.2f}" if amount >= 0.01 else f"{amount:.2g}"


def _judgement(driver: Driver) -> Sequence[RuleResult] | None:
    """The rule results of the run, or else of the route; None where neither applies."""
    if driver.judged is not None:
        return driver.judged.rules
    problem = driver.problem
    if isinstance(problem, EnvironmentRecord) or problem.discount < 1.0 or problem.is_random:
        return None
    amounts = driver.route.received.sum(axis=0)[None]
    density = from_episodes(amounts)
    return verdict(problem.rules, density, amounts, problem.tolerance)["rules"]


def _route_warnings(driver: Driver, format_name: str, options: ExportOptions) -> list[str]:
    """Warnings about the route in the file."""
    found = [] if driver.warning is None else [driver.warning]
    spec = driver.route.problem.world_spec
    frame = frame_of(spec)
    if format_name == "geojson" and frame.kind != "WGS84":
        found.append(
            f"the coordinates are {frame.sentence}; the GeoJSON standard (RFC 7946) wants degrees"
        )
    if spec.is_random:
        found.append(
            "this world is random, and the file holds one episode of many; in another one the "
            "vehicle would meet other gusts, or start elsewhere"
        )
    if driver.route.problem.discount < 1.0:
        found.append("amounts are plain sums, and this problem's rules count discounted ones")
    if not driver.route.is_whole:
        found.append("horizon_steps cuts the episode off before the end of the path")
    found += _transit_warnings(driver.route)
    if format_name == "plan":
        found += _plan_warnings(driver.route, options)
    return found


def _transit_warnings(route: Route) -> list[str]:
    """Warnings about transits: their length, and crossings of forbidden cells."""
    units, found = route.problem.world_spec.units, []
    if route.transits:
        length, time = units.length(route.transit_length), units.duration(route.transit_steps)
        found.append(
            f"give nothing out on {_count(route.transits)} ({length} in all, {time} at top speed): "
            "neither the return nor the rules count these ways"
        )
    crossing = [each for each in route.transits if each.forbidden_length > 0]
    if crossing:
        length = units.length(sum(each.forbidden_length for each in crossing))
        found.append(
            f"{length} of {_count(crossing)} lead through forbidden cells, because no way around "
            "them was found; change these ways before you drive"
        )
    return found


def _count(transits: Sequence[Transit]) -> str:
    return "1 transit" if len(transits) == 1 else f"{len(transits):,} transits"


def _plan_warnings(route: Route, options: ExportOptions) -> list[str]:
    """Warnings about plans that are too large for some autopilots."""
    found = []
    if (items := count_items(route, options)) > MANY_ITEMS:
        found.append(
            f"the plan has {items:,} items, and some autopilots hold only a few hundred: a larger "
            "--tolerance makes fewer"
        )
    if (points := count_fence_points(route)) > MANY_FENCE_POINTS:
        found.append(
            f"the geofence has {points:,} points, and some autopilots hold only "
            f"{MANY_FENCE_POINTS}: a coarser grid makes fewer"
        )
    return found
