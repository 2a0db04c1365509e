"""Shared by all tests: small worlds made by hand, and Hypothesis without deadlines."""

from __future__ import annotations

import gc
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jaxtyping
import numpy as np
import pytest
from hypothesis import settings

from .quick import QUICK, compile_quickly, set_quick
from .shapes import check_shapes

check_shapes()  # of what is imported from here on

from scrl.worlds.sweep.regions import from_labels  # noqa: E402
from scrl.worlds.sweep.spec import SweepSpec  # noqa: E402

MOST_MAPS = 20_000
"""A third of what Linux allows, and about 3 GB."""

GARBAGE_EVERY = 20_000
"""New objects between two searches for garbage: tracing makes many, and most of them stay."""

SHARING = ("tests/training", "tests/environments", "tests/report", "tests/export")
"""Folders whose tests share trained runs."""

settings.register_profile("scrl", deadline=None)
settings.load_profile("scrl")


def pytest_configure(config: pytest.Config) -> None:
    """What one worker has compiled the other need not compile again; and Ctrl-C is heard.

    A shell has what it runs in the background ignore Ctrl-C, and so would commands under test.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    gc.set_threshold(GARBAGE_EVERY)
    assert config.cache is not None
    compile_quickly(config.cache.mkdir("jax"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest work comes first, so that no worker is left with it at the end.

    Tests of optimised code and the others share nothing compiled, and what the ones have compiled
    is forgotten for the others. So files with such tests come before all others, and these tests
    come before the others of their file.
    """
    files = list(dict.fromkeys(item.path for item in items))
    optimised = {item for item in items if item.get_closest_marker("optimised") is not None}
    first = {item.path for item in optimised}

    def place(item: pytest.Item) -> tuple[bool, bool, int, bool]:
        is_shared = folder_of(item.nodeid) in SHARING
        return item.path not in first, not is_shared, files.index(item.path), item not in optimised

    items.sort(key=place)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Tests of one file stay on one worker, and those of a folder that shares runs and programs."""
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            folder = folder_of(nodeid)
            return folder if folder in SHARING else super()._split_scope(nodeid)

    return Scheduling(config, log)


def folder_of(nodeid: str) -> str:
    return nodeid.partition("::")[0].rpartition("/")[0]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Tests marked as `optimised` compute for longer than optimising their code takes.

    The processes they start compile as they do.
    """
    is_quick = item.get_closest_marker("optimised") is None
    if is_quick != jax.config.read(QUICK):
        jax.clear_caches()
        set_quick(is_quick)


@pytest.fixture(scope="module", autouse=True)
def _nothing_piles_up() -> Iterator[None]:
    """Compiled code is memory maps, of which a process may have only so many.

    What is kept for other modules is no longer searched for garbage, which would take ever longer.
    """
    yield
    maps = Path("/proc/self/maps")
    if not maps.exists() or maps.read_bytes().count(b"\n") > MOST_MAPS:
        gc.unfreeze()
        jax.clear_caches()
    gc.collect()
    gc.freeze()


@pytest.fixture
def unchecked_shapes() -> Iterator[None]:
    """For tests of what is said of wrong shapes to those who have no check of them."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture
def strip() -> SweepSpec:
    """One row of twelve cells: four of S1, four of none, four of S2."""
    return SweepSpec(from_labels(np.array([[1] * 4 + [0] * 4 + [2] * 4])))
