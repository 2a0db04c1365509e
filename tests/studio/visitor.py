"""A person with a browser: what the page asks for and complains about is noted."""

from __future__ import annotations

import os
import re
import shutil
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from scrl.studio.document import RuleText
from scrl.studio.serving import Running

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
NEEDS_CHROMIUM = pytest.mark.skipif(
    CHROMIUM is None and os.environ.get("CI") != "true",  # there a missing browser is a failure
    reason="there is no chromium on this machine",
)
PATIENCE_MS = 30_000
"""The first plan is compiled."""
EVIL = "<img src=x onerror=\"document.title='owned'\"><script>alert(1)</script>"


class Visitor:
    """A page with what its browser complained about and asked for."""

    def __init__(self, browser: Browser, running: Running, **context: Any) -> None:
        self.running = running
        self.context = browser.new_context(accept_downloads=True, **context)
        self.page: Page = self.context.new_page()
        self.page.set_default_timeout(PATIENCE_MS)
        expect.set_options(timeout=PATIENCE_MS)
        self.said: list[str] = []
        self.expected: list[str] = []
        """Parts of messages that the browser may give."""
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("dialog", lambda dialog: self.said.append(dialog.message))
        self.page.on("request", lambda request: self.asked.append(request.url))

    def come(self, *rules: tuple[str, str]) -> Page:
        """Open the page with these rules and wait for their plan."""
        if rules:
            hub, texts = self.running.hub, [RuleText(*rule) for rule in rules]
            hub.edit(lambda: hub.session.set_rules(texts))
        self.page.goto(self.running.address)
        self.planned()
        return self.page

    def planned(self) -> None:
        """Wait until the plan of the present rules is drawn."""
        expect(self.page.locator("#figures dt").first).to_be_visible()
        expect(self.page.locator("#progress")).to_be_empty()
        expect(self.page.locator("#plan")).not_to_have_class(re.compile("estimate"))

    @property
    def surprises(self) -> list[str]:
        return [text for text in self.said if not any(each in text for each in self.expected)]

    def texts(self) -> list[str]:
        """The rules that the server has."""
        return [rule.text for rule in self.running.hub.session.document.rules]
