"""KML 2.2 (OGC 07-147r2): a line for each segment, coloured by speed, for map viewers."""

from __future__ import annotations

from xml.etree import ElementTree as Xml

from scrl.export.frame import Frame, degrees
from scrl.export.geojson import properties
from scrl.export.options import ExportOptions
from scrl.export.segments import Segment, segments
from scrl.route import Route

NAMESPACE = "http://www.opengis.net/kml/2.2"

SHADES = ("440154", "3b528b", "21918c", "5ec962", "fde725")
"""Red, green, blue from slow to fast, the same for every kind of sight."""
TRANSIT_SHADE = "888888"


def write_kml(route: Route, options: ExportOptions) -> bytes:
    """A document with one folder of lines."""
    frame = degrees(route.problem.world_spec, "KML")
    kml = Xml.Element("kml", xmlns=NAMESPACE)
    document = Xml.SubElement(kml, "Document")
    _text(document, "name", route.problem.name)
    _text(document, "description", _description(route))
    for number, shade in enumerate((*SHADES, TRANSIT_SHADE)):
        _style(document, f"shade{number}", shade)
    folder = Xml.SubElement(document, "Folder")
    _text(folder, "name", "route")
    for segment in segments(route, options.tolerance):
        _placemark(folder, segment, route, frame, options.altitude)
    Xml.indent(kml)
    return Xml.tostring(kml, encoding="utf-8", xml_declaration=True) + b"\n"


def _text(parent: Xml.Element, tag: str, text: str) -> None:
    Xml.SubElement(parent, tag).text = text


def _description(route: Route) -> str:
    unit = route.problem.world_spec.units.unit
    return "\n".join(f"{name}: {amount:.2f} {unit}" for name, amount in route.totals.items())


def _style(document: Xml.Element, name: str, shade: str) -> None:
    """KML writes a colour as opacity, blue, green, red."""
    line = Xml.SubElement(Xml.SubElement(document, "Style", id=name), "LineStyle")
    red, green, blue = shade[:2], shade[2:4], shade[4:]
    _text(line, "color", f"ff{blue}{green}{red}")
    _text(line, "width", "3")


def _placemark(
    folder: Xml.Element, segment: Segment, route: Route, frame: Frame, altitude: float
) -> None:
    placemark = Xml.SubElement(folder, "Placemark")
    units = route.problem.world_spec.units
    speed = "on to the next leg" if segment.is_transit else units.speed(segment.speed)
    _text(placemark, "name", speed)
    _text(placemark, "styleUrl", f"#shade{_shade(segment, route)}")
    data = Xml.SubElement(placemark, "ExtendedData")
    known = properties(segment, route)
    for region, amount in known.pop("received").items():
        known[f"received {region}"] = amount
    for key, value in known.items():
        if value is not None:
            text = str(value).lower() if isinstance(value, bool) else str(value)
            _text(Xml.SubElement(data, "Data", name=key), "value", text)
    line = Xml.SubElement(placemark, "LineString")
    _text(line, "altitudeMode", "relativeToGround")
    ends = frame.places(segment.ends).tolist()
    _text(line, "coordinates", " ".join(f"{x:.7f},{y:.7f},{altitude:g}" for x, y in ends))


def _shade(segment: Segment, route: Route) -> int:
    if segment.is_transit:
        return len(SHADES)
    share = segment.speed / route.problem.world_spec.vehicle.max_speed
    return min(int(share * len(SHADES)), len(SHADES) - 1)
