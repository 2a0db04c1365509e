"""Shared by the tests of learners."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True, scope="module")
def quick(quick_compiling: None) -> None:
    """Compile quickly."""
