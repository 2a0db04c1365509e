"""Metrics -> TensorBoard events, written by hand: what writes them imports TensorFlow or PyTorch.

A file is a row of records: length, checksum of the length, an event, its checksum. An event is a
message of Protocol Buffers: fields, each a key (its number and how it is written) and its content.
"""

from __future__ import annotations

import math
import struct
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from scrl.files import make_folder, open_in_place

VARINT, DOUBLE, MESSAGE, FLOAT = 0, 1, 2, 5
"""How a field is written."""
WALL_TIME, STEP, FILE_VERSION, SUMMARY, SESSION_LOG = 1, 2, 3, 5, 7
"""The fields of an event."""
VALUE = 1
TAG, SIMPLE_VALUE = 1, 2
"""The fields of a summary, and of each of its values."""
STATUS, START = 1, 1
"""The field of a session log, and what it says: what was logged from this step on is void."""


class EventFiles:
    """A folder per seed, so that TensorBoard lays the curves of all seeds over each other."""

    def __init__(self, folder: Path, purge_step: int | None = None) -> None:
        self._folder = folder
        self._file_name = f"events.out.tfevents.{time.time_ns()}"
        self._head = [_field(FILE_VERSION, MESSAGE, b"brain.Event:2")]
        if purge_step is not None:  # hides what an earlier attempt logged from that step on
            start = _field(SESSION_LOG, MESSAGE, _field(STATUS, VARINT, START))
            self._head.append(_field(STEP, VARINT, purge_step) + start)

    def add(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Append an event per row, with all its numbers."""
        for row in rows:
            folder = make_folder(make_folder(self._folder) / f"seed-{row['seed']}")
            with open_in_place(folder / self._file_name, "ab") as file:
                for content in [*([] if file.tell() else self._head), _event_of(row)]:
                    event = _field(WALL_TIME, DOUBLE, time.time()) + content
                    for part in (struct.pack("<Q", len(event)), event):
                        file.write(part + struct.pack("<I", _checksum(part)))


def _event_of(row: Mapping[str, Any]) -> bytes:
    values = b"".join(
        _field(VALUE, MESSAGE, _field(TAG, MESSAGE, name.encode()) + _number(value))
        for name, value in row.items()
        if isinstance(value, int | float) and name not in ("iteration", "seed")
    )
    return _field(STEP, VARINT, row["iteration"]) + _field(SUMMARY, MESSAGE, values)


def _number(value: float) -> bytes:
    """Python cannot pack what a float of 32 bits cannot hold; TensorBoard shows it as infinite."""
    try:
        return _field(SIMPLE_VALUE, FLOAT, value)
    except OverflowError:
        return _field(SIMPLE_VALUE, FLOAT, math.copysign(math.inf, value))


def _field(number: int, kind: int, content: Any) -> bytes:
    key = _varint(number << 3 | kind)
    if kind == VARINT:
        return key + _varint(content)
    if kind == MESSAGE:
        return key + _varint(len(content)) + content
    return key + struct.pack("<d" if kind == DOUBLE else "<f", content)


def _varint(number: int) -> bytes:
    """Seven bits a byte, the lowest first; the eighth says that more follow."""
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def _rest(byte: int) -> int:
    for _ in range(8):
        byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
    return byte


_RESTS = [_rest(byte) for byte in range(256)]
"""Of each byte, divided by Castagnoli's polynomial."""


def _checksum(data: bytes) -> int:
    """CRC-32C, turned and shifted, as records of events want it."""
    rest = 0xFFFFFFFF
    for byte in data:
        rest = rest >> 8 ^ _RESTS[(rest ^ byte) & 0xFF]
    rest ^= 0xFFFFFFFF
    return ((rest >> 15 | rest << 17) + 0xA282EAD8) & 0xFFFFFFFF
