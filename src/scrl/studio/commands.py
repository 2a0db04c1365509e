"""The commands that do without a page what the page shows."""

from __future__ import annotations

import dataclasses
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from scrl.studio.document import Document
from scrl.studio.place import PROBLEM

if TYPE_CHECKING:
    from scrl.studio.session import Session


def commands_of(session: Session) -> list[str]:
    """Commands that find, draw and export the plan on the page; none for unsaved settings."""
    document, saved = session.document, session.saved
    target = _target(session)
    ask = ["scrl", "ask", target]
    if dataclasses.replace(document, rules=()) != dataclasses.replace(saved, rules=()):
        return []
    if not document.texts:
        return []
    if document.texts != saved.texts:
        ask.append((";\n" if _has_comment(document) else "; ").join(document.texts.values()))
    lines = [
        [*ask, "--out", "plan"],
        ["scrl", "report", "plan"],
        ["scrl", "export", "plan", "--format", "geojson"],
    ]
    if document.texts == saved.texts:
        lines += [["scrl", "solve", target], ["scrl", "train", target]]
    return [shlex.join(words) for words in lines]


def _target(session: Session) -> str:
    """What is opened, as a command names it."""
    place = session.place
    if place.folder is None:
        return place.copy_name
    path = place.file or place.folder
    if place.file is None and (source := session.maps.file_map(None)[1]) is not None:
        path = source.path.resolve()
    if path.name == PROBLEM:
        path = path.parent
    try:
        return f"./{path.relative_to(Path.cwd())}"
    except ValueError:
        return str(path)


def _has_comment(document: Document) -> bool:
    return any("#" in text for text in document.texts.values())
