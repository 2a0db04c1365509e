"""Draws the picture of a page: on a desktop, and its lower half on a phone in the dark.

`python tools/draw_report.py [RUN]` lets Chromium look at the page of a run, or of three seeds that
it trains (a minute or two), and writes docs/images/report.png again.
"""

from __future__ import annotations

import html
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import scrl
from scrl.report.page import page_text
from scrl.report.reading import read_runs

TARGET = Path(__file__).parents[1] / "docs" / "images" / "report.png"
PROBLEM, SEEDS = "agri-situational", 3
WIDTH, HEIGHT = 1080, 1040

SHEET = """<!doctype html><meta charset="utf-8">
<style>
  body {{ margin: 0; background: #d6d4cf }}
  iframe {{ position: absolute; top: 20px; border: 0; transform-origin: top left }}
  .desktop {{ left: 26px; width: 1040px; height: 1393px; transform: scale(0.718);
             color-scheme: light }}
  .phone {{ left: 800px; width: 360px; height: 1420px; transform: scale(0.704);
           color-scheme: dark }}
</style>
<iframe class="desktop" srcdoc="{page}"></iframe>
<iframe class="phone" srcdoc="{page}"></iframe>
<script>
addEventListener("load", () => {{
  const page = document.querySelectorAll("iframe")[1].contentDocument;
  [...page.querySelectorAll("h2")].find(each => each.textContent == "{heading}").scrollIntoView();
}});
</script>"""
"""A frame can be as narrow as a phone, which no window can."""


def main() -> None:
    """Write the file."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run = Path(sys.argv[1]) if sys.argv[1:] else folder / "run"
        if not run.exists():
            scrl.train(PROBLEM, seeds=SEEDS, out=run)
        page = html.escape(page_text(read_runs([run])))
        sheet = folder / "sheet.html"
        text = SHEET.format(page=page, heading="What each region receives")
        sheet.write_text(text, encoding="utf-8")
        browser = shutil.which("chromium") or sys.exit("this needs chromium")
        subprocess.run(  # noqa: S603 (what we found, told what we wrote)
            [browser, "--headless", "--no-sandbox", "--hide-scrollbars", f"--screenshot={TARGET}",
             f"--window-size={WIDTH},{HEIGHT}", "--virtual-time-budget=2000", sheet.as_uri()],
            check=True, capture_output=True, timeout=120,
        )  # fmt: skip


if __name__ == "__main__":
    main()
