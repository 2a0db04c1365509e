"""Draws the two built-in maps: polygons with exactly the wanted cell counts on a 50 x 50 grid.

Every region is sketched by hand; then one of its corners is moved, in hundredths of a cell, until
the count is right. The sketches are chosen so that a vehicle that lands on every third cell also
lands in each region about a third as often as it has cells. `python tools/draw_maps.py` writes the
files again, bit for bit.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import shapely

FOLDER = Path(__file__).parents[1] / "src" / "scrl" / "problems" / "builtin"
SIDE_CELLS = 50
REACH_HUNDREDTHS = 400

Point = tuple[float, float]


@dataclass(frozen=True)
class Sketch:
    """A region as drawn by hand, and the corner that gives way; y points up."""

    name: str
    title: str
    cells: int
    """How many cell centres the finished polygon must hold."""
    moving: int
    """Which corner moves."""
    outwards: Point
    """Where to: this way the polygon grows."""
    corners: tuple[Point, ...]


AGRI = (
    Sketch("S1", "North strip", 324, 2, (0, -1), ((0, 50), (50, 50), (50, 44.1), (0, 42.9))),
    Sketch("S2", "Middle wedge", 468, 1, (0, -1), ((49.2, 41.9), (26.6, 20.6), (5.5, 41.1))),
    Sketch(
        "S3", "West field", 562, 2, (1, 0), ((0, 0), (5.5, 0), (24.4, 18.4), (0.4, 41.3), (0, 41.3))
    ),
    Sketch("S4", "East field", 426, 3, (-1, 0), ((47.9, 0), (50, 0), (50, 38.7), (29, 18.4))),
    Sketch("S5", "South field", 267, 1, (0, 1), ((10.1, 0), (26.7, 16.1), (43.3, 0))),
)
MED = (
    Sketch(
        "S1",
        "North bank",
        1011,
        3,
        (0, -1),
        ((0, 50), (50, 50), (50, 26.2), (32, 31.6), (18, 29.2), (0, 32.4)),
    ),
    Sketch(
        "S2",
        "Old town",
        120,
        0,
        (0, -1),
        ((8, 16.2), (20, 16.6), (20, 25.8), (18, 25.4), (8, 27.5)),
    ),
    Sketch("S3", "Market", 80, 1, (0, -1), ((22, 16.7), (29.7, 16.9), (29.7, 27.9), (22, 26.3))),
    Sketch("S4", "Harbour", 87, 1, (0, -1), ((31.7, 17), (40.7, 17.4), (40.7, 25.8), (31.7, 28.3))),
    Sketch(
        "S5",
        "South side",
        889,
        0,
        (0, 1),
        ((42.7, 15.4), (6, 14.2), (6, 27.9), (0, 29.4), (0, 0), (50, 0), (50, 23), (42.7, 25.2)),
    ),
)


def main() -> None:
    """Writes both files."""
    for stem, sketches in (("agri", AGRI), ("med", MED)):
        (FOLDER / f"{stem}.geojson").write_text(document(sketches), encoding="utf-8")


def document(sketches: tuple[Sketch, ...]) -> str:
    """The GeoJSON text, a feature a line."""
    lines = ",\n".join(f"    {json.dumps(feature(sketch))}" for sketch in sketches)
    return f'{{\n  "type": "FeatureCollection",\n  "features": [\n{lines}\n  ]\n}}\n'


def feature(sketch: Sketch) -> dict[str, object]:
    """The finished region as a GeoJSON feature, its outline anticlockwise and closed."""
    outline = shapely.orient_polygons(shapely.Polygon(finished(sketch))).exterior.coords
    ring = [[_tidy(x), _tidy(y)] for x, y in outline]
    return {
        "type": "Feature",
        "properties": {"name": sketch.name, "title": sketch.title},
        "geometry": {"type": "Polygon", "coordinates": [ring]},
    }


def finished(sketch: Sketch) -> list[Point]:
    """The corners after the shift, found by bisection, that gives the wanted count."""
    low, high = -REACH_HUNDREDTHS, REACH_HUNDREDTHS
    while high - low > 1:
        middle = (low + high) // 2
        if cell_count(_shifted(sketch, middle)) < sketch.cells:
            low = middle
        else:
            high = middle
    corners = _shifted(sketch, high)
    if cell_count(corners) != sketch.cells or not shapely.Polygon(corners).is_valid:
        raise RuntimeError(f"{sketch.name}: no shift gives {sketch.cells} cells")
    return corners


def cell_count(corners: list[Point]) -> int:
    """How many cell centres lie inside."""
    centres = np.arange(SIDE_CELLS) + 0.5
    inside = shapely.contains_xy(shapely.Polygon(corners), centres[None, :], centres[:, None])
    return int(np.count_nonzero(inside))


def _shifted(sketch: Sketch, hundredths: int) -> list[Point]:
    corners = list(sketch.corners)
    (x, y), (right, up) = corners[sketch.moving], sketch.outwards
    corners[sketch.moving] = (
        round(x + right * hundredths / 100, 2),
        round(y + up * hundredths / 100, 2),
    )
    return corners


def _tidy(number: float) -> float | int:
    return int(number) if number.is_integer() else number


if __name__ == "__main__":
    main()
