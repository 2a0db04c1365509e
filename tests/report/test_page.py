"""The page: its sections, for every kind of run; what users write stays text; it stays small."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from importlib import resources
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from scrl.errors import ScrlError
from scrl.policies import Constant
from scrl.problems import Problem, ProblemOptions
from scrl.report.page import page_text, write_page
from scrl.report.page.charts import learning_charts
from scrl.report.page.origin import origin_of
from scrl.report.page.spread import spread_of
from scrl.report.page.story import stories_of
from scrl.report.reading import MOST_RUNS, read_runs
from scrl.runs.folder import RunFolder, RunRecord
from scrl.worlds.sweep.regions import from_labels
from scrl.worlds.sweep.spec import SweepSpec
from scrl.worlds.sweep.vehicle import Units, Wind

from ..runs.small import rewrite
from .made import make_run, small_problem
from .pages import page_of

LARGEST_PAGE_BYTES = 1_000_000
"""A page stays below this for each run and each problem on it."""
EVIL = "<script>document.title='owned'</script>"


def test_a_whole_run_has_every_section_and_loads_nothing(whole: Path) -> None:
    page = page_of(whole)
    assert page.sections == ["plan", "regions", "rules", "bound", "learning", "origin"]
    assert not page.tags & {"script", "link", "iframe", "object", "embed", "base", "form"}
    for tag, attrs in page.elements:
        for name in ("src", "href", "xlink:href", "srcset", "action"):
            value = attrs.get(name) or "#"
            assert value.startswith(("#", "data:image/png;base64,")), (tag, name, value[:60])
        assert not [name for name in attrs if name.startswith("on")]
    assert len(page.ids) == len(set(page.ids))


def test_every_picture_has_a_text_alternative(whole: Path) -> None:
    page = page_of(whole)
    pictures = [attrs for tag, attrs in page.elements if tag == "svg"]
    # The map, the heat map, the route, and three charts.
    assert len(pictures) == 6
    for attrs in pictures:
        assert attrs["role"] == "img"
        assert set((attrs["aria-labelledby"] or "").split()) <= set(page.ids)
    named = [attrs for _, attrs in page.elements if attrs.get("role") == "img"]
    assert all(attrs.get("aria-label") or attrs.get("aria-labelledby") for attrs in named)


def test_the_page_tells_what_the_result_says(whole: Path) -> None:
    page, [view] = page_of(whole), read_runs([whole])
    assert view.result is not None
    best = view.result.best.evaluation
    for name, received in best.density.items():
        assert f"{name} received {received:,.2f}".rstrip("0").rstrip(".") in page.text
    assert f"{view.result.satisfied} of 2" in page.text
    assert view.folder.record.created in page.text
    assert "0, 1" in page.text  # the seeds
    assert view.folder.record.command in page.text


def test_the_plan_is_the_one_that_was_judged(whole: Path) -> None:
    [view] = read_runs([whole])
    assert view.result is not None
    route = view.run.route()
    assert route.totals == pytest.approx(view.result.best.evaluation.density)
    other = next(each for each in view.result.seeds if each is not view.result.best)
    assert route.totals != pytest.approx(other.evaluation.density)


def test_an_unfinished_run_shows_what_there_is(tmp_path: Path) -> None:
    page = page_of(make_run(tmp_path / "run", small_problem(), is_finished=False))
    assert page.sections == ["plan", "rules", "learning", "origin"]
    assert "This run is not finished: 30 rounds are done." in page.text
    assert f"scrl train --resume {tmp_path / 'run'}" in page.text
    assert "if S2 > 10 then S1 >= 18" in page.text


def test_a_run_with_a_single_round(tmp_path: Path) -> None:
    page = page_of(make_run(tmp_path / "run", small_problem(), is_finished=False, rounds=1))
    assert "This run is not finished: 1 round is done." in page.text


def test_a_run_that_has_just_begun(tmp_path: Path) -> None:
    page = page_of(make_run(tmp_path / "run", small_problem(), is_finished=False, rounds=0))
    assert page.sections == ["plan", "rules", "origin"]
    assert "nothing has been measured yet" in page.text


def test_a_run_that_a_kill_tore(tmp_path: Path) -> None:
    """The last round is there for one seed of three, and half of the next line."""
    run = make_run(tmp_path / "run", small_problem(), is_finished=False)
    with (run / "metrics.jsonl").open("ab") as file:
        file.write(b'{"iteration": 31, "seed": 0, "return": -3.5, "violation": 0.0}\n{"iter')
    assert "31 rounds are done" in page_of(run).text


def test_without_metrics_there_is_no_learning_section(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", small_problem())
    (run / "metrics.jsonl").unlink()
    page = page_of(run)
    assert page.sections == ["plan", "regions", "rules", "bound", "origin"]
    assert "scrl: no plan to draw." in page.text  # nor is there a policy here


def test_one_seed_and_no_bound(tmp_path: Path) -> None:
    page = page_of(make_run(tmp_path / "run", small_problem(), speeds=[1.5], bound=None))
    assert "Every rule holds." in page.text
    assert "There is no proven bound for this problem" in page.text
    assert "Return of every seed" in page.text
    assert page.text.count("proven bound") == 1


def figures(run: Path) -> dict[str, tuple[str, str, str]]:
    """The numbers at the head of a page."""
    [story] = stories_of(read_runs([run]))
    return {each.name: (each.value, each.remark, each.state) for each in story.runs[0].figures}


def test_rules_and_seeds_are_counted_apart(tmp_path: Path) -> None:
    alone = figures(make_run(tmp_path / "one", small_problem(), speeds=[1.5]))
    assert alone["Rules kept"] == ("3 of 3", "", "good")
    assert "Seeds" not in alone
    several = figures(make_run(tmp_path / "several", small_problem(), speeds=[3.0, 1.5]))
    assert several["Rules kept"] == ("3 of 3", "by the best seed", "good")
    assert several["Seeds"] == ("1 of 2", "keep every rule", "mixed")


def test_rules_that_hold_on_average_are_said_to(tmp_path: Path) -> None:
    """On the page and in print, with the share of single episodes that keep them."""
    problem = small_problem({"one": "S1 >= 18"})
    windy = replace(problem.world_spec, wind=Wind(strength=0.5))
    run = make_run(tmp_path / "run", replace(problem, world_spec=windy), speeds=[2.0])
    result = read_runs([run])[0].result
    assert result is not None
    kept = result.best.evaluation.episodes_satisfied
    assert result.is_satisfied
    assert 0 < kept < 100
    text = page_of(run).text
    assert "Every rule holds on average; the plan is" in text
    assert f"{kept}.0 % of 100 single episodes keep every rule." in text
    assert f"holds on average; {kept} of 100 single episodes ({kept}.0 %)" in str(result)
    assert figures(run)["Rules kept"] == ("1 of 1", "on average", "good")
    assert figures(run)["Single episodes"][2] == "mixed"


def test_the_page_says_how_surely_rules_must_hold_and_do(tmp_path: Path) -> None:
    rules = {"one": "S1 >= 18 in 10 %", "two": "S2 >= 5"}
    problem = small_problem(rules, confidence=0.99)
    windy = replace(problem, world_spec=replace(problem.world_spec, wind=Wind(strength=0.5)))
    run = make_run(tmp_path / "run", windy, speeds=[2.0])
    result = read_runs([run])[0].result
    assert result is not None
    found = result.best.evaluation
    share = f"{100 * found.share:.1f} %"
    assert not found.is_satisfied
    text = page_of(run).text
    assert "Rules are broken, by" in text
    assert f"{share} of 368 single episodes keep every rule; 99.0 % were asked for." in text
    assert "The others break them by" in text
    assert f"{found.rules[0].share_text} of 368 single episodes keep it; asked: in 99 %" in text
    assert "For the mean amounts: S1 received" in text
    calm = page_of(make_run(tmp_path / "calm", small_problem(rules), speeds=[1.5])).text
    assert "Every rule holds;" in calm
    assert "single episodes" not in calm


def test_what_an_earlier_version_was_asked_for_is_still_told(tmp_path: Path) -> None:
    problem = small_problem({"one": "S1 >= 18"})
    windy = replace(problem, world_spec=replace(problem.world_spec, wind=Wind(strength=0.5)))
    run = make_run(tmp_path / "run", windy, speeds=[2.0], settings={"confidence": 0.9})
    assert "single episodes keep every rule; 90.0 % were asked for." in page_of(run).text


def test_the_page_says_what_was_given_out_outside_and_what_a_return_is(tmp_path: Path) -> None:
    """Of twelve cells four are of no region; at full speed they receive 1.59 of 5.40 steps.

    S1 receives 5.342, S2 3.227 and none 3.586 units: 12.155, shown as 5.34 + 3.23 + 3.59.
    """
    spec = SweepSpec(from_labels(np.array([[1] * 4 + [0] * 4 + [2] * 4])))
    problem = Problem.create(spec, {"one": "S1 >= 1"}, ProblemOptions(name="strip"))
    run = make_run(tmp_path / "run", problem, speeds=[3.0], bound=-0.1)
    assert figures(run)["Given out"] == ("12.16", "units, 29.5 % outside all regions", "")
    text = page_of(run).text
    assert "Given out: 12.16 units, 3.59 of them (29.5 %) outside all regions." in text
    assert "Return: the sum over all steps of -0.1 / (1 + speed in cells per step);" in text
    assert "no region" in text
    assert "must not be entered" not in text


def test_every_colour_of_the_plan_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    regions = from_labels(np.ones((6, 8), int))
    regions.forbidden[2:4, 3:5] = True
    problem = Problem.create(SweepSpec(regions), {"one": "S1 >= 1"}, ProblemOptions(name="hole"))
    run = make_run(tmp_path / "run", problem, speeds=[3.0], bound=-0.1)
    monkeypatch.setattr("scrl.opening.MapRun.policy", lambda *_: Constant(jnp.ones(())))
    text = page_of(run).text
    assert "must not be entered" in text
    assert "no region" not in text
    assert re.search(r"\b0\s*3\.00 cells/step", text), "both ends of the speeds"
    assert "dashed: between legs, nothing is given out" in text
    assert "start ■ end ▸ direction" in text
    assert re.search(r"It has \d+ legs; nothing is given out between them\.", text)


def test_where_learning_ends_is_said_below_the_curves(tmp_path: Path) -> None:
    page = page_of(make_run(tmp_path / "run", small_problem(), speeds=[1.5]))
    assert "dashed: learning ends after round 20, then only kappa moves" in page.text
    # Texts inside a picture are numbers at its axes and nothing else.
    inside = re.findall(r"<text[^>]*>([^<]*)</text>", page_text(read_runs([tmp_path / "run"])))
    assert not any("learning" in text for text in inside)


def test_settings_of_the_price_policy_are_called_so(tmp_path: Path) -> None:
    made = {"confidence": None, "policy": {"commit": "abc", "device": "GPU"}}
    run = make_run(tmp_path / "run", small_problem(), speeds=[1.5], settings=made)
    assert origin_of(read_runs([run])[0]).settings == (
        ("confidence", "null"),
        ("price policy: commit", '"abc"'),
        ("price policy: device", '"GPU"'),
    )


def test_nothing_is_cut_in_two_on_paper() -> None:
    """Every block of the page that holds a picture, a table or a card stays on one sheet."""
    css = resources.files("scrl.report.page").joinpath("templates/style.css").read_text()
    printed = css.split("@media print")[1]
    [kept] = re.findall(r"([^{};]+)\{ break-inside: avoid; \}", printed)
    blocks = {"figure", "table", "tr", "pre", "p", ".figures", ".rule", ".region", ".tracks"}
    assert blocks <= {each.strip() for each in kept.split(",")}


def test_broken_rules_are_called_broken(tmp_path: Path) -> None:
    page = page_of(make_run(tmp_path / "run", small_problem(), speeds=[3.0, 3.0]))
    assert "None of 2 seeds keeps every rule. The best breaks them by 2.85 units." in page.text
    assert "The condition is met, but not what it asks for." in page.text


def test_a_violation_is_told_in_the_unit_of_what_broken_rules_name(tmp_path: Path) -> None:
    litres = replace(small_problem().world_spec, units=Units(step=1.0, unit="litres"))
    for name, rules, told in [
        ("time", {"late": "time <= 2", "some": "S1 >= 1"}, r"Rules are broken, by \S+ seconds\."),
        ("amount", {"much": "S1 >= 100", "late": "time >= 2"}, r"broken, by \S+ litres\."),
        ("both", {"late": "time <= 2", "much": "S1 >= 100"}, r"Rules are broken, by \S+ units\."),
    ]:
        problem = Problem.create(litres, rules)
        page = page_of(make_run(tmp_path / name, problem, speeds=[3.0], bound=None))
        assert re.search(told, page.text)
        assert "Violated by, units" in page.text


def test_a_discounted_problem_says_so(tmp_path: Path) -> None:
    problem = small_problem(discount=0.99)
    page = page_of(make_run(tmp_path / "run", problem, bound=None))
    assert "discounted: what comes later counts less" in page.text


def test_no_rules_at_all(tmp_path: Path) -> None:
    page = page_of(make_run(tmp_path / "run", small_problem({})))
    assert "There are none: every plan is allowed." in page.text


def test_runs_of_one_problem_are_compared_and_others_stand_beside_them(tmp_path: Path) -> None:
    same = [
        make_run(tmp_path / name, small_problem(), method=name, speeds=speeds)
        for name, speeds in (("slow", (1.0, 1.1)), ("fast", (1.5, 1.6)))
    ]
    other = make_run(tmp_path / "other", small_problem({"one": "S1 >= 5"}, name="else"))
    page = page_of(*same, other)
    assert "compare" in page.sections
    assert "fast is cheaper than slow by" in page.text
    assert "2 problems" in page.text
    assert "s2-plan" in page.ids
    assert "s3-plan" not in page.ids
    assert "s2-compare" not in page.ids


def test_what_users_write_stays_text(tmp_path: Path) -> None:
    """Names of regions, rules, problem, unit and folder, a description, a method: all escaped."""
    labels = np.repeat([[1] * 4 + [2] * 4], 4, axis=0)
    name = EVIL.replace("'", "`") + "<img src=x onerror=alert(1)>"
    spec = SweepSpec(from_labels(labels, [name, "S2"]))
    options = ProblemOptions(name=EVIL, description=EVIL)
    rules = {EVIL: f'if S2 > 10 then "{name}" >= 18'}
    problem = Problem.create(spec, rules, options)
    run = make_run(tmp_path / "<b>run", problem, method=EVIL, speeds=[1.5])
    page = page_of(run, run)
    assert not page.tags & {"script", "img", "b"} - {"b"}
    assert "script" not in page.tags
    assert EVIL in page.text
    assert name in page.text
    assert EVIL not in page_text(read_runs([run]))
    assert "default-src 'none'" in page_text(read_runs([run]))


def test_a_page_stays_small_however_large_the_map(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A quarter of a million cells, and regions that are as ragged as can be."""
    regions = from_labels(np.random.default_rng(0).integers(0, 13, (500, 500)))
    problem = Problem.create(SweepSpec(regions), {"one": "S1 >= 5"}, ProblemOptions(name="large"))
    run = make_run(tmp_path / "run", problem, speeds=[3.0], rounds=2_000)
    monkeypatch.setattr("scrl.opening.MapRun.policy", lambda *_: Constant(jnp.ones(())))
    size = len(page_text(read_runs([run])).encode())
    assert size < LARGEST_PAGE_BYTES
    assert size > 20_000


