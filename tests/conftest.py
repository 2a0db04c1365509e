"""Shared by all tests: small worlds made by hand, and Hypothesis without deadlines."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import jax
import jaxtyping
import numpy as np
import pytest
from hypothesis import settings

from .quick import XLA_FLAGS
from .shapes import check_shapes

check_shapes()  # of what is imported from here on

from scrl.worlds.sweep.regions import from_labels  # noqa: E402
from scrl.worlds.sweep.spec import SweepSpec  # noqa: E402

settings.register_profile("scrl", deadline=None)
settings.load_profile("scrl")


def pytest_configure(config: pytest.Config) -> None:
    """What one worker has compiled the other need not compile again; and Ctrl-C is heard.

    A shell has what it runs in the background ignore Ctrl-C, and so would commands under test.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with pytest.MonkeyPatch.context() as patch:  # XLA reads its flags when it is first used
        patch.setenv("XLA_FLAGS", XLA_FLAGS)
        jax.devices()
    assert config.cache is not None
    jax.config.update("jax_compilation_cache_dir", str(config.cache.mkdir("jax")))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.3)


@pytest.fixture(scope="module", autouse=True)
def _nothing_piles_up() -> Iterator[None]:
    """Compiled code is memory maps, of which a process may have only so many."""
    yield
    jax.clear_caches()


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


@pytest.fixture(scope="module")
def quick_compiling() -> Iterator[None]:
    """Small networks learn in a second: most of the time would go into optimising their code."""
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", before)
