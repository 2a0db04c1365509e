"""From a run folder to files, in Python and as a user's shell sees it."""

from __future__ import annotations

import csv
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from scrl.errors import PolicyError
from scrl.evaluation import evaluate
from scrl.export import FORMATS, ExportError, export
from scrl.opening import open_run
from scrl.problems import load
from scrl.runs.folder import RunFolder

from ..cli import shell
from .conftest import AsRun


def test_the_route_has_the_densities_of_the_runs_own_evaluation(run: Path) -> None:
    result = open_run(run).result
    assert result is not None
    for each in result.seeds:
        route = open_run(run).route(each.seed)
        assert route.totals == pytest.approx(each.evaluation.density)
        assert route.steps == each.evaluation.steps
    assert open_run(run).seed_result().seed == result.best.seed
    first, second = (open_run(run).route(seed).throttle[0] for seed in (0, 1))
    assert first != second
    with pytest.raises(PolicyError, match="there is no seed 7 in this run"):
        open_run(run).route(7)


@pytest.mark.parametrize("name", list(FORMATS))
def test_every_format_is_written_whole(name: str, run: Path, tmp_path: Path) -> None:
    written = export(open_run(run), name, tmp_path / "file")
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in written.paths}
    assert all(path.stat().st_size > 100 for path in written.paths)
    before = [path.read_bytes() for path in written.paths]
    export(open_run(run), name, tmp_path / "file")
    assert [path.read_bytes() for path in written.paths] == before, "the same again"


def test_a_file_must_go_into_a_folder_that_is_there(run: Path, tmp_path: Path) -> None:
    for out in (tmp_path, tmp_path / "nowhere" / "route.csv"):
        with pytest.raises(ExportError, match="name a file"):
            export(open_run(run), "csv", out)


def test_the_shell_gets_a_document_and_the_file(run: Path, tmp_path: Path) -> None:
    done = shell.run("export", str(run), "--format", "regions", "--seed", "1", "--json",
                     "--out", "amounts.csv", cwd=tmp_path)  # fmt: skip
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["format"], document["seed"], document["unit"]) == ("regions", 1, "litres")
    assert document["files"] == ["amounts.csv"]
    with (tmp_path / "amounts.csv").open(newline="") as file:
        rows: list[dict[str, Any]] = list(csv.DictReader(file))[:-2]
    found = {row["region"]: float(row["received"]) for row in rows}
    assert found == pytest.approx(document["received"])
    problem = RunFolder.open(run).problem()
    expected = evaluate(problem, open_run(run).policy(1), episodes=1, seed=0).density
    assert found == pytest.approx(expected)


def test_without_out_the_file_goes_into_the_run_folder(run: Path, tmp_path: Path) -> None:
    copied = shutil.copytree(run, tmp_path / "run")
    done = shell.call("export", "run", "--format", "onnx", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["wrote run/policy.onnx", "wrote run/policy.onnx.json"]
    session = onnxruntime.InferenceSession(copied / "policy.onnx")
    state = {name: np.zeros(1, np.float32) for name in ("offset", "speed", "gust")}
    (throttle,) = session.run(None, {"cell": np.zeros(1, np.int32), **state})
    assert isinstance(throttle, np.ndarray)
    assert throttle.tolist() == pytest.approx([open_run(run).route().throttle[0]], abs=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere", "--format", "csv"], "there is no such folder"),
        (["RUN", "--format", "pdf"], "unknown format 'pdf': known are geojson, csv, regions, kml"),
        (["RUN", "--format", "plan", "--altitude", "-3"], "altitude = -3 must be above 0"),
    ],
)
def test_wrong_input_ends_with_2_and_writes_nothing(
    arguments: list[str], message: str, run: Path, tmp_path: Path
) -> None:
    given = [str(run) if each == "RUN" else each for each in arguments]
    done = shell.call("export", *given, "--out", "file", cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_plan_of_many_items_is_warned_of(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scrl.export.writing.MANY_ITEMS", 3)
    warnings = export(open_run(run), "plan", tmp_path / "many").warnings
    [said] = [each for each in warnings if "items" in each]
    written = json.loads((tmp_path / "many").read_text())["mission"]["items"]
    assert said.startswith(f"the plan has {len(written)} items")
    assert said.endswith("a larger --tolerance makes fewer")


def test_broken_rules_stand_in_the_files_of_a_policy_too(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = open_run(run)
    judged = broken.evaluation_of_policy()
    assert judged is not None
    rules = tuple(replace(each, is_satisfied=False, margin=-3.0) for each in judged.rules)
    judged = replace(judged, rules=rules)
    monkeypatch.setattr(broken, "evaluation_of_policy", lambda _: judged)
    (said,) = export(broken, "onnx", tmp_path / "policy.onnx").warnings
    assert said == "THIS PLAN BREAKS ITS RULE: 'low' (west >= 1), by 3.00 litres"
    assert json.loads((tmp_path / "policy.onnx.json").read_text())["warnings"] == [said]
    session = onnxruntime.InferenceSession(tmp_path / "policy.onnx")
    assert session.get_modelmeta().description == f"WARNING: {said}"


def test_what_makes_a_file_other_than_it_looks_is_said(run: Path, tmp_path: Path) -> None:
    opened = open_run(run)
    # From (2.5, 4) to (2.5, 6): two cells of 70 m at three cells in a step of 10 s.
    for name in ("geojson", "csv", "regions", "kml", "plan"):
        said, *more = export(opened, name, tmp_path / "a").warnings
        assert len(more) == (name == "plan")
        assert all("flown at up to 21.0 m/s" in each for each in more)  # the transit
        assert said.startswith("give nothing out on 1 transit (140 m in all, 1 steps (0:07 min) at")
        assert said in (tmp_path / "a").read_text()
    from scrl.policies import fixed_policy
    from scrl.worlds.sweep.vehicle import Wind

    agri = load("agri-joint")
    windy = replace(agri, world_spec=replace(agri.world_spec, wind=Wind(strength=0.1)))
    driven: Any = AsRun(windy, fixed_policy("full-speed", windy))
    first, second = export(driven, "geojson", tmp_path / "c").warnings
    assert first.endswith("the GeoJSON standard (RFC 7946) wants degrees")
    assert second.startswith("this world is random, and the file holds one episode of many")
