"""A bench as it happens: cells done, those under way, and the time left."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from scrl.cli.bar import Bar

if TYPE_CHECKING:
    from scrl.bench import BenchProgress


class BenchWatching(Bar):
    """How many runs are done, and which are under way."""

    def __call__(self, now: BenchProgress) -> None:
        left = "" if now.left_s is None else f"{timedelta(seconds=round(now.left_s))} left"
        one, *others = now.cells
        names = f"{one.problem} {one.label}"
        if others:
            names += f" and {len(others)} more at once"
        text = f"{names} ({now.done} of {now.in_all} runs done)"
        self.show(now.share, text, left, is_due=now.run is None)
