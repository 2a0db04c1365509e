"""`scrl new`: writes a commented problem file."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from typer.core import TyperCommand

from scrl.cli.output import CrsOption, JsonFlag, StrictFlag, command_line, console, print_json, warn
from scrl.errors import ScrlError, set_by

if TYPE_CHECKING:
    from scrl.problems.templates import Machine
    from scrl.worlds.sweep.regions import RegionMap
    from scrl.worlds.sweep.spec import SweepSpec

NEARLY_SQUARE = 1.05
_GRID = re.compile(r"\s*(\d{1,9})\s*[x×X*,;: ]\s*(\d{1,9})\s*")


def new(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new folder for the problem.")],
    map_path: Annotated[
        Path | None, typer.Option("--map", help="Your map: GeoJSON, PNG, TIFF or .npy.")
    ] = None,
    grid: Annotated[
        str | None,
        typer.Option(metavar="ROWS COLUMNS", help="Of the grid: 67 92, 67x92 or 67,92."),
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
    boom: Annotated[
        float | None, typer.Option(help="Width of what one pass covers, in metres.")
    ] = None,
    speed: Annotated[float | None, typer.Option(help="Top speed, in km/h.")] = None,
    flow: Annotated[
        tuple[float, float] | None,
        typer.Option(help="Least and most that the pump gives, in units a minute: --flow 0 60."),
    ] = None,
    dose: Annotated[
        tuple[float, float] | None,
        typer.Option(help="Least and most for any place, in units per hectare: --dose 0 250."),
    ] = None,
    unit: Annotated[str, typer.Option(help="Name of one unit of what is given out.")] = "litres",
    unit_cost: Annotated[
        float | None, typer.Option(help="Money for one unit of what is given out.")
    ] = None,
    hour_cost: Annotated[float | None, typer.Option(help="Money for an hour of driving.")] = None,
    currency: Annotated[str, typer.Option(help="Name of the money.")] = "EUR",
    turn_time: Annotated[
        float | None,
        typer.Option(help="With a machine: seconds that a turn into another pass takes (10)."),
    ] = None,
    transfer_speed: Annotated[
        float | None,
        typer.Option(help="With a machine: km/h between passes; default the top speed."),
    ] = None,
    angle: Annotated[
        str | None,
        typer.Option(help="Degrees from east to north in which passes run, or 'best'."),
    ] = None,
    forbidden: Annotated[
        list[str] | None, typer.Option(help="Shape that must not be entered; may be repeated.")
    ] = None,
    forbidden_buffer: Annotated[
        float | None, typer.Option(help="Metres around forbidden shapes that are not entered.")
    ] = None,
    crs: CrsOption = None,
    strict: StrictFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Write a commented problem file, with a map, to start from.

    In a terminal it asks for the machine, unless options are given.
    """
    from scrl.problems import start_problem
    from scrl.problems.templates import Machine

    given = {
        "grid": None if grid is None else _rows_and_columns(grid),
        "coordinates": coordinates,
        "region_property": region_property,
        "field": field,
        "crs": crs,
        "angle": None if angle is None else _degrees(angle),
        "forbidden": None if not forbidden else tuple(forbidden),
        "forbidden_buffer": forbidden_buffer,
        "strict": strict or None,
    }
    chosen = {key: value for key, value in given.items() if value is not None}
    machine = None
    if boom is not None and speed is not None:
        machine = Machine(
            boom, speed, flow, dose, unit, unit_cost=unit_cost, hour_cost=hour_cost,
            currency=currency, turn=10.0 if turn_time is None else turn_time,
            transfer=transfer_speed,
        )  # fmt: skip
    elif any(
        each is not None
        for each in (boom, speed, flow, dose, unit_cost, hour_cost, turn_time, transfer_speed)
    ):
        raise ScrlError("a machine has a boom and a speed: --boom METRES --speed KM/H")
    elif not chosen and not as_json and sys.stdin.isatty():
        try:
            machine = _asked(unit, currency)
        except typer.Abort:
            raise KeyboardInterrupt from None  # as everywhere else
    with set_by(lambda key, value: f"add --{key} {value}"):
        problem = start_problem(folder, map_path, machine, **chosen)
    path = folder / "problem.toml"
    names, warnings = problem.world_spec.regions.names, problem.world_spec.regions.warnings
    warn(warnings)
    if as_json:
        print_json({"problem": str(path), "regions": list(names), "warnings": list(warnings)})
        return
    out = console()
    out.print(f"wrote [bold]{escape(str(path))}[/bold] with {len(names)} regions", soft_wrap=True)
    conversion = [] if machine is None else _conversion(problem.world_spec, machine)
    for line in [*_cell_lines(problem.world_spec.regions), *conversion]:
        out.print(escape(line), soft_wrap=True)
    then = command_line("check", path)
    out.print(f"next: edit its rules, then  {then}", soft_wrap=True, markup=False)


