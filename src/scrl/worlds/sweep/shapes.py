"""Reads GeoJSON features into named polygons and repairs their faults.

Published files have outlines that cross themselves, open rings, points and lines beside areas, and
features without a name. Each fault is recorded with its repair. The caller reports them as
warnings, or refuses the file.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from scrl.errors import MapError, did_you_mean
from scrl.worlds.sweep.regions import check_names, located
from scrl.worlds.sweep.scanline import Edges

if TYPE_CHECKING:
    from shapely import Polygon

MOST_POINTS = 1_000_000
# Beyond this, double precision no longer tells neighbouring cells apart.
LARGEST_COORDINATE = 1e12
MOST_TANGLED = 200_000
"""Pairs of edges that are repaired in one file at most, which takes some seconds."""
PLAIN_PAIRS = 8
"""Overlapping pairs per edge of a simple outline: itself, its neighbours, and a few close ones."""
EDGES_AT_ONCE = 100
SHOWN_IN_WARNINGS = 3
SHOWN_IN_ERRORS = 12
USUAL_PROPERTY = "name"


@dataclass
class Faults:
    """The faults of a file, grouped by their repair, as in ("left out", "feature")."""

    found: list[tuple[str, tuple[str, str]]] = field(default_factory=list)
    tangled: int = 0
    """Pairs of edges that may cross, in the polygons that were repaired so far."""

    def add(self, text: str, verb: str, noun: str) -> None:
        """Record a fault."""
        self.found.append((text, (verb, noun)))

    @contextmanager
    def noted(self, verb: str, noun: str) -> Iterator[None]:
        """Record a map error that is raised inside, and continue after the block."""
        try:
            yield
        except MapError as error:
            self.add(str(error), verb, noun)

    def refuse(self) -> None:
        """Raise one error that names every fault, if there are any."""
        texts = [text for text, _ in self.found]
        if len(texts) == 1:
            raise MapError(texts[0])
        if texts:
            raise MapError("\n  ".join([f"{len(texts)} faults:", *_first(texts, SHOWN_IN_ERRORS)]))

    def warnings(self) -> list[str]:
        """One sentence for each kind of repair, with its first faults."""
        return [
            f"{verb} {count:,} {noun}{'s' if count > 1 else ''}: "
            + "; ".join(
                _first([text for text, way in self.found if way == (verb, noun)], SHOWN_IN_WARNINGS)
            )
            for (verb, noun), count in Counter(way for _, way in self.found).items()
        ]


def _first(texts: list[str], most: int) -> list[str]:
    rest = len(texts) - most
    return texts if rest <= 0 else [*texts[:most], f"and {rest:,} more"]


@dataclass(frozen=True)
class Shape:
    """One feature: its place in the file, its name, and its simple polygons."""

    place: str
    name: str
    polygons: list[Polygon]


def read_shapes(document: Any, region_property: str, faults: Faults) -> list[Shape]:
    """The shapes of a GeoJSON document that have an area; what was left out is in `faults`."""
    features = _features(document)
    if features is None:  # a bare geometry has no properties and is the only region
        raw = [("the geometry", "S1", document)]
    else:
        raw = _named(features, region_property, faults)
    drawn = []
    for place, name, geometry in raw:
        with faults.noted("left out", "feature"):
            drawn.append((place, name, list(_raw_polygons(geometry, place, faults))))
    points = sum(_point_count(polygons) for _, _, polygons in drawn)
    if points > MOST_POINTS:
        raise MapError(f"the file has {points:,} points and at most {MOST_POINTS:,} are allowed")
    shapes = [Shape(place, name, _polygons(raws, place, faults)) for place, name, raws in drawn]
    return [shape for shape in shapes if shape.polygons]


def _features(document: Any) -> list[Any] | None:
    """The features of a document; None if it is a bare geometry."""
    kind = _kind(document)
    if kind == "Topology":
        raise MapError(
            "this is TopoJSON, and GeoJSON is needed: convert it, for example with mapshaper.org "
            "or with `topo2geo` of topojson-client"
        )
    if document.get("UTF8Encoding"):
        raise MapError(
            "its coordinates are packed into texts, as ECharts does, and GeoJSON is needed: "
            "unpack them first"
        )
    if kind == "Feature":
        return [document]
    if kind != "FeatureCollection":
        return None
    features = document.get("features")
    if not isinstance(features, list) or not features:
        raise MapError("the FeatureCollection has no features")
    return features


def _kind(thing: Any) -> str:
    kind = thing.get("type") if isinstance(thing, dict) else None
    if not isinstance(kind, str):
        raise MapError("expected a GeoJSON object with a 'type'")
    return kind if kind.isprintable() else ascii(kind)


def _named(features: list[Any], region_property: str, faults: Faults) -> list[tuple[str, str, Any]]:
    """Place, name and geometry of each feature; those without a name are numbered."""
    known: list[tuple[int, dict[str, Any]]] = []
    for number, feature in enumerate(features, start=1):
        with faults.noted("left out", "feature"), located(f"feature {number}"):
            if _kind(feature) != "Feature":
                raise MapError(f"expected a Feature, found {_kind(feature)}")
            known.append((number, feature))
    names = _Names([_properties(feature) for _, feature in known], region_property, faults)
    named = []
    for number, feature in known:
        name = names.of(number, _properties(feature))
        named.append((f"feature {number} ({name!r})", name, feature.get("geometry")))
    return named


def _properties(feature: dict[str, Any]) -> dict[str, Any]:
    found = feature.get("properties")
    return found if isinstance(found, dict) else {}


def _other_property(properties: list[dict[str, Any]], wanted: str) -> str | None:
    """The property that gives the names if no feature has the usual one; None if there is none.

    Its texts differ between all features; a property with 'name' in its own name is preferred.
    """
    if any(wanted in each for each in properties):
        return None
    if wanted != USUAL_PROPERTY:
        everything = {key: value for each in properties for key, value in each.items()}
        raise MapError(f"no feature has the {_no_property(everything, wanted)[3:]}")
    keys = [key for key in (properties[0] if properties else {}) if key.isprintable()]
    fitting = []
    for key in keys:
        texts = [each.get(key) for each in properties]
        names = {text for text in texts if isinstance(text, str) and text.strip()}
        if len(names) == len(properties):
            fitting.append(key)
    return min(fitting, key=lambda key: ("name" not in key.lower(), keys.index(key)), default=None)


class _Names:
    """Names for features: a property, one that stands in for it, or the feature's number."""

    def __init__(self, properties: list[dict[str, Any]], wanted: str, faults: Faults) -> None:
        self.wanted, self.faults = wanted, faults
        self.instead = _other_property(properties, wanted)
        self.key = self.instead or wanted
        self.taken = {_text(each.get(self.key)) for each in properties}
        self.renamed: dict[str, str] = {}

    def of(self, number: int, properties: dict[str, Any]) -> str:
        """The name of a feature; features with one name in the file have one name."""
        found, place = _text(properties.get(self.key)), f"feature {number}"
        if self.wanted not in properties:
            verb = "numbered"
            if self.instead is not None:
                verb = f"took the property '{self.instead}' as the name of"
            text = f"{place}: {_no_property(properties, self.wanted)}"
            self.faults.add(text, verb, "feature")
        elif not found:
            value = json.dumps(properties[self.wanted])[:40]
            text = f"{place}: property '{self.wanted}' must be a name, not {value}"
            self.faults.add(text, "numbered", "feature")
        if not found:
            return self._free(f"S{number}")
        with self.faults.noted("renamed", "feature"), located(place):
            check_names([found])
            return found
        if found not in self.renamed:
            shown = "".join(letter if letter.isprintable() else " " for letter in found)
            cleaned = " ".join(shown.replace('"', "'").split())
            self.renamed[found] = self._free(cleaned or f"S{number}")
        return self.renamed[found]

    def _free(self, name: str) -> str:
        """The name, with a number appended if another feature has it."""
        tries = itertools.chain([name], (f"{name} ({count})" for count in itertools.count(2)))
        free = next(each for each in tries if each not in self.taken)
        self.taken.add(free)
        return free


