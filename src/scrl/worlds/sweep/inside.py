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
from scrl.worlds.sweep.scanline import Along, Edges, parts_inside

PARTS = 4
"""Parts of a path cell; an even number."""
FINEST = 64
"""Shares of a part are multiples of 1 / FINEST, so that large maps have few kinds of parts."""


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
    both_moves, half = moves_of(path), PARTS // 2
    weight = 1.0 / np.bincount(path.number[path.number >= 0], minlength=len(path.cells))
    nothing = np.zeros(0, int)
    found = [Corrections(nothing, nothing, np.zeros(0))]
    for along, axis in _AXES:
        moves = [each[:, axis] for each in both_moves]
        is_along = np.any(moves, axis=0)
        lines = np.flatnonzero(((path.number >= 0) & is_along[path.number]).any(axis=axis))
        for crossed in parts_inside(edges, where, along, lines, PARTS):
            number = path.number[crossed.row, crossed.column]
            mask = masks[crossed.region, crossed.row, crossed.column]
            more = np.round(FINEST * crossed.inside) / FINEST - mask[:, None]
            for move, begin in zip(moves, (0, half), strict=True):
                ahead = begin + np.arange(half)
                for sign, taken in ((1, ahead), (-1, PARTS - 1 - ahead)):
                    entry = np.flatnonzero((move[number] == sign) & (number >= 0))
                    share = weight[number[entry], None] * more[entry[:, None], taken]
                    row, place = np.nonzero(share)
                    entry = entry[row]
                    found.append(
                        Corrections(
                            PARTS * number[entry] + ahead[place],
                            crossed.region[entry],
                            share[row, place],
                        )
                    )
    return Corrections(*map(np.concatenate, zip(*found, strict=True)))
