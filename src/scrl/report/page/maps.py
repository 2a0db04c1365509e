"""Outlines of masks of cells as SVG path data, and pictures of maps."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, UInt8
from PIL import Image

from scrl.report.figures import inner_point
from scrl.worlds.sweep.regions import RegionMap, colour_of

Corner = tuple[int, int]


def edges_in(mask: Bool[np.ndarray, "row column"]) -> int:
    """The number of cell sides in the outline."""
    padded = np.pad(mask, 1)
    return int((padded[1:] != padded[:-1]).sum() + (padded[:, 1:] != padded[:, :-1]).sum())


def outline(mask: Bool[np.ndarray, "row column"]) -> str:
    """Closed loops around the cells; drawn with `evenodd`, holes stay open."""
    after = _next_corners(mask)
    pieces = []
    while after:
        start = next(iter(after))
        pieces.append(_path_of(_loop(after, start)))
    return "".join(pieces)


def _next_corners(mask: Bool[np.ndarray, "row column"]) -> dict[Corner, list[Corner]]:
    """The next corner for each corner of the outline, with the mask on the right."""
    padded = np.pad(mask, 1)
    inside = padded[1:-1, 1:-1]
    sides = [
        (inside & ~padded[:-2, 1:-1], (0, 0), (0, 1)),  # above
        (inside & ~padded[1:-1, 2:], (0, 1), (1, 1)),  # right
        (inside & ~padded[2:, 1:-1], (1, 1), (1, 0)),  # below
        (inside & ~padded[1:-1, :-2], (1, 0), (0, 0)),  # left
    ]
    after: dict[Corner, list[Corner]] = {}
    for there, begin, end in sides:
        for row, column in np.argwhere(there).tolist():
            corner = (row + begin[0], column + begin[1])
            after.setdefault(corner, []).append((row + end[0], column + end[1]))
    return after


def _loop(after: dict[Corner, list[Corner]], start: Corner) -> list[Corner]:
    """Follow a loop back to its start, and remove its corners."""
    corners, here = [start], start
    while True:
        there = after[here].pop()
        if not after[here]:
            del after[here]
        if there == start:
            return corners
        corners.append(there)
        here = there


def _path_of(corners: list[Corner]) -> str:
    """SVG path data with the corners where the outline turns."""
    count = len(corners)
    turns = [
        corner
        for index, corner in enumerate(corners)
        if not _is_straight(corners[index - 1], corner, corners[(index + 1) % count])
    ]
    row, column = turns[0]
    text = f"M{column} {row}"
    for new_row, new_column in turns[1:]:
        text += f"v{new_row - row}" if new_column == column else f"h{new_column - column}"
        row, column = new_row, new_column
    return text + "z"


def _is_straight(before: Corner, here: Corner, after: Corner) -> bool:
    return before[0] == here[0] == after[0] or before[1] == here[1] == after[1]


SIDE = 360.0
MOST_PIXELS = 240
MOST_EDGES = 20_000
"""Largest number of cell sides in all outlines."""
MOST_DRAWN = 200
"""Largest number of regions that are drawn."""
SMALLEST_LABELLED = 0.006
"""Regions with a smaller share of the map get no label."""
LONGEST_LABEL = 14
LARGEST_LETTER, SMALLEST_LETTER = 12.5, 8.0
"""Sizes of the text of labels, in units of the drawing."""
LETTER_WIDTH = 0.67
"""Width of a bold letter by its size, with some room beside the text."""
COARSER = (240, 120, 60, 30)


@dataclass(frozen=True)
class MapFrame:
    """The transformation from cells to units of the drawing."""

    rows: int
    columns: int

    @property
    def scale(self) -> float:
        return SIDE / max(self.rows, self.columns)

    @property
    def width(self) -> float:
        return self.columns * self.scale

    @property
    def height(self) -> float:
        return self.rows * self.scale

    @property
    def left(self) -> float:
        """The left edge, which centres a tall map."""
        return (SIDE - self.width) / 2.0


@dataclass(frozen=True)
class DrawnRegion:
    """One region: its outline, and the place, text and size of its label (None: no label)."""

    name: str
    colour: str
    d: str
    label: tuple[float, float, str, float] | None


@dataclass(frozen=True)
class DrawnMap:
    """The regions of a map, outside and forbidden cells, all as outlines of a coarser grid."""

    frame: MapFrame
    scale_x: float
    scale_y: float
    field: str
    forbidden: str
    regions: tuple[DrawnRegion, ...]
    left_out: int
    """Number of regions that are not drawn, since there are too many."""
    has_outside: bool
    """Whether the vehicle covers cells of no region."""


def draw_map(regions: RegionMap) -> DrawnMap:
    """The outlines of a map on the finest grid within the limits."""
    rows, columns = regions.shape
    frame = MapFrame(rows, columns)
    field, forbidden, *masks = _as_fine_as_fits(regions)
    share = frame.scale * rows / len(field), frame.scale * columns / len(field[0])
    drawn, left = [], MOST_EDGES
    for index, mask in enumerate(masks):
        left -= edges_in(mask)
        if left < 0:
            break
        name = regions.names[index]
        label = _label(name, mask, share)
        drawn.append(DrawnRegion(name, colour_of(index), outline(mask), label))
    return DrawnMap(
        frame, share[1], share[0], _unless_full(field), outline(forbidden), tuple(drawn),
        len(regions.names) - len(drawn),
        bool((regions.enterable & ~regions.masks.any(axis=0)).any()),
    )  # fmt: skip


def _as_fine_as_fits(regions: RegionMap) -> list[Bool[np.ndarray, "row column"]]:
    """Field, forbidden cells and regions, on the finest grid whose outlines are short enough."""
    steps = [max(1, -(-max(regions.shape) // side)) for side in COARSER]
    for step in steps[:-1]:
        grids = _coarse(regions, step)
        if sum(map(edges_in, grids)) <= MOST_EDGES:
            return grids
    return _coarse(regions, steps[-1])


def _coarse(regions: RegionMap, step: int) -> list[Bool[np.ndarray, "row column"]]:
    """Every n-th cell in both directions."""
    middle = slice(step // 2, None, step)
    some = [regions.field, regions.forbidden, *regions.masks[:MOST_DRAWN]]
    return [each[middle, middle] for each in some]


def _unless_full(field: Bool[np.ndarray, "row column"]) -> str:
    rows, columns = field.shape
    return f"M0 0h{columns}v{rows}h-{columns}z" if field.all() else outline(field)


def _label(
    name: str, mask: Bool[np.ndarray, "row column"], share: tuple[float, float]
) -> tuple[float, float, str, float] | None:
    """The name in the middle of the region, in letters as large as its width has room for."""
    if not mask.any() or mask.mean() < SMALLEST_LABELLED:
        return None
    row, column = inner_point(mask)
    gaps = np.flatnonzero(~np.pad(mask[row], 1))
    after = np.searchsorted(gaps, column + 1)
    left, right = gaps[after - 1], gaps[after] - 1  # of the cells beside each other in this row
    room = float(right - left) * share[1] / LETTER_WIDTH
    longest = max(2, min(LONGEST_LABEL, int(room / SMALLEST_LETTER)))
    short = name if len(name) <= longest else name[: longest - 1] + "…"
    size = min(LARGEST_LETTER, max(SMALLEST_LETTER, room / len(short)))
    return float(left + right) / 2.0 * share[1], (row + 0.5) * share[0], short, round(size, 1)


def heat_pictures(
    found: Sequence[Float[np.ndarray, "row column"]], top: float | None = None
) -> tuple[list[str], float]:
    """A grey mask (white: most) for each table of amounts on one scale, and the largest amount.

    `top` is the amount that is drawn white; by default all but the largest hundredth fit below.
    """
    if top is None:
        top = max(float(np.nanquantile(each, 0.99)) for each in found)
    top = top if top > 0.0 else 1.0
    pictures = []
    for each in found:
        share = np.nan_to_num(np.clip(block_means(each) / top, 0.0, 1.0))
        # Any positive amount gets some colour, so that the field is visible.
        shown = np.where(share > 0.0, 0.06 + 0.94 * share, 0.0)
        levels = np.round(shown * 32.0) / 32.0  # fewer levels: a smaller file
        pictures.append(png((255.0 * levels).astype(np.uint8)))
    return pictures, top


def block_means(
    found: Float[np.ndarray, "row column"],
) -> Float[np.ndarray, "block_row block_column"]:
    """The table reduced to the size of a picture by means of blocks."""
    step = max(1, -(-max(found.shape) // MOST_PIXELS))
    if step == 1:
        return found
    rows, columns = (-(-size // step) * step for size in found.shape)
    padded = np.full((rows, columns), np.nan)
    padded[: found.shape[0], : found.shape[1]] = found
    blocks = padded.reshape(rows // step, step, columns // step, step)
    count = np.isfinite(blocks).sum(axis=(1, 3))
    sums = np.nansum(blocks, axis=(1, 3))
    return np.where(count > 0, sums / np.maximum(count, 1), np.nan)


def png(pixels: UInt8[np.ndarray, ...]) -> str:
    """A picture as a data URL."""
    held = io.BytesIO()
    Image.fromarray(pixels).save(held, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(held.getvalue()).decode()
