"""The way over the farm with the pond: its length, and whether exported files keep their promises.

`python -m benchmarks.way [--out FILE]` prints Markdown. Files are followed by `benchmarks.sprayer`,
which knows nothing of scrl.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pyogrio.raw
import shapely
from jaxtyping import Array, Float

from benchmarks.farms import SPRAYER, YARD_M, degrees, pond_farm, with_pond
from benchmarks.sprayer import Pump, given_by_map, given_by_plan, lines_of, time_and_way
from scrl.export import ROUTE_FORMATS, ExportOptions
from scrl.problems import Problem
from scrl.route import Route, drive
from scrl.worlds.sweep.spec import cell_sides
from scrl.worlds.sweep.transits import transits_of


class SlowerFieldByField(eqx.Module):
    """A throttle of 1 in the first field, and 7 % less in each one after it."""

    fields: int
    is_random: bool = False

    def __call__(self, observation: Float[Array, " feature"], *, key: object) -> Float[Array, ""]:
        del key
        here = observation[5 : 5 + self.fields]
        return 1.0 - 0.07 * jnp.max(here * jnp.arange(self.fields))


def driven(problem: Problem) -> Route:
    """The farm, at another speed in each field."""
    return drive(problem, SlowerFieldByField(len(problem.world_spec.regions.names)))


def way_lengths(folder: Path) -> dict[str, float]:
    """Metres without work, from the yard and back to it, by the order of passes."""
    former = pond_farm(_new(folder / "former"), is_former=True).world_spec
    found = {}
    cell = former.units.cell or 1.0
    yard = former.regions.georeference.cells(degrees(np.array([YARD_M])))[0]  # type: ignore[union-attr]
    stand = float(yard[0]), float(yard[1])
    sides = cell_sides(former.regions, former.route)
    found["row by row over the whole map"] = cell * _row_by_row(former.path.cells, stand)
    whole = transits_of(former.regions, former.path, sides, stand)
    found["the nearest strip next (before)"] = cell * sum(each.length for each in whole)
    for name, angle in (
        ("field by field, west to east", 0.0),
        ("field by field, best angle", "best"),
    ):
        spec = pond_farm(_new(folder / name), angle=angle).world_spec
        found[name] = (spec.units.cell or 1.0) * spec.transit_length
    return found


def _row_by_row(cells: np.ndarray, stand: tuple[float, float]) -> float:
    """The straight ways between runs of cells, band after band with alternating direction."""
    at, length = np.array(stand), 0.0
    for number, row in enumerate(np.unique(cells[:, 0])):
        columns = np.sort(cells[cells[:, 0] == row, 1])
        runs = np.split(columns, np.flatnonzero(np.diff(columns) > 1) + 1)
        ends = [((row + 0.5, run[0]), (row + 0.5, run[-1] + 1.0)) for run in runs]
        for begin, end in ends if number % 2 == 0 else [each[::-1] for each in ends[::-1]]:
            length += float(np.hypot(*(np.array(begin) - at)))
            at = np.array(end)
    return length + float(np.hypot(*(np.array(stand) - at)))


def _new(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder


def promises(folder: Path) -> list[tuple[str, str, str, str]]:
    """What is promised, what the followed files do, and how far that is off."""
    problem = pond_farm(_new(folder / "kept"))
    route, spec, shapes = driven(problem), problem.world_spec, with_pond()
    fields = {name: shapes[name] for name in spec.regions.names}
    plan = json.loads(ROUTE_FORMATS["plan"].write(route, ExportOptions(autopilot="ardupilot")))
    seconds, metres = time_and_way(plan, plan["turn_seconds"])
    rows = [
        _row("seconds of the plan", plan["driving_seconds"], seconds),
        _row("metres of the plan", plan["driving_m"], metres),
    ]
    full = spec.vehicle.rate / (spec.units.step or 1.0)
    by_plan = given_by_plan(plan, Pump(full, least=100.0, speed_min=0.0), SPRAYER.boom, fields)
    path = folder / "map.geojson"
    path.write_bytes(ROUTE_FORMATS["prescription"].write(route, ExportOptions()))
    meta, _, zones, columns = pyogrio.raw.read(path)
    dose = dict(zip(meta["fields"], columns, strict=True))["dose"]
    by_map = given_by_map(plan, shapely.from_wkb(zones), dose, SPRAYER.boom, fields)
    for name, promised in route.totals.items():
        rows.append(_row(f"{name}, by the plan", promised, by_plan[name]))
        rows.append(_row(f"{name}, by the map of doses", promised, by_map[name]))
    pond = shapes["pond"]
    wet = sum(shapely.LineString(each.ends).intersection(pond).length
              for each in lines_of(plan) if each.is_on)  # fmt: skip
    rows.append(("degrees of working way in the pond", "0", f"{wet:g}", ""))
    return rows


def _row(name: str, promised: float, found: float) -> tuple[str, str, str, str]:
    return name, f"{promised:,.1f}", f"{found:,.1f}", f"{100.0 * (found / promised - 1.0):+.2f} %"


def report() -> str:
    """Both tables."""
    with tempfile.TemporaryDirectory() as place:
        lengths, kept = way_lengths(Path(place)), promises(Path(place))
    before = lengths["the nearest strip next (before)"]
    lines = ["| order of passes | way without work | against before |", "|---|---|---|"]
    lines += [f"| {name} | {metres:,.0f} m | {100.0 * (metres / before - 1.0):+.1f} % |"
              for name, metres in lengths.items()]  # fmt: skip
    lines += ["", "| | promised | followed | difference |", "|---|---|---|---|"]
    lines += [f"| {' | '.join(row)} |" for row in kept]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Print the tables, or write them to a file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    out, text = parser.parse_args().out, report()
    if out is None:
        print(text, end="")
    else:
        out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
