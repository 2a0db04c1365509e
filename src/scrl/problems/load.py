"""Loads problem files; every error message names the file, the table and the key."""

from __future__ import annotations

import dataclasses
import math
import re
import shlex
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from scrl.errors import ProblemError, ScrlError, check_texts, did_you_mean, set_by
from scrl.problems.problem import MapSource, Problem, ProblemOptions
from scrl.problems.quantities import scale_of, told_as_written
from scrl.worlds.sweep.keep_out import KeepOut, with_buffer
from scrl.worlds.sweep.maps import BEST, MapOptions, is_map_name, load_map
from scrl.worlds.sweep.regions import RegionMap, located
from scrl.worlds.sweep.spec import SweepRoute, SweepSpec, cell_on_map, cell_sides
from scrl.worlds.sweep.vehicle import Units, Vehicle, Wind

BUILTIN_FOLDER = Path(__file__).parent / "builtin"
LARGEST_FILE_BYTES = 2_000_000
MOST_KEY_PARTS = 8
"""Dotted keys with more parts are refused: parsing one takes quadratic time."""
_NO_KEY = re.compile(
    r'"""(?:[^"\\]|\\.|"(?!""))*"""|\'\'\'.*?\'\'\'|"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'|#[^\n]*',
    re.DOTALL,
)
"""Matches quoted texts and comments, which hold no keys."""
_LONG_KEY = re.compile(rf"(?<![\w-])(?:[\w-]+[ \t]*\.[ \t]*){{{MOST_KEY_PARTS},}}")
TABLES = ("problem", "world", "vehicle", "wind", "keep_out", "rules")
WORLD_KEYS = ("kind", "map")

T = TypeVar("T")


def builtin_names() -> list[str]:
    """The built-in problems, in the order of the paper."""
    return sorted((path.stem for path in BUILTIN_FOLDER.glob("*.toml")), key=_paper_order)


def _paper_order(name: str) -> tuple[str, int]:
    world, _, task = name.partition("-")
    return world, ["situational", "priority", "joint", "multi"].index(task)


def load(name: str | Path, *, strict: bool = False, crs: str | None = None) -> Problem:
    """A built-in problem or world (`agri`, `med`), a problem file, or a map.

    A map gets the default vehicle, and neither it nor a built-in world has rules. `strict` refuses
    a map with faults, as the key of that name in a problem file does; `crs` is the coordinate
    system of a map.
    """
    if isinstance(name, str) and name in builtin_names():
        return load_file(BUILTIN_FOLDER / f"{name}.toml")
    if isinstance(name, str) and name in builtin_worlds():
        return _builtin_world(name)
    path = Path(name)
    if is_map_name(path) and (path.is_file() or path.is_symlink()):
        return _bare_map(path, strict=strict, crs=crs)
    if crs is not None:
        raise ProblemError(f"{name}: crs is for maps; in a problem file, write it in [world]")
    if path.is_dir():
        path = path / "problem.toml"
        if not path.is_file():
            raise ProblemError(f"{name}: this folder holds no problem.toml; name the problem file")
    if not path.is_file():
        hint = did_you_mean(str(name), [*builtin_names(), *builtin_worlds()])
        raise ProblemError(
            f"{name}: no such problem file or map, and nothing built in has that name{hint}"
        )
    return load_file(path, strict=strict)


find_world = load
"""Whatever `load` accepts can serve as a world for other rules."""


def _builtin_world(name: str) -> Problem:
    problem = load(next(each for each in builtin_names() if each.startswith(f"{name}-")))
    bare = Problem.create(problem.world_spec, (), ProblemOptions(name=name))
    return dataclasses.replace(bare, source=problem.source)


def _bare_map(path: Path, *, strict: bool, crs: str | None) -> Problem:
    def way(key: str, value: str) -> str:
        command = shlex.join(["scrl", "new", "DIR", "--map", str(path), f"--{key}", value])
        return f"make a problem of it with `{command}`"

    source = MapSource(path, MapOptions(strict=strict, crs=crs))
    with set_by(way):
        regions = load_map(path, source.options)
    units = _with_map_scale(Units(), regions, SweepRoute())
    spec = with_long_horizon(SweepSpec(regions, units=units))
    bare = Problem.create(spec, (), ProblemOptions(name=path.stem))
    return dataclasses.replace(bare, source=source)


def builtin_worlds() -> list[str]:
    """The maps that come with the package."""
    return sorted(path.stem for path in BUILTIN_FOLDER.glob("*.geojson"))


