"""Documents and bytes with something wrong in them, drawn by chance."""

from __future__ import annotations

import copy
import hashlib
import json
import random
from collections.abc import Iterator
from typing import Any

VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 3.5, -0.0, 2**31, 2**62, 10**40, 10**400, 1e308, float("nan"),
    float("inf"), "", "x", "\ud800", "\x00", "\x1b]52;c;eA==\x07", "é" * 3, "0" * 10_000, [], {},
    [[]], {"": None}, [None], [1, "2", 3.0], {"a": {"b": {"c": []}}},
)  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to every value in a document."""
    if isinstance(value, dict | list):
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield (*path, key)
            yield from places(each, (*path, key))


def mutated(document: Any, chance: random.Random) -> Any:
    """The document with one value swapped, dropped, doubled, renamed or buried."""
    found = copy.deepcopy(document)
    path = chance.choice([each for each in places(found) if each != ("schema",)])
    holder = found
    for key in path[:-1]:
        holder = holder[key]
    key, old = path[-1], holder[path[-1]]
    match chance.randrange(7):
        case 0:
            del holder[key]
        case 1 if isinstance(holder, dict):
            holder[f"{key}x"] = holder.pop(key)
        case 2 if isinstance(old, list):
            holder[key] = old * chance.choice((0, 2, 50))
        case 3:
            for _ in range(chance.choice((1, 60, 900))):
                old = [old] if chance.random() < 0.5 else {"x": old}
            holder[key] = old
        case 4 if isinstance(old, int | float):
            holder[key] = old * chance.choice((-1, 0, 2, 1e9, 1e300))
        case 5 if isinstance(old, str):
            holder[key] = chance.choice((old[::-1], old + "\n", old * 100, f"../{old}"))
        case _:
            holder[key] = chance.choice(VALUES)
    return found


def text_of(document: Any, *, is_signed: bool) -> bytes:
    """As a file: of old, without a checksum, or with one that fits."""
    plain = {key: value for key, value in document.items() if key != "checksum"}
    plain["schema"] = 2 if is_signed else 1
    if is_signed:
        try:
            text = json.dumps(plain, sort_keys=True, separators=(",", ":"), allow_nan=False)
            plain["checksum"] = hashlib.sha256(text.encode()).hexdigest()
        except (ValueError, RecursionError):  # NaN has none
            plain["checksum"] = ""
    return json.dumps(plain).encode()


def scrambled(data: bytes, chance: random.Random) -> bytes:
    """Bytes with some turned, cut out, doubled or put in."""
    found = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 4))):
        place = chance.randrange(len(found) + 1)
        match chance.randrange(4):
            case 0 if place < len(found):
                found[place] ^= 1 << chance.randrange(8)
            case 1:
                del found[place : place + chance.choice((1, 5, 50))]
            case 2:
                found[place:place] = found[place : place + chance.choice((1, 20))]
            case _:
                found[place:place] = chance.randbytes(chance.choice((1, 4)))
    return bytes(found)
