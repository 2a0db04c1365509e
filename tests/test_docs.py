"""The docs tell the truth: their Python and console blocks run and print what they show."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import re
import shlex
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from _pytest.mark import ParameterSet
from typer.testing import CliRunner, Result

import scrl
from scrl.cli.app import app
from scrl.errors import RuleError
from scrl.rules import parse

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
TUTORIALS = {
    ROOT / "docs" / "tutorial.md": "farm.geojson",
    ROOT / "docs" / "field.md": "fields.geojson",
}
"""Pages that can be typed along, and the names of their maps."""
PLANNING = ("README", "bound", "prices", "reference")
"""Pages whose blocks plan and prove, which is work for optimised code."""
PAGES = [README, *sorted((ROOT / "docs").glob("*.md"))]
assert len(PAGES) > 10
BLOCK = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
REGIONS = ["S1", "S2", "S3", "S4", "S5"]


def blocks(page: Path, *kinds: str) -> list[tuple[str, str]]:
    """(kind, text) of the fenced blocks of these kinds, in order."""
    found = BLOCK.findall(page.read_text(encoding="utf-8"))
    return [(kind, text) for kind, text in found if kind in kinds]


def pages_with(kind: str) -> list[Path]:
    return [page for page in PAGES if blocks(page, kind)]


def named(page: Path) -> ParameterSet:
    """A page as a parameter."""
    return pytest.param(
        page, id=page.stem, marks=[pytest.mark.optimised] if page.stem in PLANNING else []
    )


def tidy(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip().splitlines()]


def tool(name: str) -> ModuleType:
    """A script of the folder `tools`, imported by its path."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_versions_that_do_not_work_are_named() -> None:
    assert "mujoco==3." in (ROOT / "constraints.txt").read_text()
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        assert "gymnasium[mujoco]" not in text or "'mujoco<4'" in text
        assert "`masa-safe-rl`" not in text or "From 0.3.7 on it needs Python 3.13" in text


@pytest.mark.parametrize("page", [named(page) for page in pages_with("python")])
def test_python_blocks_run_and_print_the_text_below_them(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The blocks of a page share their names, as they would in one session."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": page.stem}
    printed = ""
    for kind, text in blocks(page, "python", "text"):
        if kind == "python":
            assert printed == "", f"{page.name} prints this and does not show it:\n{printed}"
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(compile(text, page.name, "exec", dont_inherit=True), names)  # noqa: S102
            printed = out.getvalue()
        elif printed:
            assert tidy(printed) == tidy(text)
            printed = ""
    assert printed == ""


def typed(command: str, folder: Path) -> Result:
    """A command line of a page, run in a folder."""
    program, *arguments = shlex.split(command.removeprefix("$ "), comments=True)
    assert program == "scrl"
    with contextlib.chdir(folder):
        return CliRunner().invoke(app, arguments, prog_name=program)


def check_console_block(text: str, folder: Path) -> None:
    command, shown = text.split("\n", 1)
    assert tidy(typed(command, folder).output) == tidy(shown), command


@pytest.mark.parametrize(
    "page",
    [page for page in pages_with("console") if page not in TUTORIALS],
    ids=lambda page: page.stem,
)
def test_console_blocks_print_what_they_show(page: Path, tmp_path: Path) -> None:
    for _, text in blocks(page, "console"):
        check_console_block(text, tmp_path)


@pytest.mark.optimised
@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_the_tutorial_can_be_typed_along(page: Path, tmp_path: Path) -> None:
    """Its map is saved, its settings are written into the problem file, its commands are run."""
    problem = tmp_path / "farm" / "problem.toml"
    for kind, text in blocks(page, "json", "toml", "console", "sh"):
        if kind == "json":
            (tmp_path / TUTORIALS[page]).write_text(text, encoding="utf-8")
        elif kind == "console":
            check_console_block(text, tmp_path)
        elif kind == "sh":
            for command in text.splitlines():
                done = typed(command, tmp_path)
                assert done.exit_code == 0, done.output
        elif text.startswith("[rules]"):
            before, _, _ = problem.read_text(encoding="utf-8").partition("[rules]")
            problem.write_text(before + text, encoding="utf-8")
        elif text.startswith("[problem]"):
            before = problem.read_text(encoding="utf-8")
            problem.write_text(before.replace("[problem]\n", text), encoding="utf-8")
        else:
            before = problem.read_text(encoding="utf-8")
            problem.write_text(before.replace("[vehicle]", f"{text}\n[vehicle]"), encoding="utf-8")
    kept = {"report.html", "route.plan", "route.geojson", "regions.csv"}
    if page.stem == "field":
        kept = {"prescription.zip", "prescription.geojson", "prescription.tif", "route.plan"}
        assert (tmp_path / "audit.html").is_file()
    assert kept <= {path.name for path in (tmp_path / "plan").iterdir()}


