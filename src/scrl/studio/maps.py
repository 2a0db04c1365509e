"""The maps of a session: the problem's own, those that were dropped in, and those drawn here."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

from scrl.errors import MapError
from scrl.files import replacing
from scrl.problems import MapSource, Problem, load
from scrl.problems.load import regions_of
from scrl.studio.document import Document
from scrl.studio.errors import StudioError
from scrl.studio.outlines import Outlines, options_of_drawing, read_outlines, special_names
from scrl.studio.place import ProblemPlace
from scrl.worlds.sweep.regions import RegionMap
from scrl.worlds.sweep.spec import SweepRoute
from scrl.worlds.sweep.vehicle import Units

MOST_DRAWN_FILES = 20


class SessionMaps:
    """Which map a document has, and where its file is."""

    def __init__(self, place: ProblemPlace, problem: Problem) -> None:
        self.place = place
        self._read: dict[str | None, tuple[RegionMap, MapSource | None]] = {
            None: (problem.world_spec.regions, problem.source)
        }
        self._outlines: dict[str | None, Outlines] = {}
        self._drawn: dict[str, Path] = {}
        self._folder: TemporaryDirectory[str] | None = None

    def close(self) -> None:
        """Remove the files of drawn maps that were not saved."""
        if self._folder is not None:
            self._folder.cleanup()
        self._folder, self._drawn = None, {}

    def file_map(self, name: str | None) -> tuple[RegionMap, MapSource | None]:
        """The map of a file of the opened folder, or the problem's own for None."""
        if name not in self._read and name is not None:
            opened = load(self.place.inside(name, self.place.folder or self.place.root))
            self._read[name] = opened.world_spec.regions, opened.source
        return self._read[name]

    def of(
        self, document: Document, route: SweepRoute, units: Units
    ) -> tuple[RegionMap, MapSource | None]:
        """The map of a document and the file that it is in."""
        regions, source = self.file_map(document.map_name)
        if document.outlines is None:
            if source is not None and _depends(source):
                regions = regions_of(source, route, units)
            return regions, source
        drawn = self.drawn_source(document)
        try:
            made = regions_of(drawn, route, units)
        except MapError as error:
            raise StudioError(str(error).removeprefix(f"{drawn.path}: ")) from None
        as_opened = self.outlines(dataclasses.replace(document, outlines=None))
        left_out = set(as_opened.names) - set(regions.names)  # already where the map was opened
        known = {*made.names, *special_names(drawn.options), *left_out}
        for name in document.outlines.names:
            if name not in known:
                why = "; ".join(made.warnings) or "it has no area"
                raise StudioError(f"region '{name}' cannot be like this: {why}")
        return made, drawn

    def drawn_source(self, document: Document) -> MapSource:
        """The file of a drawn map, in a folder that ends with the session."""
        source, outlines = self._editable(document), document.outlines
        if outlines is None:
            raise StudioError("this map was not drawn here")
        if outlines.digest not in self._drawn:
            self._folder = self._folder or TemporaryDirectory(prefix="scrl-studio-")
            folder = Path(self._folder.name) / outlines.digest
            folder.mkdir(exist_ok=True)
            path = folder / f"{source.path.stem}.geojson"
            with replacing(path) as file:
                file.write(outlines.text().encode("utf-8"))
            self._drawn[outlines.digest] = path
            while len(self._drawn) > MOST_DRAWN_FILES:
                shutil.rmtree(self._drawn.pop(next(iter(self._drawn))).parent, ignore_errors=True)
        path = self._drawn[outlines.digest] = self._drawn.pop(outlines.digest)  # the newest
        return dataclasses.replace(source, path=path, options=options_of_drawing(source.options))

    def _editable(self, document: Document) -> MapSource:
        source = self.file_map(document.map_name)[1]
        if source is None:
            raise StudioError("This map has no file, so that its regions cannot be edited here.")
        return source

    def outlines(self, document: Document) -> Outlines:
        """The polygons of a document's map; raises where they cannot be edited."""
        if document.outlines is not None:
            return document.outlines
        if document.map_name not in self._outlines:
            source = self._editable(document)
            self._outlines[document.map_name] = read_outlines(source.path, source.options)
        return self._outlines[document.map_name]

    def special(self, document: Document) -> dict[str, str]:
        """Shapes that the problem file names as its field or as forbidden, with the key."""
        return dict(special_names(self._editable(document).options))


def _depends(source: MapSource) -> bool:
    """Whether the cells of a map depend on the length of a cell and on the swath."""
    options = source.options
    return bool(source.keep_out or options.forbidden_buffer or options.angle)
