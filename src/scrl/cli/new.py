"""`scrl new`: a problem to start from."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from scrl.cli.output import JsonFlag, StrictFlag, console, print_json, warn

if TYPE_CHECKING:
    from scrl.worlds.regions import RegionMap

NEARLY_SQUARE = 1.05


def new(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new folder for the problem.")],
    map_path: Annotated[
        Path | None, typer.Option("--map", help="Your map: GeoJSON, PNG, TIFF or .npy.")
    ] = None,
    grid: Annotated[
        tuple[int, int] | None, typer.Option(help="Rows and columns of the grid.")
    ] = None,
    coordinates: Annotated[
        str | None, typer.Option(help="geographic (longitude, latitude) or plain.")
    ] = None,
    region_property: Annotated[
        str | None, typer.Option(help="GeoJSON property that names a region.")
    ] = None,
    field: Annotated[
        str | None,
        typer.Option(help="Shape that outlines the field; '*': nothing outside the regions."),
    ] = None,
    strict: StrictFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Write a commented problem file, with a map, to start from."""
    from scrl.problems import start_problem

    given = {
        "grid": grid,
        "coordinates": coordinates,
        "region_property": region_property,
        "field": field,
        "strict": strict or None,
    }
    chosen = {key: value for key, value in given.items() if value is not None}
    problem = start_problem(folder, map_path, **chosen)
    path = folder / "problem.toml"
    names, warnings = problem.world_spec.regions.names, problem.world_spec.regions.warnings
    warn(warnings)
    if as_json:
        print_json({"problem": str(path), "regions": list(names), "warnings": list(warnings)})
        return
    out = console()
    out.print(f"wrote [bold]{escape(str(path))}[/bold] with {len(names)} regions", soft_wrap=True)
    for line in _cell_lines(problem.world_spec.regions):
        out.print(line, soft_wrap=True)
    out.print(f"next: edit its rules, then  scrl check {escape(str(path))}", soft_wrap=True)


def _cell_lines(regions: RegionMap) -> list[str]:
    """How large a cell is on the ground, and a grid of square ones, if they are not nearly so."""
    sizes = regions.georeference.cell_size_metres() if regions.georeference else None
    if sizes is None:
        return []
    (east, north), (rows, columns) = sizes, regions.shape
    lines = [f"a cell is {east:,.1f} m wide and {north:,.1f} m high"]
    if max(east / north, north / east) > NEARLY_SQUARE:
        # A coarser side would lose regions, so the longer side of the cells is cut.
        square = (rows, round(columns * east / north))
        if north > east:
            square = (round(rows * north / east), columns)
        lines.append(
            f"speeds count cells, so square ones are better: --grid {square[0]} {square[1]}"
        )
    return lines
