"""The sweep path: bands swept back and forth, so that every cell is covered exactly once.

The field is cut into bands as wide as the swath, and `strips` orders their columns. All of this is
done for a start at the top left and bands along rows; the other cases are mirror images.

Two successive path cells belong to one leg if they are neighbours, or lie in neighbouring bands
with a free L-shaped way between them: along one band, then across. Inside a strip this
always holds, because its runs overlap. Elsewhere a new leg begins.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple, get_args

import numpy as np
from jaxtyping import Bool, Float, Int, Integer

from scrl.errors import MapError, did_you_mean
from scrl.worlds.sweep.order import Sweeps, short_order
from scrl.worlds.sweep.regions import RegionMap

Direction = Literal["rows", "columns"]
Start = Literal["top-left", "top-right", "bottom-left", "bottom-right"]


@dataclass(frozen=True, eq=False)
class SweepPath:
    """The path cells in the order of travel, and what each of them serves."""

    cells: Int[np.ndarray, "cell 2"]
    """Row and column of the swath's centre line at each path cell."""
    service: Float[np.ndarray, "cell region"]
    """Share of the swath that lies in each region."""
    outside: Float[np.ndarray, " cell"]
    """Share of the swath that lies in no region."""
    legs: tuple[int, ...]
    """Where each unbroken leg starts; between legs the vehicle gives nothing out."""
    number: Int[np.ndarray, "row column"]
    """The path cell whose swath covers each cell of the map; -1 where none does, and for cells
    that cannot be entered unless turns count."""
    missed_cells: int
    """Enterable cells that are not covered, since the swath would touch forbidden cells."""
    along: int | None = None
    """Where turns count: the axis of the bands, 0 down the rows and 1 along them."""

    @cached_property
    def stretches(self) -> tuple[int, ...]:
        """Where each stretch of neighbouring cells starts; between stretches is a transit.

        A leg is one stretch or several: moves to another band may be longer than a cell. Where
        turns count, every move to another band is a transit.
        """
        moves = np.abs(np.diff(self.cells, axis=0))
        is_far = moves.sum(axis=1) != 1
        if self.along is not None:
            is_far |= moves[:, 1 - self.along] != 0
        return (0, *(np.flatnonzero(is_far) + 1).tolist())


def sweep_path(
    region_map: RegionMap,
    *,
    direction: Direction = "rows",
    start: Start = "top-left",
    swath: int = 1,
    counted: CountedWay | None = None,
) -> SweepPath:
    """The path that covers every enterable cell once, in bands of `swath` rows or columns.

    Shares are counted in field cells: 0 or 1 if the swath is 1. Where the ways between bands
    count, fields are swept one after another in a short order.
    """
    _check_options(direction, start, swath)
    field_cells = _banded(_turned(region_map.enterable, direction, start), swath)
    forbidden_cells = _banded(_turned(region_map.forbidden, direction, start), swath)
    free = (field_cells > 0) & (forbidden_cells == 0)
    if not free.any():
        raise MapError(f"a swath of {swath} touches forbidden cells everywhere: use a narrower one")
    turn: tuple[Direction, Start, int] = (direction, start, swath)
    if counted is not None:
        counted = counted.seen(region_map.shape, turn)
    band, column = cover(free, band_width=swath, counted=counted)
    legs = _legs(free, band, column)
    at = (band, column)
    # A boom without sections also gives to what lies beside the field.
    covered = region_map.enterable if counted is None else np.ones(region_map.shape, bool)
    service = _shares(covered, region_map.masks, turn, at)
    in_none = np.logical_not(np.any(region_map.masks, axis=0))
    outside = _shares(covered, in_none[None], turn, at)[:, 0]
    _check_all_served(region_map, service, swath)
    cells = _cells(region_map.shape, turn, at)
    missed = int(field_cells.sum() - field_cells[free].sum())
    number = np.where(covered, _numbers(region_map.shape, turn, at), -1)
    along = None if counted is None else int(direction == "rows")
    return SweepPath(cells, service, outside, legs, number, missed, along)


