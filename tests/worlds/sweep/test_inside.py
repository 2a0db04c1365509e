"""Shares of the path inside polygons: by hand, and against lengths of Shapely's intersections."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
import shapely
from jaxtyping import Float

import scrl
from scrl.problems import load
from scrl.worlds.sweep import scanline
from scrl.worlds.sweep.inside import FINEST, PARTS, corrections
from scrl.worlds.sweep.maps import MapOptions, load_map
from scrl.worlds.sweep.path import Direction, Start
from scrl.worlds.sweep.places import places_at
from scrl.worlds.sweep.regions import from_labels
from scrl.worlds.sweep.scanline import Edges, parts_inside
from scrl.worlds.sweep.spec import SweepRoute, SweepSpec

from .outlined import outlined, tilted


def shares(spec: SweepSpec) -> Float[np.ndarray, "part region"]:
    return spec.service.kinds[spec.service.on_path]


def lines(spec: SweepSpec) -> np.ndarray:
    """The line of each part of the path on the map."""
    parts, cells = spec.service.parts, len(spec.path.cells)
    begin = np.arange(parts * cells) / parts
    where = spec.regions.georeference
    assert where is not None
    ends = [where.places(places_at(spec.path, begin + off)) for off in (1e-9, 1 / parts - 1e-9)]
    return np.asarray(shapely.linestrings(np.stack(ends, axis=1)))


def inside(line: np.ndarray, polygons: list[shapely.Polygon]) -> Float[np.ndarray, " part"]:
    region = shapely.union_all(polygons)
    return shapely.length(shapely.intersection(line, region)) / shapely.length(line)


def test_a_row_by_hand() -> None:
    """A region from 0.5 to 2.6 on four cells, and one from 2.6 on: 2.6 is 0.4 parts past 2.5."""
    spec = SweepSpec(outlined([[shapely.box(0.5, 0, 2.6, 1)], [shapely.box(2.6, 0, 4, 1)]], (1, 4)))
    assert spec.service.parts == PARTS == 4
    share = round(0.4 * FINEST) / FINEST
    first = [0, 0, 1, 1, 1, 1, 1, 1, 1, 1, share, 0, 0, 0, 0, 0]
    assert shares(spec)[:, 0].tolist() == first
    assert shares(spec)[:, 1].tolist() == [0] * 10 + [1 - share] + [1] * 5
    assert spec.service.outside[spec.service.on_path].tolist() == [1, 1] + [0] * 14
    assert spec.service.outside_share == 2 / 16
    assert spec.service.lengths.tolist() == [2 + share / 4, 1.5 - share / 4]


def test_a_cell_with_a_turn_goes_along_two_halves() -> None:
    """Two rows of two cells: right, and down through the right half of the lower left quarter."""
    region = shapely.box(1.25, 0.5, 2.0, 1.25)
    spec = SweepSpec(outlined([[region]], (2, 2)))
    assert spec.path.cells.tolist() == [[0, 0], [0, 1], [1, 1], [1, 0]]
    # From (1, 1.5) to the centre (1.5, 1.5), down to the centre (1.5, 0.5), then to the left.
    assert shares(spec)[:, 0].tolist() == [0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 0]
    up = dataclasses.replace(spec, route=SweepRoute(direction="columns", start="bottom-left"))
    assert up.path.cells.tolist() == [[1, 0], [0, 0], [0, 1], [1, 1]]
    assert shares(up)[:, 0].tolist() == [0] * 11 + [1, 1, 1, 0, 0]


@pytest.mark.parametrize("seed", range(30))
def test_every_part_has_the_share_of_its_line_in_each_region(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = int(rng.integers(1, 12)), int(rng.integers(1, 12))
    regions = [tilted(rng, shape) for _ in range(rng.integers(1, 4))]
    directions: tuple[Direction, ...] = ("rows", "columns")
    starts: tuple[Start, ...] = ("top-left", "top-right", "bottom-left", "bottom-right")
    route = SweepRoute(direction=directions[seed % 2], start=starts[seed % 4])
    spec = SweepSpec(outlined(regions, shape), route=route)
    line, rounded = lines(spec), 0.5 / FINEST + 1e-5
    expected = np.stack([inside(line, region) for region in regions], axis=1)
    is_partial = (expected > 1e-6) & (expected < 1.0 - 1e-6)
    # Where several regions share a part, each is rounded by twice as much, and what they come to
    # is rounded once.
    most = np.where(is_partial.sum(axis=1) > 1, 2.0, 1.0)[:, None] * rounded
    assert (np.abs(shares(spec) - expected) <= most).all()
    together = shares(spec).sum(axis=1) - expected.sum(axis=1)
    assert np.abs(together).max() <= rounded
    everything = [polygon for region in regions for polygon in region]
    outside = spec.service.outside[spec.service.on_path]
    assert np.abs(outside - 1.0 + inside(line, everything)).max() <= rounded
    # What a region receives at constant speed is the length of the way inside it.
    off = shares(spec).sum(axis=0) - expected.sum(axis=0)
    assert (np.abs(off) <= rounded * is_partial.sum(axis=0) + 1e-4).all()


@pytest.mark.parametrize("swath", [1, 3])
def test_regions_with_thin_gaps_between_them_do_not_overlap(swath: int) -> None:
    """Slanted strips, some of which touch: what the regions and none receive comes to a step."""
    rng = np.random.default_rng(22)
    left, strips = 0.3, []
    for gap in rng.choice([0.0, 0.001, 0.01, 0.2], 12):
        right = left + rng.uniform(0.9, 2.0)
        strips.append(shapely.Polygon([(left, 0), (right, 0), (right + 1.7, 9), (left + 1.7, 9)]))
        left = right + gap
    region_map = outlined([[each] for each in strips], (9, 22))
    spec = SweepSpec(region_map, route=SweepRoute(swath=swath))
    total = shares(spec).sum(axis=1, dtype=float) + spec.service.outside[spec.service.on_path]
    assert np.abs(total - 1.0).max() <= 1e-6
    assert not spec.has_overlaps


def test_a_field_with_holes_and_legs() -> None:
    """The way leaves a stretch straight on, and enters the next one straight."""
    rng = np.random.default_rng(5)
    regions = [tilted(rng, (9, 9)), tilted(rng, (9, 9))]
    region_map = outlined(regions, (9, 9))
    region_map.field[2:5, 3:6] = region_map.field[7, :4] = False
    region_map.forbidden[4, 7] = True
    spec = SweepSpec(region_map)
    assert len(spec.path.stretches) > 2
    expected = np.stack([inside(lines(spec), region) for region in regions], axis=1)
    assert np.abs(shares(spec) - expected).max() <= 0.5 / FINEST + 1e-5


@pytest.mark.parametrize("direction", ["rows", "columns"])
def test_a_wide_swath_counts_the_lines_of_all_its_cells(direction: Direction) -> None:
    """On a field of three by three swaths, with a missing cell, each line on its own."""
    rng = np.random.default_rng(3)
    regions = [tilted(rng, (8, 8)), tilted(rng, (8, 8))]
    region_map = outlined(regions, (8, 8))
    region_map.field[0, 0] = False
    spec = SweepSpec(region_map, route=SweepRoute(direction=direction, swath=3))
    by_cell = SweepSpec(region_map, route=SweepRoute(direction=direction))
    along = 1 if direction == "rows" else 0
    expected = np.zeros_like(shares(spec))
    count = np.zeros(len(expected))
    for part in range(PARTS):
        for row, column in np.argwhere(region_map.field):
            number = spec.path.number[row, column]
            is_back = np.diff(spec.path.cells, axis=0, append=0)[number, along] == -1
            if number + 1 in spec.path.stretches or number + 1 == len(spec.path.cells):
                is_back = np.diff(spec.path.cells, axis=0)[number - 1, along] == -1
            line = np.array([row + 0.5, column + 0.5])
            place = (PARTS - 1 - part if is_back else part) + np.array([1e-9, 1.0 - 1e-9])
            ends = np.tile(line, (2, 1))
            ends[:, along] += place / PARTS - 0.5
            where = by_cell.regions.georeference
            assert where is not None
            drawn = np.asarray(shapely.linestrings(where.places(ends)[None]))
            index = PARTS * number + part
            expected[index] += [inside(drawn, region)[0] for region in regions]
            count[index] += 1
    assert shares(spec) == pytest.approx(expected / count[:, None], abs=0.5 / FINEST + 1e-5)


def test_other_maps_and_landing_service_count_cells_as_a_whole() -> None:
    region_map = outlined([[shapely.box(0.3, 0, 2.2, 1)]], (1, 4))
    landing = SweepSpec(region_map, route=SweepRoute(service="landing"))
    assert landing.service.parts == 1
    assert shares(landing).tolist() == [[1], [1], [0], [0]]
    labels = SweepSpec(from_labels(np.array([[1, 1, 0, 0]])))
    assert corrections(labels.path, labels.regions) is None
    assert shares(labels).tolist() == [[1], [1], [0], [0]]


def test_large_maps_are_cut_into_blocks_of_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(8)
    regions = [tilted(rng, (40, 40)) for _ in range(5)]
    whole = SweepSpec(outlined(regions, (40, 40)))
    expected = shares(whole)
    monkeypatch.setattr(scanline, "AT_ONCE", 7)
    again = SweepSpec(outlined(regions, (40, 40)))
    assert np.array_equal(shares(again), expected)
    assert np.array_equal(again.service.outside, whole.service.outside)


def test_a_line_along_many_edges_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    region_map = outlined([[shapely.box(0.3, 0.1, 8.2, 6.9)]], (7, 9))
    assert region_map.georeference is not None
    monkeypatch.setattr(scanline, "MOST_CROSSINGS", 10)
    with pytest.raises(scrl.ScrlError, match="cross the columns of the grid 16 times and at most"):
        list(parts_inside(Edges.of([[shapely.box(0.3, 0.1, 8.2, 6.9)]]), region_map.georeference,
                          "columns", np.arange(9), PARTS))  # fmt: skip


def write(folder: Path, **shapes: shapely.Polygon) -> Path:
    features = [
        {
            "type": "Feature",
            "properties": {"name": name},
            "geometry": json.loads(shapely.to_geojson(each)),
        }
        for name, each in shapes.items()
    ]
    path = folder / "map.geojson"
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    return path


def test_a_region_without_a_cell_centre_is_its_cell(tmp_path: Path) -> None:
    """A dot between the lines of the sweep; the warning says that it was given a cell."""
    field, dot = shapely.box(0, 0, 4, 4), shapely.box(2.1, 2.1, 2.2, 2.2)
    path = write(tmp_path, field=field, dot=dot)
    regions = load_map(path, MapOptions(grid=(4, 4), coordinates="plain"))
    spec = SweepSpec(regions)
    assert any("gave a single cell" in warning for warning in regions.warnings)
    assert shares(spec)[:, 1].sum() == PARTS
    assert regions.masks[1, 1, 2]


def test_roles_of_shapes_leave_the_others_their_outlines(tmp_path: Path) -> None:
    """`field` and `forbidden` are no regions, and those that are left keep their numbers."""
    write(
        tmp_path, whole=shapely.box(0, 0, 6, 6), first=shapely.box(0.4, 0, 3, 6),
        pond=shapely.box(1, 1, 2, 2), second=shapely.box(3.3, 0, 5.7, 6),
    )  # fmt: skip
    (tmp_path / "problem.toml").write_text(
        '[world]\nmap = "map.geojson"\ngrid = [6, 6]\ncoordinates = "plain"\n'
        'field = "whole"\nforbidden = "pond"\n'
    )
    spec = load(tmp_path / "problem.toml").world_spec
    assert spec.regions.names == ("first", "second")
    rows = [[shapely.box(0.4, 0, 3, 6)], [shapely.box(3.3, 0, 5.7, 6)]]
    expected = np.stack([inside(lines(spec), region) for region in rows], axis=1)
    assert np.abs(shares(spec) - expected).max() <= 0.5 / FINEST + 1e-5


def test_a_saved_map_serves_the_same(tmp_path: Path) -> None:
    shape = shapely.affinity.rotate(shapely.box(1, 1, 8, 5), 17)
    write(tmp_path, field=shapely.box(0, 0, 10, 7), region=shape)
    (tmp_path / "problem.toml").write_text(
        '[world]\nmap = "map.geojson"\ngrid = [7, 10]\ncoordinates = "plain"\n'
    )
    first = load(tmp_path / "problem.toml")
    again = load(scrl.save(first, tmp_path / "copy" / "problem.toml"))
    assert again.world_spec.regions == first.world_spec.regions
    in_cells = dataclasses.replace(first.world_spec.regions, outlines=None)
    assert in_cells != first.world_spec.regions
    one, other = (shares(each.world_spec) for each in (first, again))
    assert np.array_equal(one, other)
    assert ((one > 0) & (one < 1)).any()
