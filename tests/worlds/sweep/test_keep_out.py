"""Keep-out areas: one more region of the map, and the rule that it receives nothing."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import shapely

from scrl.errors import ScrlError
from scrl.planning import planner
from scrl.problems import load, save

FREE = "flow = [0.0, 2.25]"
RIVER = [[12.0, -1.0], [14.0, -1.0], [18.0, 21.0], [16.0, 21.0]]
ISLAND = [[14.9, 9.0], [15.6, 9.0], [15.6, 10.0], [14.9, 10.0]]


def farm(tmp_path: Path, keep_out: str, vehicle: str = FREE, world: str = "") -> Path:
    """30 x 20 m with a field on each side of a river that has an island."""
    shapes = {
        "west": [[[0.0, 0.0], [12.0, 0.0], [15.5, 20.0], [0.0, 20.0]]],
        "river": [RIVER, ISLAND],
        "east": [[[14.2, 0.0], [30.0, 0.0], [30.0, 20.0], [18.0, 20.0]]],
    }
    features = [
        {"type": "Feature", "properties": {"name": name},
         "geometry": {"type": "Polygon", "coordinates": [[*ring, ring[0]] for ring in rings]}}
        for name, rings in shapes.items()
    ]  # fmt: skip
    collection = {"type": "FeatureCollection", "features": features}
    (tmp_path / "farm.geojson").write_text(json.dumps(collection))
    path = tmp_path / "farm.toml"
    path.write_text(
        '[world]\nmap = "farm.geojson"\ncoordinates = "plain"\ngrid = [20, 30]\n'
        f"extent = [0, 0, 30, 20]\n{world}\n[vehicle]\n{vehicle}\n[keep_out]\n{keep_out}\n"
        '[rules]\nwest = "west >= 100"\n'
    )
    return path


@pytest.mark.parametrize("cell", [None, 5.0])
def test_the_area_is_what_lies_near(tmp_path: Path, cell: float | None) -> None:
    # 2.5 cells away, or as many metres where a cell is known to be 5 m long.
    world = "" if cell is None else f"cell = {cell}"
    distance = 2.5 * (cell or 1.0)
    path = farm(tmp_path, f'distance = {distance}\naround = "river"', world=world)
    problem = load(path)
    assert problem.regions == ("west", "river", "east", "buffer")
    assert [rule.text for rule in problem.rules.rules] == ["west >= 100", "buffer <= 0"]
    regions = problem.world_spec.regions
    row, column = np.indices(regions.shape)
    centres = shapely.points(column + 0.5, 19.5 - row)
    river = shapely.Polygon(RIVER, [ISLAND])
    gap = shapely.distance(river, centres)
    assert (regions.masks[3] | (gap > 2.499)).all()
    assert not (regions.masks[3] & (gap > 2.51)).any()
    near = river.buffer(2.5, quad_segs=64) & shapely.box(0, 0, 30, 20)
    assert problem.world_spec.areas[3] / problem.world_spec.cell_area == pytest.approx(
        near.area, rel=0.01
    )


def test_nothing_is_given_near_the_river(tmp_path: Path) -> None:
    problem = load(farm(tmp_path, 'distance = 2\naround = ["river"]'))
    answer = planner().ask(problem, "west >= 60 and east >= 40")
    assert answer.evaluation.is_satisfied
    assert answer.evaluation.density["buffer"] == 0.0
    assert answer.evaluation.density["west"] >= 60.0


def test_without_names_all_land_in_no_region_is_kept_clear(tmp_path: Path) -> None:
    problem = load(farm(tmp_path, 'distance = 1\nname = "edge"'))
    regions = problem.world_spec.regions
    edge = regions.masks[regions.names.index("edge")]
    assert edge[[0, -1]].all()
    assert edge[:, [0, -1]].all()
    assert (edge | regions.masks[:3].any(axis=0)).all()
    assert not edge[3:-3, 3:10].any()


def test_it_is_saved_and_other_rules_keep_it(tmp_path: Path) -> None:
    problem = load(farm(tmp_path, 'distance = 2\naround = "river"\nname = "strip"'))
    again = load(save(problem, tmp_path / "copy" / "farm.toml"))
    assert again == problem
    assert "strip <= 0" not in (tmp_path / "copy" / "farm.toml").read_text()
    assert [rule.text for rule in problem.with_rules("east >= 3").rules.rules] == [
        "east >= 3", "strip <= 0",
    ]  # fmt: skip
    same = {rule.name: rule.text for rule in problem.rules.rules}
    assert problem.with_rules(same).rules == problem.rules


def test_on_cells_a_gap_counts_between_their_edges(tmp_path: Path) -> None:
    labels = np.ones((7, 9), int)
    labels[3, 4] = 2
    np.save(tmp_path / "map.npy", labels)
    (tmp_path / "farm.toml").write_text(
        f'[world]\nmap = "map.npy"\n[vehicle]\n{FREE}\n[keep_out]\naround = "S2"\ndistance = 1.3\n'
    )
    mask = load(tmp_path / "farm.toml").world_spec.regions.masks[2]
    # Two cells away the gap is 1 along an axis and sqrt(2) along a diagonal.
    assert mask[1:6, 2:7].sum() == mask.sum() == 25 - 4


@pytest.mark.parametrize(
    ("keep_out", "vehicle", "message"),
    [
        ('around = "rivr"', FREE, "[keep_out]: around: no region 'rivr': did you mean 'river'?"),
        ('name = "east"', FREE, "[keep_out]: the map has a region 'east': give another name"),
        ("distance = -1", FREE, "[keep_out] distance = -1 must be at least 0"),
        ("width = 3", FREE, "[keep_out] has no key 'width'"),
        ("around = 3", FREE, "[keep_out] around = 3 must hold names of regions"),
        ("distance = 1", "rate = 2.25", "[keep_out] needs a pump that can close"),
        ("distance = 1", f"{FREE}\ndose = [0.1, 2]", "[keep_out] needs a pump that can close"),
    ],
)
def test_mistakes(tmp_path: Path, keep_out: str, vehicle: str, message: str) -> None:
    with pytest.raises(ScrlError) as caught:
        load(farm(tmp_path, keep_out, vehicle))
    assert message in str(caught.value)
