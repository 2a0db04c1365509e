"""The page in a real browser: quiet, whole, and no wider than a phone."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from scrl.problems import Problem, ProblemOptions
from scrl.report.page import page_text
from scrl.report.reading import read_runs
from scrl.worlds.sweep.regions import from_labels
from scrl.worlds.sweep.spec import SweepSpec

from .browser import CHROMIUM, NARROW, browse
from .made import make_run, small_problem

pytestmark = pytest.mark.skipif(
    CHROMIUM is None and os.environ.get("CI") != "true",  # there a missing browser is a failure
    reason="there is no chromium on this machine",
)


def test_a_page_is_quiet_whole_and_fits_every_screen(whole: Path, tmp_path: Path) -> None:
    frames, said = browse(page_text(read_runs([whole])), tmp_path)
    assert said == ""
    for width, frame in zip(NARROW, frames, strict=True):
        assert frame["scroll"] <= width, frame["wide"]
        assert frame["wide"] == []
        assert frame["headings"] == [
            "The plan",
            "What each region receives",
            "The rules",
            "Distance to the proven bound",
            "How it was learned",
            "How to reproduce it",
        ]
        assert frame["asked"] == []
        assert frame["unnamed"] == 0
        assert frame["hidden"] == 0
        assert frame["small"] == 0
        assert frame["masks"] == 1
        assert frame["height"] > 1_500


def test_fans_fit_every_screen(windy: Path, tmp_path: Path) -> None:
    frames, said = browse(page_text(read_runs([windy])), tmp_path)
    assert said == ""
    for frame in frames:
        assert frame["scroll"] <= frame["width"], frame["wide"]
        assert frame["wide"] == []
        assert "Amounts along the path" in frame["headings"]
        assert frame["unnamed"] == frame["hidden"] == frame["small"] == 0


def test_runs_side_by_side_fit_a_phone_too(whole: Path, tmp_path: Path) -> None:
    """Two with plans, more with long names, one unfinished, of two problems."""
    runs = [shutil.copytree(whole, tmp_path / "copied")]
    runs += [
        make_run(tmp_path / f"{name}-{'long' * 12}", small_problem(), speeds=(1.5, 3.0))
        for name in "abcd"
    ]
    runs.append(make_run(tmp_path / "open", small_problem(), method="rcpo", is_finished=False))
    runs.append(make_run(tmp_path / "else", small_problem({"one": "S1 >= 5"}, name="else")))
    frames, said = browse(page_text(read_runs([whole, *runs])), tmp_path, widths=(360, 1280))
    assert said == ""
    assert len(frames) == 2
    for frame in frames:
        assert frame["scroll"] <= frame["width"], frame["wide"]
        assert "Is the difference real?" in frame["headings"]
        assert frame["unnamed"] == 0


def test_a_script_in_a_name_does_nothing(tmp_path: Path) -> None:
    evil = "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
    name = evil.replace('"', "`")
    spec = SweepSpec(from_labels(np.repeat([[1] * 4 + [2] * 4], 4, axis=0), [name, "S2"]))
    options = ProblemOptions(name="plain", description=evil)
    problem = Problem.create(spec, {evil: f'if S2 > 10 then "{name}" >= 18'}, options)
    run = make_run(tmp_path / "run", problem, method=evil, speeds=[1.5])
    frames, said = browse(page_text(read_runs([run])), tmp_path, widths=(360,))
    assert said == ""
    assert frames[0]["title"] == "plain · scrl"
    assert frames[0]["asked"] == []
    assert frames[0]["scroll"] <= 360, frames[0]["wide"]


def test_the_browser_would_complain(tmp_path: Path) -> None:
    """A page that asks for something, and runs something, is not quiet: so the tests above see."""
    page = (
        "<!doctype html><title>x</title><p style='width:500px'>wide</p>"
        "<img src='http://example.invalid/x.png'><script>throw new Error('loud')</script>"
    )
    [frame], said = browse(page, tmp_path, widths=(360,))
    assert "loud" in said
    assert frame["scroll"] > 360
    assert frame["wide"]
    assert frame["unnamed"] == 1
    assert frame["asked"] == ["http://example.invalid/x.png"]
