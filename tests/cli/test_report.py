"""`scrl report` and `scrl compare` as a user's shell sees them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from scrl.evaluation import evaluate
from scrl.problems import Problem, ProblemOptions
from scrl.runs.folder import RunFolder, RunRecord
from scrl.runs.result import SeedResult
from scrl.training.result import TrainingResult
from scrl.worlds.sweep.regions import from_labels
from scrl.worlds.sweep.spec import SweepSpec

from .shell import call


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs `slow` and `fast` of six seeds each, `else` of another problem, and `open`."""
    root = tmp_path_factory.mktemp("runs")
    spec = SweepSpec(from_labels(np.repeat([[1] * 4 + [2] * 4], 4, axis=0)))
    problem = Problem.create(spec, {"one": "S1 >= 5"}, ProblemOptions(name="small"))
    other = problem.with_rules({"one": "S1 >= 6"})
    for name, of, speed in (("slow", problem, 1.0), ("fast", problem, 2.0), ("else", other, 1.0)):
        made = RunFolder.create(root / name, of, RunRecord.now("small", name, {}, range(6)))
        judged = [evaluate(of, f"constant:{speed + 0.01 * seed}") for seed in range(6)]
        seeds = tuple(SeedResult(seed, each, None) for seed, each in enumerate(judged))
        result = TrainingResult("small", name, None, seeds, 1.0, made.path, 10)
        made.save_result(result.to_json())
    RunFolder.create(root / "open", problem, RunRecord.now("small", "scrl", {}, [0]))
    RunFolder.create(root / "prices", None, RunRecord.now("general", "prices", {}, [0]))
    return root


def test_report_writes_a_page_into_the_run_folder(folder: Path) -> None:
    done = call("report", "slow", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "page: slow/report.html\n"
    assert "<h1>small</h1>" in (folder / "slow" / "report.html").read_text(encoding="utf-8")


def test_report_of_several_runs_goes_where_it_is_told(folder: Path, tmp_path: Path) -> None:
    page = tmp_path / "deep" / "page.html"
    done = call("report", "slow", "fast", "open", "--out", str(page), "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["page"] == str(page)
    assert document["bytes"] == page.stat().st_size
    assert [each["finished"] for each in document["runs"]] == [True, True, False]


def test_compare_says_it_in_a_sentence_and_draws_it(folder: Path, tmp_path: Path) -> None:
    picture = tmp_path / "picture.png"
    done = call("compare", "slow", "fast", "--out", str(picture), cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "fast is cheaper than slow by" in done.stdout
    assert "the difference is not chance (p = 0.031)." in done.stdout
    assert picture.stat().st_size > 10_000


def test_compare_as_json(folder: Path) -> None:
    document = json.loads(call("compare", "slow", "fast", "--json", cwd=folder).stdout)
    assert document["pairs"][0]["is_paired"] is True
    assert document["pairs"][0]["return"]["p"] == pytest.approx(2 / 64)
    assert document["picture"] is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("report", "prices"), "an earlier version has trained a price policy here"),
        (("report", "slow", "--out", "page.pdf"), "a page's name ends in .html"),
        (("compare", "slow", "else"), "differ in: rules"),
        (("compare", "slow", "fast", "--out", "p.xyz"), "ends in .png"),
    ],
)
def test_wrong_input_ends_with_2_one_message_and_nothing_written(
    folder: Path, arguments: tuple[str, ...], message: str
) -> None:
    before = sorted(folder.rglob("*"))
    done = call(*arguments, cwd=folder)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert sorted(folder.rglob("*")) == before
