"""What a terminal shows of training, and what a pipe gets instead."""

from __future__ import annotations

import inspect
import io
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax.numpy as jnp
import pytest
from rich.console import Console

import scrl
from scrl.bench import run_bench
from scrl.bench.progress import BenchProgressBar
from scrl.problems import load
from scrl.terminal import watching
from scrl.training.algorithm import Metrics
from scrl.training.config import configure
from scrl.training.progress import TrainingProgress, TrainingProgressBar, atom_table, summary


def progress(rounds: int, wall_s: float, env_steps: int) -> TrainingProgress:
    """Two seeds of agri-situational; the first has kept the rule, the second has not."""
    metrics = Metrics(
        return_=jnp.array([-30.0, -20.0]),
        density=jnp.array([[250.0, 350, 810, 320, 200], [250.0, 350, 430, 320, 200]]),
        violation=jnp.array([0.0, 50.0]),
        steps=jnp.array([1000.0, 835.0]),
        env_steps=jnp.array([2000, 1835]),
        kappa=jnp.array([[0.5, 0.06], [0.7, 0.04]]),
        loss=jnp.zeros(2),
        best_return=jnp.array([-30.5, -25.0]),
        best_violation=jnp.array([0.0, 5.0]),
    )
    config = configure(settings={"iterations": 10, "settle": 5})
    problem = load("agri-situational")
    return TrainingProgress(problem, config, Path("runs/x"), rounds, 15, env_steps, wall_s, metrics)


@pytest.fixture
def paper() -> io.StringIO:
    return io.StringIO()


def test_a_terminal_shows_a_bar_before_the_first_round_and_then_the_table(
    paper: io.StringIO,
) -> None:
    out = Console(file=paper, force_terminal=True, width=120)
    with TrainingProgressBar(out) as watching:
        watching.live.refresh()
        assert "compiling" in paper.getvalue()
        watching(progress(1, 10.0, 1000))
        watching(progress(3, 12.0, 5000))
        watching.live.refresh()
        watching = paper.getvalue()
    assert "learning" in watching
    assert "3 of 15 rounds" in watching
    # 4,000 steps in the 2 seconds after the first round.
    assert "2,000 steps/s" in watching
    assert "S3 >= 800" in watching


def test_after_the_learning_it_says_that_kappa_settles(paper: io.StringIO) -> None:
    with TrainingProgressBar(Console(file=paper, force_terminal=True, width=120)) as watching:
        watching(progress(12, 10.0, 1000))
        watching.live.refresh()
    assert "settling" in paper.getvalue()


def test_a_pipe_gets_a_line_for_the_first_round_and_then_one_now_and_then(
    paper: io.StringIO,
) -> None:
    with TrainingProgressBar(Console(file=paper, width=200)) as watching:
        watching.starting()
        for rounds in (1, 2, 3):
            watching(progress(rounds, 10.0 + rounds, 1000 * rounds))
    lines = paper.getvalue().splitlines()
    assert len(lines) == 2
    assert lines[1].startswith("round 1 of 15")


def test_ctrl_c_is_answered(paper: io.StringIO) -> None:
    TrainingProgressBar(Console(file=paper)).stopping()
    assert "stopping after this round" in paper.getvalue()


def test_the_summary_counts_the_seeds_that_have_kept_every_rule() -> None:
    told = summary(progress(3, 1.0, 1))
    # Means of -30 and -20, of 0 and 50; the first seed alone has kept the rule, with -30.5.
    assert told == (
        "return -25.00, violated by 25.0; 1 of 2 seeds have kept every rule, at best with -30.50"
    )


def test_an_atom_is_shown_the_way_it_was_written() -> None:
    watching = atom_table(progress(3, 1.0, 1))
    cells = [list(column.cells) for column in watching.columns]
    assert cells[1] == ["S2 <= 300", "S3 >= 800"]
    # The mean of 810 and 430; not -620, which is what the matrix holds.
    assert cells[2] == ["350.0", "620.0"]
    assert cells[3] == ["300.0", "800.0"]
    assert cells[5] == ["0 of 2", "1 of 2"]


class Screen(io.StringIO):
    """Standard error that says whether it is a terminal."""

    def __init__(self, is_terminal: bool) -> None:
        super().__init__()
        self.is_terminal = is_terminal

    def isatty(self) -> bool:
        return self.is_terminal


@pytest.mark.parametrize("bar", [TrainingProgressBar, BenchProgressBar])
def test_progress_is_shown_by_default_on_a_terminal_and_nowhere_else(
    bar: type[TrainingProgressBar | BenchProgressBar],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.stderr", Screen(is_terminal=False))
    with watching("auto", bar) as screen:
        assert screen is None
    monkeypatch.setattr("sys.stderr", Screen(is_terminal=True))
    with watching("auto", bar) as screen:
        assert isinstance(screen, bar)
        assert screen.out.stderr
    with watching(None, bar) as screen:
        assert screen is None
    with watching(print, bar) as screen:
        assert screen is print


def test_a_notebook_gets_lines_on_standard_error(monkeypatch: pytest.MonkeyPatch) -> None:
    paper = Screen(is_terminal=False)
    notebook = SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel=object()))
    monkeypatch.setattr("sys.stderr", paper)
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    with watching("auto", TrainingProgressBar) as screen:
        screen(progress(3, 12.0, 5000))
    assert "round 3 of 15" in paper.getvalue()


@pytest.mark.parametrize("function", [scrl.train, scrl.resume, run_bench])
def test_who_trains_shows_progress_unless_told_otherwise(function: Any) -> None:
    assert inspect.signature(function).parameters["watch"].default == "auto"
