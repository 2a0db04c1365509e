"""What regions receive along an exported route: time in each polygon x rate, without scrl.

`python -m benchmarks.on_ground ROUTE MAP [--rate 2.25]` knows only the route.geojson that
`scrl export` wrote and the polygons of a GeoJSON map, and prints an amount for each region. A line
of the route takes its time evenly along its length.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from pathlib import Path

import numpy as np
import shapely


def amounts(route: Path, map_file: Path, rate: float) -> dict[str, float]:
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
    for name, parts in shapes.items():
        region = shapely.union_all([shapely.make_valid(part) for part in parts])
        inside = shapely.length(shapely.intersection(lines, region)) / length
        found[name] = rate * float(steps @ inside)
    return found


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("route", type=Path)
    parser.add_argument("map", type=Path)
    parser.add_argument("--rate", type=float, default=2.25)
    chosen = parser.parse_args()
    for name, amount in amounts(chosen.route, chosen.map, chosen.rate).items():
        print(f"{amount:12.3f}  {name}")


if __name__ == "__main__":
    main()
