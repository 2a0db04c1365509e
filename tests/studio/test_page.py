"""The page in a real browser, used as a person would."""

from __future__ import annotations

import json
import re
from pathlib import Path

from playwright.sync_api import Browser, expect

from scrl.problems import load
from scrl.studio.document import RuleText
from scrl.studio.server import page_files
from scrl.studio.serving import serving
from scrl.studio.session import Session

from .test_session import SQUARES
from .visitor import EVIL, NEEDS_CHROMIUM, Visitor

pytestmark = NEEDS_CHROMIUM

FEW = (("first", "S1 >= 260 and S3 >= 100"), ("second", "if S2 > 50 then S4 >= 60"))


OVERLAPS = """() => {
  const places = [...document.querySelectorAll("main section")].map(each => [each.id, each.getBoundingClientRect()]);
  return places.flatMap(([one, a], at) => places.slice(at + 1).filter(([, b]) =>
    a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom).map(([other]) => `${one} ${other}`));
}"""  # noqa: E501


def test_the_page_is_small() -> None:
    assert sum(len(data) for data, _ in page_files().values()) < 300_000


def test_the_page_shows_the_plan_and_fits_every_screen(visitor: Visitor) -> None:
    page = visitor.come(*FEW)
    assert "?" not in page.url  # the token is gone from the address
    expect(page.locator("#verdict")).to_contain_text("Every rule holds")
    assert page.locator("#map svg .edge").count() == 5
    assert page.locator("#bars .region").count() == 5
    assert page.locator("#commands pre").inner_text().startswith("scrl ask ")
    second = page.get_by_role("article", name="Rule second")
    expect(second.locator(".margin")).to_contain_text("to spare")
    assert second.locator(".ways tr").count() == 2
    assert page.locator(".costs li").count() >= 1
    assert page.locator("button:not([aria-label])").evaluate_all(
        "all => all.filter(each => !each.textContent.trim()).length"
    ) == 0  # fmt: skip
    unnamed = "all => all.filter(each => !each.labels?.length && !each.ariaLabel).length"
    assert page.locator("input:not([type=file]), select, textarea").evaluate_all(unnamed) == 0
    for width in (320, 360, 414, 768, 1024, 1280):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("() => document.documentElement.scrollWidth") <= width
        page.evaluate("() => scrollTo(0, 1e4)")
        assert page.evaluate(OVERLAPS) == []


def test_a_number_is_dragged_and_undone(visitor: Visitor) -> None:
    page = visitor.come(*FEW)
    number = page.get_by_role("slider", name="Number in first").first
    before = page.locator("#bars .amount").first.inner_text()
    box = number.bounding_box()
    assert box is not None
    x, y = box["x"] + 6, box["y"] + 9
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 20, y)
    page.mouse.move(x + 80, y)
    expect(page.locator("#plan")).to_have_class(re.compile("estimate"))
    expect(page.locator("#verdict")).to_contain_text("fluid estimate")
    expect(page.locator("#bars .amount").first).not_to_have_text(before)
    assert visitor.texts()[0] == FEW[0][1]  # nothing is changed while it is held
    page.mouse.up()
    visitor.planned()
    # 80 pixels are 40 steps of 1, from 260 to 300.
    assert visitor.texts()[0] == "S1 >= 300 and S3 >= 100"
    expect(page.locator("#verdict")).to_contain_text("Every rule holds")
    assert page.evaluate("() => performance.getEntriesByName('redraw').length") > 0
    page.keyboard.press("Control+z")
    expect(number).to_have_text("260")
    page.keyboard.press("Control+Shift+z")
    expect(number).to_have_text("300")
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 20, y)
    hub = visitor.running.hub
    hub.edit(lambda: hub.session.set_rules([RuleText("other", "S2 >= 1")]))  # in another window
    visitor.expected.append("409 (Conflict)")
    page.mouse.up()
    expect(page.locator("#notices .bad")).to_contain_text("changed in another window")
    expect(page.locator("article")).to_have_attribute("aria-label", "Rule other")
    assert visitor.texts() == ["S2 >= 1"]


