"""Drawn farms: seven irregular fields, two with holes and one of two parts.

Three of them lie along a river: a GeoJSON map in metres and a problem file with a boom of 24 m,
12 km/h, a pump of up to 90 litres a minute, prices of a litre and of an hour, bounds on the dose
of each field, and 12 m along the river kept clear. One has a pond in a field and lies in degrees,
so that plans can be flown.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import shapely
from shapely import to_geojson

from scrl.problems import Problem, load
from scrl.problems.templates import Machine, start_problem

FARMS = {"hillside": 1, "marsh": 2, "valley": 3}
"""Names and seeds."""
MACHINE = Machine(
    boom=24.0, speed=12.0, flow=(0.0, 90.0), dose=(0.0, 250.0), unit_cost=1.5, hour_cost=40.0
)
KEPT_CLEAR_M = 12.0
CLEAR_M = 26.0
"""Between fields, and from a field to the river: more than the boom, which has no sections."""
DOSES = ((100.0, 120.0), (150.0, 180.0), (120.0, 150.0), (200.0, 230.0), (90.0, 110.0),
         (160.0, 190.0), (130.0, 150.0))  # fmt: skip
"""Least and most litres per hectare of each field."""
FIELDS = ("wheat", "barley", "rye", "beet", "clover", "rape", "oats")


def drawn(seed: int) -> dict[str, shapely.Geometry]:
    """The fields and the river, in metres; no two of them overlap."""
    random = np.random.default_rng(seed)
    river = _river(random)
    centres = [(130, 440), (400, 450), (670, 440), (130, 130), (390, 120), (640, 120), (880, 130)]
    shapes = {}
    taken = river.buffer(CLEAR_M)
    for name, centre in zip(FIELDS, centres, strict=True):
        field = _blob(random, centre, 115.0)
        if name in ("barley", "beet"):
            field -= _blob(random, centre, 30.0)
        if name == "oats":
            field |= _blob(random, (900, 450), 70.0)
        shapes[name] = field - taken
        taken |= field.buffer(CLEAR_M)
    return {**shapes, "river": river}


def _blob(random: np.random.Generator, centre: tuple[float, float], size: float) -> shapely.Polygon:
    angles = np.linspace(0.0, 2.0 * np.pi, 14, endpoint=False) + random.uniform(-0.15, 0.15, 14)
    radii = size * random.uniform(0.7, 1.15, 14)
    places = np.array(centre) + np.column_stack([radii * np.cos(angles), radii * np.sin(angles)])
    return shapely.Polygon(places.round(1))


def _river(random: np.random.Generator) -> shapely.Polygon:
    x = np.linspace(0.0, 1000.0, 18)
    y = 285.0 + 20.0 * np.sin(x / 110.0 + random.uniform(0.0, 6.0)) + random.uniform(-4, 4, 18)
    return shapely.LineString(np.column_stack([x, y]).round(1)).buffer(7.0, quad_segs=2)


POND_SEED = 7
YARD_M = (520.0, 290.0)
"""Where the vehicle stands on the farm with the pond."""
SPRAYER = Machine(boom=24.0, speed=12.0, turn=8.0, transfer=15.0)
SOUTH_WEST, DEGREES_PER_M = (9.98, 52.1), (1.0 / 68_500.0, 1.0 / 111_270.0)


def with_pond() -> dict[str, shapely.Geometry]:
    """Seven fields, and a pond in one of them, in degrees."""
    random = np.random.default_rng(POND_SEED)
    pond = _blob(random, (650, 430), 32.0)
    shapes = {name: each for name, each in drawn(POND_SEED).items() if name != "river"}
    return {
        name: shapely.transform(each, degrees) for name, each in (*shapes.items(), ("pond", pond))
    }


def degrees(metres: np.ndarray) -> np.ndarray:
    """Longitude and latitude of places of the farm with the pond."""
    return (np.array(SOUTH_WEST) + metres * DEGREES_PER_M).round(7)


def pond_farm(folder: Path, *, is_former: bool = False, angle: float | str = "best") -> Problem:
    """The farm with the pond: fields one after another, or in the order of before."""
    path = _written(folder / "farm.geojson", with_pond())
    machine = replace(SPRAYER, turn=None) if is_former else SPRAYER
    options = {} if is_former else {"angle": angle, "forbidden_buffer": 5.0}
    start_problem(folder / "farm", path, machine, field="*", forbidden=("pond",), **options)
    file = folder / "farm" / "problem.toml"
    text, _, _ = file.read_text().partition("[rules]")
    if not is_former:
        yard = degrees(np.array([YARD_M]))[0].tolist()
        text = re.sub(r"# start = .*", f"start = {yard}", text)
    file.write_text(f'{text}[rules]\nenough = "wheat >= 1"\n')
    return load(file)


def farm(name: str, folder: Path) -> Problem:
    """The problem of a farm, written into a folder."""
    path = _written(folder / f"{name}.geojson", drawn(FARMS[name]))
    start_problem(folder / name, path, MACHINE, coordinates="plain", forbidden=("river",))
    file = folder / name / "problem.toml"
    text, _, _ = file.read_text().partition("[rules]")
    rules = [
        f'{each} = "{low:g} <= dose({each}) <= {high:g}"'
        for each, (low, high) in zip(FIELDS, DOSES, strict=True)
    ]
    kept = f'[keep_out]\ndistance = {KEPT_CLEAR_M}\naround = "river"\n'
    file.write_text("\n".join([text, kept, "[rules]", *rules, ""]))
    return load(file)


def _written(path: Path, shapes: dict[str, shapely.Geometry]) -> Path:
    features = [
        {"type": "Feature", "properties": {"name": each}, "geometry": json.loads(to_geojson(shape))}
        for each, shape in shapes.items()
    ]
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    return path