class CountedWay(NamedTuple):
    """What a short order needs: the height and width of a cell, and where the vehicle stands."""

    sides: tuple[float, float] = (1.0, 1.0)
    stand: tuple[float, float] | None = None
    """Row and column; none: at the corner where the sweep begins, and it need not come back."""

    def seen(self, shape: tuple[int, int], turn: tuple[Direction, Start, int]) -> CountedWay:
        """The same as seen from the start, with the bands along rows."""
        direction, start, _ = turn
        sides, stand = self.sides, self.stand
        if stand is not None:
            row, column = stand
            row = shape[0] - row if start.startswith("bottom") else row
            stand = row, shape[1] - column if start.endswith("right") else column
        if direction == "rows":
            return CountedWay(sides, stand)
        return CountedWay((sides[1], sides[0]), stand and (stand[1], stand[0]))


def _check_options(direction: str, start: str, swath: int) -> None:
    if direction not in get_args(Direction):
        known = did_you_mean(str(direction), get_args(Direction))
        raise MapError(f"unknown sweep direction '{direction}'{known}")
    if start not in get_args(Start):
        raise MapError(f"unknown start '{start}'{did_you_mean(str(start), get_args(Start))}")
    if isinstance(swath, bool) or not isinstance(swath, int) or swath < 1:
        raise MapError(f"the swath must be a whole number of cells from 1, not {swath!r}")


def _turned(grid: np.ndarray, direction: Direction, start: Start) -> np.ndarray:
    """The grid (a view of it) as seen from the start, with the bands along its rows."""
    if start.startswith("bottom"):
        grid = grid[::-1]
    if start.endswith("right"):
        grid = grid[:, ::-1]
    return grid.T if direction == "columns" else grid


def _banded(grid: Bool[np.ndarray, "row column"], swath: int) -> Integer[np.ndarray, "band column"]:
    """How many cells are true in each column of each band."""
    if swath == 1:
        return grid.view(np.uint8)
    return np.add.reduceat(grid, np.arange(0, grid.shape[0], swath), axis=0, dtype=np.int32)


def _legs(
    free: Bool[np.ndarray, "band column"],
    band: Int[np.ndarray, " cell"],
    column: Int[np.ndarray, " cell"],
) -> tuple[int, ...]:
    """Where legs start: at the first cell, and where no L-shaped way leads from the last one."""
    blocked_before = np.pad(np.cumsum(~free, axis=1), ((0, 0), (1, 0)))
    low, high = np.minimum(column[:-1], column[1:]), np.maximum(column[:-1], column[1:]) + 1

    def clear(along: Int[np.ndarray, " cell"]) -> Bool[np.ndarray, " cell"]:
        return blocked_before[along, low] == blocked_before[along, high]

    near = np.abs(np.diff(band)) <= 1
    goes_on = near & (clear(band[:-1]) | clear(band[1:]))
    return (0, *(np.flatnonzero(~goes_on) + 1).tolist())


def _shares(
    covered: Bool[np.ndarray, "row column"],
    masks: Bool[np.ndarray, "region row column"],
    turn: tuple[Direction, Start, int],
    at: tuple[Int[np.ndarray, " cell"], Int[np.ndarray, " cell"]],
) -> Float[np.ndarray, "cell region"]:
    """The share of the swath's covered cells that each mask has."""
    direction, start, swath = turn
    regions = len(masks)
    counts = np.stack(
        [_banded(_turned(mask & covered, direction, start), swath) for mask in masks]
    ).reshape(regions, -1)
    in_bands = _banded(_turned(covered, direction, start), swath)
    places = np.ravel_multi_index(at, in_bands.shape)
    all_cells = in_bands[at].astype(np.float32)
    service = np.empty((len(places), regions), np.float32)
    # The transposed copy is written in blocks that fit into the processor's cache.
    for piece in (slice(begin, begin + 4096) for begin in range(0, len(places), 4096)):
        service[piece] = counts[:, places[piece]].T / all_cells[piece, None]
    return service


def _check_all_served(
    region_map: RegionMap, service: Float[np.ndarray, "cell region"], swath: int
) -> None:
    for name, is_served in zip(region_map.names, np.any(service, axis=0).tolist(), strict=True):
        if not is_served:
            raise MapError(
                f"region '{name}' is never served: a swath of {swath} touches forbidden cells "
                "wherever it would cover the region; use a narrower one"
            )


