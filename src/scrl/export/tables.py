"""CSV (RFC 4180): the steps one by one, and what each region receives.

Warnings are in the last column of the first row.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from scrl.export.frame import frame_of, neat, single
from scrl.export.segments import ExportOptions
from scrl.route import Route
from scrl.worlds.sweep.places import ends_of_stretches, stretch_at
from scrl.worlds.sweep.transits import Transit

FORMULA_MARKS = ("=", "+", "-", "@", "\t", "\r")
"""First characters by which a spreadsheet takes a cell for a formula."""


class _Part(NamedTuple):
    """A step, a part of a step cut by a transit, or a straight part of a transit."""

    step: int
    along: float
    """Distance along the path at its end."""
    place: Float[np.ndarray, " 2"]
    """Row and column of its end."""
    length: float
    """Cells along the sweep."""
    steps: float
    """Duration in steps."""
    is_transit: bool
    is_last: bool
    """Whether the step ends here, where landing service counts its amount."""


def write_steps(route: Route, options: ExportOptions, warnings: Sequence[str] = ()) -> bytes:
    """A row for the start and one for each step: its end, its speed, its amounts.

    A step with a transit has several rows; poured service is split between them by their length.
    Columns without a scale in the problem (seconds, metres, metres per second) are empty.
    """
    del options
    header = [
        "step", "seconds", "path_cell", "row", "column", *frame_of(route.problem.world_spec).names,
        "throttle", *(["flow_per_step"] if route.problem.world_spec.vehicle.has_flow else []),
        "speed_cells_per_step", "speed_m_s", "length_m", "transit", "amount",
        "regions", *(f"received {name}" for name in route.regions),
    ]  # fmt: skip
    return _text(header, _step_rows(route), warnings)


def _parts(route: Route) -> Iterator[_Part]:
    """The steps in order, each cut where the path has a transit."""
    spec = route.problem.world_spec
    stretches = stretch_at(spec.path, route.along).tolist()
    ends = ends_of_stretches(spec.path)
    if spec.stand is not None:
        yield from _way(route, spec.ways[0], -1, float(route.along[0]))
    for step in range(route.steps):
        at, end = route.along[step : step + 2].tolist()
        whole = end - at
        for stretch in range(stretches[step], stretches[step + 1]):
            edge = float(spec.path.stretches[stretch + 1])
            yield _Part(step, edge, ends[stretch], edge - at, (edge - at) / whole, False, False)
            at = edge
            yield from _way(route, spec.transits[stretch], step, edge, spec.turn_steps)
        share = (end - at) / whole if whole > 0 else 1.0
        yield _Part(step, end, route.cells[step + 1], end - at, share, False, True)
    if spec.stand is not None and route.is_whole:
        yield from _way(route, spec.ways[-1], route.steps - 1, float(route.along[-1]))


def _way(
    route: Route, way: Transit, step: int, along: float, turn_steps: float = 0.0
) -> Iterator[_Part]:
    """The straight parts of a way on which nothing is given out."""
    times = way.steps(route.problem.world_spec.transfer_speed, turn_steps)
    for place, length, steps in zip(way.places[1:], way.lengths, times, strict=True):
        yield _Part(step, along, place, length, steps, True, False)


def _step_rows(route: Route) -> Iterator[list[Any]]:
    spec = route.problem.world_spec
    units, frame = spec.units, frame_of(spec)
    names, has_flow = [defused(name) for name in route.regions], spec.vehicle.has_flow

    def scaled(value: float, scale: float | None) -> float | str:
        return "" if scale is None else neat(value * scale)

    def row(part: _Part, seconds: float | str, throttle: float | str, speed: float) -> list[Any]:
        has_speed = units.cell is not None and units.step is not None
        amount, received = _given(route, part)
        return [
            part.step + 1, seconds, round(part.along, 4), *np.round(part.place, 4).tolist(),
            *frame.places(part.place[None])[0].tolist(), throttle,
            *(["" if throttle == "" else single(float(route.flow[part.step]))] if has_flow else []),
            single(speed),
            neat(units.metres_per_second(speed)) if has_speed else "",
            scaled(part.length, units.cell), str(part.is_transit).lower(),
            neat(amount),
            ";".join(names[index] for index in np.flatnonzero(received)),
            *(neat(amount) for amount in received.tolist()),
        ]  # fmt: skip

    start = _Part(-1, float(route.along[0]), route.first_place, 0.0, 0.0, False, False)
    yield row(start, scaled(0.0, units.step), "", 0.0)
    elapsed = 0.0
    for part in _parts(route):
        elapsed += part.steps
        throttle = "" if part.is_transit else single(float(route.throttle[part.step]))
        speed = spec.transfer_speed if part.is_transit else float(route.speed[part.step])
        yield row(part, scaled(elapsed, units.step), throttle, speed)


def _given(route: Route, part: _Part) -> tuple[float, Float[np.ndarray, " region"]]:
    """What a part gives out in all and to each region."""
    is_poured = route.problem.world_spec.is_poured
    if part.step < 0 or part.is_transit or not (is_poured or part.is_last):
        return 0.0, np.zeros(len(route.regions))
    if not is_poured or part.steps == 1.0:
        return float(route.amount[part.step]), route.received[part.step]
    amount, received = route.poured_on(
        np.array([part.step]), np.array([part.along - part.length]), np.array([part.length]),
        np.array([part.steps]),
    )  # fmt: skip
    return float(amount[0]), received[0]


OUTSIDE, TOTAL = "outside all regions", "given out in all"
"""The names of the last two rows of `regions`."""


def write_regions(route: Route, options: ExportOptions, warnings: Sequence[str] = ()) -> bytes:
    """A row for each region: its size, what it receives, in how many steps, and its share.

    The last two rows are what no region receives and what is given out in all. Regions may
    overlap, so the other rows need not add up to the total.
    """
    del options
    regions = route.problem.world_spec.regions
    unit = defused(route.problem.world_spec.units.unit)
    outside = regions.enterable & ~regions.masks.any(axis=0)
    cells = [*regions.sizes.tolist(), int(outside.sum()), int(regions.enterable.sum())]
    given = np.column_stack([route.received, route.outside, route.amount])
    sums, steps = given.sum(axis=0), np.count_nonzero(given, axis=0)
    shares = np.round(sums / sums[-1], 4) if sums[-1] else np.zeros_like(sums)
    rows = zip(
        [*map(defused, route.regions), OUTSIDE, TOTAL], cells, map(neat, sums.tolist()),
        [unit] * len(cells), steps.tolist(), shares.tolist(), strict=True,
    )  # fmt: skip
    return _text(["region", "cells", "received", "unit", "steps", "share"], rows, warnings)


def defused(text: str) -> str:
    """The text, prefixed by an apostrophe if a spreadsheet would take it for a formula."""
    return f"'{text}" if text.startswith(FORMULA_MARKS) else text


def _text(header: Sequence[str], rows: Iterable[Sequence[Any]], warnings: Sequence[str]) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow([*header, "warnings"])
    said = defused(" | ".join(warnings))
    for row in rows:
        writer.writerow([*row, said])
        said = ""
    return text.getvalue().encode()
