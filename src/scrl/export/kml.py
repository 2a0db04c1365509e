"""KML 2.2 (OGC 07-147r2): a line for each segment, coloured by speed, for map viewers."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree as Xml

from scrl.export.frame import Frame, degrees, neat
from scrl.export.geojson import properties
from scrl.export.segments import ExportOptions, Segment, segments
from scrl.route import Route

NAMESPACE = "http://www.opengis.net/kml/2.2"

SHADES = ("440154", "3b528b", "21918c", "5ec962", "fde725")
"""RGB colours from slow to fast, safe for colour-blind readers."""
TRANSIT_SHADE = "888888"


def write_kml(route: Route, options: ExportOptions, warnings: Sequence[str] = ()) -> bytes:
    """A document with one folder of lines."""
    frame = degrees(route.problem.world_spec, "KML")
    kml = Xml.Element("kml", xmlns=NAMESPACE)
    document = Xml.SubElement(kml, "Document")
    _text(document, "name", route.problem.name)
    _text(document, "description", _description(route, warnings))
    for number, shade in enumerate((*SHADES, TRANSIT_SHADE)):
        _style(document, f"shade{number}", shade)
    folder = Xml.SubElement(document, "Folder")
    _text(folder, "name", "route")
    columns = _columns(route.regions)
    for segment in segments(route, options.tolerance):
        placemark = Xml.SubElement(folder, "Placemark")
        _describe(placemark, segment, route, columns)
        _draw(placemark, segment, frame, options.altitude)
    Xml.indent(kml)
    return Xml.tostring(kml, encoding="utf-8", xml_declaration=True) + b"\n"


def _text(parent: Xml.Element, tag: str, text: str) -> None:
    Xml.SubElement(parent, tag).text = text


def _description(route: Route, warnings: Sequence[str]) -> str:
    """The warnings, what each region receives, and the time."""
    units = route.problem.world_spec.units
    lines = [f"WARNING: {each}" for each in warnings]
    lines += [f"{name}: {neat(amount)} {units.unit}" for name, amount in route.totals.items()]
    return "\n".join([*lines, f"time: {route.duration}"])


def _columns(regions: Sequence[str]) -> dict[str, str]:
    """A column for each region, with names that stay unique in GDAL.

    GDAL ignores case and treats all characters but ASCII letters and digits as equal.
    """
    taken: set[str] = set()
    columns = {}
    for region in regions:
        name, number = f"received {region}", 1
        while (seen := _as_gdal_sees(name)) in taken:
            number += 1
            name = f"received {region} {number}"
        taken.add(seen)
        columns[region] = name
    return columns


def _as_gdal_sees(name: str) -> str:
    letters = (chr(byte).lower() for byte in name.encode())
    return "".join(each if each.isascii() and each.isalnum() else "_" for each in letters)


def _style(document: Xml.Element, name: str, shade: str) -> None:
    """KML writes a colour as opacity, blue, green, red."""
    line = Xml.SubElement(Xml.SubElement(document, "Style", id=name), "LineStyle")
    red, green, blue = shade[:2], shade[2:4], shade[4:]
    _text(line, "color", f"ff{blue}{green}{red}")
    _text(line, "width", "3")


def _describe(
    placemark: Xml.Element, segment: Segment, route: Route, columns: dict[str, str]
) -> None:
    units = route.problem.world_spec.units
    speed = "transit: give nothing out" if segment.is_transit else units.speed(segment.speed)
    _text(placemark, "name", speed)
    _text(placemark, "styleUrl", f"#shade{_shade(segment, route)}")
    data = Xml.SubElement(placemark, "ExtendedData")
    known = properties(segment, route)
    for region, amount in known.pop("received").items():
        known[columns[region]] = amount
    for key, value in known.items():
        if value is not None:
            text = str(value).lower() if isinstance(value, bool) else str(value)
            _text(Xml.SubElement(data, "Data", name=key), "value", text)


def _draw(placemark: Xml.Element, segment: Segment, frame: Frame, altitude: float) -> None:
    line = Xml.SubElement(placemark, "LineString")
    _text(line, "altitudeMode", "relativeToGround")
    ends = frame.places(segment.ends).tolist()
    _text(line, "coordinates", " ".join(f"{x:.7f},{y:.7f},{altitude:g}" for x, y in ends))


def _shade(segment: Segment, route: Route) -> int:
    if segment.is_transit:
        return len(SHADES)
    share = segment.speed / route.problem.world_spec.vehicle.max_speed
    return min(int(share * len(SHADES)), len(SHADES) - 1)
