"""A server in this process, with a client that has its cookie."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from scrl.problems import start_problem
from scrl.studio.serving import Running, serving
from scrl.studio.session import Session

from .client import Client


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server whose problem is a new one with the Agri map."""
    folder: Path = tmp_path_factory.mktemp("studio") / "field"
    start_problem(folder)
    with serving(Session.open(str(folder))) as found:
        yield found


@pytest.fixture
def client(running: Running) -> Client:
    found = Client(running)
    found.enter()
    return found
