"""An opened problem: its document with undo and redo, its journal, and saving. No HTTP here."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any

from scrl.errors import InternalError, ScrlError, check_text
from scrl.files import replacing
from scrl.problems import Problem, ProblemOptions, load, save
from scrl.problems.load import read_toml, with_long_horizon
from scrl.rules import PlacedRuleError, show
from scrl.studio.document import Document, EditHistory, RuleText
from scrl.studio.errors import ChangedOnDiskError, StudioError
from scrl.studio.journal import Journal
from scrl.studio.loosening import loosen
from scrl.studio.maps import SessionMaps
from scrl.studio.naming import switched_off, with_region_renamed
from scrl.studio.outlines import Outlines, Rings
from scrl.studio.place import PROBLEM, TRAINING, ProblemPlace
from scrl.studio.problem_text import read_rules
from scrl.studio.saving import ProblemWriter
from scrl.studio.settings import (
    TABLES,
    keys_of,
    read_settings,
    settings_in_file,
    settings_of_problem,
)
from scrl.worlds.sweep.maps import is_map_name
from scrl.worlds.sweep.spec import SweepRoute, SweepSpec, cell_on_map
from scrl.worlds.sweep.vehicle import Units, Vehicle, Wind

if TYPE_CHECKING:
    from scrl.reference import Loosened

LARGEST_MAP_BYTES = 32_000_000


class Session:
    """One opened problem; every method may be called from any thread."""

    def __init__(self, place: ProblemPlace, problem: Problem) -> None:
        self.place, self.lock = place, RLock()
        self.notices: list[str] = []
        self.maps = SessionMaps(place, problem)
        self._worlds: dict[tuple[object, ...], Problem] = {}
        self.writer = ProblemWriter(place)
        self._open(problem)
        self.history = EditHistory(self.saved)
        if place.trouble is not None:
            self.notices.append(place.trouble)
        self._resume()

    @classmethod
    def open(cls, target: str | None = None) -> Session:
        """The session of a built-in problem, a problem file, a folder or a map."""
        place, problem = ProblemPlace.of(target)
        try:
            return cls(place, problem)
        except BaseException:
            place.release()
            raise

    def close(self) -> None:
        """Leave the folder to others; unsaved edits stay in the journal."""
        self.maps.close()
        self.place.release()

    def _open(self, problem: Problem) -> None:
        """Take a problem as it is on disk."""
        self.name = problem.name
        self.maps.close()
        self.maps, self._worlds = SessionMaps(self.place, problem), {}
        rules, settings = Document.of(problem).rules, settings_of_problem(problem)
        if self.place.file is not None:
            settings = settings_in_file(read_toml(self.place.file), problem.world_spec.vehicle)
            settings["world"]["service"] = problem.world_spec.route.service
            rules = read_rules(self.place.file.read_text(encoding="utf-8"))
        self.saved = Document(rules, settings)
        self.digest = self.place.digest()

    def _resume(self) -> None:
        """Read back unsaved edits of a studio that has ended."""
        path = self.place.journal
        self.journal = None if path is None else Journal(path)
        if self.journal is None:
            return
        try:
            found = self.journal.read()
        except StudioError as error:
            aside = self.journal.put_aside()
            self.notices.append(f"{error}; it was renamed to {aside.name}, and nothing is resumed")
            return
        if found is None:
            return
        digest, self.history = found
        if digest != self.digest:
            self.notices.append(
                "Unsaved changes were resumed, and the problem file has changed since they were "
                "made: saving replaces it, and Reload takes the file instead"
            )
            self.digest = digest
        elif self.is_unsaved:
            self.notices.append("Unsaved changes of the last time were resumed")

    # What there is ------------------------------------------------------------------------------

    @property
    def document(self) -> Document:
        return self.history.present

    @property
    def is_unsaved(self) -> bool:
        return self.document != self.saved

    @property
    def is_changed_on_disk(self) -> bool:
        """Whether the problem file is not the one that was opened or saved here."""
        return self.place.file is not None and self.place.digest() != self.digest

    def world(self, document: Document | None = None) -> Problem:
        """The world of a document without rules; the same object while nothing of it changes."""
        with self.lock:
            document = document or self.document
            drawn = document.outlines and document.outlines.digest
            key = (document.map_name, drawn, repr(document.settings))
            if key not in self._worlds:
                if len(self._worlds) > 3:
                    self._worlds.clear()
                self._worlds[key] = self._made(document)
            return self._worlds[key]

    def _made(self, document: Document) -> Problem:
        route, units = (
            read_settings(part, document.settings, "world") for part in (SweepRoute, Units)
        )
        regions, source = self.maps.of(document, route, units)
        if units.cell is None:
            units = dataclasses.replace(units, cell=cell_on_map(regions, route))
        spec = SweepSpec(
            regions,
            vehicle=read_settings(Vehicle, document.settings, "vehicle"),
            wind=read_settings(Wind, document.settings, "wind"),
            route=route,
            units=units,
        )
        options = read_settings(ProblemOptions, document.settings, "problem")
        options = dataclasses.replace(options, name=options.name or self.name)
        return dataclasses.replace(Problem.create(spec, (), options), source=source)

    def problem(self, rules: Sequence[RuleText] | None = None) -> Problem:
        """The problem with the rules that are on; raises where one cannot be read."""
        document = self.document if rules is None else self.document.with_rules(tuple(rules))
        return self.world(document).with_rules(document.texts)

    def check(self, rules: Sequence[RuleText]) -> list[dict[str, Any]]:
        """For each rule how it is understood, or the message with its place."""
        world, found = self.world(), []
        for rule in rules:
            checked: dict[str, Any] = {"name": rule.name, "error": None, "shown": None}
            try:
                read = world.with_rules({rule.name: rule.text}).rules
                read.clauses  # noqa: B018 (may be large)
                checked["shown"] = show(read.rules[0].formula)
            except ScrlError as error:
                placed = error if isinstance(error, PlacedRuleError) else None
                checked["error"] = {
                    "message": str(error),
                    "line": placed.line if placed else None,
                    "column": placed.column if placed else None,
                }
            found.append(checked)
        return found

    # Changes ------------------------------------------------------------------------------------

    def edit(self, document: Document) -> None:
        """Make a document the present one; its world must be possible, its rules need not be."""
        with self.lock:
            self.world(document)
            entry = {"edit": document.to_json(self.document)}
            self._step(self.history.edited(document), entry)

    def set_rules(self, rules: Sequence[RuleText]) -> None:
        """Replace the rules."""
        self.edit(self.document.with_rules(tuple(rules)))

    def set_value(self, table: str, key: str, value: Any) -> None:
        """Change one setting; None takes its default."""
        if table not in TABLES or key not in keys_of(table):
            raise StudioError(f"there is no setting '{key}' in [{table}]")
        with self.lock:
            settings = {name: dict(values) for name, values in self.document.settings.items()}
            values = settings.setdefault(table, {})
            values.pop(key, None)
            if value is not None:
                values[key] = value
            self.edit(dataclasses.replace(self.document, settings=settings))

    def loosen(self, loosening: Sequence[Loosened]) -> None:
        """Write a loosening into the rules."""
        with self.lock:
            world = self.world()
            rules = loosen(self.document.rules, loosening, world)
            self.set_rules(rules)

    # Regions ------------------------------------------------------------------------------------

    def draw_region(self, name: str, polygons: tuple[Rings, ...]) -> None:
        """Give a region other areas, or draw a new one."""
        with self.lock:
            self._redraw(self.maps.outlines(self.document).with_shape(name, polygons))

    def rename_region(self, name: str, to: str) -> None:
        """Rename a region, in the rules too."""
        with self.lock:
            self._check_not_special(name)
            outlines = self.maps.outlines(self.document).renamed(name, to)
            regions = self.world().world_spec.regions.names
            rules = with_region_renamed(self.document.rules, name, to, regions)
            self._redraw(outlines, rules)

    def delete_region(self, name: str) -> None:
        """Delete a region; rules that name it are switched off."""
        with self.lock:
            self._check_not_special(name)
            self._redraw(self.maps.outlines(self.document).without(name))

    def _check_not_special(self, name: str) -> None:
        if (key := self.maps.special(self.document).get(name)) is not None:
            raise StudioError(
                f"'{name}' is named by {key} in [world] of the problem file: it can be moved, and "
                "not renamed or deleted"
            )

    def _redraw(self, outlines: Outlines, rules: Sequence[RuleText] | None = None) -> None:
        """Show a drawn map; what had to be repaired becomes a notice."""
        before = self.world().world_spec.regions
        document = dataclasses.replace(self.document, outlines=outlines)
        after = self.world(document).world_spec.regions
        given = self.document.rules if rules is None else rules
        kept = switched_off(given, after.names) if before.names != after.names else tuple(given)
        self.edit(dataclasses.replace(document, rules=kept))
        self.notices.extend(text for text in after.warnings if text not in before.warnings)
        self._note_switched_off(given, kept)

    def _note_switched_off(self, before: Sequence[RuleText], after: Sequence[RuleText]) -> None:
        off = [new.name for old, new in zip(before, after, strict=True) if old.is_on != new.is_on]
        if off:
            self.notices.append(
                f"Switched off, since the map has not all regions that they name: {', '.join(off)}"
            )

    # Steps back and forth -----------------------------------------------------------------------

    def undo(self) -> None:
        """Take the last edit back."""
        with self.lock:
            self._step(self.history.undone(), {"undo": True})

    def redo(self) -> None:
        """Make the edit again that was taken back."""
        with self.lock:
            self._step(self.history.redone(), {"redo": True})

    def _step(self, history: EditHistory, entry: dict[str, Any]) -> None:
        if history is self.history:
            return
        if self.place.folder is None and self.place.trouble is None:
            self._copy_builtin()
        if self.journal is not None:
            try:
                self.journal.append(entry, self.digest, history)
            except OSError as error:
                self.notices.append(f"this change is not kept on disk: {error}")
        self.history = history

    def _copy_builtin(self) -> None:
        """Copy a built-in problem into a folder of its own, before its first change."""
        place = self.place
        folder = place.free(place.copy_name)
        try:
            save(self._as_saved(), folder / PROBLEM)
        except OSError as error:
            place.trouble = (
                f"{place.root} cannot be written to ({error.strerror}): changes last only while "
                "this studio runs"
            )
            self.notices.append(place.trouble)
            return
        self._move(folder)
        self.notices.append(f"Copied to the folder {folder.name}, where your changes are kept")

    def _writable_folder(self) -> Path:
        """The folder of the problem; a built-in one is copied first."""
        if self.place.folder is None and self.place.trouble is None:
            self._copy_builtin()
        if self.place.folder is None or self.place.trouble is not None:
            raise StudioError(self.place.trouble or "there is no folder to write to")
        return self.place.folder

    def training_folder(self) -> Path:
        """A new folder for a training, in that of the problem."""
        with self.lock:
            return self.place.free(TRAINING, self._writable_folder())

    def _as_saved(self) -> Problem:
        return self.world(self.saved).with_rules(self.saved.texts)

    def _move(self, folder: Path) -> None:
        """Go on in a folder that has just been written."""
        place = self.place
        place.release()
        place.folder, place.file, place.trouble = folder, folder / PROBLEM, None
        place.hold()
        self.digest = place.digest()
        self.journal = None if place.journal is None else Journal(place.journal)

    # Files --------------------------------------------------------------------------------------

    def open_map(self, name: str, data: bytes) -> None:
        """Copy a map into the opened folder and show it; rules that do not fit are switched off."""
        if not is_map_name(name):
            raise StudioError(f"{name!r:.120} is no map: use GeoJSON, PNG, TIFF or .npy")
        if len(data) > LARGEST_MAP_BYTES:
            raise StudioError(f"a map has at most {LARGEST_MAP_BYTES:,} bytes")
        with self.lock:
            self._check_name(name)
            path = self.place.free(name, self._writable_folder())
            with replacing(path) as file:
                file.write(data)
            try:
                self._show_map(path)
            except BaseException:
                path.unlink(missing_ok=True)
                raise

    def _check_name(self, name: str) -> None:
        check_text(name, "the name of the map", error=StudioError)
        self.place.inside(name, self.place.root)

    def _show_map(self, path: Path) -> None:
        regions, _ = self.maps.file_map(path.name)
        settings = {table: dict(values) for table, values in self.document.settings.items()}
        world = settings.setdefault("world", {})
        world.pop("cell", None)
        document = dataclasses.replace(
            self.document, settings=settings, map_name=path.name, outlines=None
        )
        spec = with_long_horizon(self.world(document).world_spec)
        world["horizon_steps"] = spec.route.horizon_steps
        rules = switched_off(document.rules, regions.names)
        self.edit(dataclasses.replace(document, settings=settings, rules=rules))
        self.notices.extend(regions.warnings)
        self._note_switched_off(document.rules, rules)

    def save(self, *, overwrite: bool = False) -> Path:
        """Write the problem file; a file that was changed on disk only with `overwrite`."""
        with self.lock:
            problem, folder = self._valid(), self._writable_folder()
            if self.is_changed_on_disk and not overwrite:
                raise ChangedOnDiskError(
                    f"{self.place.file} was changed on disk since it was opened here: reload it, "
                    "or save again to replace it"
                )
            if self.place.file is None or not self.place.file.is_file():
                file = self.place.file or self.place.free(PROBLEM, folder)
                self.writer.write_new(file, problem, self.document)
                self.place.file = file
            else:
                spec = self.world(self.document).world_spec
                self.writer.rewrite(self.place.file, self.document, self.saved, self.maps, spec)
            return self._after_saving()

    def _after_saving(self) -> Path:
        self.saved, self.digest = self.document, self.place.digest()
        if self.journal is not None:
            self.journal.remove()
        self.journal = None if self.place.journal is None else Journal(self.place.journal)
        if self.place.file is None:
            raise InternalError("saved, and there is no file")
        return self.place.file

    def save_as(self, name: str) -> Path:
        """Write a new problem folder in the opened one, and go on there."""
        with self.lock:
            problem = self._valid()
            folder = self.place.inside(name, self.place.root)
            if folder.exists() or folder.is_symlink():
                raise StudioError(f"{name} exists already; choose another name")
            self.writer.write_new(folder / PROBLEM, problem, self.document)
            if self.journal is not None:
                self.journal.remove()
            self._move(folder)
            return self._after_saving()

    def _valid(self) -> Problem:
        try:
            return self.problem()
        except ScrlError as error:
            raise StudioError(f"mend this rule or switch it off, then save: {error}") from None

    def reload(self) -> None:
        """Take the file as it is on disk; this can be undone like an edit."""
        with self.lock:
            if self.place.file is None:
                raise StudioError("there is no problem file to reload")
            self._open(load(self.place.file))
            self.history = self.history.edited(self.saved)
            if self.journal is not None:
                self.journal.remove()
