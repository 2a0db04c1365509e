"""Characters that steer a terminal or hide what is written are refused wherever texts are read."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import scrl
from scrl.environments.labels import Labels
from scrl.errors import MapError, ProblemError, RuleError, ScrlError, check_text, check_texts
from scrl.problems import ProblemOptions, load
from scrl.rules import Rule, RuleSet, parse
from scrl.runs.files import read_json, write_json
from scrl.worlds.sweep.maps import MapOptions, load_map
from scrl.worlds.sweep.regions import from_labels
from scrl.worlds.sweep.vehicle import Units

from .environments.small import REGIONS, make_walk

CLIPBOARD = "\x1b]52;c;ZXZpbA==\x07"
"""Makes many terminals fill the clipboard."""
STEERING = ["\x00", "\x07", "\x1b", "\x7f", "\x85", "\x9b", "\u2028", "\u202e", "\u2066", "\ud800"]


@pytest.mark.parametrize("character", [*STEERING, "a\rb"])
def test_characters_that_steer_are_named_by_code_point(character: str) -> None:
    place = 3 + len(character) // 2
    wanted = (
        f"here: the control character U\\+{ord(character[place - 3]):04X} \\(character {place}\\)"
    )
    with pytest.raises(ScrlError, match=wanted):
        check_text(f"ab{character}", "here", may_break=True)


def test_what_people_write_is_left_alone() -> None:
    for text in ("Käse, 雪, \U0001f33e, עברית \u200f, e\u0301", "tab\tand\nlines\r\n"):
        assert check_text(text, "here", may_break=True) is text
    for text in ("a\tb", "a\nb", "a\r\nb"):
        with pytest.raises(ScrlError, match="the control character U"):
            check_text(text, "here")


def test_documents_are_checked_to_the_bottom() -> None:
    check_texts({"a": [{"b": "one\ntwo"}], "c": 3.0}, "file")
    with pytest.raises(ScrlError, match=r"file: a, 1, b: the control character U\+001B"):
        check_texts({"a": [1, {"b": CLIPBOARD}]}, "file")
    with pytest.raises(ScrlError, match=r"file: rules: a key: the control character U\+000A"):
        check_texts({"rules": {"a\nb": ""}}, "file")


def _map_of(name: str, folder: Path) -> Path:
    ring = [[0, 0], [1, 0], [1, 1], [0, 0]]
    shape = {"type": "Polygon", "coordinates": [ring]}
    path = folder / "map.geojson"
    path.write_text(
        json.dumps({"type": "Feature", "properties": {"name": name}, "geometry": shape})
    )
    return path


READERS: dict[str, tuple[type[ScrlError], Callable[[str], Any]]] = {
    "rule name": (RuleError, lambda text: RuleSet.of({text: "S1 >= 1"}, ["S1"])),
    "rule text": (RuleError, lambda text: parse(f"S1 >= 1 # {text}")),
    "ready rule": (
        RuleError, lambda text: RuleSet((Rule("a", text, parse("S1 >= 1")),), ("S1",)),
    ),
    "region in a rule": (RuleError, lambda text: scrl.d[text]),
    "region of a map": (MapError, lambda text: from_labels(np.array([[1]]), [text])),
    "problem name": (ProblemError, lambda text: ProblemOptions(name=text)),
    "description": (ProblemError, lambda text: ProblemOptions(description=text)),
    "unit": (ProblemError, lambda text: Units(unit=text)),
    "label": (ScrlError, lambda text: Labels.of({text: lambda seen: 1.0})),
    "regions": (ScrlError, lambda text: Labels.of("key", [text])),
    "environment's unit": (
        ScrlError,
        lambda text: scrl.environment(
            make_walk, labels="amounts", regions=REGIONS, horizon_steps=8, unit=text
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize("reader", READERS)
def test_every_reader_of_texts_refuses_them(reader: str) -> None:
    error, read = READERS[reader]
    for text in (CLIPBOARD, "\u202ecilbup"):
        with pytest.raises(error, match=r"the control character U\+") as caught:
            read(text)
        assert str(caught.value).replace("\n", "").isprintable()


@pytest.mark.parametrize(
    "line", [r"[rules]" + "\n" + r'"\u001b[2J" = "S1 >= 1"', r'unit = "\u009b2J"', r'"a\u0007" = 1']
)
def test_problem_files_with_them_are_refused(tmp_path: Path, line: str) -> None:
    np.save(tmp_path / "farm.npy", np.array([[1, 2]]))
    path = tmp_path / "farm.toml"
    path.write_text(f'[world]\nmap = "farm.npy"\n{line}\n')
    with pytest.raises(ProblemError, match=r"farm.toml: .*the control character U\+00") as caught:
        load(path)
    assert str(caught.value).isprintable()


def test_maps_and_run_folders_with_them_are_refused(tmp_path: Path) -> None:
    with pytest.raises(MapError, match=r"map.geojson: .*the control character U\+001B"):
        load_map(_map_of(CLIPBOARD, tmp_path), MapOptions(strict=True))
    repaired = load_map(_map_of(CLIPBOARD, tmp_path))
    for text in (*repaired.names, *repaired.warnings):
        assert text.isprintable()
    write_json(tmp_path / "result.json", {"rules": [{"name": CLIPBOARD}]})
    with pytest.raises(ScrlError, match=r"rules, 0, name: the control character U\+001B"):
        read_json(tmp_path / "result.json", {})
