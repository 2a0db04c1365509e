"""The page's geometry: outlines, heat maps, routes, charts; each against something obvious."""

from __future__ import annotations

import base64
import io
import re

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from PIL import Image

from scrl.policies import Constant
from scrl.problems import Problem, ProblemOptions
from scrl.report.page.charts import Sketch, draw_chart, nice
from scrl.report.page.maps import draw_map, edges_in, heat_pictures, outline
from scrl.report.page.ways import SPEED_COLOURS, draw_route
from scrl.report.reading import band_of, by_seed
from scrl.route import Route, drive, given_over_cells
from scrl.worlds.sweep.regions import from_labels
from scrl.worlds.sweep.spec import SweepRoute as RouteSettings
from scrl.worlds.sweep.spec import SweepSpec
from scrl.worlds.sweep.vehicle import Vehicle

MOVE = re.compile(r"([Mhvz])(-?\d+)?(?: (-?\d+))?")


def filled(d: str, shape: tuple[int, int]) -> np.ndarray:
    """The cells inside, by counting upright sides to the left of each: even and odd."""
    crossings = np.zeros((shape[0], shape[1] + 1), int)
    x = y = 0
    start = (0, 0)
    for kind, first, second in MOVE.findall(d):
        before = y
        if kind == "M":
            x, y = int(first), int(second)
            start, before = (x, y), y
        elif kind == "h":
            x += int(first)
        elif kind == "v":
            y += int(first)
        else:
            assert x == start[0] or y == start[1], "the last side is upright or level"
            if x == start[0]:
                y = start[1]
            x, y = start[0], y if x == start[0] else start[1]
        if y != before and x < shape[1] + 1:
            low, high = sorted((before, y))
            crossings[low:high, x] += 1
    return np.cumsum(crossings, axis=1)[:, :-1] % 2 == 1


@given(arrays(bool, st.tuples(st.integers(1, 7), st.integers(1, 7)), elements=st.booleans()))
def test_an_outline_encloses_exactly_its_cells(mask: np.ndarray) -> None:
    assert np.array_equal(filled(outline(mask), mask.shape), mask)


def test_an_outline_keeps_only_corners() -> None:
    assert outline(np.ones((2, 3), bool)) == "M0 0h3v2h-3z"
    assert outline(np.zeros((2, 3), bool)) == ""
    assert edges_in(np.ones((2, 3), bool)) == 10


def test_a_map_has_every_region_with_its_name() -> None:
    drawn = draw_map(from_labels(np.repeat([[1] * 4 + [2] * 4], 4, axis=0)))
    assert [region.name for region in drawn.regions] == ["S1", "S2"]
    assert drawn.regions[0].d == "M0 0h4v4h-4z"
    assert drawn.regions[1].label is not None
    # 360 units for eight cells: 45 each; S2 spans 180 to 360, and 0 to 180 downwards.
    x, y, text, size = drawn.regions[1].label
    assert x == 270
    assert 0 < y < 180
    assert (text, size) == ("S2", 12.5)
    assert drawn.left_out == 0


def test_a_label_is_as_large_as_its_region_has_room_for() -> None:
    # 360 units for ten cells; a letter is 0.67 of its size wide. 72 units have room for 11 letters
    # of size 72 / 0.67 / 11 = 9.8, and for 13 of the smallest size, 8: 12 of them and the dots.
    labels = from_labels(np.repeat([[1] * 2 + [2] * 2 + [3] * 6], 10, axis=0),
                         ["Oak field 5", "a long name of a field", "S3"])  # fmt: skip
    found = [region.label and region.label[2:] for region in draw_map(labels).regions]
    assert found == [("Oak field 5", 9.8), ("a long name …", 8.3), ("S3", 12.5)]


def pixels(address: str) -> np.ndarray:
    head, data = address.split(",")
    assert head == "data:image/png;base64"
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(data))))


def test_heat_is_white_where_most_is_given_and_black_where_nothing() -> None:
    [picture], most = heat_pictures([np.array([[0.0, 2.0], [1.0, np.nan]])])
    assert most == pytest.approx(2.0, rel=0.02)
    found = pixels(picture)
    assert found[0, 0] == 0
    assert found[1, 1] == 0
    assert found[0, 1] == 255
    assert 120 < found[1, 0] < 145


def test_large_tables_are_averaged_in_blocks() -> None:
    [picture], _ = heat_pictures([np.tile([[0.0, 2.0]], (480, 240))])
    assert pixels(picture).shape == (240, 240)
    # Each block of 2 x 2 holds two zeros and two twos: the mean is half of the most.
    assert len(np.unique(pixels(picture))) == 1


def driven(
    labels: np.ndarray, throttle: float, *, swath: int = 1, horizon_steps: int = 5000
) -> Route:
    spec = SweepSpec(
        from_labels(labels),
        Vehicle(inertia=0.0, max_speed=2.0),
        route=RouteSettings(swath=swath, horizon_steps=horizon_steps),
    )
    problem = Problem.create(spec, (), ProblemOptions(name="small"))
    return drive(problem, Constant(jnp.full((), throttle)))


