"""Plans side by side and training, in a real browser."""

from __future__ import annotations

from playwright.sync_api import expect

from .visitor import NEEDS_CHROMIUM, Visitor

pytestmark = NEEDS_CHROMIUM


def test_two_plans_stand_side_by_side(visitor: Visitor) -> None:
    page = visitor.come(("first", "S1 >= 30"))
    page.get_by_role("button", name="Keep this plan as A").click()
    expect(page.locator("#compared svg.map")).to_have_count(2)
    number = page.get_by_role("slider", name="Number in first").first
    number.focus()
    page.keyboard.press("PageUp")
    page.keyboard.press("PageUp")
    # 20 steps of 0.1, from 30 to 32.
    row = page.get_by_role("row", name="first S1 >= 30: kept")
    expect(row).to_contain_text("S1 >= 32: kept")
    page.get_by_role("radio", name="Speed").click()
    expect(page.locator("#compared svg.map").last).to_have_attribute("data-shows", "speed")
    page.reload()  # it is kept by the server
    expect(page.locator("#compared svg.map")).to_have_count(2)
    page.get_by_role("button", name="End the comparison").click()
    expect(page.locator("#compared")).to_be_hidden()


def test_a_policy_is_trained_stopped_and_resumed(visitor: Visitor) -> None:
    page = visitor.come(("first", "S1 >= 30"))
    page.get_by_label("Steps of each seed").fill("20000")
    page.get_by_role("button", name="Train", exact=True).click()
    page.get_by_role("button", name="Stop training").click()
    resume = page.get_by_role("button", name="Resume")
    expect(resume).to_be_visible(timeout=60_000)
    expect(page.locator("#train-text")).to_contain_text("everything saved")
    visitor.running.hub.training = None  # as after a new start of the studio
    visitor.running.hub.ask()
    page.reload()
    expect(page.locator("#train-text")).to_contain_text("Not finished when the studio ended")
    resume.click()
    expect(page.locator("#compared figcaption").first).to_contain_text("Trained", timeout=60_000)
    expect(page.locator("#curves svg")).to_have_count(2)
    expect(page.get_by_role("button", name="Train", exact=True)).to_be_visible()
    run = visitor.running.hub.session.place.folder
    assert run is not None
    assert (run / "training" / "result.json").is_file()
