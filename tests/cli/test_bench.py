"""`scrl bench` as a user's shell sees it: a table, files, Ctrl-C, and going on."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest

from .shell import SCRL, call

SETTINGS = ("worlds=2", "rollout_steps=32", "iterations=40", "settle=0", "width=4", "depth=0")
TINY = (
    "table4", "--methods", "scrl", "--seeds", "2", "--out", "out",
    *(text for setting in SETTINGS for text in ("--set", setting)),
)  # fmt: skip


def test_a_bench_that_was_interrupted_goes_on_and_ends_with_the_table(
    tmp_path: Path,
) -> None:
    started = subprocess.Popen(
        [*SCRL, "bench", *TINY], cwd=tmp_path, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    metrics = tmp_path / "out" / "med-priority-scrl" / "metrics.jsonl"
    while started.poll() is None and not (metrics.exists() and metrics.read_text().count("\n") > 3):
        time.sleep(0.01)
    started.send_signal(signal.SIGINT)
    _, said = started.communicate(timeout=120)
    assert started.returncode == 130, said
    assert "everything is saved. Resume with: the same command again" in said
    assert not (tmp_path / "out" / "table4.md").exists()

    done = call("bench", *TINY, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "100% agri-priority scrl (2 of 2 runs done)" in done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("The draw against the smallest penalty")
    assert [line.split()[:2] for line in lines[2:4]] == [
        ["med-priority", "scrl"], ["agri-priority", "scrl"],
    ]  # fmt: skip
    assert "table4.md, table4.csv, table4.tex and the run folders, in out" in done.stdout
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "agri-priority-scrl", "med-priority-scrl", "table4.md", "table4.csv", "table4.tex",
        "figures",
    }  # fmt: skip

    figures = {path.name for path in (tmp_path / "out" / "figures").iterdir()}
    heat = {f"heat-{world}-priority.png" for world in ("agri", "med")}
    assert figures == {"map-agri.png", "map-med.png", *heat}

    again = call("bench", *TINY, "--json", cwd=tmp_path)
    document = json.loads(again.stdout)
    assert (again.returncode, document["table"], document["out"]) == (0, "table4", "out")
    assert [row["problem"] for row in document["rows"]] == ["med-priority", "agri-priority"]
    for row in document["rows"]:
        assert row["return"]["low"] <= row["return"]["mean"] <= row["return"]["high"]
        published = {"med-priority": -18.52, "agri-priority": -9.46}
        assert row["published"]["return_"] == published[row["problem"]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("table9",), "unknown table 'table9': did you mean 'table"),
        (("table1", "--tasks", "agri-multi"), "table1 has no task 'agri-multi'"),
        (("table1", "--methods", "scrl,rpco"), "unknown method 'rpco': did you mean 'rcpo'"),
        (("table1", "--set", "widht=3"), "unknown setting 'widht': did you mean 'width'"),
    ],
)
def test_mistakes_are_named_and_nothing_is_written(
    tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    done = call("bench", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []
