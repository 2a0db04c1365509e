"""How much of the path lies inside polygons, for equal parts of each path cell.

The way through a cell leads from an edge to its centre and on to an edge (`places`): along two
halves of centre lines, each of which is cut into parts. A wide swath counts the same parts of the
lines of all cells that it covers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from scrl.worlds.sweep.georeference import Georeference, from_extent
from scrl.worlds.sweep.path import SweepPath
from scrl.worlds.sweep.places import moves_of
from scrl.worlds.sweep.regions import RegionMap
from scrl.worlds.sweep.scanline import Along, CrossedCells, Edges, parts_inside

PARTS = 4
"""Parts of a path cell; an even number."""
FINEST = 256
"""Shares of a part are multiples of 1 / FINEST, so that large maps have few kinds of parts."""
TIE = 1e-3
"""Shares this little below the middle between two multiples, in multiples, are rounded up: sums of
the same shares in another order are rounded alike."""


class Corrections(NamedTuple):
    """What is to be added to shares by the centres of cells, in some parts of path cells."""

    part: Int[np.ndarray, " entry"]
    """Counted along the path, `PARTS` for each path cell."""
    column: Int[np.ndarray, " entry"]
    """A region; the number of regions stands for what lies outside all of them."""
    share: Float[np.ndarray, " entry"]


def corrections(path: SweepPath, region_map: RegionMap) -> Corrections | None:
    """The corrections of a path's shares by the outlines of regions; none on a map without any."""
    outlines, masks = region_map.outlines, region_map.masks
    if outlines is None:
        return None
    (rows, columns), regions = region_map.shape, len(region_map.names)
    where = from_extent((0.0, 0.0, columns, rows), region_map.shape, "plain")
    of_regions = _corrections(path, masks, outlines, where)
    covered = _corrections(path, np.any(masks, axis=0)[None], outlines.united(), where)
    outside = covered._replace(column=np.full_like(covered.column, regions), share=-covered.share)
    return Corrections(*map(np.concatenate, zip(of_regions, outside, strict=True)))


_AXES: tuple[tuple[Along, int], ...] = (("rows", 1), ("columns", 0))
"""Moves from column to column lead along rows."""


def _corrections(
    path: SweepPath,
    masks: Bool[np.ndarray, "region row column"],
    edges: Edges,
    where: Georeference,
) -> Corrections:
    """The corrections in cells with centre lines that edges cross; other cells need none."""
    moves_in_and_out = moves_of(path)
    weight = 1.0 / np.bincount(path.number[path.number >= 0], minlength=len(path.cells))
    nothing = np.zeros(0, int)
    found = [Corrections(nothing, nothing, np.zeros(0))]
    for along, axis in _AXES:
        moves = [each[:, axis] for each in moves_in_and_out]
        is_along = np.any(moves, axis=0)
        lines = np.flatnonzero(((path.number >= 0) & is_along[path.number]).any(axis=axis))
        for crossed in parts_inside(edges, where, along, lines, PARTS):
            number = path.number[crossed.row, crossed.column]
            mask = masks[crossed.region, crossed.row, crossed.column]
            more = _rounded(crossed) - mask[:, None]
            share = weight[number, None] * more
            for half, move in enumerate(moves):
                step = np.where(number >= 0, move[number], 0)
                found.append(_on_half(half, step, number, crossed.region, share))
    return Corrections(*map(np.concatenate, zip(*found, strict=True)))


def _rounded(crossed: CrossedCells) -> Float[np.ndarray, "entry part"]:
    """The shares as multiples of 1 / FINEST.

    What the regions in a cell come to is rounded, after each of them. So regions beside each other
    come to what they cover together, and do not seem to overlap.
    """
    order = np.lexsort([crossed.region, crossed.column, crossed.row])
    cells = np.stack([crossed.row, crossed.column])[:, order]
    is_first = np.append(True, np.any(np.diff(cells, axis=1), axis=0))[: len(order), None]
    inside = FINEST * crossed.inside[order]
    sums = np.cumsum(inside, axis=0)
    before_cell = np.maximum.accumulate(np.where(is_first, sums - inside, 0.0), axis=0)
    upto = np.floor(sums - before_cell + 0.5 + TIE)
    before = np.where(is_first, 0.0, np.roll(upto, 1, axis=0))
    rounded = np.empty_like(inside)
    rounded[order] = (upto - before) / FINEST
    return rounded


def _on_half(
    half: int,
    step: Int[np.ndarray, " entry"],
    number: Int[np.ndarray, " entry"],
    region: Int[np.ndarray, " entry"],
    share: Float[np.ndarray, "entry part"],
) -> Corrections:
    """Those of the way into centres (0) or out of them (1), where a step leads along the line.

    Backwards the parts of a line are passed in the opposite order.
    """
    passed = half * PARTS // 2 + np.arange(PARTS // 2)
    on_line = np.where(step[:, None] > 0, passed, PARTS - 1 - passed)
    added = np.where(step[:, None] != 0, np.take_along_axis(share, on_line, axis=1), 0.0)
    entry, place = np.nonzero(added)
    return Corrections(PARTS * number[entry] + passed[place], region[entry], added[entry, place])