def with_long_horizon(spec: SweepSpec) -> SweepSpec:
    """The world with a horizon of at least six times the steps at full speed."""
    needed = math.ceil(6 * len(spec.path.cells) / spec.vehicle.max_speed)
    steps = max(spec.route.horizon_steps, min(needed, 10_000_000))
    return dataclasses.replace(spec, route=dataclasses.replace(spec.route, horizon_steps=steps))


def load_file(path: Path, *, strict: bool = False) -> Problem:
    """Read and check one problem file; `strict` refuses a map with faults.

    The problem of a run that does not say its service is older than poured service.
    """
    tables = read_toml(path)
    is_of_run = path.with_name("run.json").is_file()
    if is_of_run and isinstance(world := tables.get("world"), dict):
        world.setdefault("service", "landing")
    try:
        return _problem(tables, path, strict=strict)
    except ScrlError as error:
        raise ProblemError(f"{path}: {error}") from None


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a TOML file; raises ProblemError if it cannot be read."""
    try:
        if path.stat().st_size > LARGEST_FILE_BYTES:
            raise ProblemError(f"{path}: larger than {LARGEST_FILE_BYTES:,} bytes")
        text = path.read_text(encoding="utf-8")
        _check_keys(path, text)
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ProblemError(f"{path}: not a TOML file: {error}") from None
    except UnicodeDecodeError as error:
        raise ProblemError(f"{path}: not a text file (byte {error.start} is not UTF-8)") from None
    except RecursionError:
        raise ProblemError(f"{path}: nested too deeply") from None
    except OSError as error:
        raise ProblemError(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError as error:  # tomllib lets the errors of int() and datetime through
        raise ProblemError(f"{path}: not a TOML file: {error}") from None
    check_texts(tables, str(path), error=ProblemError)
    return tables


def _check_keys(path: Path, text: str) -> None:
    """Raise where a dotted key has more parts than any problem file needs."""
    bare = _NO_KEY.sub(lambda found: "q" + "\n" * found[0].count("\n"), text)
    if (found := _LONG_KEY.search(bare)) is not None:
        line = bare.count("\n", 0, found.start()) + 1
        raise ProblemError(
            f"{path}: line {line}: a key of more than {MOST_KEY_PARTS} parts; problem files have "
            "tables with keys, as in [world] and map"
        )


def _problem(tables: dict[str, Any], path: Path, *, strict: bool) -> Problem:
    for key in tables:
        if key not in TABLES:
            raise ProblemError(f"unknown table [{key}]{did_you_mean(key, TABLES)}")
        if not isinstance(tables[key], dict):
            raise ProblemError(f"{key} must be a table: write [{key}] above its keys")
    options = _read(ProblemOptions, tables, "problem")
    options = dataclasses.replace(options, name=options.name or path.stem)
    world = tables.get("world")
    if world is None:
        raise ProblemError('the table [world] is missing; it needs at least map = "FILE"')
    source = _map_source(world, path)
    if strict:
        source = dataclasses.replace(
            source, options=dataclasses.replace(source.options, strict=True)
        )
    route = _read(SweepRoute, tables, "world", _world_keys())
    units = _read(Units, tables, "world", _world_keys())
    if "keep_out" in tables:
        source = dataclasses.replace(source, keep_out=_read(KeepOut, tables, "keep_out"))
    source = dataclasses.replace(source, quantities=dict(tables.get("vehicle", {})))

    def spec_of(options: MapOptions) -> SweepSpec:
        read = dataclasses.replace(source, options=options)
        return _spec(read, tables, route, units)

    options_of_map = at_best_angle(source.options, spec_of)
    source, spec = dataclasses.replace(source, options=options_of_map), spec_of(options_of_map)
    texts = _rule_texts(tables.get("rules", {}))
    return dataclasses.replace(Problem.create(spec, texts, options), source=source)


def _spec(
    source: MapSource, tables: Mapping[str, Any], route: SweepRoute, units: Units
) -> SweepSpec:
    regions = regions_of(source, route, units)
    units = _with_map_scale(units, regions, route)
    written = tables.get("vehicle", {})
    try:
        plain = scale_of(regions, route, units).read(written)
    except ScrlError as error:
        raise ProblemError(f"[vehicle] {error}") from None
    with told_as_written(written):
        vehicle = _read(Vehicle, {"vehicle": plain}, "vehicle")
    return SweepSpec(
        regions,
        vehicle=vehicle,
        wind=_read(Wind, tables, "wind"),
        route=route,
        units=units,
    )


ANGLES = range(0, 180, 15)
"""Degrees that are tried for the best angle."""


def at_best_angle(options: MapOptions, spec_of: Callable[[MapOptions], SweepSpec]) -> MapOptions:
    """The options with the angle of the shortest drive at top speed, where the best is asked for.

    Cells are equally large at all angles. Of equal drives it is the smallest angle. An angle at
    which the map cannot be swept is passed over.
    """
    if options.angle != BEST:
        return options

    def steps(tried: MapOptions) -> float:
        try:
            return spec_of(tried).fewest_steps
        except ScrlError:
            return math.inf

    return min((dataclasses.replace(options, angle=float(each)) for each in ANGLES), key=steps)


def regions_of(source: MapSource, route: SweepRoute, units: Units) -> RegionMap:
    """The map, with the keep-out area as one more region where there is one."""
    keep_out, options = source.keep_out, source.options

    def add(region_map: RegionMap, shapes: RegionMap) -> RegionMap:
        if keep_out is None and not options.forbidden_buffer:
            return region_map
        cell = _with_map_scale(units, region_map, route).cell or 1.0
        height, width = (cell * side for side in cell_sides(region_map, route))
        if options.forbidden_buffer:
            region_map = with_buffer(
                region_map, shapes, options.forbidden_names, options.forbidden_buffer,
                (height, width),
            )  # fmt: skip
        if keep_out is None:
            return region_map
        with located("[keep_out]"):
            return keep_out.added_to(region_map, shapes, (height, width))

    return load_map(source.path, options, add, whole_swaths(route))


def whole_swaths(route: SweepRoute) -> tuple[int, int]:
    """Of what the rows and columns of a grid must be multiples, so that no pass is narrower."""
    return (route.swath, 1) if route.direction == "rows" else (1, route.swath)


def _world_keys() -> list[str]:
    shared = [field.name for part in (MapOptions, SweepRoute, Units) for field in _fields(part)]
    return [*WORLD_KEYS, *shared]


def _fields(part: Any) -> tuple[dataclasses.Field[Any], ...]:
    return dataclasses.fields(part)


def _read(
    part: type[T], tables: Mapping[str, Any], table: str, known: Iterable[str] | None = None
) -> T:
    """Build a settings class from the keys of one table that belong to it."""
    own = [field.name for field in _fields(part)]
    known = list(known or own)
    values = tables.get(table, {})
    for key in values:
        if key not in known:
            raise ProblemError(f"[{table}] has no key '{key}'{did_you_mean(key, known)}")
    chosen = {key: _frozen(value) for key, value in values.items() if key in own}
    try:
        return part(**chosen)
    except ScrlError as error:
        raise ProblemError(f"[{table}] {error}") from None


def _frozen(value: Any) -> Any:
    return tuple(_frozen(item) for item in value) if isinstance(value, list) else value


def _map_source(world: Mapping[str, Any], path: Path) -> MapSource:
    kind = world.get("kind", "sweep")
    if kind != "sweep":
        raise ProblemError(f"[world] kind = {kind!r} is unknown: the one kind is 'sweep'")
    name = world.get("map")
    if not isinstance(name, str) or not name:
        raise ProblemError('[world] needs map = "FILE": a GeoJSON, image or .npy file')
    return MapSource(
        inside_folder(path.parent, name),
        _read(MapOptions, {"world": world}, "world", _world_keys()),
    )


def inside_folder(folder: Path, name: str) -> Path:
    """The file `name` in `folder`; a path that leads out of the folder is refused."""
    if "\0" in name:
        raise ProblemError("[world] map holds a NUL character")
    try:
        target = (folder / name).resolve()
    except (OSError, RuntimeError):  # from Python 3.13 on, reading the file fails instead
        raise ProblemError(
            f"[world] map = {name!r} is a symbolic link that leads in a circle"
        ) from None
    if not target.is_relative_to(folder.resolve()):
        raise ProblemError(
            f"[world] map = {name!r} leads out of the problem's folder; copy the map next to the "
            "problem file"
        )
    return folder / name


def _with_map_scale(units: Units, regions: RegionMap, route: SweepRoute) -> Units:
    """Metres per cell from a geographic map, where the file does not say otherwise."""
    if units.cell is not None:
        return units
    return dataclasses.replace(units, cell=cell_on_map(regions, route))


def _rule_texts(table: Mapping[str, Any]) -> dict[str, str]:
    for name, text in table.items():
        if not isinstance(text, str):
            raise ProblemError(f'[rules] {name} must be a text: {name} = "S1 >= 300"')
    return dict(table)
