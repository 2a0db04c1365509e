"""Runs in environments on pages, in comparisons and in the shell: all but what needs a map."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

import scrl
from scrl.cli.app import app
from scrl.environments.calls import train_call
from scrl.errors import ScrlError
from scrl.evaluation import Evaluation
from scrl.opening import open_run
from scrl.problems import difference_between
from scrl.report.compare import compare
from scrl.report.page import page_text
from scrl.report.page.story import is_binding, stories_of
from scrl.report.reading import read_runs
from scrl.report.words import amount
from scrl.runs.folder import RunFolder

from ..report.browser import CHROMIUM, browse
from ..report.made import make_run, small_problem
from ..report.pages import Page, page_of
from ..runs.small import rewrite
from .small import HORIZON, LOOP, REGIONS, RULES, make_choices, make_walk

ASKED = {"situational": RULES, "impossible": "west >= 100"}


def train(out: Path, **options: Any) -> Path:
    known = {"labels": "amounts", "regions": REGIONS, "rules": ASKED, "unit": "metres"}
    known |= {"horizon_steps": HORIZON, "seeds": 2, "settings": LOOP, "tolerance": 1e-3}
    return scrl.train(options.pop("env", make_walk), out=out, **{**known, **options}).run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(tmp_path_factory.mktemp("pages") / "run")


@pytest.fixture(scope="module")
def other(run: Path) -> Path:
    """The same seeds with another penalty."""
    return train(run.parent / "other", method="ppo-lagrangian")


def shell(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(each) for each in arguments])


def changed(run: Path, path: Path, **changes: Any) -> Path:
    """A copy of a run whose environment.json says something else."""
    shutil.copytree(run, path)
    rewrite(path / "environment.json", **changes)
    return path


def unfinished(run: Path, path: Path) -> Path:
    shutil.copytree(run, path)
    (path / "result.json").unlink()
    return path


def test_a_page_has_all_but_the_map(run: Path) -> None:
    page, [view] = page_of(run), read_runs([run])
    assert page.sections == ["regions", "rules", "bound", "learning", "origin"]
    assert view.result is not None
    best = view.result.best.evaluation
    least, west = amount(best.cons_vio), amount(best.density["west"])
    assert f"None of 2 seeds keeps every rule. The best breaks them by {least} metres." in page.text
    assert f"west received {west} metres, " in page.text
    assert "less than needed" in page.text
    assert "There is no proven bound" in page.text
    assert "Distance to" not in page.text
    # Return, violation and kappa; neither a map nor a route.
    assert sum(tag == "svg" for tag, _ in page.elements) == 4  # return, violation, amounts, kappa
    assert "after ±" in page.text.lower()
    assert "Every seed in numbers" in page.text


def test_every_label_has_its_own_unit(run: Path, tmp_path: Path) -> None:
    units = {"west": "trips", "east": "kilometres"}
    path = changed(run, tmp_path / "units", unit=units)
    [story] = stories_of(read_runs([path]))
    assert [(each.name, each.unit) for each in story.bars] == list(units.items())
    page = page_of(path).text
    result = read_runs([path])[0].result
    assert result is not None
    best = result.best.evaluation
    assert f"west received {amount(best.density['west'])} trips" in page
    assert f"{amount(best.density['east'])} kilometres" in page
    assert "metres" not in page.replace("kilometres", "")
    assert "'west': 'trips'" in page  # in the call that trains the same again
    with pytest.raises(ScrlError, match="'unit' must be a text, or one for each region"):
        read_runs([changed(run, tmp_path / "damaged", unit={"west": "trips"})])


def test_units_are_given_for_all_or_for_each_label() -> None:
    known: dict[str, Any] = {"labels": "amounts", "regions": REGIONS, "horizon_steps": HORIZON}
    problem = scrl.environment(make_walk, unit={"east": "km"}, **known)
    assert [problem.unit_of([name]) for name in REGIONS] == ["units", "km"]
    assert problem.unit == "units"
    found = scrl.evaluate(problem, lambda _: np.zeros(1, np.float32), episodes=2)
    assert found.to_json()["units"] == {"west": "units", "east": "km"}
    assert Evaluation.from_json(found.to_json()) == found
    assert " km" in str(found)
    assert (found.given_out, found.to_json()["outside"]) == (None, None)
    assert scrl.environment(make_walk, unit="metres", **known).unit_of(["east"]) == "metres"
    with pytest.raises(ScrlError, match="unit: unknown region 'eats': did you mean 'east'"):
        scrl.environment(make_walk, unit={"eats": "km"}, **known)
    with pytest.raises(ScrlError, match="must be a text, or a mapping from regions to texts"):
        scrl.environment(
            make_walk,
            unit={"east": 3},  # pyright: ignore[reportArgumentType]
            **known,
        )


def test_the_table_of_seeds_has_gaps_only_where_there_are_some(run: Path, tmp_path: Path) -> None:
    on_map = make_run(tmp_path / "map", small_problem())
    first, second = stories_of(read_runs([run, on_map]))
    assert first.runs[0].seeds.columns == ("return", "violated by", "steps")
    assert second.runs[0].seeds.columns == ("return", "gap", "violated by", "steps")
    assert [len(row.cells) for row in first.runs[0].seeds.rows] == [3, 3]


def test_the_call_on_the_page_trains_the_same_again(run: Path, tmp_path: Path) -> None:
    """As a user would: labels are put in, and where it shall go; nothing else."""
    [view] = read_runs([run])
    environment = RunFolder.open(run).environment()
    assert environment is not None
    call = train_call(environment, view.folder.record)
    assert call in page_of(run).text
    typed = call.replace("labels=...", f"out={str(tmp_path / 'run')!r}, labels='amounts'")
    exec(typed, {"scrl": scrl, "make_walk": make_walk})  # noqa: S102
    for name in ("policy.eqx", "metrics.jsonl", "environment.json"):
        assert (tmp_path / "run" / name).read_bytes() == (run / name).read_bytes()


def test_the_calls_for_any_rules_learn_and_ask_the_same_again(tmp_path: Path) -> None:
    known: dict[str, Any] = {"regions": REGIONS, "horizon_steps": HORIZON, "unit": "metres"}
    learned = scrl.learn(
        make_walk, labels="amounts", settings=LOOP, seed=3, watch=None, out=tmp_path / "run",
        **known,
    )  # fmt: skip
    answer = learned.ask("west >= 2", seed=1, time_limit_s=1e-3)
    run, kept = learned.path, learned.keep(answer, tmp_path / "kept", seed=1)
    names = {"scrl": scrl, "make_walk": make_walk}

    call = open_run(run).recreation.train
    page = page_of(run).text
    assert page.count(call) == 1
    assert "There are no rules to keep." in page
    assert "Received, metres" in page
    for absent in ("keep every rule", "Violated by"):
        assert absent not in page
    typed = call.replace("labels=...", f"out={str(tmp_path / 'again')!r}, labels='amounts'")
    exec(typed, names)  # noqa: S102
    assert (tmp_path / "again" / "policy.eqx").read_bytes() == (run / "policy.eqx").read_bytes()

    call = open_run(kept).recreation.train
    assert "asks the same policy for the same rules again" in page_of(kept).text
    first, second = call.replace("labels=...", "labels='amounts'").splitlines()
    exec(f"{first}\nfound = {second[:-1]}, time_limit_s=1e-3)", names)  # noqa: S102
    found: Any = names["found"]
    assert found.evaluation.density == answer.evaluation.density


def test_an_environment_that_cannot_be_typed_is_called_env(run: Path, tmp_path: Path) -> None:
    for name, written in (
        ("<lambda>", "    env,  # '<lambda>' when this run began\n"),
        ("Pendulum-v1", "    'Pendulum-v1',\n"),
    ):
        folder = RunFolder.open(changed(run, tmp_path / name, environment=name))
        kept = folder.environment()
        assert kept is not None
        assert written in train_call(kept, folder.record)


def test_an_unfinished_run_says_how_to_go_on(run: Path, tmp_path: Path) -> None:
    path = unfinished(run, tmp_path / "open")
    page = page_of(path)
    assert page.sections == ["rules", "learning", "origin"]
    assert f"scrl.resume({str(path)!r}, make_walk, labels=...)" in page.text
    with pytest.raises(ScrlError, match=r"not finished; resume with scrl\.resume"):
        compare(read_runs([run, path]))


def test_runs_are_compared_seed_by_seed(run: Path, other: Path) -> None:
    found = compare(read_runs([run, other]))
    assert found.is_paired
    assert found.unit == "metres"
    assert found.bound is None
    assert [each.label for each in found.runs] == ["scrl", "ppo-lagrangian"]
    page = page_of(run, other)
    assert "compare" in page.sections
    assert found.pairs[0].contrasts[0].sentence in page.text


def test_what_differs_is_named(run: Path, tmp_path: Path) -> None:
    known = open_run(run).problem
    changes = {
        "environment": "make_other", "regions": ["west", "east", "up"], "horizon_steps": 9,
        "features": 3, "unit": "miles", "tolerance": 0.5, "discount": 0.9, "margin": 0.1,
    }  # fmt: skip
    named = ["environment", "regions", "horizon", "observations", "unit", "tolerance", "discount"]
    for (key, value), part in zip(changes.items(), [*named, "rules"], strict=True):
        other = RunFolder.open(changed(run, tmp_path / key, **{key: value})).environment()
        assert other is not None
        assert difference_between(known, other) == [part]
    assert difference_between(known, small_problem()) == ["world"]


def test_a_damaged_environment_is_called_so(run: Path, tmp_path: Path) -> None:
    for key, place, value in (
        ("rules", "rules.one", {"one": 3}),
        ("regions", "regions.1", ["west", None]),
        ("actions", "actions.shape", {"low": [0.0]}),
        ("horizon_steps", "horizon_steps", 0),
    ):
        path = changed(run, tmp_path / key, **{key: value})
        with pytest.raises(ScrlError, match=f"environment.json: '{place}' must be"):
            read_runs([path])


def test_a_map_and_an_environment_stand_beside_each_other(run: Path, tmp_path: Path) -> None:
    on_map = make_run(tmp_path / "map", small_problem(), speeds=[1.5, 1.6])
    page = page_of(run, on_map)
    assert "2 problems" in page.text
    assert "s1-plan" not in page.ids
    assert "s2-plan" in page.ids
    assert "s2-compare" not in page.ids
    with pytest.raises(ScrlError, match=r"solves another problem .* differ in: world"):
        compare(read_runs([run, on_map]))


def test_bars_go_to_the_left_of_nothing_too(run: Path, tmp_path: Path) -> None:
    """Amounts may be negative: -2 and 6 with room of 6 % of 8 on both sides."""
    changed(run, tmp_path / "run", rules=dict.fromkeys(ASKED, "west >= -1"))
    result = json.loads((run / "result.json").read_text())["result"]
    for seed in result["seeds"]:
        seed["density"] = {"west": -2.0, "east": 6.0}
    rewrite(tmp_path / "run" / "result.json", result=result)
    [story] = stories_of(read_runs([tmp_path / "run"]))
    west, east = story.bars
    whole = 8.0 + 2 * 0.48
    assert west.bars[0].begin == pytest.approx(100 * 0.48 / whole)
    assert west.bars[0].width == pytest.approx(100 * 2 / whole)
    assert east.bars[0].begin == pytest.approx(100 * 2.48 / whole)
    assert east.bars[0].width == pytest.approx(100 * 6 / whole)
    assert west.bounds[0].at == pytest.approx(100 * 1.48 / whole)


@pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium on this machine")
def test_the_page_in_a_browser(run: Path, other: Path, tmp_path: Path) -> None:
    evil = "<script>document.title='owned'</script>"
    names = {"environment": evil, "name": "plain", "description": evil}
    copied = changed(run, tmp_path / "run", **names)
    frames, said = browse(page_text(read_runs([run, other, copied])), tmp_path, widths=(360, 1280))
    assert said == ""
    assert len(frames) == 2
    for frame in frames:
        assert frame["title"] == "make_walk, plain · scrl"
        assert frame["scroll"] <= frame["width"], frame["wide"]
        assert frame["wide"] == []
        assert frame["headings"][:7] == [
            "make_walk",
            "What each region receives",
            "The rules",
            "Return of every seed",
            "Is the difference real?",
            "How it was learned",
            "How to reproduce it",
        ]
        assert frame["asked"] == []
        assert (frame["unnamed"], frame["hidden"], frame["small"], frame["masks"]) == (0, 0, 0, 0)


def test_the_shell_writes_the_page_and_the_picture(run: Path, other: Path, tmp_path: Path) -> None:
    done = shell("report", run, "--out", tmp_path / "page.html", "--json")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["runs"][0]["problem"] == "make_walk"
    Page((tmp_path / "page.html").read_text(encoding="utf-8"))
    done = shell("compare", run, other, "--out", tmp_path / "picture.png")
    assert done.exit_code == 0, done.stderr
    assert "Every rule holds in 0 of 2 seeds of scrl, 0 of 2 of ppo-lagrangian." in done.stdout
    assert (tmp_path / "picture.png").stat().st_size > 10_000


def test_eval_shows_what_was_measured_when_the_run_ended(run: Path) -> None:
    done = shell("eval", run)
    assert done.exit_code == 1, done.stderr  # nobody walks 100 m in 8 steps
    assert "measured when the run ended (seed" in done.stdout
    assert "episodes that had no part in choosing the policy" in done.stdout
    assert "cells" not in done.stdout
    assert f"scrl.evaluate_run({str(run)!r}, make_walk, labels=...)" in done.stdout
    found = json.loads(shell("eval", run, "--policy-seed", "1", "--json").stdout)
    [told] = [each for each in scrl.resume(run).seeds if each.seed == 1]
    assert {name: found[name] for name in told.evaluation.to_json()} == told.evaluation.to_json()
    assert (found["seed"], found["measured"]) == (1, "when the run ended")


def test_eval_ends_with_0_where_every_rule_holds(run: Path, tmp_path: Path) -> None:
    kept = shutil.copytree(run, tmp_path / "kept")
    text = (run / "result.json").read_text().replace('"satisfied": false', '"satisfied": true')
    rewrite(kept / "result.json", **json.loads(text))
    done = shell("eval", kept)
    assert done.exit_code == 0, done.stderr
    assert "every rule holds" in done.stdout


def test_what_the_shell_cannot_do_is_refused(run: Path, tmp_path: Path) -> None:
    path = unfinished(run, tmp_path / "open")
    for arguments, message in (
        (("eval", run, "--episodes", 5), "cannot be made from here, so no --policy, --episodes"),
        (("eval", run, "--policy-seed", 7), "there is no seed 7 in this run, only 0, 1"),
        (("eval", path), "this run is not finished; resume with scrl.resume("),
        (
            ("eval", "agri-joint", "--policy", run),
            "a policy of an external environment drives no map",
        ),
        (("eval", "agri-joint"), "'agri-joint' has no policy of its own: say with --policy"),
    ):
        done = shell(*arguments)
        assert done.exit_code == 2, done.stdout
        assert message in done.stderr
        assert done.stdout == ""


def test_a_run_is_judged_anew_in_its_environment(run: Path) -> None:
    first = scrl.evaluate_run(run, make_walk, labels="amounts", episodes=30)
    problem = scrl.environment(
        make_walk, labels="amounts", regions=REGIONS, rules=ASKED, unit="metres",
        horizon_steps=HORIZON, tolerance=1e-3,
    )  # fmt: skip
    again = scrl.evaluate(problem, scrl.load_policy(run), episodes=30, name=str(run))
    assert first == again
    assert scrl.evaluate_run(run, problem, episodes=30) == first
    worse = scrl.evaluate_run(run, problem, episodes=30, policy_seed=1 - scrl.resume(run).best.seed)
    assert worse != first
    with pytest.raises(ScrlError, match=r"which is needed again: scrl\.evaluate_run\("):
        scrl.evaluate_run(run)
    with pytest.raises(ScrlError, match="this run began with other actions"):
        scrl.evaluate_run(run, make_choices, labels="amounts")
    with pytest.raises(ScrlError, match="unknown option 'label': did you mean 'labels'"):
        scrl.evaluate_run(run, make_walk, label="amounts")


def test_amounts_have_curves_of_their_own_with_their_units(run: Path) -> None:
    titles = [chart.title for chart in stories_of(read_runs([run]))[0].charts]
    assert "Received, metres" in titles


@pytest.mark.parametrize(
    ("margin", "error", "binds"),
    # Within 1 % of the bound 40, or within two standard errors; a broken rule does not bind.
    [(0.3, 0.0, True), (0.5, 0.0, False), (0.5, 0.3, True), (-0.1, 0.3, False)],
)
def test_a_rule_binds_that_holds_with_hardly_a_margin(
    margin: float, error: float, binds: bool
) -> None:
    rules = {"a": "west <= 5", "b": "east <= 40"}
    problem = scrl.environment(
        make_walk, labels="amounts", regions=REGIONS, rules=rules, horizon_steps=4
    )
    found = SimpleNamespace(is_satisfied=margin >= 0, margin=margin)
    seen: Any = SimpleNamespace(rules=[None, found], density_se={"west": 9.0, "east": error})
    assert is_binding(problem, seen, 1) == binds
