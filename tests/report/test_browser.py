"""The page in a real browser: quiet, whole, and no wider than a phone."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scrl.problems import Problem, ProblemOptions
from scrl.report.page import page_text
from scrl.report.reading import read_runs
from scrl.worlds.regions import from_labels
from scrl.worlds.spec import SweepSpec

from .made import make_run, small_problem

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium on this machine")
NARROW = (320, 360, 414, 768, 1280)

# The page stands in frames of several widths: a window cannot be made as narrow as a phone. The
# frame is of the same origin, so its document can be measured from outside; the page itself may
# run no script.
PROBE = """<!doctype html><meta charset="utf-8"><body>
%s
<pre id="seen"></pre>
<script>
addEventListener("load", () => setTimeout(() => {
  const seen = [...document.querySelectorAll("iframe")].map(frame => {
    const page = frame.contentDocument, root = page.documentElement;
    const wide = [...page.querySelectorAll("body *")].filter(each =>
      each.getBoundingClientRect().right > root.clientWidth + 1
      && !each.closest(".scroll, svg, .amount"));
    return {
      width: root.clientWidth, scroll: root.scrollWidth, height: root.scrollHeight,
      wide: wide.slice(0, 3).map(each => each.outerHTML.slice(0, 160)),
      asked: frame.contentWindow.performance.getEntriesByType("resource").map(each => each.name)
        .filter(name => !name.startsWith("data:")),
      title: page.title,
      headings: [...page.querySelectorAll("h2")].map(each => each.textContent),
      hidden: [...page.querySelectorAll("svg")].filter(each =>
        each.getBoundingClientRect().width < 50).length,
      unnamed: [...page.querySelectorAll("svg, img, [role=img]")].filter(each => {
        const by = (each.getAttribute("aria-labelledby") || "").split(" ").filter(Boolean);
        const text = by.map(id => page.getElementById(id)?.textContent || "").join("");
        return !(text || each.getAttribute("aria-label") || each.getAttribute("alt"));
      }).length,
      masks: [...page.querySelectorAll("image")].length,
      small: [...page.querySelectorAll("svg text")].filter(each =>
        each.getBoundingClientRect().height < 9).length,
    };
  });
  document.getElementById("seen").textContent = JSON.stringify(seen);
}, 300));
</script>"""


def browse(page: str, folder: Path, *, widths: tuple[int, ...] = NARROW) -> tuple[Any, str]:
    """What the frames hold, and what the browser complained about."""
    frames = "".join(
        f'<iframe style="width:{width}px;height:900px;border:0" srcdoc="{html.escape(page)}">'
        "</iframe>"
        for width in widths
    )
    probe = folder / "probe.html"
    probe.write_text(PROBE % frames, encoding="utf-8")
    done = subprocess.run(
        [
            str(CHROMIUM), "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run",
            "--disable-background-networking", "--disable-component-update",
            # Whatever a page asks for is not found; the frame remembers that it was asked for.
            "--host-resolver-rules=MAP * ~NOTFOUND",
            f"--user-data-dir={folder / 'profile'}", "--enable-logging=stderr", "--v=0",
            "--virtual-time-budget=5000", "--dump-dom", probe.as_uri(),
        ],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    seen = re.search(r'<pre id="seen">(.+?)</pre>', done.stdout, re.DOTALL)
    assert seen is not None, done.stderr
    said = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return json.loads(html.unescape(seen[1])), "\n".join(said)


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
            "Distance to the best possible",
            "How it was learned",
            "How to reproduce it",
        ]
        assert frame["asked"] == []
        assert frame["unnamed"] == 0
        assert frame["hidden"] == 0
        assert frame["small"] == 0
        assert frame["masks"] == 1
        assert frame["height"] > 1_500


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
