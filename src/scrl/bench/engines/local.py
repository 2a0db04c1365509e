"""In this process, one pack after the other."""

from __future__ import annotations

from collections.abc import Sequence

from scrl.bench.engines import Workers
from scrl.bench.packing import Job, packs
from scrl.bench.progress import Teller
from scrl.errors import ScrlError
from scrl.together import run_together


def train_jobs(
    jobs: Sequence[Job], teller: Teller, workers: Workers, *, at_once: int | None
) -> None:
    """The engine of one machine."""
    if workers != Workers():
        raise ScrlError("workers, their cores and an address are for --engine ray")
    for pack in packs(jobs, at_once=at_once):
        teller.begin(pack)
        teller.finished(pack, run_together([job.underway() for job in pack], teller))
