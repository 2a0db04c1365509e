"""A map in a terminal, two cells a character, in the colours of the regions."""

from __future__ import annotations

import string

import numpy as np
from rich.text import Text

from scrl.worlds.sweep.regions import RegionMap, colour_of, region_colours

WIDEST = 60
SIGNS = string.digits[1:] + string.ascii_letters
"""Characters of the first regions on a terminal without colours."""


def map_lines(regions: RegionMap, *, is_coloured: bool) -> list[Text]:
    """The map line by line with a legend; characters replace colours where there are none."""
    step = max(1, -(-regions.shape[1] // WIDEST))
    draw = _coloured if is_coloured else _signs
    return [*draw(regions, step), _legend(regions, is_coloured)]


def _coloured(regions: RegionMap, step: int) -> list[Text]:
    picture = region_colours(regions)[::step, ::step]
    if len(picture) % 2:
        picture = np.concatenate([picture, picture[-1:]])
    lines = []
    for upper, lower in zip(picture[::2], picture[1::2], strict=True):
        line = Text()
        for top, bottom in zip(upper, lower, strict=True):
            line.append("▀", style=f"rgb({_rgb(top)}) on rgb({_rgb(bottom)})")
        lines.append(line)
    return lines


def _rgb(colour: np.ndarray) -> str:
    return ",".join(str(part) for part in colour)


def _signs(regions: RegionMap, step: int) -> list[Text]:
    """Every second row, since a character is twice as high as wide."""
    first = np.where(regions.masks.any(axis=0), regions.masks.argmax(axis=0) + 1, 0)
    first[~regions.enterable] = -1
    marks = {-1: " ", 0: "."}
    rows = first[:: 2 * step, ::step]
    lines = ["".join(marks.get(label) or _sign(label - 1) for label in row) for row in rows]
    return [Text(line.rstrip()) for line in lines]


def _sign(region: int) -> str:
    return SIGNS[region] if region < len(SIGNS) else "#"


def _legend(regions: RegionMap, is_coloured: bool) -> Text:
    legend = Text()
    shown = regions.names[:12]
    for index, name in enumerate(shown):
        mark = "■" if is_coloured else _sign(index)
        legend.append(mark, style=colour_of(index) if is_coloured else "")
        legend.append(f" {name}   ")
    legend.rstrip()
    if len(regions.names) > len(shown):
        legend.append(f"   ... and {len(regions.names) - len(shown)} more")
    return legend
