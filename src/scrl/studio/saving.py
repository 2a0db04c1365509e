"""Writes a document as a problem file, with the map that was drawn for it."""

from __future__ import annotations

import dataclasses
import tomllib
from pathlib import Path
from typing import Any

from scrl.files import replacing
from scrl.problems import Problem, save
from scrl.problems.quantities import as_written, toml_value
from scrl.problems.save import changed_fields, copy
from scrl.studio.document import Document
from scrl.studio.errors import StudioError
from scrl.studio.maps import SessionMaps
from scrl.studio.place import ProblemPlace
from scrl.studio.problem_text import with_rules, with_values
from scrl.studio.settings import TABLES, field_names, keys_of
from scrl.worlds.sweep.maps import MapOptions
from scrl.worlds.sweep.spec import SweepSpec


class ProblemWriter:
    """Writes problem files for one session."""

    def __init__(self, place: ProblemPlace) -> None:
        self.place = place
        self.drawn_file: Path | None = None
        """The file that drawings are saved to: one in each session."""

    def rewrite(
        self, file: Path, document: Document, saved: Document, maps: SessionMaps, spec: SweepSpec
    ) -> None:
        """Change a problem file to a document, and keep the rest of it, such as its comments."""
        text = file.read_text(encoding="utf-8")
        for table in TABLES:
            values, known = dict(document.settings.get(table, {})), keys_of(table)
            map_of = (document.map_name, document.outlines)
            if table == "world" and map_of != (saved.map_name, saved.outlines):
                values |= self._map_values(document, maps, file.parent)
                known += ["map", *field_names(MapOptions)]
            if table == "vehicle":
                values = as_written(spec, values, tomllib.loads(text).get(table, {}))
            text = with_values(text, table, values, known)
        _write(file, with_rules(text, document.rules))

    def _map_values(self, document: Document, maps: SessionMaps, folder: Path) -> dict[str, Any]:
        """The keys of a problem file that name a map and say how it is read."""
        source = maps.file_map(document.map_name)[1]
        if source is None:
            raise StudioError("this map has no file: use Save as, which writes one")
        path = source.path.resolve()
        is_below = path.is_relative_to(folder.resolve())
        name = path.relative_to(folder.resolve()).as_posix() if is_below else path.name
        if document.outlines is not None:
            source = maps.drawn_source(document)
            name = self._keep_drawing(source.path, folder)
        options = changed_fields(source.options, MapOptions())
        return {"map": name, **{key: toml_value(value) for key, value in options}}

    def _keep_drawing(self, drawn: Path, folder: Path) -> str:
        """Copy a drawn map into the folder; no map that was there before is replaced."""
        if self.drawn_file is None or self.drawn_file.parent != folder:
            self.drawn_file = self.place.free(drawn.name, folder)
        copy(drawn, self.drawn_file)
        return self.drawn_file.name

    def write_new(self, file: Path, problem: Problem, document: Document) -> None:
        """Write a new problem file, with its map and with the rules that are switched off."""
        source = problem.source
        if document.outlines is not None and source is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            name = self._keep_drawing(source.path, file.parent)
            source = dataclasses.replace(source, path=file.parent / name)
        save(dataclasses.replace(problem, source=source), file)
        if any(not rule.is_on for rule in document.rules):
            _write(file, with_rules(file.read_text(encoding="utf-8"), document.rules))


def _write(path: Path, text: str) -> None:
    with replacing(path) as file:
        file.write(text.encode("utf-8"))
