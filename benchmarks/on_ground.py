"""What regions receive along an exported route: time in each polygon x rate, without scrl.

`python -m benchmarks.on_ground ROUTE MAP [--rate 2.25] [--grid ROWS COLUMNS]` knows only the
route.geojson that `scrl export` wrote and the polygons of a GeoJSON map, and prints an amount for
each region. A line of the route takes its time evenly along its length. With a grid the polygons
are replaced by the cells whose centres they hold, which is what a plan knows of them.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import shapely


def amounts(
    route: Path, map_file: Path, rate: float, grid: tuple[int, int] | None = None
) -> dict[str, float]:
    """What each region of a map receives."""
    shapes = defaultdict(list)
    for feature in json.loads(map_file.read_text(encoding="utf-8"))["features"]:
        shapes[feature["properties"]["name"]].append(shapely.geometry.shape(feature["geometry"]))
    driven = [
        each
        for each in json.loads(route.read_text(encoding="utf-8"))["features"]
        if not each["properties"]["transit"]
    ]
    lines = shapely.linestrings([each["geometry"]["coordinates"] for each in driven])
    steps = np.array([each["properties"]["steps"] for each in driven])
    length = np.maximum(shapely.length(lines), 1e-300)
    found = {}
    regions = {name: shapely.union_all(shapely.make_valid(each)) for name, each in shapes.items()}
    extent = shapely.total_bounds(list(regions.values()))
    for name, polygon in regions.items():
        region = polygon if grid is None else _in_cells(polygon, extent, grid)
        inside = shapely.length(shapely.intersection(lines, region)) / length
        found[name] = rate * float(steps @ inside)
    return found


def _in_cells(polygon: Any, extent: np.ndarray, grid: tuple[int, int]) -> Any:
    """The cells of a grid over the extent whose centres a polygon holds."""
    (rows, columns), (west, south, east, north) = grid, extent.tolist()
    x, y = np.linspace(west, east, columns + 1), np.linspace(south, north, rows + 1)
    left, low = (each.ravel() for each in np.meshgrid(x[:-1], y[:-1]))
    right, high = (each.ravel() for each in np.meshgrid(x[1:], y[1:]))
    is_held = shapely.contains_xy(polygon, (left + right) / 2, (low + high) / 2)
    return shapely.union_all(shapely.box(left, low, right, high)[is_held])


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("route", type=Path)
    parser.add_argument("map", type=Path)
    parser.add_argument("--rate", type=float, default=2.25)
    parser.add_argument("--grid", type=int, nargs=2)
    chosen = parser.parse_args()
    found = amounts(chosen.route, chosen.map, chosen.rate, chosen.grid)
    for name, amount in found.items():
        print(f"{amount:12.3f}  {name}")


if __name__ == "__main__":
    main()
