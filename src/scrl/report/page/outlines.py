"""Masks of cells as outlines: the d of an SVG path, in units of cells."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool

Corner = tuple[int, int]


def edges_in(mask: Bool[np.ndarray, "row column"]) -> int:
    """How many sides of cells the outline has, before straight ones are joined."""
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
    """From each corner on the outline where to go on, with the mask on the right."""
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
    """Walk until the start is reached again, and forget what was walked."""
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
    """Only the corners where the way turns, as steps along and across."""
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
