"""CSV (RFC 4180): the steps one by one, and what each region receives."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from scrl.export.frame import frame_of
from scrl.export.options import ExportOptions
from scrl.route import Route


def write_steps(route: Route, options: ExportOptions) -> bytes:
    """A row for the start and one for each step: where it leads, how fast, what it gives to whom.

    Columns without a scale in the problem (seconds, metres per second) are empty.
    """
    del options
    spec = route.problem.world_spec
    frame = frame_of(spec)
    header = [
        "step", "seconds", "path_cell", "row", "column", *frame.names, "throttle",
        "speed_cells_per_step", "speed_m_s", "amount", "regions",
        *(f"received {name}" for name in route.regions),
    ]  # fmt: skip
    return _text(header, _step_rows(route))


def _step_rows(route: Route) -> Iterable[Sequence[Any]]:
    spec = route.problem.world_spec
    step_s = spec.units.step
    places = frame_of(spec).places(route.cells).tolist()
    cells = np.round(route.cells, 4).tolist()
    metres = route.metres_per_second
    along = np.round(route.along, 4).tolist()
    start = [0, "" if step_s is None else 0.0, along[0], *cells[0], *places[0], "", 0.0]
    yield [*start, "" if metres is None else 0.0, 0.0, "", *[0.0] * len(route.regions)]
    for step in range(route.steps):
        yield [
            step + 1,
            "" if step_s is None else (step + 1) * step_s,
            along[step + 1],
            *cells[step + 1],
            *places[step + 1],
            float(route.throttle[step]),
            float(route.speed[step]),
            "" if metres is None else float(metres[step]),
            float(route.amount[step]),
            ";".join(route.served(step)),
            *route.received[step].tolist(),
        ]


OUTSIDE, TOTAL = "outside all regions", "given out in all"
"""The names of the last two rows of `regions`."""


def write_regions(route: Route, options: ExportOptions) -> bytes:
    """A row for each region: its size, what it receives, in how many steps, and which share.

    The last two rows are what no region receives, and what is given out in all. Regions may
    overlap, so the rows above need not add up to it.
    """
    del options
    regions, unit = route.problem.world_spec.regions, route.problem.world_spec.units.unit
    outside = regions.enterable & ~regions.masks.any(axis=0)
    cells = [*regions.sizes.tolist(), int(outside.sum()), int(regions.enterable.sum())]
    given = np.column_stack([route.received, route.outside, route.amount])
    sums, steps = given.sum(axis=0), np.count_nonzero(given, axis=0)
    shares = np.round(sums / sums[-1], 4) if sums[-1] else np.zeros_like(sums)
    rows = zip(
        [*route.regions, OUTSIDE, TOTAL], cells, sums.tolist(), [unit] * len(cells),
        steps.tolist(), shares.tolist(), strict=True,
    )  # fmt: skip
    return _text(["region", "cells", "received", "unit", "steps", "share"], rows)


def _text(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue().encode()
