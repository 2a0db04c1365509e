"""`scrl new`: a commented problem file to start from, for any map."""

from __future__ import annotations

import dataclasses
import math
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from scrl.errors import ProblemError
from scrl.files import replacing
from scrl.problems.load import (
    BUILTIN_FOLDER,
    at_best_angle,
    load_file,
    whole_swaths,
    with_long_horizon,
)
from scrl.problems.problem import Problem, ProblemOptions
from scrl.problems.quantities import scale_of, told_as_written, toml_value
from scrl.problems.save import changed_fields, copy, value_text
from scrl.rules.show import show_region
from scrl.settings import Setting, settings_of
from scrl.worlds.sweep.georeference import Georeference
from scrl.worlds.sweep.maps import MapOptions, load_map
from scrl.worlds.sweep.spec import SweepRoute, SweepSpec, cell_on_map
from scrl.worlds.sweep.vehicle import Units, Vehicle, Wind

SAMPLE_MAP = BUILTIN_FOLDER / "agri.geojson"
SAMPLE_OPTIONS = MapOptions(coordinates="plain", extent=(0.0, 0.0, 50.0, 50.0))


@dataclasses.dataclass(frozen=True)
class Machine:
    """A machine in the units that people use, from which cells and steps follow."""

    boom: float
    """Width of what one pass covers, in metres."""
    speed: float
    """Top speed, in km/h."""
    flow: tuple[float, float] | None = None
    """Least and most that the pump gives, in units a minute."""
    dose: tuple[float, float] | None = None
    """Least and most for any place, in units per hectare."""
    unit: str = "litres"
    unit_cost: float | None = None
    """Money for one unit."""
    hour_cost: float | None = None
    """Money for an hour of driving."""
    currency: str = "EUR"
    turn: float | None = 10.0
    """Seconds that a turn into another pass takes; none: ways between passes are free."""
    transfer: float | None = None
    """Speed between passes, in km/h; none: the top speed."""

    def __post_init__(self) -> None:
        for name, cost in (("a unit", self.unit_cost), ("an hour", self.hour_cost)):
            if cost is not None and not 0.0 <= cost <= 1e9:
                raise ProblemError(f"the cost of {name} is a number from 0 on, and not {cost:g}")
        if not (0.0 <= (self.turn or 0.0) <= 1e4 and 0.0 < (self.transfer or 1.0) <= 1e4):
            raise ProblemError("a turn takes from 0 to 10000 s, and transfers up to 10000 km/h")
        if not (0.0 < self.boom <= 1e4 and 0.0 < self.speed <= 1e4):
            raise ProblemError("a boom (metres) and a speed (km/h) are above 0 and at most 10000")
        if self.dose is not None and self.flow is None:
            raise ProblemError("a dose needs a flow that can be chosen: give that, too")

    @property
    def has_no_costs(self) -> bool:
        return self.unit_cost is None and self.hour_cost is None

    def product_cost(self, spec: SweepSpec) -> float:
        """Cost of a unit in return: by its price, where an hour has one too.

        Otherwise product would be free: at full flow it costs as much as the time at top speed.
        """
        step = spec.vehicle.effort / (1.0 + spec.vehicle.max_speed)
        units = 1.0 / spec.vehicle.rate
        if self.hour_cost and self.unit_cost is not None:
            units = self.unit_cost / (self.hour_cost * (spec.units.step or 0.0) / 3600.0)
        return float(f"{step * units:.2g}")

    def vehicle(self) -> dict[str, Any]:
        """The keys of [vehicle]."""
        found: dict[str, Any] = {"max_speed": f"{self.speed:g} km/h"}
        if self.turn is not None:
            found["transfer_speed"] = f"{self.transfer or self.speed:g} km/h"
            found["turn_time"] = f"{self.turn:g} s"
        if self.flow is not None:
            found["flow"] = tuple(f"{each:g} {self.unit}/min" for each in self.flow)
        if self.dose is not None:
            found["pump"] = "proportional"
            found["dose"] = tuple(f"{each:g} {self.unit}/ha" for each in self.dose)
        return found

    def world(self, source: Path, options: MapOptions) -> tuple[MapOptions, SweepSpec]:
        """The map on cells that fit the boom, and how long cells and steps are.

        On a map with polygons the boom covers three cells, or one where there would be too many;
        other maps have cells already, each as wide as the boom. A step is as long as
        the top speed takes for a cell.
        """
        regions, across, angle = load_map(source, replace(options, angle=0.0)), 1, options.angle
        where = regions.georeference
        if where is not None and regions.outlines is not None and options.grid is None:
            across, options = self._fitted(where, options, 3)
        is_measured = where is not None and where.cell_size_metres() is not None
        cell = self.boom / across
        units = Units(
            cell=None if is_measured else cell,
            step=float(f"{cell / (self.speed / 3.6):.6g}"),
            unit=self.unit,
            hour_cost=self.hour_cost,
            unit_cost=self.unit_cost,
            currency=Units.currency if self.has_no_costs else self.currency,
        )
        route = SweepRoute(swath=across)

        def spec_of(options: MapOptions) -> SweepSpec:
            regions = load_map(source, options, whole=whole_swaths(route))
            on_ground = replace(units, cell=cell_on_map(regions, route) or cell)
            values = {key: toml_value(each) for key, each in self.vehicle().items()}
            with told_as_written(values):
                vehicle = Vehicle(**scale_of(regions, route, on_ground).read(values))
            return SweepSpec(regions, vehicle, route=route, units=units)

        options = at_best_angle(replace(options, angle=angle), spec_of)
        return options, spec_of(options)

    def _fitted(
        self, where: Georeference, options: MapOptions, across: int
    ) -> tuple[int, MapOptions]:
        """Cells across the boom, and a grid of them; plain coordinates are metres."""
        east, north = where.cell_size_metres() or (where.cell_width, where.cell_height)
        cell = self.boom / across
        width, height = where.cell_width * cell / east, where.cell_height * cell / north
        left, bottom, right, top = where.extent
        # Whole booms: a narrower last pass would give its cells more.
        rows = across * math.ceil((top - bottom) / (across * height))
        columns = math.ceil((right - left) / width)
        if across > 1 and rows * columns > MOST_CHOSEN:
            return self._fitted(where, options, 1)
        extent = (left, top - rows * height, left + columns * width, top)
        return across, replace(options, grid=(rows, columns), extent=extent)


