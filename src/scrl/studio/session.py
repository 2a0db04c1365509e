"""An opened problem: its document with undo and redo, its journal, and saving. No HTTP here."""

from __future__ import annotations

import dataclasses
import shlex
import tomllib
from collections.abc import Sequence
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any

from scrl.errors import InternalError, ScrlError, check_text
from scrl.files import replacing
from scrl.problems import MapSource, Problem, ProblemOptions, load, save
from scrl.problems.load import read_toml, with_long_horizon
from scrl.problems.quantities import KINDS, as_written
from scrl.problems.save import changed_fields
from scrl.rules import PlacedRuleError, Rule, show
from scrl.rules.show import TOTALS, dose_name
from scrl.studio.document import Document, EditHistory, RuleText, Settings, StudioError
from scrl.studio.journal import Journal, JournalHead
from scrl.studio.loosening import loosen
from scrl.studio.place import PROBLEM, ProblemPlace
from scrl.studio.problem_text import read_rules, with_rules, with_values
from scrl.worlds.sweep.maps import MapOptions, is_map_name
from scrl.worlds.sweep.regions import RegionMap
from scrl.worlds.sweep.spec import SweepRoute, SweepSpec, cell_on_map
from scrl.worlds.sweep.vehicle import Units, Vehicle, Wind

if TYPE_CHECKING:
    from scrl.reference import Loosened

TABLES: dict[str, tuple[type[Any], ...]] = {
    "problem": (ProblemOptions,),
    "world": (SweepRoute, Units),
    "vehicle": (Vehicle,),
    "wind": (Wind,),
}
"""The settings classes behind the tables of a problem file."""
LARGEST_MAP_BYTES = 32_000_000


class ChangedOnDiskError(StudioError):
    """The problem file is not the one that was opened."""


class Session:
    """One opened problem; every method may be called from any thread."""

    def __init__(self, place: ProblemPlace, problem: Problem) -> None:
        self.place, self.lock = place, RLock()
        self.notices: list[str] = []
        self._maps: dict[str | None, tuple[RegionMap, MapSource | None]] = {}
        self._worlds: dict[str, Problem] = {}
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
        self.place.release()

    def _open(self, problem: Problem) -> None:
        """Take a problem as it is on disk."""
        self.name = problem.name
        self._maps = {None: (problem.world_spec.regions, problem.source)}
        self._worlds = {}
        rules, settings = Document.of(problem).rules, _settings_of(problem)
        if self.place.file is not None:
            settings = _settings_in(read_toml(self.place.file), problem.world_spec.vehicle)
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
        head, self.history = found
        if head.digest != self.digest:
            self.notices.append(
                "Unsaved changes were resumed, and the problem file has changed since they were "
                "made: saving replaces it, and Reload takes the file instead"
            )
            self.digest = head.digest
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
            key = repr((document.map_name, document.settings))
            if key not in self._worlds:
                if len(self._worlds) > 3:
                    self._worlds.clear()
                self._worlds[key] = self._made(document)
            return self._worlds[key]

    def _made(self, document: Document) -> Problem:
        regions, source = self._map(document.map_name)
        route, units = (_read(part, document.settings, "world") for part in (SweepRoute, Units))
        if units.cell is None:
            units = dataclasses.replace(units, cell=cell_on_map(regions, route))
        spec = SweepSpec(
            regions,
            vehicle=_read(Vehicle, document.settings, "vehicle"),
            wind=_read(Wind, document.settings, "wind"),
            route=route,
            units=units,
        )
        options = _read(ProblemOptions, document.settings, "problem")
        options = dataclasses.replace(options, name=options.name or self.name)
        return dataclasses.replace(Problem.create(spec, (), options), source=source)

    def _map(self, name: str | None) -> tuple[RegionMap, MapSource | None]:
        if name not in self._maps and name is not None:
            opened = load(self._in_folder(name))
            self._maps[name] = opened.world_spec.regions, opened.source
        return self._maps[name]

    def _in_folder(self, name: str) -> Path:
        return self.place.inside(name, self.place.folder or self.place.root)

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
            self._step(self.history.edited(document), {"edit": document.to_json()})

    def set_rules(self, rules: Sequence[RuleText]) -> None:
        """Replace the rules."""
        self.edit(self.document.with_rules(tuple(rules)))

    def set_value(self, table: str, key: str, value: Any) -> None:
        """Change one setting; None takes its default."""
        if table not in TABLES or key not in _keys(table):
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
            head = JournalHead(self.saved, self.digest)
            try:
                self.journal.append(entry, head, history)
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
        regions, _ = self._map(path.name)
        settings = {table: dict(values) for table, values in self.document.settings.items()}
        world = settings.setdefault("world", {})
        world.pop("cell", None)
        document = dataclasses.replace(self.document, settings=settings, map_name=path.name)
        spec = with_long_horizon(self.world(document).world_spec)
        world["horizon_steps"] = spec.route.horizon_steps
        rules = (
            dataclasses.replace(rule, is_on=rule.is_on and _fits(rule, regions.names))
            for rule in document.rules
        )
        self.edit(dataclasses.replace(document, settings=settings, rules=tuple(rules)))
        self.notices.extend(regions.warnings)

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
                self._write_new(problem, self.place.file or self.place.free(PROBLEM, folder))
            else:
                self._rewrite(self.place.file)
            return self._after_saving()

    def _rewrite(self, file: Path) -> None:
        text = file.read_text(encoding="utf-8")
        document = self.document
        for table in TABLES:
            values, known = dict(document.settings.get(table, {})), _keys(table)
            if table == "world" and document.map_name != self.saved.map_name:
                values |= self._map_values(document.map_name)
                known += ["map", *_names(MapOptions)]
            if table == "vehicle":
                spec, before = self.world(document).world_spec, tomllib.loads(text).get(table, {})
                values = as_written(spec, values, before)
            text = with_values(text, table, values, known)
        _write(file, with_rules(text, document.rules))

    def _map_values(self, name: str | None) -> dict[str, Any]:
        """The keys of a problem file that name a map and say how it is read."""
        _, source = self._map(name)
        if source is None:
            raise StudioError("this map has no file: use Save as, which writes one")
        options = changed_fields(source.options, MapOptions())
        return {"map": source.path.name, **{key: _plain(value) for key, value in options}}

    def _write_new(self, problem: Problem, file: Path) -> None:
        save(problem, file)
        if any(not rule.is_on for rule in self.document.rules):
            _write(file, with_rules(file.read_text(encoding="utf-8"), self.document.rules))
        self.place.file = file

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
            self._write_new(problem, folder / PROBLEM)
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

    # How to do the same without a page ----------------------------------------------------------

    def commands(self) -> list[str]:
        """Commands that find, draw and export the plan on the page; none for unsaved settings."""
        document, saved = self.document, self.saved
        target = self._target()
        ask = ["scrl", "ask", target]
        if dataclasses.replace(document, rules=()) != dataclasses.replace(saved, rules=()):
            return []
        if not document.texts:
            return []
        if document.texts != saved.texts:
            ask.append(";\n".join(document.texts.values()) if _has_comment(document) else
                       "; ".join(document.texts.values()))  # fmt: skip
        lines = [
            [*ask, "--out", "plan"],
            ["scrl", "report", "plan"],
            ["scrl", "export", "plan", "--format", "geojson"],
        ]
        if document.texts == saved.texts:
            lines += [["scrl", "solve", target], ["scrl", "train", target]]
        return [shlex.join(words) for words in lines]

    def _target(self) -> str:
        if self.place.folder is None:
            return self.place.copy_name
        path = self.place.file or self.place.folder
        if self.place.file is None and (source := self._map(None)[1]) is not None:
            path = source.path.resolve()
        if path.name == PROBLEM:
            path = path.parent
        try:
            return f"./{path.relative_to(Path.cwd())}"
        except ValueError:
            return str(path)