def test_a_page_stays_small_however_many_seeds_rules_and_regions(tmp_path: Path) -> None:
    labels = np.arange(1, 401).reshape(20, 20)
    rules = {f"rule {k}": f"S{k + 1} >= 1 or S{k + 2} >= 1" for k in range(100)}
    spec = SweepSpec(from_labels(labels))
    problem = Problem.create(spec, rules, ProblemOptions(name="many", description="x" * 10_000))
    run = make_run(tmp_path / "run", problem, speeds=[1.5] * 3, rounds=5)
    document = json.loads((run / "result.json").read_text())
    seed = document["result"]["seeds"][0]
    document["result"]["seeds"] = [{**seed, "seed": number} for number in range(150)]
    rewrite(run / "result.json", result=document["result"])
    rewrite(run / "run.json", seeds=list(range(150)))
    text = page_text(read_runs([run]))
    assert len(text.encode()) < LARGEST_PAGE_BYTES
    assert "and 40 more rules" in text
    assert "and 360 more regions" in text
    assert "and 50 more seeds" in text


def test_a_price_policy_has_no_page(tmp_path: Path) -> None:
    record = RunRecord.now("general", "prices", {}, [0])
    run = RunFolder.create(tmp_path / "prices", None, record).path
    with pytest.raises(ScrlError, match=r"an earlier version .* scrl ask WORLD RULES"):
        read_runs([run])