def _cells(
    shape: tuple[int, int],
    turn: tuple[Direction, Start, int],
    at: tuple[Int[np.ndarray, " cell"], Int[np.ndarray, " cell"]],
) -> Int[np.ndarray, "cell 2"]:
    """Row and column on the map of the centre line; for an even swath, of the nearer middle."""
    direction, start, swath = turn
    band, column = at
    own = _turned(np.arange(shape[0] * shape[1]).reshape(shape), direction, start)
    first = band * swath
    middle = (first + np.minimum(first + swath, own.shape[0]) - 1) // 2
    return np.stack(np.divmod(own[middle, column], shape[1]), axis=1)


def _numbers(
    shape: tuple[int, int],
    turn: tuple[Direction, Start, int],
    at: tuple[Int[np.ndarray, " cell"], Int[np.ndarray, " cell"]],
) -> Int[np.ndarray, "row column"]:
    """The path cell in whose swath each cell of the map lies; -1 where there is none."""
    direction, start, swath = turn
    numbers = np.full(shape, -1)
    seen = _turned(numbers, direction, start)
    of_band = np.full((-(-seen.shape[0] // swath), seen.shape[1]), -1)
    of_band[at] = np.arange(len(at[0]))
    seen[:] = np.repeat(of_band, swath, axis=0)[: seen.shape[0]]
    return numbers


class _Runs(NamedTuple):
    """Maximal free stretches of the bands, ordered by band, then by column; ends included."""

    band: Int[np.ndarray, " run"]
    left: Int[np.ndarray, " run"]
    right: Int[np.ndarray, " run"]


def cover(
    free: Bool[np.ndarray, "band column"], *, band_width: int, counted: CountedWay | None = None
) -> tuple[Int[np.ndarray, " cell"], Int[np.ndarray, " cell"]]:
    """Band and column of every free column once, in the order of travel from the first corner."""
    runs = _find_runs(free)
    strips = _strips(runs, free.shape[1])
    if counted is None:
        return _visit(runs, strips, _nearest_first(runs, strips, band_width))
    return _visit(runs, strips, _short(runs, strips, free, band_width, counted))


_Choice = tuple[int, bool, bool]
"""A strip, and whether it is swept from the right and upwards."""


def _short(
    runs: _Runs,
    strips: list[Int[np.ndarray, " _"]],
    free: Bool[np.ndarray, "band column"],
    band_width: int,
    counted: CountedWay,
) -> Iterator[_Choice]:
    """The strips in a short order, those of one field one after another."""
    from scipy.ndimage import label

    height, width = counted.sides
    groups = np.empty(free.shape, np.int32)
    label(free, output=groups)
    ends = np.array([[strip[0], strip[-1]] for strip in strips])
    from_right = np.array([False, False, True, True])
    upwards = np.array([False, True, False, True])
    first, last = ends[:, upwards.astype(int)], ends[:, 1 - upwards.astype(int)]
    lengths = np.array([len(strip) for strip in strips])[:, None]
    ends_right = (lengths - 1 + from_right) % 2 == 0

    def place(run: np.ndarray, is_right: np.ndarray) -> np.ndarray:
        column = np.where(is_right, runs.right[run] + 1, runs.left[run])
        across = (runs.band[run] + 0.5) * band_width
        return np.stack([across * height, column * width], axis=-1)

    sweeps = Sweeps(
        place(first, np.broadcast_to(from_right, first.shape)),
        place(last, ends_right),
        2 * ends_right + (1 - upwards),
        groups[runs.band[ends[:, 0]], runs.left[ends[:, 0]]],
    )
    stand = None if counted.stand is None else np.multiply(counted.stand, (height, width))
    order = short_order(sweeps, np.zeros(2) if stand is None else stand, stand)
    for strip, way in zip(order.strip.tolist(), order.way.tolist(), strict=True):
        yield strip, bool(from_right[way]), bool(upwards[way])


def _find_runs(free: Bool[np.ndarray, "band column"]) -> _Runs:
    edges = np.diff(np.pad(free, ((0, 0), (1, 1))).astype(np.int8), axis=1)
    band, left = np.nonzero(edges == 1)
    return _Runs(band, left, np.nonzero(edges == -1)[1] - 1)


def _strips(runs: _Runs, columns: int) -> list[Int[np.ndarray, " _"]]:
    """Chains of runs in successive bands that overlap each other and nothing else."""
    first_below, below = _overlapping(runs, columns, 1)
    _, above = _overlapping(runs, columns, -1)
    only = np.flatnonzero(below == 1)
    only = only[above[first_below[only]] == 1]
    following = np.full(len(runs.band), -1)
    following[only] = first_below[only]
    heads = np.setdiff1d(np.arange(len(runs.band)), following)
    strips, next_run = [], following.tolist()
    for head in heads.tolist():
        chain = [head]
        while (run := next_run[chain[-1]]) >= 0:
            chain.append(run)
        strips.append(np.array(chain))
    return strips


def _overlapping(
    runs: _Runs, columns: int, step: int
) -> tuple[Int[np.ndarray, " run"], Int[np.ndarray, " run"]]:
    """For each run, the first run `step` bands on that shares a column with it, and how many do."""
    there = (runs.band + step) * columns
    first = np.searchsorted(runs.band * columns + runs.right, there + runs.left, side="left")
    end = np.searchsorted(runs.band * columns + runs.left, there + runs.right, side="right")
    return first, end - first


class _Corners:
    """The entry corners of the strips still to be swept, searched by distance."""

    def __init__(self, runs: _Runs, strips: list[Int[np.ndarray, " _"]], band_width: int) -> None:
        self.band_width = band_width
        self.by_band: list[list[tuple[int, int, bool, bool]]] = [
            [] for _ in range(int(runs.band[-1]) + 1)
        ]
        left, right, band = runs.left.tolist(), runs.right.tolist(), runs.band.tolist()
        self.of_strip = []
        for number, strip in enumerate(strips):
            ends = ((int(strip[0]), False), (int(strip[-1]), True))
            corners = {
                (band[run], (column, number, from_right, upwards))
                for run, upwards in ends
                for column, from_right in ((left[run], False), (right[run], True))
            }
            self.of_strip.append(corners)
            for where, corner in corners:
                self.by_band[where].append(corner)
        for corners in self.by_band:
            corners.sort()

    def take_nearest(self, band: int, column: int) -> tuple[int, bool, bool]:
        """(strip, from the right, upwards) of the nearest corner; its strip is removed."""
        best_squared, best = None, None
        for step in range(len(self.by_band)):
            if best_squared is not None and (step * self.band_width) ** 2 > best_squared:
                break
            for other in {band - step, band + step}:
                for corner in self._beside(other, column):
                    squared = (step * self.band_width) ** 2 + (corner[0] - column) ** 2
                    if best_squared is None or (squared, corner) < (best_squared, best):
                        best_squared, best = squared, corner
        assert best is not None  # noqa: S101  there are as many calls as strips
        for where, corner in self.of_strip[best[1]]:
            del self.by_band[where][bisect_left(self.by_band[where], corner)]
        return best[1:]

    def _beside(self, band: int, column: int) -> list[tuple[int, int, bool, bool]]:
        if not 0 <= band < len(self.by_band):
            return []
        corners = self.by_band[band]
        place = bisect_left(corners, (column, 0, False, False))
        return corners[max(place - 1, 0) : place + 1]


def _nearest_first(
    runs: _Runs, strips: list[Int[np.ndarray, " _"]], band_width: int
) -> Iterator[_Choice]:
    """The strips, from the first corner always to the nearest corner of another one."""
    corners = _Corners(runs, strips, band_width)
    band, column = 0, 0
    for _ in strips:
        number, from_right, upwards = corners.take_nearest(band, column)
        yield number, from_right, upwards
        last = strips[number][0 if upwards else -1]
        is_leftward = (len(strips[number]) - 1 + from_right) % 2 == 1
        band, column = int(runs.band[last]), int((runs.left if is_leftward else runs.right)[last])


def _visit(
    runs: _Runs, strips: list[Int[np.ndarray, " _"]], choices: Iterable[_Choice]
) -> tuple[Int[np.ndarray, " cell"], Int[np.ndarray, " cell"]]:
    """Band and column of every path cell, strip after strip."""
    ordered, leftward = [], []
    for number, from_right, upwards in choices:
        strip = strips[number][::-1] if upwards else strips[number]
        ordered.append(strip)
        leftward.append((np.arange(len(strip)) + from_right) % 2 == 1)
    run, to_left = np.concatenate(ordered), np.concatenate(leftward)
    lengths = (runs.right - runs.left + 1)[run]
    within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    begin = np.where(to_left, runs.right[run], runs.left[run])
    step = np.where(to_left, -1, 1)
    return np.repeat(runs.band[run], lengths), np.repeat(begin, lengths) + within * np.repeat(
        step, lengths
    )
