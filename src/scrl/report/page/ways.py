"""A route as lines coloured by speed, or as a picture where lines would touch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from scrl.report.page.maps import MapFrame, block_means, png
from scrl.route import Route, on_map
from scrl.worlds.sweep.regions import rgb

SPEED_COLOURS = ("#b5432a", "#d4754a", "#d6a56a", "#97aca6", "#5890ad", "#2c6c98")
"""Colours from slow to fast, safe for colour-blind readers and for light and dark themes."""
MOST_LINES = 90
"""Largest number of passes that are drawn as lines."""
MOST_POINTS = 8_000


MOST_ARROWS = 18
"""Number of arrows along the route."""
MOST_TRANSITS = 400
ARROW = 4.5
"""Half the length of an arrow."""


@dataclass(frozen=True)
class Line:
    """A line of one speed class."""

    d: str
    colour: str


@dataclass(frozen=True)
class DrawnRoute:
    """The drawing of a route."""

    frame: MapFrame
    lines: tuple[Line, ...]
    transits: str
    """SVG path data of the transits."""
    legs: int
    """Number of legs that were driven, at least in part."""
    arrows: str
    """Small triangles that point in the direction of travel."""
    picture: str | None
    """A picture that replaces too many lines."""
    start: tuple[float, float]
    end: tuple[float, float]
    width: float
    """The width of a line."""


def draw_route(route: Route) -> DrawnRoute:
    """Lines through the middles of the path's cells."""
    spec = route.problem.world_spec
    frame = MapFrame(*spec.regions.shape)
    path, top_speed = spec.path.cells, spec.vehicle.max_speed
    classes = speed_classes(cell_speeds(route), top_speed)
    driven = np.flatnonzero(classes >= 0)
    first, last = (path[driven[0]], path[driven[-1]]) if len(driven) else (path[0], path[0])
    lanes = max(frame.rows, frame.columns) / spec.route.swath
    lines: tuple[Line, ...] = ()
    if lanes <= MOST_LINES:
        lines = _lines(path, classes, set(spec.path.stretches), frame)
    starts = spec.path.stretches[1:]
    driven_transits = [
        each for each, at in zip(spec.transits, starts, strict=True) if classes[at] >= 0
    ]
    drawn = [*route.ways] if spec.stand is not None else driven_transits
    is_many = lanes > MOST_LINES or sum(len(line.d) for line in lines) > 12 * MOST_POINTS
    return DrawnRoute(
        frame,
        () if is_many else lines,
        "".join(_polyline(each.places * frame.scale) for each in drawn[:MOST_TRANSITS]),
        len(driven_transits) + 1,
        _arrows(path[: driven[-1] + 1 if len(driven) else 0], frame),
        speed_picture(classes, spec.path.number) if is_many else None,
        _place(first, frame),
        _place(last, frame),
        max(1.2, min(5.0, 0.5 * frame.scale * spec.route.swath)),
    )


def cell_speeds(route: Route) -> Float[np.ndarray, " cell"]:
    """The speed of the step that passes the middle of each path cell; NaN if not visited."""
    middles = np.arange(len(route.problem.world_spec.path.cells)) + 0.5
    step = np.searchsorted(route.along, middles, side="left") - 1
    is_driven = (step >= 0) & (step < route.steps)
    return np.where(is_driven, route.speed[np.clip(step, 0, route.steps - 1)], np.nan)


def speed_classes(speed: Float[np.ndarray, " cell"], top_speed: float) -> Int[np.ndarray, " cell"]:
    """The speed class (sixth of the top speed) of each path cell; -1 if not visited."""
    count = len(SPEED_COLOURS)
    classes = np.clip(np.nan_to_num(speed) / top_speed * count, 0, count - 1).astype(int)
    return np.where(np.isnan(speed), -1, classes)


def _arrows(path: Int[np.ndarray, "cell 2"], frame: MapFrame) -> str:
    """Triangles at about even distances along straight parts of the route."""
    moves = np.diff(path, axis=0)
    is_straight = (moves[1:] == moves[:-1]).all(axis=1) & (np.abs(moves[1:]).sum(axis=1) == 1)
    straight = np.flatnonzero(is_straight) + 1
    if not len(straight):
        return ""
    wanted = (np.arange(MOST_ARROWS) + 0.5) * len(path) / MOST_ARROWS
    nearest = np.abs(straight[:, None] - wanted).argmin(axis=0)
    return "".join(
        _arrow(_place(path[at], frame), moves[at].tolist()) for at in np.unique(straight[nearest])
    )


def _arrow(place: tuple[float, float], move: list[int]) -> str:
    """A triangle around a place that points along a move of (rows, columns)."""
    (x, y), (down, right) = place, move
    tip = x + ARROW * right, y + ARROW * down
    back = x - ARROW * right, y - ARROW * down
    wide = 0.8 * ARROW
    corners = (
        tip,
        (back[0] + wide * down, back[1] - wide * right),
        (back[0] - wide * down, back[1] + wide * right),
    )
    return "M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in corners) + "z"


def _lines(
    path: Int[np.ndarray, "cell 2"],
    classes: Int[np.ndarray, " cell"],
    legs: set[int],
    frame: MapFrame,
) -> tuple[Line, ...]:
    """One line for consecutive cells of a class, up to the first cell of the next line."""
    found = []
    cells = path.tolist()
    begin = 0
    for index in range(1, len(cells) + 1):
        is_end = index == len(cells)
        if not is_end and index not in legs and classes[index] == classes[begin]:
            continue
        if classes[begin] >= 0:
            goes_on = not is_end and index not in legs and classes[index] >= 0
            points = cells[begin : index + goes_on]
            found.append(Line(_path_of(points, frame), SPEED_COLOURS[classes[begin]]))
        begin = index
    return tuple(found)


def _path_of(cells: list[list[int]], frame: MapFrame) -> str:
    """SVG path data with the points where the route turns."""
    corners = [
        cell
        for index, cell in enumerate(cells)
        if index in (0, len(cells) - 1)
        or (cell[0] - cells[index - 1][0], cell[1] - cells[index - 1][1])
        != (cells[index + 1][0] - cell[0], cells[index + 1][1] - cell[1])
    ]
    line = _polyline((np.array(corners) + 0.5) * frame.scale)
    return line + ("h0" if len(corners) == 1 else "")


def _polyline(places: Float[np.ndarray, "place 2"]) -> str:
    """A line through places given by row and column."""
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for y, x in places.tolist())


def _place(cell: list[int] | Int[np.ndarray, " 2"], frame: MapFrame) -> tuple[float, float]:
    return (cell[1] + 0.5) * frame.scale, (cell[0] + 0.5) * frame.scale


def speed_picture(classes: Int[np.ndarray, " cell"], nearest: Int[np.ndarray, "row column"]) -> str:
    """The mean speed class of each block of cells as a colour; transparent where not visited."""
    driven = np.where(classes >= 0, classes.astype(float), np.nan)
    means = block_means(on_map(driven, nearest))
    is_driven = np.isfinite(means)
    index = np.where(is_driven, np.round(np.nan_to_num(means)), 0).astype(int)
    colours = np.array([rgb(colour) for colour in SPEED_COLOURS], np.uint8)
    alpha = np.where(is_driven, 255, 0).astype(np.uint8)
    return png(np.concatenate([colours[index], alpha[..., None]], axis=-1))
