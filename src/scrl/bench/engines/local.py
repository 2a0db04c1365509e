"""The local engine: trains in this process, one group of runs after the other."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import jax

from scrl.bench.engines import Workers
from scrl.bench.packing import Job, packs, rounds_of
from scrl.bench.progress import ProgressCounter
from scrl.errors import ScrlError
from scrl.training.maps import train_side_by_side


def train_jobs(
    jobs: Sequence[Job], teller: ProgressCounter, workers: Workers, *, at_once: int | None
) -> None:
    """Train the jobs in this process."""
    if workers != Workers():
        raise ScrlError("workers, their cores and an address are for --engine ray")
    all_packs = packs(jobs, at_once=at_once)
    with ThreadPoolExecutor(COMPILING) as threads:
        compiled = [threads.submit(_compile_ahead, pack) for pack in all_packs]
        try:
            for pack, ahead in zip(all_packs, compiled, strict=True):
                teller.begin(pack)
                ahead.result()
                teller.finished(pack, train_side_by_side([job.run() for job in pack], teller))
        except BaseException:
            threads.shutdown(wait=False, cancel_futures=True)
            raise


COMPILING = 4
"""Groups that are compiled in the background."""


def _compile_ahead(pack: Sequence[Job]) -> None:
    """Compile a group in the background: on a GPU compiling takes longer than the runs.

    Not on a CPU, which is busy with other groups, nor without a compilation cache on disk.
    """
    is_idle = jax.local_devices()[0].platform != "cpu"
    if is_idle and jax.config.values["jax_compilation_cache_dir"]:
        rounds_of(pack).compile_ahead()
