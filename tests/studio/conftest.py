"""A server in this process, with a client that has its cookie or with a browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from scrl.problems import start_problem
from scrl.studio.serving import Running, serving
from scrl.studio.session import Session

from .client import Client
from .visitor import CHROMIUM, Visitor


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server for all tests of a module: a new problem with the Agri map on a coarse grid."""
    folder: Path = tmp_path_factory.mktemp("studio")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        start_problem(folder / "field", grid=(20, 20))
        with serving(Session.open(str(folder / "field"))) as found:
            yield found


@pytest.fixture
def client(running: Running) -> Client:
    found = Client(running)
    found.enter()
    return found


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One browser for all tests."""
    assert CHROMIUM is not None, "chromium is missing: install it, or unset CI to skip these tests"
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(
            executable_path=CHROMIUM,
            # Whatever a page asks for elsewhere is not found.
            args=["--no-sandbox", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"],
        )
        yield found
        found.close()


@pytest.fixture
def visitor(browser: Browser, running: Running) -> Iterator[Visitor]:
    """A page on a desktop; whatever it asks for elsewhere or complains about is a failure."""
    found = Visitor(browser, running, viewport={"width": 1280, "height": 900})
    yield found
    own = (f"http://127.0.0.1:{running.port}/", "data:", "blob:")
    assert [url for url in found.asked if not url.startswith(own)] == []
    found.context.close()
    assert found.surprises == []
