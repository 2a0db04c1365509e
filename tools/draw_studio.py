"""Draws the pictures of docs/studio.md: the studio on a desktop, while a number is dragged, while
regions are drawn, two plans side by side, and on a phone in the dark.

`python tools/draw_studio.py` lets Chromium look at the page and writes docs/images/studio*.png.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from scrl.studio.serving import serving
from scrl.studio.session import Session

IMAGES = Path(__file__).parents[1] / "docs" / "images"
PROBLEM = "agri-joint"
PATIENCE_MS = 120_000


def planned(page: Page) -> None:
    """Wait for the plan."""
    page.locator("#figures dt").first.wait_for(timeout=PATIENCE_MS)
    page.locator("#plan:not(.busy):not(.estimate)").wait_for(timeout=PATIENCE_MS)
    page.wait_for_timeout(400)


def drag(page: Page, number: int, pixels: int) -> None:
    """Hold a number and pull it to the right."""
    box = page.locator(".number").nth(number).bounding_box()
    if box is None:
        raise SystemExit("there is no number to drag")
    x, y = box["x"] + 6, box["y"] + 9
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + pixels / 2, y)
    page.mouse.move(x + pixels, y)
    page.wait_for_timeout(1_000)


def main() -> None:
    """Write the files."""
    browser_path = shutil.which("chromium") or sys.exit("this needs chromium")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        with serving(Session.open(PROBLEM)) as running, sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=browser_path, args=["--no-sandbox"]
            )
            page = browser.new_page(viewport={"width": 1280, "height": 800})
            page.goto(running.address)
            planned(page)
            page.get_by_role("radio", name="Speed").click()
            page.screenshot(path=IMAGES / "studio.png")
            page.get_by_role("radio", name="Given out").click()
            drag(page, 1, 100)
            page.screenshot(path=IMAGES / "studio-dragging.png")
            page.get_by_role("button", name="Keep this plan as A").evaluate("each => each.click()")
            page.mouse.up()
            planned(page)
            page.evaluate("() => document.querySelector('.topbar').style.position = 'static'")
            page.locator("#compare").screenshot(path=IMAGES / "studio-compare.png")
            page.get_by_role("button", name="Edit regions").click()
            page.locator("#plan").screenshot(path=IMAGES / "studio-regions.png")
            phone = browser.new_page(viewport={"width": 390, "height": 844}, color_scheme="dark")
            phone.goto(running.address)
            planned(phone)
            phone.locator(".number").nth(1).click()
            phone.locator("#trade details").wait_for(timeout=PATIENCE_MS)
            phone.wait_for_timeout(2_000)
            phone.evaluate("() => document.getElementById('add').scrollIntoView()")
            phone.screenshot(path=IMAGES / "studio-phone.png")
            browser.close()


if __name__ == "__main__":
    main()
