"""The session without a server: edits, undo, journal, saving, and what goes wrong on disk."""

from __future__ import annotations

import dataclasses
import errno
import json
import tomllib
from pathlib import Path

import pytest

from scrl.errors import ScrlError
from scrl.problems import load, start_problem
from scrl.problems.templates import Machine
from scrl.reference.solve import fluid_reference
from scrl.studio import document, journal, place
from scrl.studio.commands import commands_of
from scrl.studio.document import Document, RuleText
from scrl.studio.errors import ChangedOnDiskError, StudioError
from scrl.studio.session import Session

FIRST, SECOND = RuleText("a", "S1 >= 300"), RuleText("b", "if S2 > 300 then S3 >= 800")
SQUARES = {
    "type": "FeatureCollection",
    "features": [
        {
            "type": "Feature",
            "properties": {"name": name},
            "geometry": {
                "type": "Polygon",
                "coordinates": [
                    [[x, 52.0], [x + 0.001, 52.0], [x + 0.001, 52.001], [x, 52.001], [x, 52.0]]
                ],
            },
        }
        for name, x in (("<script>alert(1)</script>", 5.0), ("S2", 5.001))
    ],
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    start_problem(tmp_path / "field")
    return tmp_path / "field"


@pytest.fixture
def session(folder: Path) -> Session:
    return Session.open(str(folder))


def again(session: Session, target: str | Path) -> Session:
    session.close()
    return Session.open(str(target))


def test_edits_are_undone_and_redone(session: Session) -> None:
    start = session.document.rules
    session.set_rules([FIRST])
    session.set_rules([FIRST, SECOND])
    session.set_rules([FIRST, SECOND])  # the same again is no edit
    session.undo()
    assert session.document.rules == (FIRST,)
    session.redo()
    session.undo()
    session.undo()
    session.undo()
    assert session.document.rules == start
    session.set_rules([SECOND])
    session.redo()  # an edit ends what could be redone
    assert session.document.rules == (SECOND,)


def test_a_killed_studio_loses_no_edit(session: Session, folder: Path) -> None:
    """A process that is killed closes nothing: its lock ends, its files stay."""
    session.set_rules([FIRST])
    session.set_rules([FIRST, SECOND])
    session.undo()
    found = again(session, folder)
    assert found.document.rules == (FIRST,)
    found.redo()
    assert found.document.rules == (FIRST, SECOND)
    assert any("resumed" in each for each in found.notices)


def test_a_torn_last_line_of_the_journal_is_left_out(session: Session, folder: Path) -> None:
    session.set_rules([FIRST])
    session.set_rules([SECOND])
    path = folder / "problem.studio.jsonl"
    path.write_bytes(path.read_bytes()[:-9])
    found = again(session, folder)
    assert found.document.rules == (FIRST,)
    found.set_rules([SECOND, FIRST])
    assert again(found, folder).document.rules == (SECOND, FIRST)


def test_a_damaged_journal_is_put_aside(session: Session, folder: Path) -> None:
    session.close()
    (folder / "problem.studio.jsonl").write_text('{"scrl-studio": 1, "base": 3}\n')
    found = Session.open(str(folder))
    assert "damaged" in found.notices[0]
    assert (folder / "problem.studio.jsonl.damaged").is_file()
    found.set_rules([FIRST])


def test_the_journal_of_many_edits_stays_short(
    session: Session, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "MOST_LINES", 20)
    monkeypatch.setattr(document, "MOST_EDITS", 10)
    for number in range(60):
        session.set_rules([RuleText("a", f"S1 >= {number}")])
    path = folder / "problem.studio.jsonl"
    assert len(path.read_text().splitlines()) <= 20
    found = again(session, folder)
    assert found.document.rules == (RuleText("a", "S1 >= 59"),)
    for _ in range(8):
        found.undo()
    assert found.document.rules == (RuleText("a", "S1 >= 51"),)


def test_a_journal_of_large_edits_can_be_read_again(
    session: Session, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An edit is about 1,100 bytes: five of them are too many, and the oldest are forgotten."""
    monkeypatch.setattr(journal, "LARGEST_BYTES", 5_000)
    for number in range(20):
        session.set_rules([RuleText("a", f"S1 >= {number}  # {'x' * 1_000}")])
    assert (folder / "problem.studio.jsonl").stat().st_size <= 5_000
    found = again(session, folder)
    assert found.document.rules[0].text.startswith("S1 >= 19 ")
    found.undo()
    assert found.document.rules[0].text.startswith("S1 >= 18 ")


def test_saving_keeps_the_comments_and_what_is_switched_off(folder: Path) -> None:
    session = Session.open(str(folder))
    before = (folder / "problem.toml").read_text()
    rules = [*session.document.rules, SECOND, RuleText("off", "S1 >= 1", is_on=False), FIRST]
    session.set_rules(rules)
    session.set_value("vehicle", "max_speed", 2.5)
    session.save()
    text = (folder / "problem.toml").read_text()
    assert not session.is_unsaved
    assert not (folder / "problem.studio.jsonl").exists()
    assert load(folder).world_spec.vehicle.max_speed == 2.5
    assert "max_speed = 2.5  # " in text
    comments = [line for line in before.splitlines() if line.startswith("#")]
    kept = [line for line in comments if "max_speed" not in line]
    assert [line for line in kept if line not in text.splitlines()] == []
    found = again(session, folder)
    assert list(found.document.rules) == rules
    found.set_rules(rules[:1])
    found.set_value("vehicle", "max_speed", None)
    found.save()
    assert load(folder).world_spec.vehicle.max_speed == 3.0
    assert tomllib.loads((folder / "problem.toml").read_text())["rules"] == {
        rules[0].name: rules[0].text
    }


def test_a_new_problem_saved_without_changes_is_the_same_problem(session: Session) -> None:
    before = load(session.place.folder or "")
    session.save()
    assert load(session.place.folder or "") == before


def test_save_as_writes_a_folder_that_other_commands_read(session: Session, folder: Path) -> None:
    session.set_rules([FIRST, RuleText("off", 'S1 >= "', is_on=False)])
    session.save_as("second field")
    assert load(folder / "second field").rules.rules[0].text == "S1 >= 300"
    assert session.place.folder == folder / "second field"
    assert not (folder / "problem.studio.jsonl").exists()
    with pytest.raises(StudioError, match="exists already"):
        session.save_as("second field")
    for name in ("../out", "/out", "a/b", "", ".", "..", "a\0b", "x" * 200, "<b>", "nul\n"):
        with pytest.raises(StudioError, match="plain name"):
            session.save_as(name)


def test_a_file_that_changed_on_disk_is_not_replaced_unasked(
    session: Session, folder: Path
) -> None:
    session.set_rules([FIRST])
    file = folder / "problem.toml"
    file.write_text(file.read_text() + "\nother = 'S2 >= 1'\n")
    assert session.is_changed_on_disk
    with pytest.raises(ChangedOnDiskError, match="changed on disk"):
        session.save()
    session.reload()
    assert session.document.rules[-1] == RuleText("other", "S2 >= 1")
    session.undo()
    assert session.document.rules == (FIRST,)
    session.save()
    assert load(folder).rules.rules[0].text == "S1 >= 300"


def test_unsaved_changes_and_a_file_that_changed_since(session: Session, folder: Path) -> None:
    session.set_rules([FIRST])
    session.close()
    file = folder / "problem.toml"
    file.write_text(file.read_text() + "\nother = 'S2 >= 1'\n")
    found = Session.open(str(folder))
    assert found.document.rules == (FIRST,)
    assert "has changed since" in found.notices[0]
    with pytest.raises(ChangedOnDiskError):
        found.save()
    found.save(overwrite=True)
    assert [rule.name for rule in load(folder).rules.rules] == ["a"]


def test_two_studios_cannot_have_one_folder(session: Session, folder: Path) -> None:
    with pytest.raises(ScrlError, match=r"process .* is writing to this problem folder"):
        Session.open(str(folder))
    session.close()
    Session.open(str(folder)).close()


def test_a_read_only_folder_is_shown_and_nothing_is_kept(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(place, "only_writer", refuse)
    session = Session.open(str(folder))
    assert "cannot be written to" in session.notices[0]
    session.set_rules([FIRST])
    assert session.document.rules == (FIRST,)
    assert not (folder / "problem.studio.jsonl").exists()
    with pytest.raises(StudioError, match="cannot be written to"):
        session.save()


def test_a_built_in_problem_is_copied_before_its_first_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    session = Session.open("agri-joint")
    assert commands_of(session)[0] == "scrl ask agri-joint --out plan"
    assert list(tmp_path.iterdir()) == []
    session.set_rules([FIRST])
    assert load(tmp_path / "agri-joint").rules == load("agri-joint").rules
    assert load(tmp_path / "agri-joint") == load("agri-joint")
    found = again(session, "agri-joint")  # which now has unsaved changes
    assert found.document.rules == (FIRST,)
    assert commands_of(found)[0] == "scrl ask ./agri-joint 'S1 >= 300' --out plan"
    found.save()
    assert commands_of(found)[0] == "scrl ask ./agri-joint --out plan"
    found.close()
    other = Session.open("agri-joint")
    other.set_rules([SECOND])
    assert (tmp_path / "agri-joint-2" / "problem.toml").is_file()
    (tmp_path / "agri-joint" / "training").mkdir()
    assert Session.open("agri-joint").place.folder == tmp_path / "agri-joint"


def test_nothing_named_opens_the_current_folder_or_an_example(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert Session.open().name == "agri-situational"
    monkeypatch.chdir(folder)
    assert Session.open().name == "field"


def test_a_dropped_map_is_copied_and_shown(session: Session, folder: Path) -> None:
    session.set_rules([RuleText("a", "S1 >= 300"), RuleText("b", "S2 >= 1")])
    data = json.dumps(SQUARES).encode()
    session.open_map("squares.geojson", data)
    session.open_map("squares.geojson", data)
    assert (folder / "squares-2.geojson").read_bytes() == data
    assert session.world().regions == ("<script>alert(1)</script>", "S2")
    assert [rule.is_on for rule in session.document.rules] == [False, True]
    assert any("Switched off" in text for text in session.notices)
    session.save()
    assert load(folder).regions == ("<script>alert(1)</script>", "S2")
    session.undo()
    session.undo()
    session.save()
    assert load(folder).regions == ("S1", "S2", "S3", "S4", "S5")
    assert [rule.name for rule in load(folder).rules.rules] == ["a", "b"]


@pytest.mark.parametrize(
    "name", ["../a.geojson", "a/b.geojson", "/a.geojson", "a.toml", ".geojson"]
)
def test_a_dropped_file_with_another_name_is_refused(session: Session, name: str) -> None:
    with pytest.raises(StudioError):
        session.open_map(name, json.dumps(SQUARES).encode())


def test_a_dropped_file_that_is_no_map_leaves_nothing(session: Session, folder: Path) -> None:
    with pytest.raises(ScrlError):
        session.open_map("broken.geojson", b"{")
    assert not (folder / "broken.geojson").exists()
    assert session.document == session.saved


def test_a_map_can_be_opened_and_saved_as_a_problem(tmp_path: Path) -> None:
    (tmp_path / "squares.geojson").write_text(json.dumps(SQUARES))
    session = Session.open(str(tmp_path / "squares.geojson"))
    session.set_rules([RuleText("b", "S2 >= 1")])
    assert session.save() == tmp_path / "problem.toml"
    assert load(tmp_path).rules.rules[0].text == "S2 >= 1"


def test_rules_are_checked_with_the_messages_of_every_command(session: Session) -> None:
    good, bad, empty = session.check(
        [FIRST, RuleText("b", "S1 >= 300 adn S2 <= 1"), RuleText("c", "")]
    )
    assert good == {"name": "a", "error": None, "shown": "S1 >= 300"}
    assert bad["error"]["message"] == (
        "rule 'b', line 1, column 11: unexpected 'adn': did you mean 'and'?\n"
        "  S1 >= 300 adn S2 <= 1\n"
        "            ^^^"
    )
    assert (bad["error"]["line"], bad["error"]["column"]) == (1, 11)
    assert "empty" in empty["error"]["message"]


def test_a_flow_is_two_numbers_and_is_saved(session: Session, folder: Path) -> None:
    session.set_value("vehicle", "flow", [0.5, 2.0])
    session.set_value("vehicle", "dose", [0.1, 9.0])
    session.set_value("vehicle", "pump", "proportional")
    assert session.world().world_spec.vehicle.flow == (0.5, 2.0)
    with pytest.raises(ScrlError, match="needs a flow"):
        session.set_value("vehicle", "flow", None)
    session.save()
    assert load(folder).world_spec.vehicle == session.world().world_spec.vehicle
    session.set_value("problem", "confidence", 0.9)
    assert session.problem().options.confidence == 0.9


@pytest.mark.parametrize(
    "text",
    [
        "S1 >= 1e6",
        "S1 >= 100000 and S2 <= 500",
        "not (S1 < 100000)",
        "500 <= S2 <= 100",
        "S1 + S4 == 100000 within 6",
        "S2 <= S2 + S1 - 100000",
        "100000 <= S1  # much",
        "if S1 >= 0 then dose(S1) >= 400",
    ],
)
def test_the_least_loosening_is_written_into_the_rule(session: Session, text: str) -> None:
    session.set_rules([RuleText("a", text), RuleText("b", "S2 >= 1")])
    found = fluid_reference(session.problem())
    assert found.conflict
    session.loosen(found.relax)
    assert session.document.rules[0].text != text
    assert session.document.rules[1].text == "S2 >= 1"
    assert not fluid_reference(session.problem()).conflict
    session.undo()
    assert session.document.rules[0].text == text


def test_saving_keeps_quantities_and_lists_no_rule_of_the_world(tmp_path: Path) -> None:
    """A speed in km/h that was not edited stays one; a keep-out area has a rule of its own."""
    machine = Machine(boom=6.0, speed=12.0, flow=(0.0, 90.0), dose=(0.0, 250.0))
    start_problem(tmp_path / "farm", machine=machine)
    file = tmp_path / "farm" / "problem.toml"
    text = file.read_text().replace("# [keep_out]", '[keep_out]\naround = "S5"')
    file.write_text(text)
    opened = Session.open(str(tmp_path / "farm"))
    assert "keep_out" not in [rule.name for rule in Document.of(opened.problem()).rules]
    settings = {table: dict(values) for table, values in opened.document.settings.items()}
    settings["vehicle"]["inertia"] = 0.5
    opened.edit(dataclasses.replace(opened.document, settings=settings))
    opened.save()
    opened.close()
    saved = file.read_text()
    assert 'max_speed = "12 km/h"' in saved
    assert 'flow = ["0 litres/min", "90 litres/min"]' in saved
    assert tomllib.loads(saved)["vehicle"]["inertia"] == 0.5
