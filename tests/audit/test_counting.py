"""Counting along the way, against Shapely's intersections and numbers worked by hand."""

from __future__ import annotations

import numpy as np
import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st

from scrl.audit.counting import (
    Lines,
    amounts_of_cells,
    count_in_cells,
    count_in_polygons,
)


def lines_of(points: np.ndarray, amounts: np.ndarray) -> Lines:
    return Lines(points[:-1], points[1:], amounts)


def blobs(seed: int, count: int) -> list[shapely.Geometry]:
    """Polygons with holes and several parts, which overlap."""
    draw = np.random.default_rng(seed)
    found: list[shapely.Geometry] = []
    for _ in range(count):
        parts = [
            shapely.Point(x, y).buffer(size).difference(shapely.Point(x, y).buffer(hole * size))
            for x, y, size, hole in draw.uniform((0, 0, 0.5, 0.0), (20, 10, 4, 0.8), (3, 4))
        ]
        found.append(shapely.union_all(parts))
    return found


@settings(max_examples=10)
@given(st.integers(0, 10_000))
def test_polygons_receive_what_intersections_with_them_say(seed: int) -> None:
    draw = np.random.default_rng(seed)
    polygons = blobs(seed, 4)
    points = draw.uniform((-3, -3), (23, 13), (60, 2))
    points[10:20] = points[10] + draw.uniform(-0.01, 0.01, (10, 2))  # very short lines
    amounts = draw.uniform(0.0, 2.0, 59)
    found, others = count_in_polygons(lines_of(points, amounts), polygons, 3)
    drawn = shapely.linestrings(np.stack([points[:-1], points[1:]], axis=1))
    whole = shapely.length(drawn)

    def expected(area: shapely.Geometry) -> float:
        return float(amounts @ (shapely.length(shapely.intersection(drawn, area)) / whole))

    assert found.regions.tolist() == pytest.approx([expected(each) for each in polygons[:3]])
    assert others.tolist() == pytest.approx([expected(polygons[3])])
    covered = expected(shapely.union_all(polygons[:3]))
    assert found.outside == pytest.approx(amounts.sum() - covered)


def test_cells_receive_by_the_length_of_the_way_in_them() -> None:
    """From (0.5, 0.5) to (2.5, 0.5) half a cell in the first, one in the second, half in the third.

    A unit more is given out on one place, and one outside the map.
    """
    points = np.array([[0.5, 0.5], [2.5, 0.5], [2.5, 0.5], [2.5, 5.5]])
    lines = Lines(points[:-1], points[1:], np.array([2.0, 1.0, 5.0]))
    cells, off_the_map = amounts_of_cells(lines, (1, 3))
    assert cells.tolist() == [[0.5, 1.0, 2.0]]
    assert off_the_map == pytest.approx(4.5)
    masks = np.array([[[True, True, False]], [[False, True, True]]])
    found = count_in_cells(lines, masks)
    assert found.regions.tolist() == pytest.approx([1.5, 3.0])
    assert found.outside == pytest.approx(4.5)


def test_a_way_along_a_shared_edge_counts_for_one_side_only() -> None:
    """The log is shifted by a tiny irrational distance, as the centres of cells are."""
    west, east = shapely.box(0, 0, 5, 10), shapely.box(5, 0, 10, 10)
    points = np.array([[5.0, 1.0], [5.0, 9.0]]) + 1e-7
    found, _ = count_in_polygons(Lines(points[:1], points[1:], np.ones(1)), [west, east], 2)
    assert found.regions.tolist() == pytest.approx([0.0, 1.0])
    assert found.outside == pytest.approx(0.0)