def _has_comment(document: Document) -> bool:
    return any("#" in text for text in document.texts.values())


def _names(part: Any) -> list[str]:
    return [each.name for each in dataclasses.fields(part)]


def _keys(table: str) -> list[str]:
    return [name for part in TABLES[table] for name in _names(part)]


def _plain(value: Any) -> Any:
    """A value as TOML gives it back."""
    return [_plain(each) for each in value] if isinstance(value, tuple) else value


def _settings_of(problem: Problem) -> dict[str, dict[str, Any]]:
    """The settings of a problem that differ from their defaults, and its service."""
    spec = problem.world_spec
    units = spec.units
    if units.cell == cell_on_map(spec.regions, spec.route):
        units = dataclasses.replace(units, cell=None)
    world = {
        "service": spec.route.service,
        **dict(changed_fields(spec.route, SweepRoute())),
        **dict(changed_fields(units, Units())),
    }
    return {
        "problem": dict(changed_fields(problem.options, ProblemOptions())),
        "world": world,
        "vehicle": dict(changed_fields(spec.vehicle, Vehicle())),
        "wind": dict(changed_fields(spec.wind, Wind())),
    }


def _settings_in(tables: dict[str, Any], vehicle: Vehicle) -> dict[str, dict[str, Any]]:
    """The settings that a problem file gives, without those of its map.

    Quantities with units are those of the vehicle, in cells and steps.
    """
    found = {}
    for table in TABLES:
        values = tables.get(table, {})
        found[table] = {key: values[key] for key in _keys(table) if key in values}
    quantities = {key: _plain(getattr(vehicle, key)) for key in found["vehicle"] if key in KINDS}
    found["vehicle"].update(quantities)
    return found


def _read(part: type[Any], settings: Settings, table: str) -> Any:
    values = settings.get(table, {})
    try:
        return part(**{key: values[key] for key in _names(part) if key in values})
    except ScrlError as error:
        raise StudioError(f"[{table}] {error}") from None


def _fits(rule: RuleText, regions: Sequence[str]) -> bool:
    try:
        known = dict.fromkeys([*TOTALS, *map(dose_name, regions)])
        Rule.read(rule.name, rule.text, regions, known)
    except ScrlError:
        return False
    return True


def _write(path: Path, text: str) -> None:
    with replacing(path) as file:
        file.write(text.encode("utf-8"))
