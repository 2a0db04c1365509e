"""One door for every map file: options, fields, forbidden shapes, and files that are not there."""

import json
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest

from scrl.errors import MapError
from scrl.worlds.sweep.maps import MapOptions, load_map


def rectangle(name: str, left: int, bottom: int, right: int, top: int) -> dict[str, Any]:
    ring = [[left, bottom], [right, bottom], [right, top], [left, top], [left, bottom]]
    geometry = {"type": "Polygon", "coordinates": [ring]}
    return {"type": "Feature", "properties": {"name": name}, "geometry": geometry}


@pytest.fixture
def farm(tmp_path: Path) -> Path:
    """A field of 3 x 4 cells in the lower left of a 4 x 5 grid, a pond in it, wheat and a wood."""
    shapes = [
        rectangle("farm", 0, 0, 4, 3),
        rectangle("pond", 1, 1, 2, 2),
        rectangle("wheat", 0, 0, 2, 4),
        rectangle("wood", 4, 3, 5, 4),
    ]
    path = tmp_path / "farm.geojson"
    path.write_text(json.dumps({"type": "FeatureCollection", "features": shapes}))
    return path


@pytest.fixture
def labels(tmp_path: Path) -> Path:
    path = tmp_path / "labels.npy"
    np.save(path, np.array([[1, 1, 2], [3, 3, 0]]))
    return path


def refusal(path: Path, **options: Any) -> str:
    with pytest.raises(MapError) as caught:
        load_map(path, MapOptions(**options))
    return str(caught.value).removeprefix(f"{path}: ")


def test_field_and_forbidden_shapes_are_not_regions(farm: Path) -> None:
    shapes: dict[str, Any] = {"grid": [4, 5], "forbidden": ["pond"]}  # as in a problem file
    region_map = load_map(farm, MapOptions(field=("farm", "wood"), **shapes))
    assert region_map.names == ("wheat",)
    assert region_map.field.sum() == 13
    assert region_map.forbidden.sum() == 1
    assert region_map.enterable.sum() == 12
    assert region_map.sizes.tolist() == [5]
    whole = load_map(farm, MapOptions(grid=(4, 5)))
    assert whole.field.all()
    assert not whole.forbidden.any()
    assert whole.names == ("farm", "pond", "wheat", "wood")


def test_a_star_makes_all_regions_the_field_and_they_stay_regions(farm: Path) -> None:
    """The farm has 12 cells, the wheat two outside it, the wood one; five cells are in nothing."""
    region_map = load_map(farm, MapOptions(grid=(4, 5), field="*", forbidden=("pond",)))
    assert region_map.names == ("farm", "wheat", "wood")
    assert region_map.field.sum() == 15
    assert region_map.enterable.sum() == 14


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"field": "frm"}, "field: no shape 'frm': did you mean 'farm'?"),
        ({"forbidden": ["lake"]}, "forbidden: no shape 'lake': known are farm, pond, wheat, wood"),
        ({"field": "farm"}, "region 'wood' is empty: it lies fully outside the field"),
        (
            {"forbidden": "wheat"},
            "region 'pond' is empty: all its cells in the field are forbidden",
        ),
        ({"field": "farm", "forbidden": "farm"}, "'farm' cannot be both field and forbidden"),
        (
            {"field": "farm", "forbidden": ["pond", "wheat", "wood"]},
            "no region is left: every shape is named as field or forbidden",
        ),
        (
            {"regions": ["a"]},
            "regions renames the labels of images and arrays; "
            "here the property 'name' gives the names",
        ),
        (
            {"region_property": "nam"},
            "no feature has the property 'nam': did you mean 'name'?",
        ),
    ],
)
def test_shapes_that_do_not_fit(farm: Path, options: dict[str, Any], message: str) -> None:
    assert refusal(farm, grid=(4, 5), **options) == message


def test_names_and_a_place_for_labels(labels: Path) -> None:
    named: dict[str, Any] = {"regions": ["a", "b", "pond"], "forbidden": "pond"}
    region_map = load_map(labels, MapOptions(**named))
    assert region_map.names == ("a", "b")
    assert region_map.enterable.tolist() == [[True, True, True], [False, False, True]]
    placed = load_map(labels, MapOptions(extent=(0, 0, 3, 2))).georeference
    assert placed is not None
    assert placed.places(np.array([[2.0, 3.0]])).tolist() == [[3, 0]]
    assert refusal(labels, regions=["a"]) == ("label 3 has no name: names are given for 1 to 1")
    assert "not degrees" in refusal(labels, extent=(0, 0, 3000, 2))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"grid": [50]}, "grid must be [rows, columns], two whole numbers from 1, not [50]"),
        ({"grid": [0, 5]}, "grid must be [rows, columns], two whole numbers from 1, not [0, 5]"),
        (
            {"grid": [5, 5.0]},
            "grid must be [rows, columns], two whole numbers from 1, not [5, 5.0]",
        ),
        ({"grid": [True, 5]}, "grid must be [rows, columns], two whole numbers from 1, not [True"),
        ({"grid": 50}, "grid must be [rows, columns], two whole numbers from 1, not 50"),
        ({"grid": [2001, 2000]}, "a grid of 2001 x 2000 has more than 4,000,000 cells"),
        ({"extent": [0, 0, 1]}, "extent must be [xmin, ymin, xmax, ymax], each min below its max"),
        ({"extent": [1, 0, 0, 1]}, "extent must be [xmin, ymin, xmax, ymax], each min below its"),
        ({"extent": [0, 0, 1, float("nan")]}, "extent must be [xmin, ymin, xmax, ymax], each min"),
        ({"extent": [0, 0, 1, "1"]}, "extent must be [xmin, ymin, xmax, ymax], each min below"),
        ({"coordinates": "plane"}, "coordinates = 'plane': did you mean 'plain'?"),
        ({"regions": "abc"}, "regions must be a list of names, not 'abc'"),
        ({"field": [3]}, "field must hold names, not 3"),
        ({"region_property": 3}, "region_property must be a text, not 3"),
        ({"strict": "yes"}, "strict must be true or false, not 'yes'"),
    ],
)
def test_options_are_checked_when_written(options: dict[str, Any], message: str) -> None:
    with pytest.raises(MapError) as caught:
        MapOptions(**options)
    assert str(caught.value).startswith(message)


def test_files_that_cannot_be_read(tmp_path: Path, farm: Path) -> None:
    assert refusal(tmp_path / "frm.geojson") == (
        "there is no such file: did you mean 'farm.geojson'?"
    )
    assert refusal(tmp_path / "no" / "x.npy") == "there is no such file"
    ending = "a map's file name must end in .geojson, .json, .png, .tif, .tiff, .bmp, .gif, .npy"
    assert refusal(tmp_path / "farm.shp") == f"{ending}, not '.shp'"
    assert refusal(tmp_path / "farm") == f"{ending}, not none"
    (tmp_path / "folder.png").mkdir()
    assert refusal(tmp_path / "folder.png") == "this is a folder, not a map file"


@pytest.mark.parametrize("name", ["a.geojson", "a.png", "a.npy"])
def test_a_file_that_may_not_be_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    path = tmp_path / name
    path.write_bytes(b"{}")

    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("io.open", refuse)
    monkeypatch.setattr("builtins.open", refuse)
    assert refusal(path).endswith("Permission denied")
