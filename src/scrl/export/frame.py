"""The coordinates of an exported route, in degrees if the map has them, and rounding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float

from scrl.export.segments import ExportError
from scrl.worlds.sweep.georeference import Georeference, local_georeference
from scrl.worlds.sweep.spec import SweepSpec

DECIMALS, DIGITS, SMALL = 6, 4, 1e-3


def neat(value: float) -> float:
    """A number rounded to 6 decimals, or a small one to 4 significant digits."""
    return round(value, DECIMALS) if abs(value) >= SMALL else float(f"{value:.{DIGITS}g}")


def single(value: float) -> float:
    """The shortest decimal that is equal in single precision, the precision of the world."""
    return float(str(np.float32(value)))


FrameKind = Literal["WGS84", "map", "metres", "cells"]

DEGREES_DIGITS = 7
"""Decimals of degrees; the last one is about a centimetre."""
PLAIN_DIGITS = 3


@dataclass(frozen=True)
class Frame:
    """The conversion of rows and columns to x and y."""

    kind: FrameKind
    where: Georeference

    @property
    def names(self) -> tuple[str, str]:
        """The names of x and y."""
        return ("longitude", "latitude") if self.kind == "WGS84" else ("x", "y")

    @property
    def sentence(self) -> str:
        """A description of the coordinates."""
        return _SENTENCES[self.kind]

    def places(self, cells: Float[np.ndarray, "place 2"]) -> Float[np.ndarray, "place 2"]:
        """x and y, rounded to about a centimetre or a thousandth."""
        digits = DEGREES_DIGITS if self.kind == "WGS84" else PLAIN_DIGITS
        return np.round(self.where.places(cells), digits)


_SENTENCES: dict[FrameKind, str] = {
    "WGS84": "degrees of longitude and latitude (WGS84)",
    "map": "the map's own plain coordinates: x to the right, y upwards",
    "metres": "metres from the lower left corner of the grid: x to the right, y upwards",
    "cells": "cells from the lower left corner of the grid: x to the right, y upwards",
}


def frame_of(spec: SweepSpec) -> Frame:
    """Degrees, the map's plain coordinates, metres, or cells: the first of these that is known."""
    where = spec.regions.georeference
    if where is not None:
        return Frame("WGS84" if where.kind == "geographic" else "map", where)
    kind: FrameKind = "cells" if spec.units.cell is None else "metres"
    return Frame(kind, local_georeference(spec.regions.shape, spec.units.cell))


def degrees(spec: SweepSpec, format_name: str) -> Frame:
    """The frame of a map with degrees; the error for other maps says how to set them."""
    frame = frame_of(spec)
    if frame.kind != "WGS84":
        raise ExportError(
            f"{format_name} needs degrees of longitude and latitude, and this map has "
            f"{_HAS_INSTEAD[frame.kind]}: give it a GeoJSON map in WGS84 degrees or, for an image "
            'or array, write extent = [west, south, east, north] and coordinates = "geographic" '
            "in [world] of the problem file"
        )
    return frame


_HAS_INSTEAD = {
    "map": "plain coordinates",
    "metres": "no place on Earth",
    "cells": "no place on Earth",
}
