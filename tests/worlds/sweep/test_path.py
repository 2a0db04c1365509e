"""The sweep path: worked by hand, then laws over random fields, starts and swaths."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from scrl.errors import MapError
from scrl.worlds.sweep.path import Direction, Start, SweepPath, sweep_path
from scrl.worlds.sweep.regions import RegionMap, from_labels, from_masks

STARTS = ("top-left", "top-right", "bottom-left", "bottom-right")

Turn: TypeAlias = Callable[[np.ndarray], np.ndarray]
Back: TypeAlias = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


def drawn(*rows: str) -> RegionMap:
    """A map from a picture: a digit is a field cell with that label, # forbidden, space outside."""
    grid = np.array([list(row) for row in rows])
    labels = np.where(np.char.isdigit(grid), grid, "0").astype(int)
    return replace(from_labels(labels), field=grid != " ", forbidden=grid == "#")


def order(path: SweepPath, shape: tuple[int, int]) -> list[list[int]]:
    """The picture of the path: the place in the order of travel, -1 where it never comes."""
    picture = np.full(shape, -1)
    picture[tuple(path.cells.T)] = np.arange(len(path.cells))
    return picture.tolist()


def test_a_rectangle_is_swept_row_by_row():
    path = sweep_path(drawn("112", "122", "111"))
    assert order(path, (3, 3)) == [[0, 1, 2], [5, 4, 3], [6, 7, 8]]
    assert path.service.T.tolist() == [
        [1, 1, 0, 0, 0, 1, 1, 1, 1],
        [0, 0, 1, 1, 1, 0, 0, 0, 0],
    ]
    assert path.service.dtype == np.float32
    assert path.legs == (0,)
    assert path.missed_cells == 0


def test_the_calibrated_path_has_2500_cells():
    path = sweep_path(from_labels(np.ones((50, 50), int)))
    rows, columns = np.divmod(np.arange(2500), 50)
    columns = np.where(rows % 2 == 1, 49 - columns, columns)
    assert (path.cells == np.stack([rows, columns], axis=1)).all()
    assert path.legs == (0,)


def test_columns_from_the_bottom_right():
    path = sweep_path(drawn("111", "111"), direction="columns", start="bottom-right")
    assert order(path, (2, 3)) == [[5, 2, 1], [4, 3, 0]]


def test_a_swath_of_two_shares_its_column():
    # Bands: rows 0-1, then row 2 alone. One cell lies outside the field; label 0 is no region.
    path = sweep_path(drawn("12", "1 ", "20"), swath=2)
    assert path.cells.tolist() == [[0, 0], [0, 1], [2, 1], [2, 0]]
    assert path.service.tolist() == [[1, 0], [0, 1], [0, 0], [0, 1]]
    half = sweep_path(drawn("1", "2"), swath=2)
    assert half.service.tolist() == [[0.5, 0.5]]


def test_a_swath_keeps_off_forbidden_cells_and_says_what_it_missed():
    path = sweep_path(drawn("111", "1#1"), swath=2)
    assert path.cells.tolist() == [[0, 0], [0, 2]]
    assert path.legs == (0, 1)
    assert path.missed_cells == 1


def test_a_pond_splits_the_field():
    path = sweep_path(drawn("1111", "1##1", "1##1", "1111"))
    # The first strip ends top right, so the right arm comes next, then the base, then the left.
    assert order(path, (4, 4)) == [
        [0, 1, 2, 3],
        [11, -1, -1, 4],
        [10, -1, -1, 5],
        [9, 8, 7, 6],
    ]
    assert path.legs == (0,)


def test_a_slanted_strip_stays_one_leg():
    path = sweep_path(drawn("1111  ", "  1111"))
    # From the end at column 3 the vehicle goes on to column 5 along the next band and comes back.
    assert order(path, (2, 6)) == [[0, 1, 2, 3, -1, -1], [-1, -1, 7, 6, 5, 4]]
    assert path.legs == (0,)


def test_islands_are_legs():
    path = sweep_path(drawn("11 1", "    ", "11 1"))
    # Below and to the right it is equally far: at a tie the smaller column comes first.
    assert order(path, (3, 4)) == [[0, 1, -1, 5], [-1] * 4, [3, 2, -1, 4]]
    assert path.legs == (0, 2, 4, 5)
    assert path.missed_cells == 0


@st.composite
def fields(draw: st.DrawFn) -> RegionMap:
    """A map of up to 9 x 9 cells with overlapping regions, holes and forbidden cells."""
    shape = draw(st.tuples(st.integers(1, 9), st.integers(1, 9)))
    grids = [draw(hnp.arrays(bool, shape, elements=st.booleans())) for _ in range(3)]
    field = draw(hnp.arrays(bool, shape, elements=st.sampled_from([True, True, True, False])))
    forbidden = draw(hnp.arrays(bool, shape, elements=st.sampled_from([False] * 6 + [True])))
    free = np.argwhere(field & ~forbidden)
    if not len(free):
        field[0, 0], forbidden[0, 0] = True, False
        free = [(0, 0)]
    for grid in grids:
        grid[tuple(free[0])] = True
    return RegionMap(("a", "b", "c"), np.array(grids), field, forbidden)


