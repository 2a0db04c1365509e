"""The built-in maps: the sizes that reproduce the paper, and the script that drew them."""

import json
import runpy
from pathlib import Path

import numpy as np
import pytest

from scrl.worlds.sweep.maps import MapOptions, load_map

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "src" / "scrl" / "problems" / "builtin"
SIZES = {"agri": (324, 468, 562, 426, 267), "med": (1011, 120, 80, 87, 889)}
UNLABELLED = {"agri": 453, "med": 313}


@pytest.mark.parametrize("stem", ["agri", "med"])
def test_the_drawn_maps_have_the_published_sizes(stem: str) -> None:
    region_map = load_map(FOLDER / f"{stem}.geojson", MapOptions(coordinates="plain"))
    assert region_map.names == ("S1", "S2", "S3", "S4", "S5")
    assert tuple(region_map.sizes.tolist()) == SIZES[stem]
    covered = region_map.masks.sum(axis=0)
    assert covered.max() == 1
    assert np.count_nonzero(covered == 0) == UNLABELLED[stem]
    assert region_map.georeference is not None
    assert region_map.georeference.extent == (0, 0, 50, 50)


@pytest.mark.parametrize("stem", ["agri", "med"])
def test_the_script_draws_them_again_bit_for_bit(stem: str) -> None:
    script = runpy.run_path(str(ROOT / "tools" / "draw_maps.py"))
    text = script["document"](script[stem.upper()])
    assert text == (FOLDER / f"{stem}.geojson").read_text(encoding="utf-8")


@pytest.mark.parametrize("stem", ["agri", "med"])
def test_they_are_clean_to_read(stem: str) -> None:
    features = json.loads((FOLDER / f"{stem}.geojson").read_text(encoding="utf-8"))["features"]
    assert len(features) > 3
    for feature in features:
        assert feature["properties"]["title"]
        (ring,) = feature["geometry"]["coordinates"]
        assert len(ring) <= 10
        assert all(round(value, 2) == value for point in ring for value in point)


def test_a_size_that_no_shift_reaches_is_an_error():
    script = runpy.run_path(str(ROOT / "tools" / "draw_maps.py"))
    square = ((0, 0), (2, 0), (2, 2), (0, 2))
    sketch = script["Sketch"]("S9", "", 999, 1, (1, 0), square)
    with pytest.raises(RuntimeError, match="S9: no shift gives 999 cells"):
        script["finished"](sketch)
