"""The learning curves of a run, drawn from its metrics alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import to_rgba_array

from scrl.evaluation import Evaluation
from scrl.problems import load
from scrl.report.figures import plot
from scrl.runs.folder import RunFolder, RunRecord
from scrl.runs.result import SeedResult
from scrl.training.result import TrainingResult


@pytest.fixture
def result(tmp_path: Path) -> TrainingResult:
    """Two seeds and three rounds of agri-situational, made up; one return is not a number."""
    problem = load("agri-situational")
    record = RunRecord.now(problem.name, "scrl", {}, [0, 1])
    folder = RunFolder.create(tmp_path / "run", problem, record)
    for number, returns in enumerate([(-50.0, -40.0), (-30.0, float("nan")), (-31.0, -29.0)], 1):
        folder.log(
            [
                {"iteration": number, "seed": seed, "return": value, "violation": 10.0 / number,
                 "kappa/0": 0.1 * number, "kappa/1": 0.0}
                for seed, value in enumerate(returns)
            ]
        )  # fmt: skip
    found = Evaluation(problem.name, "scrl", "units", -30.0, {}, {}, 0.0, True, (), 1, 1, 0, 1000.0)
    seeds = tuple(SeedResult(seed, found, 0.01) for seed in (0, 1))
    return TrainingResult(problem.name, "scrl", -29.93, seeds, 1.0, folder.path, 1)


def test_the_curves_show_median_range_and_the_best_possible(result: TrainingResult) -> None:
    top, middle, bottom = plot(result).axes
    median, best = (line.get_ydata() for line in top.lines)
    # Medians of (-50, -40), of -30 alone, and of (-31, -29).
    assert np.allclose(median, [-45.0, -30.0, -30.0])
    assert np.allclose(best, -29.93)
    assert np.allclose(middle.lines[0].get_ydata(), [10.0, 5.0, 10.0 / 3.0])
    legend = bottom.get_legend()
    assert legend is not None
    texts = [text.get_text() for text in legend.get_texts()]
    assert texts == ["S2 <= 300", "S3 >= 800"]
    assert "2 of 2 seeds" in top.get_title()


def test_the_range_of_the_seeds_is_a_faint_band(result: TrainingResult) -> None:
    (band,) = plot(result).axes[0].collections
    [(_, _, _, opacity)] = to_rgba_array(band.get_facecolor())
    assert opacity == pytest.approx(0.2)
