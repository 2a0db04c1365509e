"""Unsaved edits on disk: one line for each, synchronised, so that a killed server loses none."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
from pathlib import Path
from typing import Any

from scrl.files import open_in_place, refuse_link, replacing
from scrl.studio.document import Document, EditHistory
from scrl.studio.errors import StudioError

FORMAT = 1
LARGEST_BYTES = 20_000_000
MOST_LINES = 400
"""A longer journal is rewritten from the history, which is bounded."""


class Journal:
    """The journal of one problem; every change of the history is written before it is shown.

    It has the digest of the problem file that the edits belong to; None where there was no file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lines = 0

    def read(self) -> tuple[str | None, EditHistory] | None:
        """The digest and the history on disk, if there are any; without a torn last line."""
        refuse_link(self.path)
        if not self.path.is_file():
            return None
        if self.path.stat().st_size > LARGEST_BYTES:
            raise StudioError(f"{self.path}: larger than {LARGEST_BYTES:,} bytes")
        *lines, torn = self.path.read_bytes().split(b"\n")
        if not lines:  # not even the first line was finished
            return None
        try:
            head, *entries = (json.loads(line) for line in lines)
            if head.get("scrl-studio") != FORMAT:
                raise StudioError(f"{self.path}: written by another version of scrl")
            history = EditHistory(Document.from_json(head["base"]))
            for entry in entries:
                history = _replayed(history, entry)
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise StudioError(f"{self.path}: damaged: {error}") from None
        # Nothing may be added to a torn line: the next entry rewrites the journal.
        self._lines = MOST_LINES if torn else len(lines)
        return head.get("digest"), history

    def write(self, digest: str | None, history: EditHistory) -> None:
        """Replace the journal by a short one with the same history.

        Where that would be too large to be read again, the oldest edits can no longer be undone.
        """
        lines = _lines(digest, history)
        while sum(map(len, lines)) > LARGEST_BYTES // 2 and (history.past or history.future):
            past, future = history.past, history.future
            history = dataclasses.replace(
                history, past=past[len(past) // 2 + 1 :], future=() if not past else future
            )
            lines = _lines(digest, history)
        with replacing(self.path) as file:
            for line in lines:
                file.write(line)
        self._lines = len(lines)

    def append(self, entry: dict[str, Any], digest: str | None, history: EditHistory) -> None:
        """Add one entry, after which the history is `history`."""
        line, is_new = _line(entry), self._lines == 0 or not self.path.is_file()
        size = 0 if is_new else self.path.stat().st_size
        if is_new or self._lines >= MOST_LINES or size + len(line) > LARGEST_BYTES:
            self.write(digest, history)
            return
        with open_in_place(self.path, "ab") as file:
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
        self._lines += 1

    def remove(self) -> None:
        """Nothing is unsaved."""
        self.path.unlink(missing_ok=True)
        self._lines = 0

    def put_aside(self) -> Path:
        """Rename a journal that cannot be read, so that nothing of it is lost."""
        number, aside = 1, self.path.with_name(f"{self.path.name}.damaged")
        while aside.exists():
            number += 1
            aside = self.path.with_name(f"{self.path.name}.damaged-{number}")
        self.path.rename(aside)
        return aside


def _lines(digest: str | None, history: EditHistory) -> list[bytes]:
    """The journal of a history."""
    past = [*history.past, history.present]
    first = {"scrl-studio": FORMAT, "digest": digest, "base": past[0].to_json()}
    pairs = itertools.pairwise([*past, *history.future])
    entries = [first, *({"edit": after.to_json(before)} for before, after in pairs)]
    entries += [{"undo": True} for _ in history.future]
    return [_line(entry) for entry in entries]


def _line(entry: dict[str, Any]) -> bytes:
    return json.dumps(entry, ensure_ascii=False).encode("utf-8") + b"\n"


def _replayed(history: EditHistory, entry: Any) -> EditHistory:
    if "edit" in entry:
        return history.edited(Document.from_json(entry["edit"], history.present))
    if "undo" in entry:
        return history.undone()
    if "redo" in entry:
        return history.redone()
    raise ValueError("an entry that is neither an edit nor undo nor redo")
