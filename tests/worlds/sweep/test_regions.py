"""Region maps and georeferences: what they count, what they refuse, and in which words."""

import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import ArrayLike, DTypeLike

from scrl.errors import MapError
from scrl.worlds.sweep.georeference import Georeference, from_extent
from scrl.worlds.sweep.regions import RegionMap, from_labels, from_masks

LABELS = np.array([[1, 1, 0], [3, 1, 0]])


def test_labels_that_occur_become_regions():
    region_map = from_labels(LABELS)
    assert region_map.names == ("S1", "S3")
    assert region_map.masks.tolist() == [
        [[True, True, False], [False, True, False]],
        [[False, False, False], [True, False, False]],
    ]
    assert region_map.sizes.tolist() == [3, 1]
    assert region_map.shape == (2, 3)
    assert region_map.enterable.all()


def test_sizes_count_only_what_can_be_entered():
    region_map = from_labels(LABELS)
    field = np.array([[True, True, True], [True, False, True]])
    forbidden = np.array([[True, False, False], [False, False, False]])
    assert replace(region_map, field=field, forbidden=forbidden).sizes.tolist() == [1, 1]


@pytest.mark.parametrize("kind", [np.uint8, np.int64, np.uint64, np.float32, np.float64, ">i2"])
def test_labels_of_every_number_type(kind: DTypeLike) -> None:
    assert from_labels(LABELS.astype(kind)).names == ("S1", "S3")


def test_named_labels():
    region_map = from_labels(np.array([[1, 2], [2, 0]]), ["north", "south"])
    assert region_map.names == ("north", "south")
    assert region_map.sizes.tolist() == [1, 2]


def test_overlapping_masks():
    masks = np.array([[[1, 1, 0]], [[0, 1, 1]]])
    region_map = from_masks(masks)
    assert region_map.names == ("S1", "S2")
    assert region_map.sizes.tolist() == [2, 2]


@pytest.mark.parametrize(
    ("labels", "names", "message"),
    [
        ([[0, 0]], None, "the map has no region: every cell is unlabelled"),
        ([[1, 3]], ["a", "b", "c"], "region 'b' is empty: it has no cell"),
        ([[1, 3]], ["a"], "label 3 has no name: names are given for 1 to 1"),
        ([[1, 2]], ["a", "a"], "two regions have the name 'a'"),
        ([[1]], [" "], "' ' cannot be the name of a region: it must be printable text"),
        ([[1]], ['a"'], "'a\"' cannot be the name of a region: rules quote names with '\"'"),
        ([[1, -2]], None, "labels must be whole numbers from 0: row 0, column 1 holds -2"),
        ([[1.5]], None, "labels must be whole numbers from 0: row 0, column 0 holds 1.5"),
        ([[1.0, math.nan]], None, "labels must be whole numbers from 0: row 0, column 1 holds nan"),
        ([[math.inf]], None, "labels must be whole numbers from 0: row 0, column 0 holds inf"),
        ([1, 2], None, "a label array needs the axes row and column; it has (2,)"),
        ([[]], None, "a label array needs the axes row and column; it has (1, 0)"),
        ([[1j]], None, "labels must be whole numbers, not values of type complex128"),
        ([["a"]], None, "labels must be whole numbers, not values of type <U1"),
    ],
)
def test_labels_refused(labels: ArrayLike, names: list[str] | None, message: str) -> None:
    with pytest.raises(MapError) as caught:
        from_labels(np.array(labels), names)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("masks", "names", "message"),
    [
        ([[1, 0]], None, "a stack of masks needs the axes region, row, column; it has (1, 2)"),
        ([[[2, 0]]], None, "a stack of masks may hold only true and false, or 1 and 0"),
        ([[[1, 0]]], ["a", "b"], "2 names are given for 1 masks"),
        ([[[1, 0]], [[0, 0]]], None, "region 'S2' is empty: it has no cell"),
    ],
)
def test_masks_refused(masks: ArrayLike, names: list[str] | None, message: str) -> None:
    with pytest.raises(MapError) as caught:
        from_masks(np.array(masks), names)
    assert str(caught.value) == message


@pytest.mark.usefixtures("unchecked_shapes")
def test_a_map_must_fit_together():
    region_map = from_labels(LABELS)
    nothing, wrong = np.zeros((2, 3), bool), np.zeros((3, 2), bool)
    for change in (
        {"field": wrong},
        {"forbidden": wrong},
        {"names": ("a",)},
        {"field": nothing.astype(int)},
        {"georeference": from_extent((0, 0, 1, 1), (3, 2), "plain")},
    ):
        with pytest.raises(MapError):
            replace(region_map, **change)


@pytest.mark.parametrize(
    ("field", "forbidden", "message"),
    [
        ([[1, 1, 1], [0, 1, 1]], np.zeros((2, 3)), "region 'S3' is empty: it lies fully outside"),
        (np.ones((2, 3)), [[0, 0, 0], [1, 0, 0]], "region 'S3' is empty: all its cells in the"),
        (np.ones((2, 3)), np.ones((2, 3)), "no cell can be entered"),
    ],
)
def test_an_unreachable_region_is_empty(
    field: ArrayLike, forbidden: ArrayLike, message: str
) -> None:
    region_map = from_labels(LABELS)
    with pytest.raises(MapError, match=message):
        RegionMap(
            region_map.names,
            region_map.masks,
            np.array(field, bool),
            np.array(forbidden, bool),
        )


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.ones((2001, 2000), np.uint8), "4,002,000 cells and at most 4,000,000 are allowed"),
        (np.arange(2002).reshape(2, 1001), "2,001 regions and at most 2,000 are allowed"),
        (np.arange(640_000).reshape(800, 800) % 400, "times 399 regions is more than 200,000,000"),
    ],
)
def test_sizes_are_bounded(labels: np.ndarray, message: str) -> None:
    with pytest.raises(MapError, match=message):
        from_labels(labels)


def test_places_count_down_from_the_top():
    where = Georeference(left=10, top=50, cell_width=2, cell_height=4, shape=(5, 3))
    corners = np.array([[0.0, 0.0], [0.5, 0.5], [5.0, 3.0]])
    assert where.places(corners).tolist() == [[10, 50], [11, 48], [16, 30]]
    assert where.extent == (10, 30, 16, 50)
    assert where.cell_size_metres() is None


@pytest.mark.parametrize(
    # A degree of longitude and of latitude on WGS84, from published tables.
    ("latitude", "east", "north"),
    [(0, 111_320, 110_574), (45, 78_847, 111_132), (60, 55_800, 111_412)],
)
def test_a_degree_in_metres(latitude: float, east: float, north: float) -> None:
    where = from_extent((0, latitude - 0.5, 1, latitude + 0.5), (1, 1), "geographic")
    assert where.cell_size_metres() == pytest.approx((east, north), abs=1)


@pytest.mark.parametrize(
    ("extent", "message"),
    [
        ((0, 0, 500000, 1), 'set coordinates = "plain" for a map in metres'),
        ((0, -91, 1, 1), "y from -91 to 1"),
        ((0, 0, 0, 1), "a cell must be wider and higher than 0"),
        ((0, 0, math.inf, 1), "not finite"),
    ],
)
def test_georeferences_refused(extent: tuple[float, float, float, float], message: str) -> None:
    with pytest.raises(MapError, match=message):
        from_extent(extent, (2, 2), "geographic")
