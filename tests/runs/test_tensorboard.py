"""TensorBoard gets the same numbers as the metrics file."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
from google.protobuf.message_factory import GetMessageClass
from tensorboardX.proto import event_pb2
from tensorboardX.record_writer import masked_crc32c

from scrl.runs.folder import RunFolder

from .small import rows

Event = GetMessageClass(event_pb2.DESCRIPTOR.message_types_by_name["Event"])


def events_of(run: RunFolder, seed: int) -> list[Any]:
    """The events of a seed in the order in which TensorBoard reads them, checksums tested."""
    events = []
    for path in sorted((run.path / "tensorboard" / f"seed-{seed}").iterdir()):
        data = path.read_bytes()
        while data:
            (size,) = struct.unpack("<Q", data[:8])
            sums = struct.unpack("<I", data[8:12]) + struct.unpack(
                "<I", data[12 + size : 16 + size]
            )
            assert sums == (masked_crc32c(data[:8]), masked_crc32c(data[12 : 12 + size]))
            events.append(Event.FromString(data[12 : 12 + size]))
            data = data[16 + size :]
    return events


def test_tensorboard_gets_the_same_numbers_and_forgets_what_was_dropped(run: RunFolder) -> None:
    run.log([*rows(1, gain=0.5, loss=float("nan")), *rows(2, gain=1.5)])
    run.save_checkpoint(np.ones(3), iteration=2, wall_s=0)
    run.log(rows(3, gain=9.0))
    again = RunFolder.open(run.path)
    again.load_checkpoint(np.ones(3))
    again.log(rows(3, gain=2.5))
    events = events_of(run, seed=1)
    assert [event.file_version for event in events if event.file_version] == ["brain.Event:2"] * 2
    starts = [event for event in events if event.session_log.status]
    assert [event.step for event in starts] == [3]
    found = [
        (event.step, one.tag, one.simple_value) for event in events for one in event.summary.value
    ]
    assert found == [(1, "gain", 0.5), (2, "gain", 1.5), (3, "gain", 9.0), (3, "gain", 2.5)]


def test_numbers_of_any_size_are_written(run: RunFolder) -> None:
    run.log(rows(2**40, small=-1e-30, large=-1e300, truth=True))
    values = [each for event in events_of(run, seed=0) for each in event.summary.value]
    assert [value.tag for value in values] == ["small", "large", "truth"]
    assert [value.simple_value for value in values] == pytest.approx([-1e-30, -np.inf, 1.0])
    assert events_of(run, seed=0)[-1].step == 2**40
