"""Writes the route or the policy of a run to a file in a chosen format."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import singledispatch
from pathlib import Path
from typing import Any

from scrl.density import from_episodes
from scrl.environments import EnvironmentPolicy
from scrl.evaluation import RuleResult, verdict
from scrl.export.feedback import PortableFeedbackPolicy
from scrl.export.formats import POLICY_FORMATS, ROUTE_FORMATS, RouteFormat, find_format
from scrl.export.frame import frame_of
from scrl.export.geojson import totals
from scrl.export.policies import PortableEnvironmentPolicy, PortableSweepPolicy
from scrl.export.portable import Portable
from scrl.export.prescription import MOST_ZONES, count_zones
from scrl.export.qgroundcontrol import (
    MANY_FENCE_POINTS,
    MANY_ITEMS,
    autopilot_warnings,
    count_fence_points,
    count_items,
)
from scrl.export.segments import ExportError, ExportOptions
from scrl.files import replacing
from scrl.opening import Run, on_map
from scrl.planning.feedback import FeedbackPolicy
from scrl.route import Route
from scrl.worlds.sweep.transits import Transit

PRESCRIPTIONS = ("prescription", "shapefile", "geotiff")
"""The formats that hold doses in place of a drive."""


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
    run: Run,
    format_name: str,
    out: Path,
    options: ExportOptions | None = None,
    *,
    seed: int | None = None,
) -> Exported:
    """Write the route or the policy of a run to a file; nothing is written if anything is wrong.

    It is that of a seed of training, or of the best one.
    """
    known, options = find_format(format_name), options or ExportOptions()
    out = Path(out)
    if out.is_dir() or not out.parent.is_dir():
        raise ExportError(f"{out}: a folder, or in a folder that is not there; name a file")
    if isinstance(known, RouteFormat):
        route = _route(run, seed, format_name)
        warnings = (*_broken_rules(run, seed, route), *_route_warnings(run, route, known, options))
        files = {out: known.write(route, options, warnings)}
        coordinates = None if format_name == "regions" else frame_of(route.problem.world_spec)
        written = Exported(
            format_name, tuple(files), coordinates.sentence if coordinates else None, warnings,
            duration=route.duration, totals=totals(route),
        )  # fmt: skip
    else:
        warnings = (*_broken_rules(run, seed), *filter(None, [run.warning]))
        data, description = known.write(portable(run.policy(seed), run.problem), warnings)
        files = {out: data, out.with_name(f"{out.name}.json"): description}
        written = Exported(format_name, tuple(files), None, warnings)
    for path, data in files.items():
        with replacing(path) as file:
            file.write(data)
    return written


@singledispatch
def portable(policy: Any, problem: Any) -> Portable:
    """A policy as the formats want it; one kind for each kind of policy."""
    return PortableSweepPolicy.of(problem, policy)


@portable.register
def _(policy: FeedbackPolicy, problem: Any) -> Portable:
    return PortableFeedbackPolicy.of(problem, policy)


@portable.register
def _(policy: EnvironmentPolicy, problem: Any) -> Portable:
    return PortableEnvironmentPolicy(problem, policy)


def _route(run: Run, seed: int | None, format_name: str) -> Route:
    """What is driven, where there is a map."""
    if (on_a_map := on_map(run)) is not None:
        return on_a_map.route(seed)
    raise ExportError(
        f"'{format_name}' writes a route over a map, and this run has none: it was trained in an "
        f"external environment ({run.problem.name}). Its policy can be exported as "
        f"{' or '.join(POLICY_FORMATS)}"
    )


def _broken_rules(run: Run, seed: int | None, route: Route | None = None) -> list[str]:
    """Which rules the policy breaks and by how much, where that is known."""
    evaluation, unit = run.evaluation_of_policy(seed), run.problem.unit
    found = _rules_on(route) if evaluation is None else evaluation.rules
    broken = [] if found is None else [rule for rule in found if not rule.is_satisfied]
    if not broken and not run.conflict:
        return []
    said = []
    if found is not None and broken:
        rules = "; ".join(
            f"'{rule.name}' ({rule.text}), by {_size(-rule.margin)} {unit}" for rule in broken
        )
        count = f"{len(broken)} OF {len(found)} RULES" if len(found) > 1 else "ITS RULE"
        episodes = 1 if evaluation is None else evaluation.episodes
        mean = f", on average over {episodes:,} episodes" if episodes > 1 else ""
        said.append(f"THIS PLAN BREAKS {count}{mean}: {rules}")
    if run.conflict:
        names = ", ".join(f"'{name}'" for name in run.conflict)
        said.append(f"`scrl ask` found that these rules cannot hold together: {names}")
    return said


def _size(amount: float) -> str:
    return f"{amount:,.2f}" if amount >= 0.01 else f"{amount:.2g}"


def _rules_on(route: Route | None) -> Sequence[RuleResult] | None:
    """The rule results of the run, or else of the route; None where neither applies."""
    if route is None or route.problem.discount < 1.0 or route.problem.is_random:
        return None
    problem, amounts = route.problem, route.received.sum(axis=0)[None]
    return verdict(problem.rules, from_episodes(amounts), amounts, problem.tolerance)["rules"]


def _route_warnings(
    run: Run, route: Route, known: RouteFormat, options: ExportOptions
) -> list[str]:
    """Warnings about the route in the file."""
    found = [] if run.warning is None else [run.warning]
    spec = route.problem.world_spec
    frame = frame_of(spec)
    names = [name for name, each in ROUTE_FORMATS.items() if each is known]
    if names in (["geojson"], ["prescription"]) and frame.kind != "WGS84":
        found.append(
            f"the coordinates are {frame.sentence}; the GeoJSON standard (RFC 7946) wants degrees"
        )
    if spec.is_random:
        found.append(
            "this world is random, and the file holds one episode of many; in another one the "
            "vehicle would meet other gusts, or start elsewhere"
        )
    if route.problem.discount < 1.0:
        found.append("amounts are plain sums, and this problem's rules count discounted ones")
    if not route.is_whole:
        found.append("horizon_steps cuts the episode off before the end of the path")
    if names[0] in PRESCRIPTIONS:
        found += _dose_warnings(route, options)
    else:
        found += _transit_warnings(route)
    if known is ROUTE_FORMATS["plan"]:
        found += _plan_warnings(route, options)
    return found


def _dose_warnings(route: Route, options: ExportOptions) -> list[str]:
    """Warnings about doses that a machine may not follow."""
    found = []
    if not route.problem.world_spec.is_poured:
        found.append(
            "this problem counts a step where it ends, and doses are spread along the way, so that "
            "regions receive somewhat other amounts"
        )
    count = count_zones(route, options.tolerance)
    if count > MOST_ZONES:
        found.append(
            f"the map has {count:,} zones, and some terminals take only {MOST_ZONES:,}: a larger "
            "--tolerance makes fewer"
        )
    return found


def _transit_warnings(route: Route) -> list[str]:
    """Warnings about transits: their length, and crossings of forbidden cells."""
    spec, found = route.problem.world_spec, []
    units = spec.units
    if route.ways:
        length, time = units.length(route.transit_length), units.duration(route.transit_steps)
        told = f"{length} in all, {time}"
        if spec.vehicle.counts_turns:
            told += " with the turns)"
        else:
            told += " at top speed): neither the return nor the rules count these ways"
        found.append(f"give nothing out on {_count(route.ways)} ({told}")
    crossing = [each for each in route.ways if each.forbidden_length > 0]
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
    """Warnings about plans that an autopilot does not follow, or that are too large for some."""
    found = autopilot_warnings(route, options)
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