def test_the_json_example_of_eval_is_real() -> None:
    [(_, text)] = blocks(ROOT / "docs" / "command-line.md", "json")
    shown = json.loads(text)
    real = scrl.evaluate(scrl.load(shown["problem"]), shown["policy"]).to_json()
    # The last digits of a 32-bit sum differ from machine to machine.
    assert real.pop("return") == pytest.approx(shown.pop("return"), abs=1e-3)
    assert real == shown


def test_the_messages_on_the_rules_page_are_real() -> None:
    """Each message shows the rule that caused it, on its second line."""
    page = (ROOT / "docs" / "rules.md").read_text(encoding="utf-8")
    found = re.search(r'^```text title="messages"\n(.*?)^```$', page, re.MULTILINE | re.DOTALL)
    assert found is not None
    messages = found[1].strip("\n").split("\n\n")
    assert len(messages) >= 10
    for message in messages:
        with pytest.raises(RuleError) as caught:
            parse(message.splitlines()[1][2:], regions=REGIONS, rule="mine")
        assert str(caught.value) == message


def test_the_message_in_the_quick_start_is_real() -> None:
    with pytest.raises(RuleError) as caught:
        parse("S22 <= 300", regions=REGIONS, rule="adequacy")
    page = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    assert f"scrl: my-field/problem.toml: {caught.value}\n" in page


def test_the_settings_tables_are_up_to_date() -> None:
    script = tool("write_reference")
    for page in script.PAGES:
        now = page.read_text(encoding="utf-8")
        assert script.renewed(page) == now, "run: python tools/write_reference.py"


def test_the_reference_knows_every_key_of_a_problem_file() -> None:
    from scrl.problems.load import TABLES, _world_keys

    page = (ROOT / "docs" / "problems.md").read_text(encoding="utf-8")
    for table in TABLES:
        assert f"### `[{table}]`" in page
    for key in _world_keys():
        assert f"\n| `{key}` | " in page


@pytest.mark.parametrize(
    ("problem", "violation"),
    [
        ("agri-situational", 48.75),
        ("agri-priority", 54.75),
        ("agri-joint", 190.5),
        ("agri-multi", 83.75),
        ("med-situational", 48.25),
        ("med-priority", 150.75),
        ("med-joint", 534.25),
    ],
)
def test_the_full_speed_figures_that_the_docs_quote(problem: str, violation: float) -> None:
    """differences.md, densities.md and index.md quote these; change both together."""
    result = scrl.evaluate(scrl.load(problem), "full-speed")
    assert result.cons_vio == pytest.approx(violation, abs=1e-3)
    assert result.return_ == pytest.approx(-20.92, abs=0.005)
    assert result.steps == 835


def test_the_built_in_maps_have_one_leg_and_the_quoted_sizes() -> None:
    page = (ROOT / "docs" / "differences.md").read_text(encoding="utf-8")
    for name in ("agri-joint", "med-joint"):
        spec = scrl.load(name).world_spec
        *most, last = map(str, spec.regions.sizes)
        assert f"{', '.join(most)} and {last}" in " ".join(page.split())
        assert spec.path.legs == (0,)


def test_the_windy_example_is_real(tmp_path: Path) -> None:
    """densities.md says: the mean keeps the rule, 58 of 200 single drives break it."""
    page = (ROOT / "docs" / "densities.md").read_text(encoding="utf-8")
    [(_, problem)] = blocks(ROOT / "docs" / "densities.md", "toml")
    np.save(tmp_path / "square.npy", np.ones((20, 20), int))
    (tmp_path / "square.toml").write_text(problem, encoding="utf-8")
    result = scrl.evaluate(scrl.load(tmp_path / "square.toml"), "constant:2.9", episodes=200)
    assert result.is_satisfied
    assert result.density_se["S1"] == pytest.approx(1.4, abs=0.1)
    assert f"{result.episodes_satisfied} of 200 single episodes" in page
    assert f"in {200 - result.episodes_satisfied} of 200 drives" in page


def test_the_design_page_names_files_and_functions_that_exist() -> None:
    """Each `file.py` of the table "Where do I find", with the (`names`) that follow it."""
    page = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    table = page.partition("## Where do I find")[2].partition("\n## ")[0]
    found = re.findall(r"`([\w/]+\.py)`(?: \(([^)]*)\))?", table)
    assert len(found) > 20
    for path, names in found:
        source = (ROOT / "src" / "scrl" / path).read_text(encoding="utf-8")
        for name in re.findall(r"`(\w+)`", names):
            assert re.search(rf"^ *(def|class) {name}\b", source, re.MULTILINE), f"{path}: {name}"


def test_relative_links_lead_somewhere() -> None:
    seen = 0
    for page in PAGES:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
            seen += 1
    assert seen > 20


def test_the_picture_of_the_readme_is_small() -> None:
    assert 10_000 < (ROOT / "docs" / "images" / "overview.png").stat().st_size < 150_000
