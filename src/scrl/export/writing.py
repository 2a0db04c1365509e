"""From what a run drives to a file: which format, and where it is written."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from scrl.driver import Driver
from scrl.export.formats import FORMATS, RouteFormat, find_format
from scrl.export.frame import frame_of
from scrl.export.options import ExportOptions
from scrl.export.outside_policy import EnvironmentPolicy
from scrl.export.plan import MANY_ITEMS, count_items
from scrl.export.portable import Portable
from scrl.export.segments import ExportError, segments
from scrl.export.sweep_policy import SweepPolicy
from scrl.files import replacing
from scrl.problems import Problem
from scrl.route import Route
from scrl.runs import KeptEnvironment

WORTH_SAYING = 0.01
"""A flight that is longer than counted by less than this share is not worth a warning."""


@dataclass(frozen=True)
class Exported:
    """What was written, and what a reader should know about it."""

    format: str
    paths: tuple[Path, ...]
    coordinates: str | None
    """What the coordinates in the file are; none where it holds none."""
    warnings: tuple[str, ...]


def export(
    driver: Driver, format_name: str, out: Path, options: ExportOptions | None = None
) -> Exported:
    """Write a driver's route or policy to a file; nothing is written if anything is wrong."""
    known, options = find_format(format_name), options or ExportOptions()
    out = Path(out)
    if out.is_dir() or not out.parent.is_dir():
        raise ExportError(f"{out}: a folder, or in a folder that is not there; name a file")
    if isinstance(known, RouteFormat):
        spec = _on_a_map(driver, format_name).world_spec
        files = {out: known.write(driver.route, options)}
        coordinates = None if format_name == "regions" else frame_of(spec)
    else:
        data, description = known.write(portable(driver))
        files = {out: data, out.with_name(f"{out.name}.json"): description}
        coordinates = None
    for path, data in files.items():
        with replacing(path) as file:
            file.write(data)
    return Exported(
        format_name,
        tuple(files),
        coordinates.sentence if coordinates else None,
        tuple(_warnings(driver, format_name, options)),
    )


def portable(driver: Driver) -> Portable:
    """A driver's policy as the formats want it."""
    if isinstance(driver.problem, KeptEnvironment):
        return EnvironmentPolicy(driver.problem, driver.policy)
    return SweepPolicy.of(driver.problem, driver.policy)


def _on_a_map(driver: Driver, format_name: str) -> Problem:
    """The problem that is driven, where it has routes."""
    if not isinstance(driver.problem, KeptEnvironment):
        return driver.problem
    others = [name for name, each in FORMATS.items() if not isinstance(each, RouteFormat)]
    raise ExportError(
        f"'{format_name}' writes a route over a map, and this run has none: it was trained in an "
        f"environment of somebody's ({driver.problem.environment}). Its policy can be exported as "
        f"{' or '.join(others)}"
    )


def _warnings(driver: Driver, format_name: str, options: ExportOptions) -> list[str]:
    """What makes the file other than it looks."""
    found = [] if driver.warning is None else [driver.warning]
    if not isinstance(find_format(format_name), RouteFormat):
        return found
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
    if driver.problem.discount < 1.0:
        found.append("amounts are plain sums, and this problem's rules count discounted ones")
    if not driver.route.is_whole:
        found.append("horizon_steps cuts the episode off before the end of the path")
    if len(spec.path.legs) > 1 and format_name in ("geojson", "kml", "plan"):
        found.append(
            f"the field falls into {len(spec.path.legs)} legs; the ways between them are straight "
            "and may cross cells that the path avoids"
        )
    if format_name == "plan" and (items := count_items(driver.route, options)) > MANY_ITEMS:
        found.append(
            f"the plan has {items:,} items, and some autopilots hold only a few hundred: a larger "
            "--tolerance makes fewer"
        )
    uncounted = _uncounted_share(driver.route) if format_name == "plan" else 0.0
    if uncounted > WORTH_SAYING:
        found.append(
            f"ways between legs and between bands make the flight {uncounted:.0%} longer than the "
            "path that the amounts are counted on; give nothing out on them"
        )
    return found


def _uncounted_share(route: Route) -> float:
    """How much longer the drawn way is than the path, which counts a cell for any move."""
    drawn = sum(float(np.hypot(*(each.ends[1] - each.ends[0]))) for each in segments(route))
    return drawn / (route.along[-1] - route.along[0]) - 1.0