def test_a_route_at_one_speed_is_one_line_through_the_middles() -> None:
    """Four by four cells of 90 units, to and fro."""
    drawn = draw_route(driven(np.ones((4, 4), int), 1.0))
    [line] = drawn.lines
    assert line.colour == SPEED_COLOURS[-1]
    assert line.d == (
        "M45.0 45.0L315.0 45.0L315.0 135.0L45.0 135.0L45.0 225.0L315.0 225.0L315.0 315.0L45.0 315.0"
    )
    assert (drawn.start, drawn.end) == ((45.0, 45.0), (45.0, 315.0))


def test_slow_is_the_first_colour() -> None:
    [line] = draw_route(driven(np.ones((4, 4), int), 0.1)).lines
    assert line.colour == SPEED_COLOURS[0]


def test_a_route_that_is_cut_off_ends_where_it_was() -> None:
    drawn = draw_route(driven(np.ones((4, 4), int), 1.0, horizon_steps=2))
    assert drawn.lines[0].d == "M45.0 45.0L315.0 45.0"


def test_a_route_shows_its_legs_the_ways_between_them_and_its_direction() -> None:
    """A field with a hole falls into strips; where the next cell is no neighbour, a leg ends."""
    regions = from_labels(np.ones((6, 8), int))
    regions.forbidden[2:4, 3:5] = True
    spec = SweepSpec(regions, Vehicle(inertia=0.0, max_speed=2.0))
    problem = Problem.create(spec, (), ProblemOptions(name="hole"))
    drawn = draw_route(drive(problem, Constant(jnp.ones(()))))
    jumps = int((np.abs(np.diff(spec.path.cells, axis=0)).sum(axis=1) > 1).sum())
    assert jumps > 0
    assert drawn.legs == jumps + 1
    assert drawn.transits.count("M") == jumps
    assert drawn.lines
    for d in (line.d for line in drawn.lines):
        places = np.array([point.split() for point in re.split("[ML]", d)[1:]], float)
        assert (np.diff(places, axis=0) == 0).any(axis=1).all(), "lines go along or across"
    # The first pass goes to the right over cells of 45 units: tip, and the two corners behind it.
    first = drawn.arrows.split("z")[0].removeprefix("M").split("L")
    (x, y), *behind = ([float(each) for each in point.split()] for point in first)
    assert y == 22.5
    assert len(behind) == 2
    assert all(each[0] < x for each in behind)
    assert draw_route(driven(np.ones((4, 4), int), 1.0)).transits == ""


def test_many_passes_are_a_picture_instead() -> None:
    drawn = draw_route(driven(np.ones((200, 20), int), 1.0))
    assert drawn.arrows
    assert drawn.lines == ()
    assert drawn.picture is not None
    assert pixels(drawn.picture).shape == (200, 20, 4)


def test_a_wide_swath_gives_to_all_that_it_covers() -> None:
    route = driven(np.ones((9, 6), int), 0.5, swath=3)
    found = given_over_cells(route)
    assert np.isfinite(found).all()
    assert found.sum() == pytest.approx(route.amount.sum())


def test_curves_have_gaps_where_rows_are_missing() -> None:
    rows = [
        {"iteration": 1, "seed": 0, "return": -1.0},
        {"iteration": 1, "seed": 1, "return": -3.0},
        {"iteration": 2, "seed": 0, "return": None},
    ]
    assert np.array_equal(by_seed(rows, "return"), [[-1.0, np.nan], [-3.0, np.nan]], equal_nan=True)
    band = band_of(rows, "return")
    assert band is not None
    assert (band.middle.tolist(), band.low.tolist(), band.high.tolist()) == ([-2.0], [-3.0], [-1.0])
    assert band_of(rows, "kappa/0") is None


def test_long_curves_are_thinned_out() -> None:
    rows = [{"iteration": k, "seed": 0, "return": float(k)} for k in range(5_000)]
    band = band_of(rows, "return")
    assert band is not None
    assert len(band.rounds) == 160
    assert (band.low[0], band.high[-1]) == (0.0, 4_999.0)


def test_a_chart_says_in_words_what_it_shows() -> None:
    rows = [{"iteration": k, "seed": 0, "return": -10.0 / k} for k in (1, 2, 4, 5)]
    band = band_of(rows, "return")
    assert band is not None
    chart = draw_chart(Sketch("Return", [("scrl", 0, band)], -10.0, 0.0, (-1.0, "proven bound")))
    assert chart.about == (
        "Return, median of the seeds. scrl: from -10 in round 1 to -2 in round 5. proven bound."
    )
    assert chart.rows[-1] == ("5", "-2")
    assert chart.curves[0].band is None
    assert chart.curves[0].line.startswith("M46.0 184.0L")


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0.0, 1.0, [0.0, 0.5, 1.0]),
        (1.0, 400.0, [100.0, 200.0, 300.0, 400.0]),
        (-31.0, -29.5, [-31.0, -30.5, -30.0, -29.5]),
    ],
)
def test_ticks_are_round_numbers(low: float, high: float, ticks: list[float]) -> None:
    assert nice(low, high, 4) == pytest.approx(ticks)