def _no_property(properties: dict[str, Any], wanted: str) -> str:
    choices = did_you_mean(wanted, [key for key in properties if key.isprintable()])
    return f"no property '{wanted}'{choices or ': it has no properties'}"


def _text(value: Any) -> str:
    """A name as text; empty if the value is none."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # 7.0 and 7 name the same region
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return str(value).strip() if isinstance(value, str) or is_number else ""


def _raw_polygons(geometry: Any, place: str, faults: Faults) -> Iterator[Any]:
    with located(place):
        if geometry is None:
            raise MapError("it has no geometry")
        kind = _kind(geometry)
        inner = geometry.get("geometries" if kind == "GeometryCollection" else "coordinates")
        if kind not in ("Polygon", "MultiPolygon", "GeometryCollection"):
            raise MapError(f"a region must be a Polygon or a MultiPolygon, not a {kind}")
        if not isinstance(inner, list) or not inner:
            raise MapError(f"the {kind} is empty")
    if kind == "Polygon":
        yield inner
    elif kind == "MultiPolygon":
        yield from inner
    else:
        for part in inner:
            with faults.noted("left out", "part"):
                yield from _raw_polygons(part, place, faults)


def _point_count(polygons: list[Any]) -> int:
    rings = [ring for polygon in polygons if isinstance(polygon, list) for ring in polygon]
    return sum(len(ring) for ring in rings if isinstance(ring, list))


def _polygons(raws: list[Any], place: str, faults: Faults) -> list[Polygon]:
    """The simple polygons of a feature; those without an area are left out.

    A repair may split one into several.
    """
    polygons = []
    for number, raw in enumerate(raws, start=1):
        part = f", polygon {number}" if len(raws) > 1 else ""
        with faults.noted("left out", "polygon"), located(place + part):
            polygons += _repaired(_polygon(raw, place + part, faults), place + part, faults)
    return polygons


def _polygon(raw: Any, place: str, faults: Faults) -> Polygon:
    import shapely

    if not isinstance(raw, list) or not raw:
        raise MapError("a polygon must be a list of rings")
    outline, holes = _ring(raw[0], "the outline", place, faults), []
    for number, ring in enumerate(raw[1:], start=1):
        with faults.noted("left out", "hole"), located(place):
            holes.append(_ring(ring, f"hole {number}", place, faults))
    return shapely.Polygon(outline, holes)


def _repaired(polygon: Polygon, place: str, faults: Faults) -> list[Polygon]:
    """The polygon itself where it is simple, else the areas that it encloses."""
    import shapely

    if polygon.is_valid:
        return [polygon]
    reason, _, where = shapely.is_valid_reason(polygon).rstrip("]").partition("[")
    text = f"the polygon is not simple: {reason.lower()} at ({where})"
    faults.tangled += _tangled(polygon, MOST_TANGLED - faults.tangled)
    if faults.tangled > MOST_TANGLED:
        raise MapError(f"{text}; outlines cross too often to repair them all")
    made = shapely.make_valid(polygon, method="structure", keep_collapsed=False)
    parts = [part for part in shapely.get_parts(made).tolist() if part.area > 0]
    areas = [area for part in parts for area in shapely.get_parts(part).tolist()]
    if not areas:
        raise MapError(f"{text}; it encloses no area")
    faults.add(f"{place}: {text}", "repaired", "polygon")
    return areas


def _tangled(polygon: Polygon, most: int) -> int:
    """How many more pairs of edges have boxes that overlap than in a plain outline, up to `most`.

    A repair takes time in proportion, and each edge may cross all others.
    """
    import shapely

    edges = Edges.of([[polygon]])
    lines = np.asarray(shapely.linestrings(np.stack([edges.start, edges.end], axis=1)))
    tree, found = shapely.STRtree(lines), -PLAIN_PAIRS * len(lines)
    for begin in range(0, len(lines), EDGES_AT_ONCE):
        found += tree.query(lines[begin : begin + EDGES_AT_ONCE]).shape[1]
        if found > most:
            break
    return max(found, 0)


def _ring(raw: Any, which: str, place: str, faults: Faults) -> list[tuple[float, float]]:
    with located(which):
        if not isinstance(raw, list):
            raise MapError("a ring must be a list of points")
        points = [_point(point, place) for place, point in enumerate(raw, start=1)]
        if len(points) < 4:
            raise MapError(f"a closed ring needs at least 4 points, this one has {len(points)}")
    if points[0] != points[-1]:
        text = f"the ring is not closed: from {points[0]} it ends at {points[-1]}"
        faults.add(f"{place}: {which}: {text}", "closed", "ring")
        points.append(points[0])
    return points


def _point(raw: Any, number: int) -> tuple[float, float]:
    if not isinstance(raw, list) or len(raw) < 2:
        raise MapError(f"point {number} must be [x, y]")
    for value in raw[:2]:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise MapError(f"point {number} holds {json.dumps(value)[:40]}, which is no number")
        if not abs(value) <= LARGEST_COORDINATE:  # written so that NaN fails too
            limit = f"{LARGEST_COORDINATE:g}"
            raise MapError(f"point {number} is NaN, infinite or beyond {limit}")
    return float(raw[0]), float(raw[1])
