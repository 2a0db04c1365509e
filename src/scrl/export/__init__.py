"""Export of routes and policies to files of other programs, one module per format."""

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

__all__ = [
    "FORMATS",
    "POLICY_FORMATS",
    "ROUTE_FORMATS",
    "ExportError",
    "ExportOptions",
    "Exported",
    "PolicyFormat",
    "RouteFormat",
    "Segment",
    "export",
    "find_format",
    "segments",
]
