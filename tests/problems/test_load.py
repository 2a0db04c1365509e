"""Problem files: what is read, and what every mistake says."""

from __future__ import annotations

import json
import random
import shutil
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from scrl.errors import ProblemError, ScrlError
from scrl.problems import builtin_names, difference_between, find_world, load, save
from scrl.problems.load import BUILTIN_FOLDER
from scrl.worlds.sweep.spec import cell_on_map

GOOD = """
[problem]
name = "farm"
[world]
kind = "sweep"
map = "farm.npy"
cell = 10.0
step = 2.0
unit = "litres"
swath = 1
[vehicle]
max_speed = 2.0
[wind]
strength = 0.1
[rules]
least = "S1 >= 3"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    np.save(tmp_path / "farm.npy", np.array([[1, 1, 0], [2, 2, 0]]))
    return tmp_path


def written(folder: Path, text: str) -> Path:
    path = folder / "farm.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_good_file_is_read_whole(folder: Path) -> None:
    problem = load(written(folder, GOOD))
    spec = problem.world_spec
    assert problem.name == "farm"
    assert spec.vehicle.max_speed == 2.0
    assert spec.vehicle.rate == 2.25
    assert spec.wind.strength == 0.1
    assert spec.units.unit == "litres"
    assert spec.regions.names == ("S1", "S2")
    assert [rule.text for rule in problem.rules.rules] == ["S1 >= 3"]


def test_service_is_poured_unless_a_file_says_otherwise(folder: Path) -> None:
    assert load(written(folder, GOOD)).world_spec.is_poured
    said = GOOD.replace("[world]\n", '[world]\nservice = "landing"\n')
    assert not load(written(folder, said)).world_spec.is_poured
    assert load(folder / "farm.npy").world_spec.is_poured
    with pytest.raises(ProblemError, match="service = 'spilt' is not one of poured, landing"):
        load(written(folder, said.replace("landing", "spilt")))


@pytest.mark.parametrize("name", [*builtin_names(), "agri", "med"])
def test_built_in_problems_count_as_the_paper_does(name: str) -> None:
    assert load(name).world_spec.route.service == "landing"


def test_the_seven_builtin_problems_have_the_papers_rules() -> None:
    assert builtin_names() == [
        "agri-situational", "agri-priority", "agri-joint", "agri-multi",
        "med-situational", "med-priority", "med-joint",
    ]  # fmt: skip
    # not(S2 > 300) or S3 >= 800: one clause of two atoms; priority: 3 x 2 clauses; joint: 2 + 3.
    sizes = {name: load(name).atoms.members.sum(axis=1).tolist() for name in builtin_names()}
    assert sizes["agri-situational"] == sizes["med-situational"] == [2]
    assert sizes["agri-priority"] == sizes["med-priority"] == [2] * 6
    assert sizes["agri-joint"] == sizes["med-joint"] == [1] * 5
    assert sizes["agri-multi"] == [4]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("[wind]", "[winds]"), "unknown table [winds]: did you mean 'wind'?"),
        (("max_speed", "max_sped"), "[vehicle] has no key 'max_sped': did you mean 'max_speed'?"),
        (("cell = 10.0", "cel = 10.0"), "[world] has no key 'cel': did you mean 'cell'?"),
        (("2.0\n[wind]", "-2.0\n[wind]"), "[vehicle] max_speed = -2.0 must be above 0"),
        (('"S1 >= 3"', "3"), "[rules] least must be a text"),
        (('"S1 >= 3"', '"S1 >= "'), "rule 'least', line 1, column 6"),
        (('"S1 >= 3"', '"S22 >= 3"'), "unknown region 'S22': did you mean 'S2'?"),
        (('map = "farm.npy"', ""), '[world] needs map = "FILE"'),
        (('"farm.npy"', '"../farm.npy"'), "leads out of the problem's folder"),
        (('"farm.npy"', '"/etc/passwd"'), "leads out of the problem's folder"),
        (('"farm.npy"', '"none.npy"'), "none.npy"),
        (('"sweep"', '"drift"'), "kind = 'drift' is unknown"),
        (("[problem]", "[problem"), "not a TOML file"),
        (("swath = 1", "swath = 0"), "[world] swath = 0 must be at least 1"),
        (("swath = 1", 'direction = "row"'), "did you mean 'rows'?"),
        (("swath = 1", "grid = [0, 3]"), "grid must be [rows, columns]"),
        (("swath = 1", 'forbidden = ["pond"]'), "pond"),
        (('"S1 >= 3"', '"S1 >= 3 surely"'), "gusts of wind have no largest strength; write 'in 99"),
        (('"S1 >= 3"', '"S1 >= 3 in 99.99999 %"'), "and at most 100,000 are made; ask for less"),
        (('"S1 >= 3"', '"S1 >= 3 in 100 %"'), "write 'surely'"),
        (("[world]", "confidence = 1.0\n[world]"), "confidence = 1.0 must be above 0 and below 1"),
        (
            ("[world]", 'confidence = "95 %"\n[world]'),
            "confidence = '95 %' must be a finite number",
        ),
        (("[world]", "confidence = nan\n[world]"), "confidence = nan must be"),
    ],
)
def test_every_mistake_is_one_message_with_file_and_place(
    folder: Path, change: tuple[str, str], message: str
) -> None:
    path = written(folder, GOOD.replace(*change, 1))
    with pytest.raises(ScrlError) as caught:
        load(path)
    assert message in str(caught.value)
    assert "farm" in str(caught.value)


def test_rules_and_all_of_them_together_say_how_surely_they_must_hold(folder: Path) -> None:
    text = GOOD.replace("S1 >= 3", "S1 >= 3 in 97.5 %")
    problem = load(written(folder, text))
    assert [rule.share for rule in problem.rules.rules] == [Fraction("0.975")]
    assert problem.options.confidence is problem.rules.confidence is None
    joint = load(written(folder, text.replace("[world]", "confidence = 0.95\n[world]")))
    assert joint.rules.confidence == Fraction("0.95")
    assert joint.rules.shares == (Fraction("0.975"),)
    assert difference_between(problem, joint) == ["rules"]
    assert difference_between(problem, load(written(folder, GOOD))) == ["rules"]
    assert joint.with_rules("S2 >= 1").rules.shares == (Fraction("0.95"),)
    average = GOOD.replace("S1 >= 3", "S1 >= 3 on average")
    assert not difference_between(load(written(folder, average)), load(written(folder, GOOD)))
    with pytest.raises(
        ProblemError, match=r"rule 'least' says 'on average', and confidence = 0.95"
    ):
        load(written(folder, average.replace("[world]", "confidence = 0.95\n[world]")))
    with pytest.raises(ProblemError, match="confidence = None in the options, but the rules"):
        replace(joint, options=replace(joint.options, confidence=None))


def test_a_missing_world_table(folder: Path) -> None:
    with pytest.raises(ScrlError, match=r"the table \[world\] is missing"):
        load(written(folder, '[rules]\na = "S1 >= 1"\n'))


def test_a_table_that_is_no_table(folder: Path) -> None:
    with pytest.raises(ScrlError, match="world must be a table"):
        load(written(folder, "world = 3\n"))


def test_no_such_problem_names_the_nearest() -> None:
    with pytest.raises(ScrlError, match="did you mean 'agri-joint'"):
        load("agri-join")


def test_a_link_that_leads_out_is_refused(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside") / "secret.npy"
    np.save(outside, np.array([[1]]))
    (folder / "link.npy").symlink_to(outside)
    with pytest.raises(ScrlError, match="leads out"):
        load(written(folder, GOOD.replace("farm.npy", "link.npy")))


def test_a_folder_with_a_problem_file_is_a_problem(folder: Path) -> None:
    written(folder, GOOD).rename(folder / "problem.toml")
    assert load(folder).name == "farm"


@pytest.mark.parametrize("chunk", range(4))
def test_mutated_problem_files_give_a_problem_or_a_clean_error(tmp_path: Path, chunk: int) -> None:
    """A quarter of 1,000 files: bytes changed, lines lost, doubled or swapped."""
    rng = random.Random(chunk)
    shutil.copyfile(BUILTIN_FOLDER / "agri.geojson", tmp_path / "agri.geojson")
    shutil.copyfile(BUILTIN_FOLDER / "med.geojson", tmp_path / "med.geojson")
    np.save(tmp_path / "farm.npy", np.array([[1, 1, 0], [2, 2, 0]]))
    originals = [path.read_bytes() for path in sorted(BUILTIN_FOLDER.glob("*.toml"))]
    shared = GOOD.replace("S1 >= 3", "S1 >= 3 or S2 >= 4 in 97.5 %")
    shared = shared.replace("[world]", "confidence = 0.95\n[world]")
    originals += [GOOD.encode()] * 5 + [shared.encode()] * 2
    read = 0
    for _ in range(250):
        path = tmp_path / "mutated.toml"
        path.write_bytes(_mutated(rng.choice(originals), rng))
        try:
            load(path)
            read += 1
        except ScrlError:
            pass
    assert 0 < read < 250


def _mutated(original: bytes, rng: random.Random) -> bytes:
    data = bytearray(original)
    for _ in range(rng.randint(1, 4)):
        place = rng.randrange(len(data))
        match rng.randrange(6):
            case 0:
                data[place] = rng.randrange(256)
            case 1:
                del data[place : place + rng.randint(1, 20)]
            case 2:
                data[place:place] = bytes(rng.randrange(32, 127) for _ in range(rng.randint(1, 8)))
            case 3:
                data[place:place] = rng.choice(
                    [b"[", b"]", b'"', b"\n", b"=", b"1e999", b"nan", b"-"]
                )
            case 4:
                lines = bytes(data).split(b"\n")
                rng.shuffle(lines)
                data = bytearray(b"\n".join(lines))
            case _:
                data += data[place : place + 60]
        if not data:
            return b""
    return bytes(data)


def test_worlds_by_name_by_problem_and_by_map(folder: Path) -> None:
    assert find_world("agri").world_spec == load("agri-joint").world_spec
    assert find_world("med-joint").world_spec == find_world("med").world_spec
    assert find_world(folder / "farm.npy").world_spec.regions.names == ("S1", "S2")
    assert find_world(written(folder, GOOD)).world_spec.vehicle.max_speed == 2.0


def town(folder: Path) -> Path:
    """Two districts side by side, a thousandth of a degree wide, at the equator."""

    def district(name: str, west: float) -> dict[str, object]:
        east = west + 0.001
        ring = [[west, 0.0], [east, 0.0], [east, 0.001], [west, 0.001], [west, 0.0]]
        shape = {"type": "Polygon", "coordinates": [ring]}
        return {"type": "Feature", "properties": {"name": name}, "geometry": shape}

    features = [district("a", 0.0), district("b", 0.001)]
    path = folder / "town.geojson"
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    return path


def test_a_map_without_a_problem_keeps_its_place_on_earth(folder: Path) -> None:
    found = find_world(town(folder))
    regions, route = found.world_spec.regions, found.world_spec.route
    assert found.world_spec.units.cell == cell_on_map(regions, route) is not None
    saved = load(save(found.with_rules("a >= 3"), folder / "kept" / "problem.toml"))
    assert saved.world_spec == found.world_spec
    assert saved.world_spec.regions.georeference == regions.georeference is not None


@pytest.mark.parametrize(("share", "is_warned"), [(1.02, False), (1.1, True), (0.9, True)])
def test_a_cell_that_the_map_contradicts_is_warned_about(
    folder: Path, share: float, is_warned: bool
) -> None:
    cell = find_world(town(folder)).world_spec.units.cell
    assert cell is not None
    path = folder / "town.toml"
    path.write_text(
        f'[world]\nmap = "town.geojson"\ncell = {share * cell}\n[rules]\none = "a >= 3"\n'
    )
    assert any("a cell of the map is" in each for each in load(path).warnings()) is is_warned


def test_a_folder_without_a_problem_says_so(folder: Path) -> None:
    with pytest.raises(ScrlError, match=r"this folder holds no problem.toml"):
        load(folder)


def test_a_path_that_full_speed_cannot_finish_is_warned_about(folder: Path) -> None:
    np.save(folder / "farm.npy", np.ones((200, 200), int))
    problem = load(written(folder, GOOD))
    assert any("even at full speed the path takes 20,000 steps" in w for w in problem.warnings())


@pytest.mark.parametrize(
    "line",
    [
        "a." * 2_000 + "a = 1",
        "[" + "a." * 2_000 + "a]",
        "x = {" + "a . " * 2_000 + "a = 1}",
        '"a".' * 2_000 + "'a' = 1",
    ],
)
def test_keys_of_many_parts_are_refused_before_they_are_read(
    folder: Path, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They cost time and memory by the square of their length."""
    monkeypatch.setattr("tomllib.loads", None)
    with pytest.raises(ProblemError, match=r"farm.toml: line 3: a key of more than 8 parts"):
        load(written(folder, f'# one\n"a.b" = "{"a." * 20}"\n{line}\n'))


def test_dots_in_texts_and_numbers_are_no_keys(folder: Path) -> None:
    many = "a." * 20
    text = GOOD.replace('name = "farm"', f'name = "farm"\ndescription = """{many}\n{many}"""')
    text = text.replace("[rules]", f"extent = [0.5, 0.5, 1.5, 2.5]  # {many}\n[rules]")
    with pytest.raises(ScrlError, match=r"\[wind\] has no key 'extent'"):
        load(written(folder, text))


def test_a_file_too_large_is_refused_unread(folder: Path) -> None:
    with pytest.raises(ProblemError, match="larger than 2,000,000 bytes"):
        load(written(folder, "a=[" + "1," * 1_000_000 + "]"))
