"""Work in threads: in order, and over soon when somebody presses Ctrl-C or something fails."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable

import pytest

from scrl.threads import in_threads

PARTS = range(50)


def press_ctrl_c() -> None:
    ident = threading.main_thread().ident
    assert ident is not None
    signal.pthread_kill(ident, signal.SIGINT)


def fail() -> None:
    raise RuntimeError("a part that fails")


def test_what_is_made_is_in_the_order_of_the_parts() -> None:
    def later_first(part: int, _: Callable[[], bool]) -> int:
        time.sleep(0.002 * (part % 3 == 0))
        return part * part

    assert in_threads(later_first, PARTS) == [part * part for part in PARTS]
    assert in_threads(later_first, []) == []


@pytest.mark.parametrize(
    ("trouble", "error"), [(press_ctrl_c, KeyboardInterrupt), (fail, RuntimeError)]
)
def test_trouble_ends_what_is_under_way_and_begins_nothing_more(
    trouble: Callable[[], None], error: type[BaseException]
) -> None:
    begun: list[int] = []
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    def work(part: int, is_stopped: Callable[[], bool]) -> None:
        begun.append(part)
        if part == 0:
            time.sleep(0.1)  # until somebody waits for it
            trouble()
        for _ in range(1_000):
            if is_stopped():
                return
            time.sleep(0.01)
        begun.append(-1)  # came to its end, ten seconds later

    try:
        with pytest.raises(error):
            in_threads(work, PARTS)
    finally:
        signal.signal(signal.SIGINT, before)
    assert -1 not in begun
    assert len(begun) < len(PARTS)
