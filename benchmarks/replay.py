"""What plans promise and what lands on the ground, on maps with regions of every kind.

`python -m benchmarks.replay [--sets 5] [--seed 190] [--map FILE ...] [--out FILE]` draws five maps
(tiny, huge, overlapping and multi-part regions, outlines that ignore the grid), asks random rule
sets on them with poured service, and exports each plan. `benchmarks.on_ground` recomputes every
amount from the exported file and the polygons alone. It prints how far these amounts are from what
the plan claims, and by how much a rule called satisfied is missed; and the same for the cells in
place of the polygons, which leaves out what drawing them on a grid does. It ends with an error if
one of them is more than 1 % and more than two steps.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import shapely
from shapely import affinity
from shapely.geometry import MultiPoint, Point, box

from benchmarks.asking import rule_sets
from benchmarks.machine import described
from benchmarks.measured import write_rows
from benchmarks.on_ground import amounts
from scrl.export import export
from scrl.opening import open_run
from scrl.planning import planner
from scrl.problems import Problem, find_world
from scrl.violation import signed_violation

SIDE = 0.05
"""Degrees of latitude and longitude that a map covers, near the equator."""
SHARE, STEPS = 0.01, 2.0
"""What an amount may be off: the larger of this share and so many steps."""
Shapes = dict[str, Any]


def drawn() -> Iterator[tuple[str, Shapes]]:
    """Maps on the unit square, by the names of their regions."""
    whole = box(0.0, 0.0, 1.0, 1.0)

    def blob(x: float, y: float, wide: float, high: float, turned: float = 0.0) -> Any:
        return affinity.rotate(affinity.scale(Point(x, y).buffer(1.0, 16), wide, high), turned)

    tiny = {f"T{index}": blob(0.13 + 0.19 * index, 0.2 + 0.15 * index, 0.015, 0.015)
            for index in range(5)}  # fmt: skip
    yield (
        "huge and tiny",
        {
            "Huge": whole.buffer(-0.03).difference(
                shapely.union_all([*tiny.values()]).buffer(0.01)
            ),
            **tiny,
        },
    )
    yield "overlapping", {
        "North": blob(0.5, 0.68, 0.38, 0.2, 12), "South": blob(0.5, 0.32, 0.38, 0.2, -9),
        "East": blob(0.7, 0.5, 0.2, 0.4, 5), "West": blob(0.3, 0.5, 0.2, 0.4, -14),
        "Ring": blob(0.5, 0.5, 0.3, 0.3).difference(blob(0.52, 0.49, 0.17, 0.14, 30)),
    }  # fmt: skip
    rng = np.random.default_rng(7)
    isles = []
    for x, y, wide, high, turned in rng.uniform(size=(36, 5)):
        size = 0.015 + 0.055 * wide, 0.015 + 0.055 * high
        isles.append(blob(0.06 + 0.88 * x, 0.06 + 0.88 * y, *size, 180.0 * turned))
    yield (
        "islands",
        {f"Group {index + 1}": shapely.union_all(isles[index::4]) for index in range(4)},
    )
    cells = shapely.voronoi_polygons(MultiPoint(rng.uniform(0, 1, (14, 2))), extend_to=whole)
    yield (
        "counties",
        {
            **{f"C{index + 1}": cell.intersection(whole) for index, cell in enumerate(cells.geoms)},
            "District": blob(0.61, 0.43, 0.021, 0.019, 20),
        },
    )
    yield "strips", {
        **{f"Strip {index + 1}": affinity.rotate(
            box(-0.2, 0.15 + 0.25 * index, 1.2, 0.19 + 0.25 * index), 8.0 + 11.0 * index
        ).intersection(whole) for index in range(4)},
        "Plain": whole.difference(blob(0.4, 0.6, 0.25, 0.12, 40)),
    }  # fmt: skip


def write_map(path: Path, shapes: Shapes) -> None:
    """GeoJSON in degrees."""
    features = [
        {"type": "Feature", "properties": {"name": name},
         "geometry": shapely.geometry.mapping(affinity.scale(shape, SIDE, SIDE, origin=(0, 0)))}
        for name, shape in shapes.items()
    ]  # fmt: skip
    document = {"type": "FeatureCollection", "features": features}
    path.write_text(json.dumps(document), encoding="utf-8")


def measure(name: str, map_file: Path, sets: int, seed: int) -> Iterator[dict[str, Any]]:
    """Ask, export and recompute on one map."""
    world, asking = find_world(map_file), planner()
    rate, cells = world.world_spec.vehicle.rate, len(world.world_spec.path.cells)
    for rules in rule_sets(world, sets, seed):
        answer = asking.ask(world, rules)
        claimed = answer.evaluation.density
        with tempfile.TemporaryDirectory() as folder:
            run = open_run(asking.keep(answer, Path(folder) / "run"))
            route = Path(folder) / "route.geojson"
            export(run, "geojson", route)
            found = amounts(route, map_file, rate)
            in_cells = amounts(route, map_file, rate, world.world_spec.regions.shape)
        off, missed = _off(answer.problem, claimed, found)
        yield {
            "map": name, "cells": cells, "rules": rules, "status": answer.status,
            "gap_to_fluid": answer.gap_to_fluid, "seconds": answer.wall_s,
            "claimed_and_found": {each: [round(amount[each], 2) for amount in (claimed, found)]
                                  for each in claimed},
            "off": max(off.values()), "missed": missed,
            "off_in_cells": max(_off(answer.problem, claimed, in_cells)[0].values()),
        }  # fmt: skip


def _off(
    problem: Problem, claimed: dict[str, float], found: dict[str, float]
) -> tuple[dict[str, float], float]:
    """How far off each amount is, and by how much the rules are missed: 1 is what is allowed."""
    rate = problem.world_spec.vehicle.rate
    allowed = {each: max(SHARE * amount, STEPS * rate) for each, amount in claimed.items()}
    off = {each: abs(found[each] - claimed[each]) / allowed[each] for each in claimed}
    table = problem.atoms
    density = np.array([found[each] for each in claimed])
    side = np.abs(table.coefficients) @ np.array(list(claimed.values()))
    room = np.maximum(SHARE * side, STEPS * rate * np.abs(table.coefficients).max(axis=1))
    signed = signed_violation(table.coefficients, table.bounds, density) / room
    missed = max(float(signed[atoms[atoms >= 0]].min()) for atoms in table.listed)
    return off, max(missed, 0.0)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--sets", type=int, default=5)
    parser.add_argument("--seed", type=int, default=190)
    parser.add_argument("--map", type=Path, nargs="*", default=[])
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    rows: list[dict[str, Any]] = []
    print("| map | cells | sets | satisfied | farthest amount | most missed | farthest, in cells "
          "| mean to fluid | worst |\n" + "|---" * 9 + "|")  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        maps = [(each.stem, each) for each in chosen.map]
        for name, shapes in drawn():
            maps.append((name, Path(folder) / f"{name.replace(' ', '-')}.geojson"))
            write_map(maps[-1][1], shapes)
        for number, (name, map_file) in enumerate(maps):
            rows += measure(name, map_file, chosen.sets, chosen.seed + number)
            write_rows(chosen.out, rows)
            print(row_of(name, rows[-chosen.sets :]), flush=True)
    print(row_of("all", rows))
    print(
        "\nAmounts and what rules are missed by: 1 is the larger of 1 % and two steps.", described()
    )
    wrong = [row for row in rows if max(row["off"], row["missed"]) > 1.0 and _is_kept(row)]
    if wrong:
        raise SystemExit("\n".join(["not as promised:", *map(str, wrong)]))


def _is_kept(row: dict[str, Any]) -> bool:
    return row["status"] == "satisfied"


def row_of(name: str, rows: list[dict[str, Any]]) -> str:
    """One line of the table, of the plans called satisfied."""
    kept = [row for row in rows if _is_kept(row)]
    gaps = [row["gap_to_fluid"] for row in kept if row["gap_to_fluid"] is not None]
    cells = [
        name, rows[0]["cells"], len(rows), len(kept),
        *(f"{max((row[each] for row in kept), default=0):.2f}"
          for each in ("off", "missed", "off_in_cells")),
        *([f"{np.mean(gaps):.2%}", f"{max(gaps):.2%}"] if gaps else ["", ""]),
    ]  # fmt: skip
    return "| " + " | ".join(map(str, cells)) + " |"


if __name__ == "__main__":
    main()
