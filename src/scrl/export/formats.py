"""The table of formats. A new one is a module and an entry here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from scrl.errors import did_you_mean
from scrl.export.geojson import write_geojson
from scrl.export.kml import write_kml
from scrl.export.onnx import write_onnx
from scrl.export.portable import Portable
from scrl.export.prescription import write_geotiff, write_prescription, write_shapefile
from scrl.export.qgroundcontrol import write_plan
from scrl.export.segments import ExportError, ExportOptions
from scrl.export.stablehlo import write_stablehlo
from scrl.export.tables import write_regions, write_steps
from scrl.route import Route


class WriteRoute(Protocol):
    """Returns the contents of a file, which include the warnings."""

    def __call__(
        self, route: Route, options: ExportOptions, warnings: Sequence[str] = ()
    ) -> bytes: ...


class WritePolicy(Protocol):
    """Returns the contents of a file and of its description, which include the warnings."""

    def __call__(self, policy: Portable, warnings: Sequence[str] = ()) -> tuple[bytes, bytes]: ...


class RouteFormat(NamedTuple):
    """A format for the route of one episode."""

    file_name: str
    sentence: str
    write: WriteRoute


class PolicyFormat(NamedTuple):
    """A format for the policy, with a description in a second file."""

    file_name: str
    sentence: str
    write: WritePolicy


ROUTE_FORMATS: dict[str, RouteFormat] = {
    "geojson": RouteFormat("route.geojson", "segments with speed and amounts", write_geojson),
    "csv": RouteFormat("steps.csv", "every step", write_steps),
    "regions": RouteFormat("regions.csv", "what each region receives", write_regions),
    "kml": RouteFormat("route.kml", "segments for map viewers, coloured by speed", write_kml),
    "prescription": RouteFormat(
        "prescription.geojson", "zones with their dose, as GeoJSON", write_prescription
    ),
    "shapefile": RouteFormat(
        "prescription.zip", "zones with their dose, as a zipped shapefile", write_shapefile
    ),
    "geotiff": RouteFormat("prescription.tif", "the dose of each cell, as GeoTIFF", write_geotiff),
    "plan": RouteFormat("route.plan", "a QGroundControl flight plan", write_plan),
}
POLICY_FORMATS: dict[str, PolicyFormat] = {
    "onnx": PolicyFormat("policy.onnx", "the policy for any ONNX runtime", write_onnx),
    "stablehlo": PolicyFormat("policy.stablehlo", "the policy for JAX alone", write_stablehlo),
}
FORMATS: dict[str, RouteFormat | PolicyFormat] = {**ROUTE_FORMATS, **POLICY_FORMATS}


def find_format(name: str) -> RouteFormat | PolicyFormat:
    """The format of that name."""
    if name not in FORMATS:
        raise ExportError(f"unknown format '{name}'{did_you_mean(name, FORMATS)}")
    return FORMATS[name]
