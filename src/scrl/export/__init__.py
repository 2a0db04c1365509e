"""Export of routes and policies to files of other programs, one module per format."""

from __future__ import annotations

from scrl.export.formats import FORMATS, PolicyFormat, RouteFormat, find_format
from scrl.export.segments import ExportError, ExportOptions, Segment, segments
from scrl.export.writing import Exported, export
from scrl.opening import Driver, run_driver

__all__ = [
    "FORMATS",
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
