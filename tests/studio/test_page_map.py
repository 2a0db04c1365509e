"""Regions are drawn in a real browser, by mouse and by keyboard."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Browser, Page, expect

from scrl.studio.outlines import Outline
from scrl.studio.serving import serving
from scrl.studio.session import Session

from .test_session import SQUARES
from .visitor import NEEDS_CHROMIUM, Visitor

pytestmark = NEEDS_CHROMIUM
RULES = (("first", "S1 >= 30"), ("second", "S4 >= 60"))


def drawn(visitor: Visitor) -> tuple[Outline, ...]:
    session = visitor.running.hub.session
    return session.maps.outlines(session.document).regions


def middle(page: Page, selector: str) -> tuple[float, float]:
    box = page.locator(selector).first.bounding_box()
    assert box is not None
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def test_regions_are_drawn_with_the_mouse(visitor: Visitor) -> None:
    page = visitor.come(*RULES)
    page.get_by_role("button", name="Edit regions").click()
    expect(page.locator(".corner")).to_have_count(4)
    before = drawn(visitor)
    x, y = middle(page, '.corner[data-key="0-0-1"]')
    with page.expect_response("**/api/draw-region"):
        page.mouse.move(x, y)
        page.mouse.down()
        page.mouse.move(x + 30, y + 40, steps=3)
        page.mouse.up()
    (first,), (was,) = drawn(visitor)[0].polygons[0], before[0].polygons[0]
    assert (first[0], first[2:]) == (was[0], was[2:])  # the other corners are the same bits
    assert first[1][0] > was[1][0]
    assert first[1][1] < was[1][1]
    visitor.planned()
    x, y = middle(page, ".middle")
    with page.expect_response("**/api/draw-region"):
        page.mouse.move(x, y)
        page.mouse.down()
        page.mouse.move(x + 5, y + 25, steps=3)
        page.mouse.up()
    expect(page.locator(".corner")).to_have_count(5)
    visitor.planned()  # the map is drawn again
    page.get_by_role("button", name="New region").click()
    box = page.locator("#map svg").bounding_box()
    assert box is not None
    with page.expect_response("**/api/draw-region"):
        for right, down in ((0.3, 0.3), (0.5, 0.3), (0.5, 0.5), (0.3, 0.3)):
            page.mouse.click(box["x"] + right * box["width"], box["y"] + down * box["height"])
    expect(page.locator("#draw-name")).to_be_focused()
    page.keyboard.type("clinic district")
    page.keyboard.press("Enter")
    expect(page.locator("#bars .region").last).to_contain_text("clinic district")
    page.get_by_role("button", name="Delete region").click()
    expect(page.locator("#bars .region")).to_have_count(5)
    for _ in range(5):
        with page.expect_response("**/api/undo"):
            page.get_by_role("button", name="Undo").click()
    assert drawn(visitor) == before
    with page.expect_response("**/api/redo"):
        page.get_by_role("button", name="Redo").click()
    assert drawn(visitor)[0].polygons[0] == (first,)
    visitor.planned()


def test_regions_are_drawn_with_the_keyboard(visitor: Visitor) -> None:
    page = visitor.come(*RULES)
    page.get_by_role("button", name="Edit regions").press("Enter")
    before = drawn(visitor)
    page.locator("[data-key=shape]").focus()
    with page.expect_response("**/api/draw-region"):
        page.keyboard.press("ArrowDown")
    # The map has 20 cells of side 2.5.
    ring, was = drawn(visitor)[0].polygons[0][0], before[0].polygons[0][0]
    assert [round(a[1] - b[1], 6) for a, b in zip(ring, was, strict=True)] == [-2.5] * 4
    expect(page.locator("[data-key=shape]")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Insert")
    with page.expect_response("**/api/draw-region"):
        page.keyboard.press("Shift+ArrowRight")
    assert len(drawn(visitor)[0].polygons[0][0]) == 5
    with page.expect_response("**/api/draw-region"):
        page.keyboard.press("Delete")
    assert len(drawn(visitor)[0].polygons[0][0]) == 4
    page.get_by_role("button", name="New region").press("Enter")
    with page.expect_response("**/api/draw-region"):
        for key in (" ", "Shift+ArrowRight", " ", "Shift+ArrowDown", " ", "Enter"):
            page.keyboard.press(key)
    assert drawn(visitor)[-1].polygons == ((((25.0, 25.0), (37.5, 25.0), (37.5, 12.5)),),)
    expect(page.locator("#draw-name")).to_have_value("S6")
    page.get_by_label("Name", exact=True).fill("far east")
    page.keyboard.press("Enter")
    expect(page.locator("#bars .region").last).to_contain_text("far east")
    page.get_by_label("Region", exact=True).select_option("S1")
    expect(page.locator("[data-key=shape]")).to_be_focused()
    page.get_by_label("Name", exact=True).fill("north")
    page.keyboard.press("Enter")
    expect(page.get_by_role("article", name="Rule first").locator(".code")).to_contain_text(
        "north >= 30"
    )
    visitor.planned()


def test_regions_of_a_map_at_an_angle_are_moved_along_its_rows(
    browser: Browser, tmp_path: Path
) -> None:
    (tmp_path / "map.geojson").write_text(json.dumps(SQUARES))
    world = '[world]\nmap = "map.geojson"\nangle = 30\ncoordinates = "plain"\ngrid = [20, 20]\n'
    (tmp_path / "problem.toml").write_text(world)
    with serving(Session.open(str(tmp_path))) as running:
        running.hub.jobs.close()  # nothing need be planned here
        found, session = Visitor(browser, running), running.hub.session
        page = found.page
        page.goto(running.address)
        where = session.world().world_spec.regions.georeference
        assert where is not None
        page.get_by_role("button", name="Edit regions").click()
        was = session.maps.outlines(session.document).regions[0].polygons[0][0]
        page.locator("[data-key=shape]").focus()
        with page.expect_response("**/api/draw-region"):
            page.keyboard.press("ArrowRight")
        now = session.maps.outlines(session.document).regions[0].polygons[0][0]
        # A cell along a row that runs 30 degrees north of east: cosine 0.866, sine 0.5.
        cells = (np.array(now) - np.array(was)) / where.cell_width
        assert cells == pytest.approx(np.tile([0.866, 0.5], (len(was), 1)), abs=0.01)
        expect(page.locator("#map svg .edge")).to_have_count(2)
        found.context.close()
        assert found.surprises == []


DROP = """bytes => {
  const held = new DataTransfer();
  held.items.add(new File([new Uint8Array(bytes)], "labels.png"));
  dispatchEvent(new DragEvent("drop", {dataTransfer: held, cancelable: true}));
}"""


def test_arrays_and_images_are_shown_and_say_that_they_cannot_be_edited(
    browser: Browser, tmp_path: Path
) -> None:
    np.save(tmp_path / "field.npy", np.repeat([[1, 2]], 2, axis=0))
    with serving(Session.open(str(tmp_path / "field.npy"))) as running:
        running.hub.jobs.close()  # nothing need be planned here
        found = Visitor(browser, running)
        found.page.goto(running.address)
        expect(found.page.locator("#draw-fixed")).to_contain_text("cannot be edited here")
        expect(found.page.get_by_role("button", name="Edit regions")).to_be_disabled()
        file = io.BytesIO()
        Image.fromarray(np.array([[1, 2], [3, 3]], np.uint8)).save(file, "PNG")
        found.page.evaluate(DROP, list(file.getvalue()))
        expect(found.page.locator("#map svg .edge")).to_have_count(3)
        expect(found.page.locator("#draw-fixed")).to_contain_text("cannot be edited here")
        assert (tmp_path / "labels.png").read_bytes() == file.getvalue()
        found.context.close()
        assert found.surprises == []
