"""A real browser, and what it sees of a page."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
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
    assert CHROMIUM is not None, "chromium is missing: install it, or unset CI to skip these tests"
    frames = "".join(
        f'<iframe style="width:{width}px;height:900px;border:0" srcdoc="{html.escape(page)}">'
        "</iframe>"
        for width in widths
    )
    probe = folder / "probe.html"
    probe.write_text(PROBE % frames, encoding="utf-8")
    done = subprocess.run(
        [
            CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run",
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
