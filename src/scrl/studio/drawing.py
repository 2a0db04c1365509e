"""What the page draws, as plain values; the drawing functions are those of the report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
from jaxtyping import Float

from scrl.problems import Problem
from scrl.report.page.bars import Received, region_bars
from scrl.report.page.maps import MOST_PIXELS, MapFrame, block_means, draw_map, heat_pictures
from scrl.report.page.ways import (
    SPEED_COLOURS,
    cell_speeds,
    draw_route,
    speed_classes,
    speed_picture,
)
from scrl.report.words import amount
from scrl.route import Route, given_over_cells, on_map
from scrl.rules.show import show_region
from scrl.studio.outlines import Outlines
from scrl.worlds.sweep.georeference import Georeference

MOST_PLACES = 3_000
"""Places of a drive that the animation passes through."""


def map_document(problem: Problem) -> dict[str, Any]:
    """The regions as outlines, and which regions each block of cells belongs to."""
    spec = problem.world_spec
    drawn = draw_map(spec.regions)
    frame = drawn.frame
    rows, columns = spec.regions.shape
    step = max(1, -(-max(rows, columns) // MOST_PIXELS))
    middle = slice(step // 2, None, step)
    masks = spec.regions.masks[:, middle, middle]
    kinds, kind_of_block = np.unique(masks.reshape(len(masks), -1), axis=1, return_inverse=True)
    return {
        **{key: value for key, value in asdict(drawn).items() if key != "frame"},
        "rows": rows, "columns": columns,
        "width": frame.width, "height": frame.height, "left": frame.left, "scale": frame.scale,
        "names": [{"name": name, "shown": show_region(name)} for name in spec.regions.names],
        "blocks": {
            "step": step, "rows": masks.shape[1], "columns": masks.shape[2],
            "kind": kind_of_block.ravel().tolist(),
            "kinds": [np.flatnonzero(kind).tolist() for kind in kinds.T],
        },
        "unit": problem.unit,
        "topSpeed": spec.units.speed(spec.vehicle.max_speed),
        "speedColours": list(SPEED_COLOURS),
    }  # fmt: skip


def outlines_document(
    outlines: Outlines, special: Mapping[str, str], where: Georeference
) -> dict[str, Any]:
    """The polygons in the coordinates of the map's file, and how the grid lies in these.

    That is the place of its first corner, and the way from a column and from a row to the next.
    """
    corner, column, row = where.places(np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0]]))
    return {
        "regions": [
            {"name": each.name, "polygons": each.polygons, "special": special.get(each.name)}
            for each in outlines.regions
        ],
        "corner": corner.tolist(),
        "column": (column - corner).tolist(), "row": (row - corner).tolist(),
    }  # fmt: skip


def bars_document(problem: Problem, density: Mapping[str, float]) -> list[dict[str, Any]]:
    """A bar for each region, and the bounds that rules set on it."""
    bars, _ = region_bars(problem, [Received("", 0, density, {})])
    return [
        {
            "name": each.name, "colour": each.colour,
            "begin": each.bars[0].begin, "width": each.bars[0].width,
            "received": each.bars[0].received, "bounds": [asdict(bound) for bound in each.bounds],
        }
        for each in bars
    ]  # fmt: skip


def estimate_pictures(
    problem: Problem,
    times: Float[np.ndarray, " cell"],
    services: Float[np.ndarray, " cell"],
    top: float | None,
    view: str,
) -> dict[str, Any]:
    """The picture of a view: what the fluid gives where, or how fast it is, for the steps that
    each path cell takes, and the steps at full flow that serve as much."""
    spec = problem.world_spec
    nearest = spec.path.number
    if view == "speed":
        classes = speed_classes(1.0 / times, spec.vehicle.max_speed)
        return {"speed": speed_picture(classes, nearest)}
    if view != "given":
        return {}
    sharing = np.maximum(np.bincount(nearest[nearest >= 0], minlength=len(times)), 1)
    given = on_map(spec.vehicle.rate * services / sharing, nearest)
    (heat,), most = heat_pictures([given], top)
    return {"heat": heat, "most": amount(most)}


def route_document(route: Route) -> dict[str, Any]:
    """A drive: its lines, what it gives where, and its places one after the other."""
    drawn = asdict(draw_route(route))
    given = given_over_cells(route)
    (heat,), most = heat_pictures([given])
    spec, units = route.problem.world_spec, route.problem.units
    speed, scale = on_map(cell_speeds(route), spec.path.number), MapFrame(*spec.regions.shape).scale
    every = max(1, -(-route.steps // MOST_PLACES))
    some = np.unique(np.append(np.arange(0, route.steps, every), route.steps - 1))
    received = np.cumsum(route.received, axis=0)[some]
    return {
        **{key: value for key, value in drawn.items() if key != "frame"},
        "heat": heat, "most": amount(most), "top": most,
        "given": _short(block_means(given)), "speeds": _short(block_means(speed)),
        "places": {
            "x": np.round(route.cells[some, 1] * scale, 1).tolist(),
            "y": np.round(route.cells[some, 0] * scale, 1).tolist(),
            "speed": [units.speed(each) for each in route.speed[some].tolist()],
            "step": some.tolist(),
            "received": np.round(received, 1).tolist() if received.size <= 60_000 else [],
        },
        "duration": route.duration,
        "isWhole": route.is_whole,
    }  # fmt: skip


def _short(values: Float[np.ndarray, "row column"]) -> list[float | None]:
    """Rows one after the other, with three digits; None where there is no value."""
    return [
        float(f"{value:.3g}") if is_known else None
        for value, is_known in zip(
            values.ravel().tolist(), np.isfinite(values).ravel().tolist(), strict=True
        )
    ]
