"""Routes and policies as files that other programs read: one file per format, one table."""

from __future__ import annotations

from scrl.export.formats import (
    FORMATS,
    POLICY_FORMATS,
    ROUTE_FORMATS,
    PolicyFormat,
    RouteFormat,
    find_format,
)
from scrl.export.segments import ExportError, ExportOptions, Segment, segments
from scrl.export.writing import Exported, export
from scrl.opening import Driver, run_driver

__all__ = [
    "FORMATS",
    "POLICY_FORMATS",
    "ROUTE_FORMATS",
    "Driver",
    "ExportError",
    "ExportOptions",
    "Exported",
    "PolicyFormat",
    "RouteFormat",
    "Segment",
    "export",
    "find_format",
    "run_driver",
    "segments",
]
