"""One episode of a run's best policy: amounts and speeds on the map."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from scrl.errors import ScrlError
from scrl.problems import Problem
from scrl.report.page.maps import DrawnMap, draw_map, heat_pictures
from scrl.report.page.ways import DrawnRoute, draw_route
from scrl.report.reading import RunView
from scrl.report.words import amount
from scrl.route import Route, given_over_cells
from scrl.worlds.sweep.spec import SweepSpec

MOST_ROWS = 60
"""Largest number of regions in the table."""


@dataclass(frozen=True)
class PlanRow:
    """One region: its size, what it received, and how fast the vehicle was in it."""

    name: str
    area: str
    received: str
    per_area: str
    speed: str


@dataclass(frozen=True)
class PlanSection:
    """One episode of the best policy, drawn."""

    label: str
    run: int
    """The index of the run."""
    heat: str
    """The heat map as a mask; white is most."""
    route: DrawnRoute
    about_heat: str
    about_route: str
    rows: tuple[PlanRow, ...]


@dataclass(frozen=True)
class Plans:
    """A map with the plans of several runs on one scale, and messages for runs without one."""

    map: DrawnMap
    top_speed: str
    shown: tuple[PlanSection, ...]
    most: str
    """The amount at the strongest colour."""
    missing: tuple[str, ...]
    area_unit: str
    """In what the areas of regions are: cells or hectares."""
    has_flow: bool
    """Whether the pump is set apart from the speed."""


def plans_of(problem: Problem, views: Sequence[RunView]) -> Plans:
    """Run the first evaluation episode of every finished run again."""
    routes: list[tuple[int, Route]] = []
    missing = []
    for index, view in enumerate(views):
        if view.result is None:
            continue
        try:
            routes.append((index, view.run.route()))
            if view.run.warning is not None:
                missing.append(f"{view.label}: {view.run.warning}.")
        except ScrlError as error:
            missing.append(f"{view.label}: no plan to draw. {error}")
    spec = problem.world_spec
    drawn, top_speed = draw_map(spec.regions), spec.units.speed(spec.vehicle.max_speed)
    has_flow = spec.vehicle.has_flow
    if not routes:
        return Plans(drawn, top_speed, (), "", tuple(missing), spec.area_unit, has_flow)
    amounts = [given_over_cells(route) for _, route in routes]
    pictures, most = heat_pictures(amounts)
    shown = tuple(
        _plan(views[index].label, index, route, picture)
        for (index, route), picture in zip(routes, pictures, strict=True)
    )
    return Plans(
        drawn, top_speed, shown, amount(most), tuple(missing), spec.area_unit, has_flow
    )  # fmt: skip


def _plan(label: str, run: int, route: Route, picture: str) -> PlanSection:
    rows = _rows(route)
    totals = sorted(route.totals.items(), key=lambda each: -each[1])
    unit = route.problem.world_spec.units.unit
    most = ", ".join(f"{name} {amount(value)}" for name, value in totals[:8])
    units = route.problem.world_spec.units
    slow, fast = float(route.speed.min()), float(route.speed.max())
    length = units.length(route.along[-1])
    if route.problem.world_spec.vehicle.counts_turns:
        idle = units.length(route.transit_length)
        length = f"{units.length(route.length)} ({idle} of it without work)"
    about_route = (
        f"The route of {label}: {route.duration}, over {length}, at {units.speed(slow)} to "
        f"{units.speed(fast)}."
    )
    if route.georeference is not None and route.georeference.turn is not None:
        angle = route.georeference.turn.angle
        about_route += f" The map is turned: its rows run {angle:g} degrees from east to north."
    drawn = draw_route(route)
    if drawn.legs > 1:
        about_route += f" It has {drawn.legs:,} legs; nothing is given out between them."
    if not route.is_whole:
        about_route += " The horizon cut it off before the end of the path."
    return PlanSection(
        label,
        run,
        picture,
        drawn,
        f"Where {label} gives out how much; most {unit} to: {most}.",
        about_route,
        rows,
    )


def _rows(route: Route) -> tuple[PlanRow, ...]:
    regions = route.problem.world_spec.regions
    received = route.received
    rows = []
    spec = route.problem.world_spec
    for index, (name, size) in enumerate(
        zip(regions.names[:MOST_ROWS], _areas(spec)[:MOST_ROWS].tolist(), strict=True)
    ):
        total = float(received[:, index].sum())
        inside = received[:, index] > 0
        speed = float(route.speed[inside].mean()) if inside.any() else None
        rows.append(
            PlanRow(
                name,
                _area(spec, size),
                amount(total),
                f"{total / size:.3g}" if size else "",
                "" if speed is None else spec.units.speed(speed),
            )
        )
    given, outside = float(route.amount.sum()), float(route.outside.sum())
    if not spec.has_overlaps and len(regions.names) <= MOST_ROWS:
        parts = np.append(received.sum(axis=0), outside)
        given = float(np.round(parts, 2).sum())  # so that what is shown adds up
    cells = spec.cell_area * int((regions.enterable & ~regions.masks.any(axis=0)).sum())
    rest = f"{outside / cells:.3g}" if cells else ""
    rows.append(PlanRow("outside all regions", _area(spec, cells), amount(outside), rest, ""))
    total = spec.cell_area * int(regions.enterable.sum())
    rows.append(
        PlanRow("given out in all", _area(spec, total), amount(given), f"{given / total:.3g}", "")
    )
    return tuple(rows)


def _areas(spec: SweepSpec) -> Float[np.ndarray, " region"]:
    """The areas of regions: those covered in hectares where they are known, else cells."""
    return spec.regions.sizes.astype(float) if spec.units.cell is None else spec.areas


def _area(spec: SweepSpec, area: float) -> str:
    return f"{area:,.0f}" if spec.units.cell is None else f"{area:,.3f}"
