"""The studio in Chromium: times of redraws and plans, and memory over many edits.

`python -m benchmarks.studio [--drags 8] [--edits 1000]` prints a table and the memory. Each
built-in problem is opened, and its first number is dragged back and forth and released. A redraw
is timed from the pointer event to the frame in which its estimate is painted, with the waiting for
the estimate before; a plan from the release to the frame in which it is painted.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from playwright.sync_api import Browser, Page, sync_playwright

from scrl.problems import builtin_names
from scrl.studio.server import page_files

PATIENCE_MS = 180_000
MOVES = 30
EDIT = """async ([count, names]) => {
  for (let at = 0; at < count; at++) {
    const rules = [{name: "a", text: `${names[0]} >= ${at % 50}`, on: true}];
    const sent = {method: "POST", headers: {"content-type": "application/json"},
                  body: JSON.stringify({window: "none", rules})};
    await fetch("/api/rules", sent);
  }
}"""


@contextmanager
def studio(problem: str, folder: Path) -> Iterator[tuple[str, int]]:
    """The address and process of a studio."""
    command = [sys.executable, "-m", "scrl", "studio", problem, "--no-browser"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True,
                          stderr=subprocess.DEVNULL) as process:  # fmt: skip
        try:
            yield next(iter(process.stdout or [])).strip(), process.pid
        finally:
            process.terminate()


def planned(page: Page) -> None:
    """Wait for the plan of the present rules."""
    page.locator("#figures dt").first.wait_for(timeout=PATIENCE_MS)
    page.locator("#plan:not(.busy):not(.estimate)").wait_for(timeout=PATIENCE_MS)


def drag(page: Page, pixels: int) -> None:
    """Pull the first number as a hand does, and release it."""
    box = page.locator(".number").first.bounding_box()
    if box is None:
        raise SystemExit("no rule of this problem has a number to drag")
    x, y = box["x"] + 5, box["y"] + 8
    page.mouse.move(x, y)
    page.mouse.down()
    for step in range(1, MOVES + 1):
        page.mouse.move(x + pixels * step / MOVES, y)
        page.wait_for_timeout(20)
    page.mouse.up()
    page.wait_for_timeout(100)
    planned(page)


def times(page: Page, name: str) -> np.ndarray:
    found = page.evaluate(
        "name => performance.getEntriesByName(name).map(each => each.duration)", name
    )
    return np.array(found, float)


def measured(browser: Browser, problem: str, drags: int) -> str:
    """One row of the table."""
    with tempfile.TemporaryDirectory() as folder, studio(problem, Path(folder)) as (address, _):
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(address)
        planned(page)
        page.goto(address)  # warm
        planned(page)
        paint = page.evaluate(
            "() => performance.getEntriesByName('first-contentful-paint')[0].startTime"
        )
        for number in range(drags):
            drag(page, 40 if number % 2 == 0 else -36)
        redraw, answer, plan = (times(page, name) for name in ("redraw", "answer", "plan"))
        page.close()
    found = [*quantiles(redraw), f"{answer.mean():,.1f}", *quantiles(plan), f"{paint:,.0f}"]
    return f"| {problem} | {' | '.join(found)} |"


def quantiles(found: np.ndarray) -> list[str]:
    return [f"{np.quantile(found, share):,.0f}" for share in (0.5, 0.95)]


def resident_mb(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def memory(browser: Browser, edits: int) -> str:
    """Memory of server and page after each tenth of the edits."""
    with tempfile.TemporaryDirectory() as folder, studio("agri-joint", Path(folder)) as found:
        address, pid = found
        page = browser.new_page()
        page.goto(address)
        planned(page)
        held = []
        for _ in range(10):
            page.evaluate(EDIT, [edits // 10, ["S1"]])
            planned(page)
            session = page.context.new_cdp_session(page)
            session.send("HeapProfiler.collectGarbage")
            page_mb = session.send("Runtime.getHeapUsage")["usedSize"] / 1e6
            held.append((resident_mb(pid), page_mb))
        page.close()
    server, pages = zip(*held, strict=True)
    return (
        f"Memory after each tenth of {edits:,} edits: server "
        f"{', '.join(f'{each:,.0f}' for each in server)} MB, page "
        f"{', '.join(f'{each:.1f}' for each in pages)} MB."
    )


def main() -> None:
    """Print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--drags", type=int, default=8)
    parser.add_argument("--edits", type=int, default=1000)
    parser.add_argument("--problems", nargs="*", default=builtin_names())
    arguments = parser.parse_args()
    browser_path = shutil.which("chromium") or sys.exit("this needs chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        rows = [measured(browser, each, arguments.drags) for each in arguments.problems]
        held = memory(browser, arguments.edits)
        browser.close()
    size = sum(len(data) for data, _ in page_files().values()) / 1_000
    print(
        "| problem | redraw, ms | 95 % | processor of its answer, ms | plan on release, ms | 95 % "
        "| first paint, ms |\n|---|---|---|---|---|---|---|"
    )
    print("\n".join(rows))
    print(
        "\nMedians, and what 95 % are below; the mean for the processor. "
        f"The page has {size:.0f} kB. {held} "
        f"Load average while measuring: {os.getloadavg()[1]:.1f}."
    )


if __name__ == "__main__":
    main()
