"""GeoJSON (RFC 7946): a LineString for each segment, with its speed and amounts."""

from __future__ import annotations

import json
from typing import Any

from scrl.export.frame import Frame, frame_of
from scrl.export.options import ExportOptions
from scrl.export.segments import Segment, segments
from scrl.route import Route


def write_geojson(route: Route, options: ExportOptions) -> bytes:
    """A FeatureCollection; what holds for the whole route stands beside the features."""
    spec = route.problem.world_spec
    frame = frame_of(spec)
    document = {
        "type": "FeatureCollection",
        "name": route.problem.name,
        "coordinates_are": frame.sentence,
        "unit": spec.units.unit,
        "received": route.totals,
        "features": [_feature(each, route, frame) for each in segments(route, options.tolerance)],
    }
    return (json.dumps(document, ensure_ascii=False, allow_nan=False) + "\n").encode()


def _feature(segment: Segment, route: Route, frame: Frame) -> dict[str, Any]:
    line = frame.places(segment.ends).tolist()
    return {
        "type": "Feature",
        "geometry": {"type": "LineString", "coordinates": line},
        "properties": properties(segment, route),
    }


def properties(segment: Segment, route: Route) -> dict[str, Any]:
    """What is known of a segment; what the problem has no scale for is null."""
    units = route.problem.world_spec.units
    has_speed = units.cell is not None and units.step is not None
    received = zip(route.regions, segment.received.tolist(), strict=True)
    return {
        "first_step": segment.first_step,
        "steps": segment.steps,
        "seconds": None if units.step is None else segment.steps * units.step,
        "speed_cells_per_step": segment.speed,
        "speed_m_s": units.metres_per_second(segment.speed) if has_speed else None,
        "amount": segment.amount,
        "received": {name: amount for name, amount in received if amount},
        "transit": segment.is_transit,
    }
