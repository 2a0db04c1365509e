"""Metrics -> TensorBoard events, where tensorboardX is installed."""

from __future__ import annotations

import struct
import time
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any


class EventFiles:
    """The metrics as TensorBoard events, where tensorboardX is installed.

    A folder per seed, so that TensorBoard lays the curves of all seeds over each other. Its own
    SummaryWriter takes two threads and a queue for each, overwrites a file made in the same second,
    and names files after the host; so only its records are used.
    """

    def __init__(self, folder: Path, purge_step: int | None = None) -> None:
        self._folder = folder
        self._file_name = f"events.out.tfevents.{time.time_ns()}"
        self._head: list[dict[str, Any]] = [{"file_version": "brain.Event:2"}]
        if purge_step is not None:  # hides what an earlier attempt logged from that step on
            start = 1  # SessionLog.START
            self._head.append({"step": purge_step, "session_log": {"status": start}})

    def add(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Append an event per row, with all its numbers."""
        try:
            event = import_module("tensorboardX.proto.event_pb2").Event
            checksum = import_module("tensorboardX.record_writer").masked_crc32c
        except ImportError:
            return
        for row in rows:
            path = self._folder / f"seed-{row['seed']}" / self._file_name
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("ab") as file:
                for content in [*([] if file.tell() else self._head), _event_of(row)]:
                    data = event(wall_time=time.time(), **content).SerializeToString()
                    for part in (struct.pack("<Q", len(data)), data):
                        file.write(part + struct.pack("<I", checksum(part)))


def _event_of(row: Mapping[str, Any]) -> dict[str, Any]:
    numbers = [
        {"tag": name, "simple_value": value}
        for name, value in row.items()
        if isinstance(value, int | float) and name not in ("iteration", "seed")
    ]
    return {"step": row["iteration"], "summary": {"value": numbers}}
