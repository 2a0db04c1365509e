"""`scrl new`: a problem to start from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from scrl.cli.output import JsonFlag, console, print_json


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
    as_json: JsonFlag = False,
) -> None:
    """Write a commented problem file, with a map, to start from."""
    from scrl.problems import start_problem

    given = {"grid": grid, "coordinates": coordinates, "region_property": region_property}
    chosen = {key: value for key, value in given.items() if value is not None}
    problem = start_problem(folder, map_path, **chosen)
    path = folder / "problem.toml"
    names = problem.world_spec.regions.names
    if as_json:
        print_json({"problem": str(path), "regions": list(names)})
        return
    out = console()
    out.print(f"wrote [bold]{escape(str(path))}[/bold] with {len(names)} regions", soft_wrap=True)
    out.print(f"next: edit its rules, then  scrl check {escape(str(path))}", soft_wrap=True)