def test_what_is_no_run_or_too_much_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ScrlError, match="there is no such folder"):
        read_runs([tmp_path / "nowhere"])
    with pytest.raises(ScrlError, match=f"at most {MOST_RUNS}"):
        read_runs([tmp_path] * (MOST_RUNS + 1))


def test_a_result_of_another_problem_is_refused(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", small_problem(), speeds=[1.5])
    other = make_run(tmp_path / "other", small_problem({"one": "S1 >= 5"}), speeds=[1.5])
    shutil.copy(other / "result.json", run / "result.json")
    with pytest.raises(ScrlError, match="other rules or regions than"):
        read_runs([run])


def test_a_page_is_written_whole_and_ends_in_html(tmp_path: Path) -> None:
    views = read_runs([make_run(tmp_path / "run", small_problem(), speeds=[1.5])])
    path = write_page(views, tmp_path / "deep" / "page.html")
    assert path.read_text(encoding="utf-8").endswith("</html>\n")
    assert [each.name for each in path.parent.iterdir()] == ["page.html"]
    with pytest.raises(ScrlError, match=r"ends in \.html"):
        write_page(views, tmp_path / "page.pdf")


def test_curves_keep_the_colour_of_their_run_where_another_has_none(tmp_path: Path) -> None:
    problem = small_problem()
    silent = make_run(tmp_path / "silent", problem, method="silent", rounds=0)
    loud = make_run(tmp_path / "loud", problem, method="loud")
    charts = learning_charts(read_runs([silent, loud]), -3.0)
    assert [(each.label, each.colour) for each in charts[0].curves] == [("loud", 1)]


def test_returns_and_gaps_are_never_on_one_line(tmp_path: Path) -> None:
    problem = small_problem()
    runs = [
        make_run(tmp_path / name, problem, method=name, bound=bound)
        for name, bound in (("known", -0.5), ("unknown", None))
    ]
    views = read_runs(runs)
    known, both = spread_of(views[:1], -0.5), spread_of(views, -0.5)
    assert known is not None
    assert both is not None
    assert known.title == "Distance to the proven bound"
    assert both.title == "Return of every seed"
    assert both.zero is None
