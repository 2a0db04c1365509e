"""The colours of regions: the same in the terminal, in plots, on pages and in rendered frames."""

from __future__ import annotations

import numpy as np
from jaxtyping import UInt8

from scrl.worlds.regions import RegionMap

# Distinct for the colour-blind too (hues far apart, lightness varied); repeated past twelve.
REGION_COLOURS: tuple[str, ...] = (
    "#4477aa", "#ee9944", "#66aa55", "#cc5566", "#8866aa", "#99775e",
    "#dd88bb", "#999933", "#44aaaa", "#774455", "#88ccee", "#ddcc77",
)  # fmt: skip
NO_REGION = "#e8e6e0"
FORBIDDEN = "#3a3a3a"
OUTSIDE = "#ffffff"


def rgb(colour: str) -> tuple[int, int, int]:
    """'#4477aa' as three numbers."""
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def colour_of(region: int) -> str:
    """The colour of the region with this index."""
    return REGION_COLOURS[region % len(REGION_COLOURS)]


def region_colours(regions: RegionMap) -> UInt8[np.ndarray, "row column 3"]:
    """The map as a picture, one pixel a cell; where regions overlap their colours are mixed."""
    colours = np.array([rgb(colour_of(index)) for index in range(len(regions.names))], float)
    counts = regions.masks.sum(axis=0)
    mixed = np.tensordot(regions.masks.astype(float), colours, axes=([0], [0]))
    picture = np.where(
        counts[..., None] > 0, mixed / np.maximum(counts, 1)[..., None], rgb(NO_REGION)
    )
    picture[~regions.field] = rgb(OUTSIDE)
    picture[regions.forbidden] = rgb(FORBIDDEN)
    return picture.round().astype(np.uint8)