def test_everything_works_from_the_keyboard(visitor: Visitor) -> None:
    page = visitor.come(*FEW)
    number = page.get_by_role("slider", name="Number in first").first
    number.focus()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("PageUp")
    expect(number).to_have_text("271")
    visitor.planned()
    expect(number).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#trade")).to_contain_text("The cost is")
    expect(page.locator("#trade circle")).to_have_count(26)  # 25 points and the present one
    page.get_by_role("radio", name="Given out").focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("radio", name="Speed")).to_be_focused()
    expect(page.locator("#map svg")).to_have_attribute("data-shows", "speed")
    page.locator("#map svg").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(page.locator("#value")).to_contain_text("given out")
    page.locator("#time").focus()
    page.keyboard.press("End")
    expect(page.locator("#moment")).to_contain_text("so far S1")
    page.get_by_role("button", name="Play the drive").press("Enter")
    expect(page.locator("#play")).to_have_text("Pause")


def test_a_rule_is_written_with_help(visitor: Visitor) -> None:
    page = visitor.come(*FEW)
    page.get_by_role("button", name="Write the text of first").click()
    area = page.get_by_role("textbox", name="Text of first")
    area.fill("S1 >= 260 adn S3 >= 100")
    error = page.locator("article[aria-label='Rule first'] .error")
    expect(error).to_contain_text("unexpected 'adn': did you mean 'and'?")
    assert error.inner_text().splitlines()[-1] == "            ^^^"
    area.fill("a_region_that_is_not_there >= 260")
    expect(error).to_contain_text("unknown region")
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 1280
    area.fill("S1 >= 261 and ")
    page.keyboard.press("End")
    page.keyboard.type("s")
    expect(page.locator(".choices li:visible")).to_have_text(
        ["S1", "S2", "S3", "S4", "S5", "surely", "distance", "used"]
    )
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Tab")
    page.keyboard.type(" >= 10")
    page.keyboard.press("Enter")
    expect(page.locator(".error:visible")).to_have_count(0)
    visitor.planned()
    assert visitor.texts()[0] == "S1 >= 261 and S2 >= 10"


def test_rules_are_added_switched_off_moved_renamed_and_deleted(visitor: Visitor) -> None:
    page = visitor.come(*FEW)
    page.get_by_role("button", name="Move first down").click()
    expect(page.locator("article").first).to_have_attribute("aria-label", "Rule second")
    page.get_by_role("switch", name="Ask for second").click()
    expect(page.locator("article.off")).to_have_count(1)
    name = page.get_by_role("article", name="Rule first").get_by_label("Name of the rule")
    name.fill(EVIL)
    name.press("Enter")
    expect(page.locator("article").last).to_have_attribute("aria-label", f"Rule {EVIL}")
    page.get_by_role("button", name="Add a rule").click()
    area = page.get_by_role("textbox", name="Text of rule-3")
    area.fill("S5 >= 1")
    area.press("Enter")
    visitor.planned()
    rules = visitor.running.hub.session.document.rules
    assert [(rule.name, rule.is_on) for rule in rules] == [
        ("second", False), (EVIL, True), ("rule-3", True)
    ]  # fmt: skip
    page.get_by_role("button", name="Delete second").click()
    expect(page.locator("article")).to_have_count(2)
    assert "scrl studio" in page.title()


def test_a_conflict_is_explained_and_loosened(visitor: Visitor) -> None:
    page = visitor.come(("much", "S1 >= 90"), ("little", "S1 <= 45"))
    conflict = page.locator("#conflict")
    expect(conflict).to_contain_text("These rules cannot hold together: that is proven.")
    expect(conflict).to_contain_text("becomes S1 ")
    page.get_by_role("button", name="Apply this loosening").click()
    expect(conflict).to_be_hidden()
    assert visitor.texts() in (["S1 >= 90", "S1 <= 90"], ["S1 >= 45", "S1 <= 45"])
    visitor.planned()
    page.get_by_role("button", name="Undo").click()
    expect(conflict).to_be_visible()


def test_a_file_that_another_program_changes_is_taken_or_replaced(visitor: Visitor) -> None:
    page = visitor.come(*FEW)
    file = visitor.running.hub.session.place.file
    assert file is not None
    file.write_text(file.read_text() + "other = 'S2 >= 1'\n")
    expect(page.locator("#notices")).to_contain_text("changed on disk by another program")
    page.get_by_role("button", name="Save", exact=True).click()  # not over it
    expect(page.get_by_role("button", name="Replace it by mine")).to_be_visible()
    visitor.expected.append("409 (Conflict)")
    page.get_by_role("button", name="Take the file").click()
    expect(page.get_by_role("article", name="Rule other")).to_be_visible()
    expect(page.locator("#notices")).not_to_contain_text("changed on disk")
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_role("article", name="Rule other")).to_have_count(0)


