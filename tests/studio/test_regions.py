"""Regions are drawn, renamed and deleted, on paper: journal, undo and files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from scrl.problems import load
from scrl.studio.document import RuleText
from scrl.studio.drawing import outlines_document
from scrl.studio.errors import StudioError
from scrl.studio.naming import with_region_renamed
from scrl.studio.session import Session

BOX = ((((0.0, 0.0), (10.0, 0.0), (10.0, 10.0), (0.0, 10.0)),),)
PROBLEM = """
[world]
map = "field.geojson"
coordinates = "plain"
extent = [0, 0, 20, 10]
grid = [10, 20]
forbidden = "pond"
[rules]
few = "west >= 1 and dose(west) >= 0 # west"
more = '"far east" >= 2'
"""


def feature(name: str, left: float, right: float, top: float = 10.0) -> dict[str, object]:
    ring = [[left, 0], [right, 0], [right, top], [left, top], [left, 0]]
    geometry = {"type": "Polygon", "coordinates": [ring]}
    return {"type": "Feature", "properties": {"name": name, "owner": "A"}, "geometry": geometry}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shapes = [feature("west", 0, 8), feature("far east", 12, 20), feature("pond", 9, 11, 2.0)]
    document = {"type": "FeatureCollection", "features": shapes}
    (tmp_path / "field.geojson").write_text(json.dumps(document))
    (tmp_path / "problem.toml").write_text(PROBLEM)
    return tmp_path


@pytest.fixture
def session(folder: Path) -> Iterator[Session]:
    found = Session.open(str(folder))
    yield found
    found.close()


def sizes(session: Session) -> dict[str, int]:
    regions = session.world().world_spec.regions
    return dict(zip(regions.names, regions.sizes.tolist(), strict=True))


def test_a_region_is_drawn_and_undone(session: Session) -> None:
    # The grid has 10 x 20 cells of side 1: 8 x 10 for each region, and 10 x 10 for the box, less
    # the 1 x 2 cells of the pond between 9 and 10.
    assert sizes(session) == {"west": 80, "far east": 80}
    session.draw_region("west", BOX)
    assert sizes(session) == {"west": 98, "far east": 80}
    session.draw_region("new", BOX)
    assert sizes(session) == {"west": 98, "far east": 80, "new": 98}
    session.undo()
    session.undo()
    assert sizes(session) == {"west": 80, "far east": 80}
    assert not session.is_unsaved
    session.redo()
    assert sizes(session) == {"west": 98, "far east": 80}


def test_a_map_that_is_swept_at_an_angle_is_drawn_in_its_own_coordinates(folder: Path) -> None:
    file = folder / "problem.toml"
    file.write_text(PROBLEM.replace('forbidden = "pond"', "angle = 90"))
    session = Session.open(str(folder))
    where = session.world().world_spec.regions.georeference
    assert where is not None
    assert where.turn is not None
    # Turned by 90 degrees, rows run from south to north, and the first one is in the west.
    found = outlines_document(session.maps.outlines(session.document), {}, where)
    across, down = np.array(found["column"]), np.array(found["row"])
    assert across[0] == pytest.approx(0.0)
    assert across[1] > 0.0
    assert down[0] > 0.0
    assert down[1] == pytest.approx(0.0)
    [west] = [each for each in found["regions"] if each["name"] == "west"]
    assert west["polygons"][0][0][:2] == ((0.0, 0.0), (8.0, 0.0))
    before = sizes(session)["west"]
    session.draw_region("west", BOX)
    # 10 x 10 in place of 8 x 10.
    assert sizes(session)["west"] == pytest.approx(1.25 * before, rel=0.06)
    session.close()


def test_a_killed_studio_loses_no_drawing(session: Session, folder: Path) -> None:
    session.draw_region("west", BOX)
    session.rename_region("far east", "east")
    session.draw_region("new", BOX)
    session.undo()
    size = (folder / "problem.studio.jsonl").stat().st_size
    session.close()
    found = Session.open(str(folder))
    assert sizes(found) == {"west": 98, "east": 80}
    assert [rule.text for rule in found.document.rules][1] == "east >= 2"
    found.redo()
    assert sizes(found) == {"west": 98, "east": 80, "new": 98}
    found.draw_region("new", BOX)  # the same again is no edit
    assert (folder / "problem.studio.jsonl").stat().st_size < size + 30
    found.close()


def test_the_function_region_is_no_name() -> None:
    rules = [RuleText("a", "region(region) <= 5 and region >= 1")]
    renamed = with_region_renamed(rules, "region", "X", ["region"])
    assert renamed[0].text == "region(X) <= 5 and X >= 1"


def test_a_renamed_region_is_renamed_in_the_rules(session: Session) -> None:
    session.rename_region("west", "if")
    assert [rule.text for rule in session.document.rules] == [
        '"if" >= 1 and dose("if") >= 0 # west', '"far east" >= 2'
    ]  # fmt: skip
    assert session.problem().regions[:2] == ("if", "far east")
    session.undo()
    assert session.document.rules[0].text.startswith("west")


def test_rules_that_name_a_deleted_region_are_switched_off(session: Session) -> None:
    session.delete_region("west")
    assert [rule.is_on for rule in session.document.rules] == [False, True]
    assert "Switched off" in session.notices[-1]
    with pytest.raises(StudioError, match="no region is left"):
        session.delete_region("far east")


def test_the_pond_may_be_moved_and_keeps_its_name(session: Session) -> None:
    with pytest.raises(StudioError, match="forbidden"):
        session.rename_region("pond", "lake")
    with pytest.raises(StudioError, match="forbidden"):
        session.delete_region("pond")
    session.draw_region("pond", ((((0.0, 0.0), (2.0, 0.0), (2.0, 2.0), (0.0, 2.0)),),))
    assert sizes(session) == {"west": 76, "far east": 80}


def test_a_drawing_is_saved_beside_the_map_that_was_there(session: Session, folder: Path) -> None:
    before = (folder / "field.geojson").read_bytes()
    session.draw_region("west", BOX)
    session.save()
    session.draw_region("far east", BOX)
    session.save()
    assert (folder / "field.geojson").read_bytes() == before
    assert sorted(each.name for each in folder.glob("*.geojson")) == [
        "field-2.geojson", "field.geojson"
    ]  # fmt: skip
    found = load(folder).world_spec.regions
    assert np.array_equal(found.masks, session.world().world_spec.regions.masks)
    assert found.forbidden.sum() == 4
    session.undo()
    session.undo()
    session.save()
    assert load(folder).world_spec.regions.sizes.tolist() == [80, 80]
    session.redo()
    assert session.save_as("copy") == folder / "copy" / "problem.toml"
    assert load(folder / "copy").world_spec.regions.sizes.tolist() == [98, 80]
    session.draw_region("west", ((((0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0)),),))
    session.save()
    assert load(folder / "copy").world_spec.regions.sizes.tolist() == [1, 80]
    session.close()


def test_a_drawn_plan_can_be_taken_along(session: Session) -> None:
    """The map of a run folder is a copy of the drawn one."""
    session.draw_region("west", BOX)
    source = session.world().source
    assert source is not None
    assert load(source.path, strict=True).regions == ("west", "far east", "pond")
    session.close()
    assert not source.path.exists()


def test_maps_of_labels_are_shown_and_not_edited(tmp_path: Path) -> None:
    np.save(tmp_path / "field.npy", np.array([[1, 1], [2, 2]]))
    session = Session.open(str(tmp_path / "field.npy"))
    with pytest.raises(StudioError, match="cannot be edited here"):
        session.draw_region("S1", BOX)
    session.close()


def test_a_drawing_of_a_bare_map_is_saved_as_a_problem(tmp_path: Path) -> None:
    shapes = [feature("west", 0, 8), feature("east", 12, 20)]
    document = {"type": "FeatureCollection", "features": shapes}
    (tmp_path / "field.geojson").write_text(json.dumps(document))
    session = Session.open(str(tmp_path / "field.geojson"))
    session.draw_region("third", BOX)
    session.set_rules([RuleText("a", "third >= 1")])
    assert session.save() == tmp_path / "problem.toml"
    assert load(tmp_path).regions == ("west", "east", "third")
    assert load(tmp_path / "field.geojson").regions == ("west", "east")
    session.close()
