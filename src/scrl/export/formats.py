"""The table of formats: a new one is a file and a line here."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from scrl.errors import did_you_mean
from scrl.export.geojson import write_geojson
from scrl.export.kml import write_kml
from scrl.export.onnx import write_onnx
from scrl.export.options import ExportOptions
from scrl.export.plan import write_plan
from scrl.export.portable import Portable
from scrl.export.segments import ExportError
from scrl.export.stablehlo import write_stablehlo
from scrl.export.tables import write_regions, write_steps
from scrl.route import Route


class RouteFormat(NamedTuple):
    """Writes what one episode drives."""

    file_name: str
    sentence: str
    write: Callable[[Route, ExportOptions], bytes]


class PolicyFormat(NamedTuple):
    """Writes the policy itself, and a description of it in a second file."""

    file_name: str
    sentence: str
    write: Callable[[Portable], tuple[bytes, bytes]]


FORMATS: dict[str, RouteFormat | PolicyFormat] = {
    "geojson": RouteFormat("route.geojson", "segments with speed and amounts", write_geojson),
    "csv": RouteFormat("steps.csv", "every step", write_steps),
    "regions": RouteFormat("regions.csv", "what each region receives", write_regions),
    "kml": RouteFormat("route.kml", "segments for map viewers, coloured by speed", write_kml),
    "plan": RouteFormat("route.plan", "a QGroundControl flight plan", write_plan),
    "onnx": PolicyFormat("policy.onnx", "the policy for any ONNX runtime", write_onnx),
    "stablehlo": PolicyFormat("policy.stablehlo", "the policy for JAX alone", write_stablehlo),
}


def find_format(name: str) -> RouteFormat | PolicyFormat:
    """The format of that name."""
    if name not in FORMATS:
        raise ExportError(f"unknown format '{name}'{did_you_mean(name, FORMATS)}")
    return FORMATS[name]