def test_what_is_on_the_page_can_be_taken_along(visitor: Visitor) -> None:
    page = visitor.come(*FEW)
    for name, file in (("csv", "steps.csv"), ("geojson", "route.geojson")):
        with page.expect_download() as download:
            page.get_by_role("button", name=name, exact=True).click()
        assert download.value.suggested_filename == file
        assert Path(download.value.path()).stat().st_size > 100
    expect(page.locator("#notices")).to_contain_text(
        "the GeoJSON standard (RFC 7946) wants degrees"
    )
    visitor.expected.append("409 (Conflict)")
    page.get_by_role("button", name="plan", exact=True).click()
    expect(page.locator("#notices .bad")).to_contain_text("degrees")
    page.get_by_role("button", name="Save as…").click()
    page.get_by_label("Name of the new folder").fill("kept here")
    page.keyboard.press("Enter")
    expect(page.locator("#notices")).to_contain_text("Saved to")
    place = visitor.running.hub.session.place
    kept = place.root / "kept here"
    assert place.folder == kept
    assert [rule.text for rule in load(kept).rules.rules] == [text for _, text in FEW]
    with visitor.context.expect_page() as opened:
        page.get_by_role("link", name="report page").click()
    opened.value.wait_for_load_state()
    assert opened.value.locator("h2").first.inner_text() == "The plan"


def test_a_dropped_map_of_thirty_regions_with_script_in_its_names(
    browser: Browser, tmp_path: Path
) -> None:
    """In degrees, as a real field has them."""
    square = SQUARES["features"][0]
    features = []
    for number in range(30):
        row, column = divmod(number, 6)
        x, y = 5.0 + 0.001 * column, 52.0 + 0.001 * row
        corners = [[x, y], [x + 0.001, y], [x + 0.001, y + 0.001], [x, y + 0.001], [x, y]]
        name = f"{EVIL} {number}" if number < 2 else f"plot {number}"
        features.append({
            **square, "properties": {"name": name.replace('"', "'")},
            "geometry": {"type": "Polygon", "coordinates": [corners]},
        })  # fmt: skip
    (tmp_path / "plots.geojson").write_text(json.dumps({**SQUARES, "features": features}))
    (tmp_path / "field").mkdir()
    (tmp_path / "field" / "squares.geojson").write_text(json.dumps(SQUARES))
    session = Session.open(str(tmp_path / "field" / "squares.geojson"))
    with serving(session) as running:
        found = Visitor(
            browser, running, viewport={"width": 390, "height": 800}, color_scheme="dark",
            reduced_motion="reduce",
        )  # fmt: skip
        page = found.page
        page.goto(running.address)
        expect(page.locator("#map svg .edge")).to_have_count(2)
        page.locator("#open").set_input_files(tmp_path / "plots.geojson")
        expect(page.locator("#map svg .edge")).to_have_count(30)
        found.planned()
        page.get_by_role("button", name="Add a rule").click()
        area = page.get_by_role("textbox", name="Text of rule-1")
        area.fill("plot 2")
        page.keyboard.press("End")
        page.keyboard.press("Backspace")
        area.fill("")
        page.keyboard.type('"plot 7')
        page.keyboard.press("Enter")
        page.keyboard.type(" >= 30")
        page.keyboard.press("Enter")
        found.planned()
        assert session.document.rules[0].text == '"plot 7" >= 30'
        expect(page.locator("#verdict")).to_contain_text("Every rule holds")
        expect(page.locator("#play")).to_be_hidden()  # motion is not wanted
        page.get_by_role("radio", name="Regions").click()
        assert page.evaluate("() => document.documentElement.scrollWidth") <= 390
        assert "scrl studio" in page.title()
        assert found.surprises == []
        page.get_by_role("button", name="Undo").click()
        page.get_by_role("button", name="Undo").click()
        page.get_by_role("button", name="Undo").click()
        expect(page.locator("#map svg .edge")).to_have_count(2)
        running.stop()
        expect(page.locator("#notices")).to_contain_text("Changes that were not saved are kept")
        found.context.close()
    assert (tmp_path / "field" / "plots.geojson").is_file()