MOST_CHOSEN = 40_000
"""Most cells of a grid that is chosen for a boom."""


def start_problem(
    folder: Path, map_path: Path | None = None, machine: Machine | None = None, **options: Any
) -> Problem:
    """Copy the map into a new folder, write `problem.toml` beside it, and read it back.

    Without a map of the user's own, a copy of the Agri map is taken; options are `MapOptions`.
    """
    folder = Path(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ProblemError(f"{folder} exists already and is not an empty folder; name a new one")
    source = map_path or SAMPLE_MAP
    chosen = replace(MapOptions() if map_path else SAMPLE_OPTIONS, **options)
    if machine is None:
        spec = SweepSpec(load_map(source, chosen))
    else:
        chosen, spec = machine.world(source, chosen)
    spec = with_long_horizon(spec)
    text = problem_text(folder.name, source.name, spec, chosen, machine)
    path = folder / "problem.toml"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        copy(source, folder / source.name)
        with replacing(path) as file:
            file.write(text.encode())
    except OSError:  # so that the same command can be run again
        shutil.rmtree(folder, ignore_errors=True)
        raise
    problem = load_file(path)
    # A grid that was chosen is given in the file; the warning about the choice is kept.
    regions = replace(problem.world_spec.regions, warnings=spec.regions.warnings)
    world_spec = replace(problem.world_spec, regions=regions)
    return replace(problem, world_spec=world_spec)


def problem_text(
    name: str,
    map_name: str,
    spec: SweepSpec,
    options: MapOptions,
    machine: Machine | None = None,
) -> str:
    """The commented file: every setting with its meaning, its unit and its default."""
    of_vehicle = {} if machine is None else machine.vehicle()
    if machine is not None and machine.flow is not None:
        of_vehicle["product_cost"] = machine.product_cost(spec)
    blocks = [
        "# A problem for scrl. Lines that are commented out show the defaults.\n"
        "# Check it with `scrl check problem.toml`, try it with "
        "`scrl eval problem.toml --policy full-speed`.",
        _table("problem", ProblemOptions(name=name), shown={"name"}),
        _world_table(map_name, spec, options),
        "\n".join(["[vehicle]", *_lines(Vehicle(), given=of_vehicle)]),
        _table("wind", Wind()),
        _KEEP_OUT,
        _rules_table(spec)
        if machine is None or machine.dose is None
        else _dose_rules(spec, machine.dose),
    ]
    return "\n\n".join(blocks) + "\n"


def _table(name: str, values: Any, shown: frozenset[str] | set[str] = frozenset()) -> str:
    return "\n".join([f"[{name}]", *_lines(values, shown)])


def _lines(
    values: Any,
    shown: frozenset[str] | set[str] = frozenset(),
    given: Mapping[str, Any] = MappingProxyType({}),
) -> list[str]:
    """One commented line per setting; those in `shown` and what is given instead are not."""
    lines = []
    for field, known in settings_of(values):
        value = given.get(field.name, getattr(values, field.name))
        text = _PLACEHOLDERS[field.name] if value is None else value_text(value)
        head = "" if field.name in shown or field.name in given else "# "
        lines.append(f"{head}{field.name} = {text}  # {_comment(known)}")
    return lines


def _comment(known: Setting) -> str:
    extra = "; ".join(part for part in (known.unit, " | ".join(known.choices)) if part)
    return f"{known.sentence}{f' [{extra}]' if extra else ''}"


_PLACEHOLDERS = {
    "transfer_speed": "3.0", "turn_time": "1.0", "cell": "10.0", "step": "1.0",
    "confidence": "0.95", "flow": "[0.0, 2.25]", "dose": "[0.0, 1.5]", "hour_cost": "40.0",
    "unit_cost": "1.5",
}  # fmt: skip


def _world_table(map_name: str, spec: SweepSpec, options: MapOptions) -> str:
    # At an angle the grid of the file is that before the map is turned.
    grid = options.grid if options.angle else spec.regions.shape
    changed = changed_fields(replace(options, grid=grid), MapOptions())
    lines = [
        "[world]",
        'kind = "sweep"',
        f"map = {value_text(map_name)}  # in this folder: GeoJSON, PNG, TIFF, or .npy",
        *(f"{key} = {value_text(value)}{_MAP_COMMENTS.get(key, '')}" for key, value in changed),
        *(f"# {line}" for line in _MAP_HINTS if line.split(" =")[0] not in dict(changed)),
        *_lines(
            spec.route,
            shown={"service", *(key for key, _ in changed_fields(spec.route, SweepRoute()))},
        ),
        *_lines(spec.units, shown={key for key, _ in changed_fields(spec.units, Units())}),
    ]
    return "\n".join(lines)


_KEEP_OUT = """\
# Nothing may be given in these regions, nor so near to them (metres); it needs a flow from 0 on.
# [keep_out]
# distance = 12.0
# around = ["river"]"""
_MAP_COMMENTS = {"grid": "  # rows, columns"}
_MAP_HINTS = (
    'coordinates = "geographic"  # or "plain": GeoJSON coordinates that are not degrees',
    'crs = "EPSG:27700"  # coordinate system of a GeoJSON map that is not in degrees',
    'region_property = "name"  # GeoJSON property that names a region',
    'field = "boundary"  # shape that outlines the field; "*": nothing outside the regions',
    'forbidden = ["pond"]  # shapes that must not be entered',
    "forbidden_buffer = 5.0  # metres around them that must not be entered either",
    'angle = 30.0  # degrees from east to north in which the passes run; or "best"',
    "strict = true  # refuse a GeoJSON map with faults; otherwise it is repaired, with warnings",
)


def _dose_rules(spec: SweepSpec, dose: tuple[float, float]) -> str:
    """Example rules on doses, for the user to edit."""
    names = [show_region(name) for name in spec.regions.names]
    least = (dose[0] + dose[1]) / 2
    lines = [
        "[rules]",
        f"# One rule a line: a name of your own, and what must hold. Doses are in "
        f"{spec.units.unit} per hectare. The regions of this map:",
        *(f"#   {name}" for name in names),
        f"enough = {value_text(f'dose({names[0]}) >= {least:g}')}",
    ]
    if len(names) > 1:
        text = f"if dose({names[0]}) > {1.1 * least:g} then dose({names[1]}) >= {least:g}"
        lines.append(f"situational = {value_text(text)}")
    return "\n".join(lines)


def _rules_table(spec: SweepSpec) -> str:
    """Example rules with bounds a little above the amounts at full speed, for the user to edit."""
    names = [show_region(name) for name in spec.regions.names]
    per_cell = spec.vehicle.rate / spec.vehicle.max_speed
    received = [float(f"{length * per_cell:.3g}") for length in spec.service.lengths.tolist()]
    about = [
        f"#   {name}: {size} cells, about {amount:g} at full speed"
        for name, size, amount in zip(names, spec.regions.sizes, received, strict=True)
    ]
    more = float(f"{received[0] * 1.2:.3g}")
    lines = [
        "[rules]",
        "# One rule a line: a name of your own, and what must hold. The regions of this map:",
        *about,
        f"adequacy = {value_text(f'{names[0]} >= {more:g}')}",
    ]
    if len(names) > 1:
        high = float(f"{received[1] * 1.2:.3g}")
        text = f"if {names[0]} > {more * 1.1:g} then {names[1]} >= {high:g}"
        lines.append(f"situational = {value_text(text)}")
    return "\n".join(lines)