@given(fields(), st.sampled_from(["rows", "columns"]), st.sampled_from(STARTS))
def test_every_enterable_cell_once_and_nothing_else(
    region_map: RegionMap, direction: Direction, start: Start
) -> None:
    path = sweep_path(region_map, direction=direction, start=start)
    visits = np.zeros(region_map.shape, int)
    np.add.at(visits, tuple(path.cells.T), 1)
    assert (visits == region_map.enterable).all()
    assert path.missed_cells == 0
    assert (path.service == region_map.masks[:, path.cells[:, 0], path.cells[:, 1]].T).all()
    assert path.service.sum(axis=0).tolist() == region_map.sizes.tolist()


def way_is_free(enterable: np.ndarray, here: np.ndarray, there: np.ndarray) -> bool:
    """The slow and obvious twin: walk both L-shaped ways, cell by cell."""
    if abs(here[0] - there[0]) > 1:
        return False
    low, high = sorted((here[1], there[1]))
    return any(enterable[row, low : high + 1].all() for row in (here[0], there[0]))


@given(fields())
def test_a_leg_breaks_exactly_where_no_free_way_leads_on(region_map: RegionMap) -> None:
    path = sweep_path(region_map)
    assert path.legs[0] == 0
    for index in range(1, len(path.cells)):
        here, there = path.cells[index - 1], path.cells[index]
        assert (index in path.legs) != way_is_free(region_map.enterable, here, there)


@given(fields(), st.integers(1, 4))
def test_directions_and_starts_are_mirror_images(region_map: RegionMap, swath: int) -> None:
    def mirrored(turn: Turn) -> RegionMap:
        masks, field = turn(region_map.masks), turn(region_map.field)
        return RegionMap(region_map.names, masks, field, turn(region_map.forbidden))

    rows, columns = region_map.shape
    turns: dict[tuple[Direction, Start], tuple[Turn, Back]] = {
        ("rows", "top-right"): (lambda g: g[..., ::-1], lambda r, c: (r, columns - 1 - c)),
        ("rows", "bottom-left"): (lambda g: g[..., ::-1, :], lambda r, c: (rows - 1 - r, c)),
        ("columns", "top-left"): (lambda g: g.swapaxes(-1, -2), lambda r, c: (c, r)),
    }
    for (direction, start), (turn, back) in turns.items():
        try:
            plain = sweep_path(mirrored(turn), swath=swath)
        except MapError as error:
            with pytest.raises(MapError, match="a narrower one"):
                sweep_path(region_map, direction=direction, start=start, swath=swath)
            assert "swath" in str(error)  # noqa: PT017  both sides must refuse
            continue
        turned = sweep_path(region_map, direction=direction, start=start, swath=swath)
        assert (np.stack(back(*plain.cells.T), axis=1) == turned.cells).all()
        assert (plain.service == turned.service).all()
        assert plain.legs == turned.legs


@given(fields(), st.integers(1, 4))
def test_a_swath_covers_each_cell_once_or_counts_it_as_missed(
    region_map: RegionMap, swath: int
) -> None:
    enterable, forbidden = region_map.enterable, region_map.forbidden
    try:
        path = sweep_path(region_map, swath=swath)
    except MapError:
        assert forbidden.any()
        return
    covered = np.zeros(region_map.shape, int)
    for (row, column), service in zip(path.cells, path.service, strict=True):
        band = slice(row // swath * swath, row // swath * swath + swath)
        assert not forbidden[band, column].any()
        covered[band, column] += 1
        inside = enterable[band, column]
        expected = region_map.masks[:, band, column][:, inside].mean(axis=1)
        assert service == pytest.approx(expected, abs=1e-6)
    assert covered.max() == 1
    assert path.missed_cells == np.count_nonzero(enterable & (covered == 0))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"direction": "row"}, "unknown sweep direction 'row': did you mean 'rows'?"),
        ({"start": "topleft"}, "unknown start 'topleft': did you mean 'top-left'?"),
        ({"swath": 0}, "the swath must be a whole number of cells from 1, not 0"),
        ({"swath": 1.5}, "the swath must be a whole number of cells from 1, not 1.5"),
        ({"swath": True}, "the swath must be a whole number of cells from 1, not True"),
        ({"swath": 3}, "a swath of 3 touches forbidden cells everywhere: use a narrower one"),
        (
            {"swath": 2},
            "region 'S2' is never served: a swath of 2 touches forbidden cells "
            "wherever it would cover the region; use a narrower one",
        ),
    ],
)
def test_options_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(MapError) as caught:
        sweep_path(drawn("12", "##", "11"), **options)
    assert str(caught.value) == message


def test_a_large_ragged_field_is_covered():
    """Some 10,000 strips: the search for the nearest one must not be quadratic."""
    rng = np.random.default_rng(3)
    whole = from_masks(np.ones((1, 300, 300), bool))
    path = sweep_path(replace(whole, forbidden=rng.random((300, 300)) < 0.5))
    assert len(np.unique(path.cells, axis=0)) == len(path.cells)
    assert len(path.legs) > 5000
