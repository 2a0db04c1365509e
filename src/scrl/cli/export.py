"""`scrl export`: the route or the policy of a run, as a file for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from scrl.cli.output import JsonFlag, console, print_json, warn, working


def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    format_name: Annotated[
        str,
        typer.Option(
            "--format",
            help="geojson, csv, regions, kml, plan (QGroundControl), prescription, shapefile, "
            "geotiff, onnx, stablehlo.",
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(help="File to write (default: in the run folder).")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Which seed of the run (default: its best).")
    ] = None,
    tolerance: Annotated[
        float,
        typer.Option(
            min=0.0, max=1.0,
            help="Steps whose speeds differ by less than this share of the top speed are merged; "
            "cells, by this share of the largest dose.",
        ),
    ] = 0.02,
    altitude: Annotated[
        float, typer.Option(help="Metres above the start (plan) or the ground (kml).")
    ] = 30.0,
    autopilot: Annotated[
        str, typer.Option(help="Whose commands a plan has for the pump: px4 or ardupilot.")
    ] = "px4",
    as_json: JsonFlag = False,
) -> None:  # fmt: skip
    """Write a route or a policy for other programs."""
    with working("driving ..."):
        from scrl.export import ExportOptions, find_format
        from scrl.export import export as write
        from scrl.export.frame import neat
        from scrl.opening import open_run

        known = find_format(format_name)
        options = ExportOptions(tolerance=tolerance, altitude=altitude, autopilot=autopilot)
        opened = open_run(run)
        chosen = opened.seed_result(seed).seed
        written = write(opened, format_name, out or run / known.file_name, options, seed=chosen)
        received, steps = opened.received(chosen)
    if as_json:
        print_json(
            {
                "run": str(run),
                "format": written.format,
                "seed": chosen,
                "files": [str(path) for path in written.paths],
                "coordinates": written.coordinates,
                "received": {name: neat(amount) for name, amount in received.items()},
                "unit": opened.problem.unit,
                "steps": steps,
                **written.totals,
                "warnings": list(written.warnings),
            }
        )
    else:
        for path in written.paths:
            console().print(f"wrote [bold]{escape(str(path))}[/bold]", soft_wrap=True)
        if written.coordinates:
            console().print(f"coordinates: {written.coordinates}", soft_wrap=True)
        if written.duration:
            console().print(f"driving time: {written.duration}", soft_wrap=True)
    warn(written.warnings)