def _asked(unit: str, currency: str) -> Machine | None:
    """The machine, asked for in a terminal; none where the vehicle of the paper will do."""
    from scrl.problems.templates import Machine

    def number(text: str, default: float) -> float:
        return typer.prompt(text, default=default, type=float, err=True)

    if not typer.confirm("Describe your machine (boom, speed, pump)?", default=True, err=True):
        return None
    boom, speed = number("Boom width, in metres", 24.0), number("Top speed, in km/h", 12.0)
    flow = number(f"Most that the pump gives, in {unit} a minute", 90.0)
    dose = number(f"Most for any place, in {unit} per hectare", 250.0)
    unit_cost = number(f"Cost of one of the {unit}, in {currency}", 1.5)
    hour_cost = number(f"Cost of an hour of driving, in {currency}", 40.0)
    return Machine(boom, speed, (0.0, flow), (0.0, dose), unit, unit_cost, hour_cost, currency)


class GridCommand(TyperCommand):
    """Takes the two words of `--grid 67 92` as one, as in `--grid 67x92`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Join the two words, then parse as usual."""
        for place, word in enumerate(args[:-2]):
            if word == "--grid" and all(each.isdigit() for each in args[place + 1 : place + 3]):
                args = [
                    *args[: place + 1],
                    "x".join(args[place + 1 : place + 3]),
                    *args[place + 3 :],
                ]
                break
        return super().parse_args(ctx, args)


def _degrees(text: str) -> float | str:
    try:
        return text if text == "best" else float(text)
    except ValueError:
        raise ScrlError(f"--angle {text}: it takes degrees, as --angle 30, or 'best'") from None


def _rows_and_columns(text: str) -> tuple[int, int]:
    found = _GRID.fullmatch(text)
    if found is None:
        raise ScrlError(
            f"--grid {text}: it takes two whole numbers, rows and columns: "
            "--grid 67 92, --grid 67x92 or --grid 67,92"
        )
    return int(found[1]), int(found[2])


def _conversion(spec: SweepSpec, machine: Machine) -> list[str]:
    """What the machine is in cells and steps."""
    vehicle, units = spec.vehicle, spec.units
    lines = [
        f"the boom covers {_cells(spec.route.swath)}; a step is {units.step:.3g} s",
        f"{machine.speed:g} km/h are {vehicle.max_speed:.3g} cells a step",
    ]
    if machine.flow is not None:
        most = machine.flow[1]
        lines.append(f"{most:g} {units.unit} a minute are {vehicle.rate:.3g} a step")
    if machine.dose is not None:
        most, of_cell = machine.dose[1], vehicle.dose_limits[1]
        lines.append(f"{most:g} {units.unit} per hectare are {of_cell:.3g} a cell of the path")
    if machine.flow is not None:
        lines.append(f"one of the {units.unit} costs {vehicle.product_cost:g} of the return")
    return lines


def _cells(count: int) -> str:
    return "1 cell" if count == 1 else f"{count} cells"


def _cell_lines(regions: RegionMap) -> list[str]:
    """The size of a cell on the ground, and a grid of square cells if these are not square."""
    sizes = regions.georeference.cell_size_metres() if regions.georeference else None
    if sizes is None:
        return []
    (east, north), (rows, columns) = sizes, regions.shape
    lines = [f"a cell is {east:,.1f} m wide and {north:,.1f} m high"]
    if max(east / north, north / east) > NEARLY_SQUARE:
        # A coarser grid could lose regions, so the longer side of the cells is divided.
        square = (rows, round(columns * east / north))
        if north > east:
            square = (round(rows * north / east), columns)
        lines.append(
            f"speeds count cells, so square ones are better: --grid {square[0]} {square[1]}"
        )
    return lines
