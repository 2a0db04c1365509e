"""Numbers, tables and maps as commands write them."""

from __future__ import annotations

import io
import re
import sys

import pytest

from scrl.cli import demo, listing
from scrl.cli.output import below_bound, console
from scrl.evaluation import RuleResult
from scrl.problems import load
from scrl.terminal import table
from scrl.training.methods import METHODS


class Terminal(io.StringIO):
    """Takes the place of standard output on a terminal."""

    def isatty(self) -> bool:
        return True

    @property
    def text(self) -> str:
        """What can be read on it."""
        return re.sub("\x1b\\[[0-9;]*m", "", self.getvalue())


def on_a_terminal(monkeypatch: pytest.MonkeyPatch, columns: int) -> Terminal:
    """Standard output from here on: without colours, and this wide."""
    found = Terminal()
    monkeypatch.setattr(sys, "stdout", found)
    for name, value in {"TERM": "xterm-256color", "NO_COLOR": "1", "COLUMNS": str(columns)}.items():
        monkeypatch.setenv(name, value)
    return found


def test_names_that_one_must_type_are_never_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_a_terminal(monkeypatch, 60)
    listing.list_all()
    words = terminal.text.split()
    assert {*METHODS, "agri-situational", "med-situational", "constant:V"} <= {*words}
    assert not any("…" in word for word in words)
    assert max(map(len, terminal.text.splitlines())) <= 60


def test_what_does_not_fit_is_wrapped_and_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_a_terminal(monkeypatch, 24)
    shown = table("region", ">units")
    shown.add_row("a-very-long-name-of-a-region", "1,234.50")
    console().print(shown)
    assert "…" not in terminal.text
    assert "1,234.50" in terminal.text


def test_lines_of_tables_end_with_their_text(capsys: pytest.CaptureFixture[str]) -> None:
    listing.list_all()
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line != line.rstrip()] == []


def test_without_colours_regions_are_told_apart_by_signs(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_a_terminal(monkeypatch, 80)
    demo._tell(load("agri-joint"))
    shown = terminal.text
    assert "▀" not in shown
    assert {"1", "2", "3", "4", "5"} <= {*"".join(shown.splitlines()[1:26])}
    assert "1 S1   2 S2   3 S3   4 S4   5 S5" in shown


@pytest.mark.parametrize(
    ("gap", "digits", "text"),
    [
        (0.0149, 1, "1.5% below the proven bound"),
        (0.0, 2, "0.00% below the proven bound"),
        (-1e-7, 2, "0.00% below the proven bound"),
    ],
)
def test_a_gap_is_said_to_be_to_the_bound(gap: float, digits: int, text: str) -> None:
    assert below_bound(gap, digits) == text


@pytest.mark.parametrize(
    ("margin", "is_satisfied", "text"),
    [
        (1234.567, True, "+1,234.57"),
        (-1e-7, True, "+0.00"),
        (-0.0, True, "+0.00"),
        (-1, False, "-1.00"),
        (-0.001, False, "-0.001"),
    ],
)
def test_a_margin_has_a_minus_only_where_a_rule_is_broken(
    margin: float, is_satisfied: bool, text: str
) -> None:
    assert RuleResult("a", "S1 >= 3", is_satisfied, margin).margin_text("+,.2f") == text
