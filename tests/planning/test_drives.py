"""Drives by prices: the same in chunks as in one go, broken off in time, and by Ctrl-C."""

from __future__ import annotations

import signal
import threading
import time
from typing import Any

import jax
import numpy as np
import pytest

from scrl.planning import drives
from scrl.planning.drives import PARTS, Driven, PriceDriver
from scrl.worlds.sweep.regions import from_labels
from scrl.worlds.sweep.spec import SweepSpec
from scrl.worlds.sweep.world import SweepWorld

from ..compiled import CompiledFunction

KEYS = jax.random.split(jax.random.key(0), 3)
PRICES = np.full((5, PARTS, 2), 0.01) * np.arange(5)[:, None, None]


@pytest.fixture(scope="module")
def driver() -> PriceDriver:
    """300 cells in a row."""
    regions = from_labels(np.array([[1] * 150 + [2] * 150]))
    spec = SweepSpec(regions)
    return PriceDriver(spec, SweepWorld.from_spec(spec))


def drive(driver: PriceDriver, most_steps: float = np.inf) -> Driven:
    return driver.drive(PRICES, most_steps=most_steps, keys=KEYS)


def test_chunks_change_no_bit(driver: PriceDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = drive(driver)
    assert whole.is_finished.all()
    monkeypatch.setattr(drives, "CHUNK_STEPS", 7 * drives.AT_ONCE * len(KEYS))
    chunked = drive(driver)
    for one, other in zip(
        whole._replace(throttles=[]), chunked._replace(throttles=[]), strict=True
    ):
        assert np.array_equal(one, other)
    for one, other in zip(whole.throttles, chunked.throttles, strict=True):
        assert np.array_equal(one, other)


def test_maps_of_one_size_run_the_same_code() -> None:
    """With two regions or three, and with any number of borders on the path."""
    compiled = drives._drive_on
    assert isinstance(compiled, CompiledFunction)

    def drive_on(labels: list[int]) -> Driven:
        spec = SweepSpec(from_labels(np.array([labels])))
        driver = PriceDriver(spec, SweepWorld.from_spec(spec))
        prices = np.full((1, PARTS, max(labels)), 0.05)
        lattice = driver.lattice(prices[0, 0])
        return driver.drive(prices, most_steps=np.inf, keys=KEYS[:1], lattice=lattice)

    drive_on([1] * 60 + [2] * 64)
    before = compiled._cache_size()
    many = drive_on([1, 2, 3, 3] * 31)
    assert compiled._cache_size() == before
    assert many.amounts.shape == (1, 1, 3)
    assert many.amounts_of_part.shape == (1, PARTS, 3)
    assert many.amounts_of_part.sum(axis=1) == pytest.approx(many.amounts[:, 0], rel=1e-5)


def test_throttles_take_the_room_of_the_steps_that_were_driven(driver: PriceDriver) -> None:
    """And not that of the longest episode that is allowed."""
    driven = drive(driver)
    held = [each if each.base is None else each.base for each in driven.throttles]
    assert [each.size for each in held] == driven.steps[:, 0].tolist()


def test_how_far_drives_have_come_is_told(
    driver: PriceDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drives, "CHUNK_STEPS", 7 * drives.AT_ONCE * len(KEYS))
    told: list[float] = []
    monkeypatch.setattr(driver, "watch", told.append)
    drive(driver)
    assert 0.0 < min(told) < 0.2
    assert max(told) == 1.0


def test_what_takes_longer_is_broken_off(
    driver: PriceDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drives, "CHUNK_STEPS", 7 * drives.AT_ONCE * len(KEYS))
    broken = drive(driver, most_steps=50)  # 300 cells at 3 a step take 100
    assert not broken.is_finished.any()
    assert (broken.steps == 50).all()


def test_ctrl_c_is_heard_between_chunks(
    driver: PriceDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = int(drive(driver).steps.max())
    calls: list[int] = []
    drive_on = drives._drive_on

    def press_once(*arguments: Any) -> Any:
        calls.append(len(calls))
        if len(calls) == 3:
            ident = threading.main_thread().ident
            assert ident is not None
            signal.pthread_kill(ident, signal.SIGINT)
        if len(calls) >= 3:
            time.sleep(0.05)  # so that the other thread's turn comes
        return drive_on(*arguments)

    monkeypatch.setattr(drives, "_drive_on", press_once)
    monkeypatch.setattr(drives, "CHUNK_STEPS", 1)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            drive(driver)
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(calls) < whole / 2  # two calls of four plans each would make twice as many


def test_compiled_code_is_kept_for_some_sizes_of_worlds_only(
    driver: PriceDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    drive(driver)
    drive_on = drives._drive_on
    assert isinstance(drive_on, CompiledFunction)
    compiled = drive_on._cache_size()
    assert compiled > 0
    PriceDriver(driver.spec, driver.world)
    assert drive_on._cache_size() == compiled
    monkeypatch.setattr(drives, "MOST_SHAPES", 1)
    other = SweepSpec(from_labels(np.array([[1] * 7 + [2] * 7])))
    PriceDriver(other, SweepWorld.from_spec(other))
    assert drive_on._cache_size() == 0
