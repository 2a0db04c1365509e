"""Published maps, from file to flight plan: `python -m benchmarks.real_maps FOLDER [--out FILE]`.

Every GeoJSON file and every layer of polygons that GDAL reads (shapefiles, also zipped, and
GeoPackages) under the folder is tried. GDAL only changes the format: coordinates, their system and
the shapes are those of the file, and nothing is repaired before `scrl new` does it. The vehicle is
as wide as a sixtieth of the map, and at most 9,990 m. What cannot be planned is in the table, with
what was said.
"""

from __future__ import annotations

import argparse
import gzip
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import pyogrio
import pyogrio.raw
import shapely
from pyogrio.errors import DataSourceError

from scrl.errors import ScrlError
from scrl.export import ROUTE_FORMATS, ExportOptions
from scrl.policies import fixed_policy
from scrl.problems import Problem, load
from scrl.problems.templates import Machine, start_problem
from scrl.route import drive
from scrl.worlds.sweep.maps import MapOptions, load_map

OTHER_FORMATS = (".shp", ".gpkg", ".zip")
PASSES = 60
SPEED_KM_H, WIDEST_M = 36.0, 9_990.0


def found_under(folder: Path, work: Path) -> list[tuple[str, Path]]:
    """Names of maps, and GeoJSON files of them."""
    found = []
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if name.endswith((".json", ".geojson", ".json.gz", ".geojson.gz")):
            data = path.read_bytes()
            data = gzip.decompress(data) if name.endswith(".gz") else data
            if b'"FeatureCollection"' in data and b"Polygon" in data:
                found.append((name, _kept(work, len(found), data)))
        elif path.suffix in OTHER_FORMATS:
            try:
                layers = pyogrio.list_layers(path)
            except DataSourceError:
                continue
            for layer, kind in layers.tolist():
                if kind and "Polygon" in kind:
                    shown = name if len(layers) == 1 else f"{name}, {layer}"
                    found.append((shown, _kept(work, len(found), _translated(path, layer))))
    return found


def _kept(work: Path, number: int, data: bytes) -> Path:
    path = work / f"map{number}.geojson"
    path.write_bytes(data)
    return path


def _translated(path: Path, layer: str) -> bytes:
    """A layer as GeoJSON in its own coordinates, with the name of their system."""
    meta, _, shapes, columns = pyogrio.raw.read(path, layer=layer)
    named = [(str(name), column) for name, column in zip(meta["fields"], columns, strict=True)]
    features = [
        {
            "type": "Feature",
            "properties": {name: str(column[row]) for name, column in named},
            "geometry": None if shape is None else json.loads(shapely.to_geojson(shape)),
        }
        for row, shape in enumerate(shapely.from_wkb(shapes))
    ]
    document: dict[str, Any] = {"type": "FeatureCollection", "features": features}
    if meta["crs"]:
        document["crs"] = {"type": "name", "properties": {"name": meta["crs"]}}
    return json.dumps(document).encode()


def planned(path: Path, folder: Path) -> tuple[Problem, int, float]:
    """The problem of a map, the items of its flight plan, and its hours."""
    where = load_map(path, MapOptions()).georeference
    east, north = (where.cell_size_metres() if where else None) or (0.0, 0.0)
    boom = min(max(east, north) * 50.0 / PASSES, WIDEST_M)
    machine = Machine(boom=float(f"{boom:.3g}"), speed=SPEED_KM_H)
    start_problem(folder, path, machine, field="*")
    problem = load(folder / "problem.toml")
    route = drive(problem, fixed_policy("full-speed", problem))
    plan = json.loads(ROUTE_FORMATS["plan"].write(route, ExportOptions()))
    ROUTE_FORMATS["prescription"].write(route, ExportOptions())
    return problem, len(plan["mission"]["items"]), plan["driving_seconds"] / 3600.0


def rows_of(folder: Path) -> list[str]:
    """A row of the table for each map."""
    rows = []
    with tempfile.TemporaryDirectory() as place:
        work = Path(place)
        for number, (name, path) in enumerate(found_under(folder, work)):
            began = time.perf_counter()
            try:
                problem, items, hours = planned(path, work / f"problem{number}")
            except ScrlError as error:
                said = str(error).replace(str(work), "").splitlines()[0][:160]
                rows.append(f"| {name} | | | | | | | {said} |")
                continue
            spec = problem.world_spec
            length = len(spec.path.cells) * (spec.units.cell or 0.0) / 1000.0
            told = len(spec.regions.warnings)
            rows.append(
                f"| {name} | {len(spec.regions.names)} | {told} | {length:,.1f} km | "
                f"{len(spec.transits)} | {hours:,.1f} h | {items:,} | "
                f"plan in {time.perf_counter() - began:.1f} s |"
            )
    return rows


def main() -> None:
    """Print the table, or write it to a file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    head = ["| map | regions | warnings | passes | turns | time | plan items | result |",
            "|---|---|---|---|---|---|---|---|"]  # fmt: skip
    text = "\n".join([*head, *rows_of(given.folder)]) + "\n"
    if given.out is None:
        print(text, end="")
    else:
        given.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
