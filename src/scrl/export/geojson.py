"""GeoJSON (RFC 7946): a LineString for each segment, with its speed and amounts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from scrl.export.frame import Frame, frame_of, neat
from scrl.export.segments import ExportOptions, Segment, segments
from scrl.route import Route


def write_geojson(route: Route, options: ExportOptions, warnings: Sequence[str] = ()) -> bytes:
    """A FeatureCollection, with the values of the whole route as foreign members."""
    spec = route.problem.world_spec
    frame = frame_of(spec)
    document = {
        "type": "FeatureCollection",
        "name": route.problem.name,
        "warnings": list(warnings),
        "coordinates_are": frame.sentence,
        "unit": spec.units.unit,
        "received": {name: neat(amount) for name, amount in route.totals.items()},
        **totals(route),
        "features": [_feature(each, route, frame) for each in segments(route, options.tolerance)],
    }
    return (json.dumps(document, ensure_ascii=False, allow_nan=False) + "\n").encode()


def totals(route: Route) -> dict[str, float | None]:
    """Time and length of the whole route and of its transits; null without their scale.

    The time of transits has that of turns in it: `turns` times `turn_seconds`.
    """
    units = route.problem.world_spec.units

    def scaled(value: float, scale: float | None) -> float | None:
        return None if scale is None else neat(value * scale)

    return {
        "driving_steps": neat(route.steps + route.transit_steps),
        "driving_seconds": scaled(route.steps + route.transit_steps, units.step),
        "transit_steps": neat(route.transit_steps),
        "transit_seconds": scaled(route.transit_steps, units.step),
        "transit_m": scaled(route.transit_length, units.cell),
        "driving_m": scaled(route.length, units.cell),
        "turns": len(route.transits),
        "turn_seconds": scaled(route.problem.world_spec.turn_steps, units.step),
    }


def _feature(segment: Segment, route: Route, frame: Frame) -> dict[str, Any]:
    line = frame.places(segment.ends).tolist()
    return {
        "type": "Feature",
        "geometry": {"type": "LineString", "coordinates": line},
        "properties": properties(segment, route),
    }


def properties(segment: Segment, route: Route) -> dict[str, Any]:
    """The properties of a segment; null for those without a scale in the problem."""
    units, vehicle = route.problem.world_spec.units, route.problem.world_spec.vehicle
    has_speed = units.cell is not None and units.step is not None
    received = zip(route.regions, segment.received.tolist(), strict=True)
    return {
        "first_step": segment.first_step,
        "steps": neat(segment.steps),
        "seconds": None if units.step is None else neat(segment.steps * units.step),
        "length_m": None if units.cell is None else neat(segment.length * units.cell),
        "speed_cells_per_step": neat(segment.speed),
        "speed_m_s": neat(units.metres_per_second(segment.speed)) if has_speed else None,
        "amount": neat(segment.amount),
        **({"flow_per_step": neat(segment.flow)} if vehicle.has_flow else {}),
        "received": {name: neat(amount) for name, amount in received if amount},
        "transit": segment.is_transit,
    }
