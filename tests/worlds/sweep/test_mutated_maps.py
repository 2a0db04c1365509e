"""A thousand damaged map files of every kind: a map or a map error, never another exception."""

import copy
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from scrl.errors import MapError
from scrl.worlds.sweep.maps import MapOptions, load_map
from scrl.worlds.sweep.regions import RegionMap

SQUARE = [[0, 0], [4, 0], [4, 4], [0, 4], [0, 0]]
HOLE = [[1, 1], [2, 1], [2, 2], [1, 1]]
GEOJSON = {
    "type": "FeatureCollection",
    "features": [
        {
            "type": "Feature",
            "properties": {"name": name, "size": 3},
            "geometry": {"type": kind, "coordinates": coordinates},
        }
        for name, kind, coordinates in (
            ("a", "Polygon", [SQUARE, HOLE]),
            ("b", "MultiPolygon", [[SQUARE], [[[9, 9], [12, 9], [9, 12], [9, 9]]]]),
        )
    ],
}
VALUES = [None, True, -1, 0.5, 1e300, 10**400, float("nan"), "", "x", "\ud800", [], {}, [[]], "b"]
LABELS = np.arange(30, dtype=np.uint16).reshape(5, 6) % 4


def saved_image(kind: str) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(LABELS.astype(np.uint8)).save(buffer, kind)
    return buffer.getvalue()


def saved_array() -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, LABELS)
    return buffer.getvalue()


def changed_value(rng: np.random.Generator) -> bytes:
    """The GeoJSON text with one value somewhere in the tree replaced, dropped or doubled."""
    document = copy.deepcopy(GEOJSON)
    parent: Any = None
    key: Any = None
    node: Any = document
    while parent is None or (isinstance(node, list | dict) and node and rng.random() < 0.85):
        parent = node
        keys = list(node) if isinstance(node, dict) else range(len(node))
        key = keys[rng.integers(len(keys))]
        node = node[key]
    match rng.integers(3):
        case 0:
            parent[key] = VALUES[rng.integers(len(VALUES))]
        case 1:
            del parent[key]
        case _:
            if isinstance(parent, list):
                parent.append(node)
    return json.dumps(document).encode()


def changed_bytes(rng: np.random.Generator, original: bytes) -> bytes:
    """One to three bytes flipped, cut out or doubled."""
    content = bytearray(original)
    for _ in range(rng.integers(1, 4)):
        at = int(rng.integers(len(content)))
        match rng.integers(4):
            case 0 | 1:
                content[at] = int(rng.integers(256))
            case 2:
                del content[at : at + int(rng.integers(1, 9))]
            case _:
                content[at:at] = content[at : at + int(rng.integers(1, 30))]
    return bytes(content)


@pytest.mark.parametrize(
    ("suffix", "content", "fewest_read"),
    [
        ("geojson", None, 20),
        ("geojson", json.dumps(GEOJSON).encode(), 0),
        ("npy", saved_array(), 5),
        ("png", saved_image("PNG"), 0),
        ("tif", saved_image("TIFF"), 20),
        ("bmp", saved_image("BMP"), 20),
        ("gif", saved_image("GIF"), 5),
    ],
    ids=["geojson-values", "geojson-bytes", "npy", "png", "tif", "bmp", "gif"],
)
def test_a_damaged_file_gives_a_map_or_a_map_error(
    tmp_path: Path, suffix: str, content: bytes | None, fewest_read: int
) -> None:
    rng = np.random.default_rng(7)
    path = tmp_path / f"damaged.{suffix}"
    read = refused = 0
    for _ in range(150):
        path.write_bytes(changed_value(rng) if content is None else changed_bytes(rng, content))
        try:
            region_map = load_map(path, MapOptions(coordinates="plain"))
        except MapError as error:
            refused += str(error).startswith(f"{path}: ") and bool(str(error).encode())
        else:
            read += isinstance(region_map, RegionMap)
    assert read + refused == 150
    assert read >= fewest_read
    assert refused >= 20
