"""Joins the session, the computations and the windows of the page; still without HTTP.

What computes and draws is imported when it is first needed, so that the page is there sooner.
"""

from __future__ import annotations

import dataclasses
import itertools
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Any

from scrl.errors import InternalError, ScrlError
from scrl.problems import Problem
from scrl.settings import settings_of
from scrl.studio.commands import commands_of
from scrl.studio.document import RuleText
from scrl.studio.errors import StudioError
from scrl.studio.jobs import DroppedError, IsStale, Jobs
from scrl.studio.session import Session
from scrl.studio.settings import TABLES

if TYPE_CHECKING:
    from scrl.planning import Answer, Planner

MOST_WINDOWS = 16
WATCH_EVERY_S = 1.0
"""How often the problem file is looked at."""
PLAN = "plan"

Emit = Callable[[str, Any], None]
"""Sends an event with its data to a window."""


@dataclass(eq=False)
class Window:
    """One open page."""

    name: str
    emit: Emit
    lock: Lock = field(default_factory=Lock)
    """Held while an estimate for this window is computed."""
    newest: int = 0
    """The number of its newest request for an estimate; older ones are dropped."""


@dataclass(frozen=True)
class Planned:
    """A plan, and the version of the document that it is for."""

    version: int
    answer: Answer
    document: dict[str, Any]


class Hub:
    """Everything that a page can ask for."""

    def __init__(self, session: Session) -> None:
        self.session, self.jobs = session, Jobs()
        self.windows: dict[str, Window] = {}
        self.planned: Planned | None = None
        self.version = 0
        self.trouble: str | None = None
        """Why there is no plan for the present document."""
        self._lock = Lock()
        self._planner: Planner | None = None
        self._ended = Event()
        self._drawn: tuple[Problem, str, dict[str, Any] | None] | None = None
        self._numbers = itertools.count(1)
        self._was_changed = False
        Thread(target=self._watch, name="studio-disk", daemon=True).start()

    def close(self) -> None:
        """End all work; unsaved edits stay in the journal."""
        self._ended.set()
        self.jobs.close()
        self.session.close()

    # Windows ------------------------------------------------------------------------------------

    def join(self, name: str, emit: Emit) -> Window:
        """A window that receives events from now on, beginning with the present state."""
        with self._lock:
            if name not in self.windows and len(self.windows) >= MOST_WINDOWS:
                raise StudioError(f"{MOST_WINDOWS} windows are open already: close one of them")
            window = self.windows[name] = Window(name, emit)
        emit("state", self.state())
        if self.planned is not None:
            emit("plan", self._planned_event(self.planned))
        if self.planned is None or self.planned.version != self.version:
            self.ask()
        return window

    def part(self, window: Window) -> None:
        """A window that was closed; what only it waits for is dropped."""
        with self._lock:
            if self.windows.get(window.name) is window:
                del self.windows[window.name]
                self.jobs.drop(f"trade {window.name}")

    def tell(self, event: str, data: Any) -> None:
        """Send an event to every window."""
        with self._lock:
            windows = list(self.windows.values())
        for window in windows:
            window.emit(event, data)

    def _watch(self) -> None:
        """Tell the windows when the problem file is changed by someone else."""
        while not self._ended.wait(WATCH_EVERY_S):
            try:
                is_changed = self.session.is_changed_on_disk
            except OSError:
                continue
            if is_changed != self._was_changed:
                self._was_changed = is_changed
                self.tell("state", self.state())

    # State --------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """The document and everything about it that needs no computation."""
        session = self.session
        with session.lock:
            world, document, place = session.world(), session.document, session.place
            notices, session.notices[:] = list(session.notices), []
            return {
                "version": self.version,
                "name": world.name,
                "description": world.options.description,
                "returnText": world.return_text,
                "document": {"rules": [rule.to_json() for rule in document.rules]},
                "check": session.check(document.rules),
                "warnings": self._warnings(),
                "map": self._map_name(),
                "canUndo": bool(session.history.past),
                "canRedo": bool(session.history.future),
                "isUnsaved": session.is_unsaved,
                "isChangedOnDisk": session.is_changed_on_disk,
                "place": str(place.file or place.folder or ""),
                "isKept": place.trouble is None,
                "notices": notices,
                "commands": commands_of(session),
                "settings": _forms(document.settings),
                "trouble": self.trouble,
            }

    def _warnings(self) -> list[str]:
        """What is allowed in the rules and probably not intended."""
        try:
            return list(self.session.problem().rules.warnings())
        except ScrlError:  # the check says what is wrong
            return []

    def _map_name(self) -> str:
        """A name for the drawing of the present world; another world has another one."""
        world = self.session.world()
        if self._drawn is None or self._drawn[0] is not world:
            self._drawn = world, f"m{next(self._numbers)}", None
        return self._drawn[1]

    def map(self) -> dict[str, Any]:
        """The drawing of the present map, and the formats that its plans are exported to."""
        from scrl.export import ROUTE_FORMATS
        from scrl.studio.drawing import map_document

        with self.session.lock:
            name, world = self._map_name(), self.session.world()
            drawn = None if self._drawn is None else self._drawn[2]
            if drawn is None:
                formats = {name: each.sentence for name, each in ROUTE_FORMATS.items()}
                drawn = {"id": name, "formats": formats, **map_document(world), **self._drawable()}
                self._drawn = world, name, drawn
            return drawn

    def _drawable(self) -> dict[str, Any]:
        """The polygons that can be edited, or why they cannot."""
        from scrl.studio.drawing import outlines_document

        session = self.session
        try:
            outlines = session.maps.outlines(session.document)
            special = session.maps.special(session.document)
        except ScrlError as error:
            return {"outlines": None, "isFixed": str(error)}
        where = session.world().world_spec.regions.georeference
        if where is None:
            raise InternalError("a GeoJSON map has no place")
        return {"outlines": outlines_document(outlines, special, where), "isFixed": None}

    def changed(self) -> dict[str, Any]:
        """After an edit: count it, tell all windows, and ask for its plan."""
        with self._lock:
            self.version += 1
            self.trouble = None
        self.ask()
        state = self.state()
        self.tell("state", state)
        return state

    # Computations -------------------------------------------------------------------------------

    def estimate(self, name: str, number: int, rules: Sequence[RuleText]) -> dict[str, Any]:
        """The fluid estimate for rules that are being dragged; stale requests are dropped."""
        from scrl.studio import answers

        window = self._window(name)
        window.newest = max(window.newest, number)
        self.jobs.drop(PLAN)  # these rules are about to change
        self.jobs.drop(f"trade {name}")
        with window.lock:
            if number < window.newest:
                return {"stale": True}
            top = None if self.planned is None else self.planned.document["route"]["top"]
            return {"number": number, **answers.estimate(self.session.problem(rules), top)}

    def _window(self, name: str) -> Window:
        with self._lock:
            if name not in self.windows:
                raise StudioError("this page is not connected any more: load it again")
            return self.windows[name]

    def ask(self) -> None:
        """Find the plan of the present document in the background."""
        version = self.version
        self.jobs.submit(PLAN, lambda is_stale: self._plan(version, is_stale))

    def _plan(self, version: int, is_stale: IsStale) -> None:
        session = self.session
        self.tell("progress", {"version": version, "text": "loading the planner"})
        from scrl.planning import planner
        from scrl.studio import answers

        def watch(text: str) -> None:
            if is_stale():
                raise DroppedError
            self.tell("progress", {"version": version, "text": text})

        try:
            with session.lock:
                world, texts = session.world(), session.document.texts
            watch("planning")
            if self._planner is None:
                self._planner = planner()
            answer = self._planner.ask(world, texts, watch=watch)
            watch("drawing")
            planned = Planned(version, answer, answers.plan_document(answer))
        except ScrlError as error:
            self._failed(version, str(error), is_stale)
            return
        if is_stale():
            return
        self.planned, self.trouble = planned, None
        self.tell("plan", self._planned_event(planned))

    def _failed(self, version: int, message: str, is_stale: IsStale) -> None:
        if not is_stale():
            self.trouble = message
            self.tell("trouble", {"version": version, "message": message})

    def _planned_event(self, planned: Planned) -> dict[str, Any]:
        return {"version": planned.version, **planned.document}

    def trade(self, name: str, rule: str, start: int) -> None:
        """Compute the trade-off of one number of a rule, point by point, for one window."""
        from scrl.studio import answers

        window = self._window(name)
        rules = self.session.document.rules
        index = next((at for at, each in enumerate(rules) if each.name == rule), None)
        if index is None:
            raise StudioError(f"there is no rule '{rule:.100}'")
        span = answers.number_at(rules[index].text, start)
        about = {"rule": rule, "start": start, "version": self.version}

        def work(is_stale: IsStale) -> None:
            points: list[tuple[float, float | None]] = []
            on = [dataclasses.replace(each, is_on=each.is_on or at == index)
                  for at, each in enumerate(rules)]  # fmt: skip
            try:
                for point in answers.trade_points(self.session.problem, on, index, span):
                    if is_stale():
                        return
                    points.append(point)
                    window.emit("trade", {**about, "points": points, "done": False})
                window.emit("trade", {**about, "points": points, "done": True})
            except ScrlError as error:
                window.emit("trade", {**about, "points": points, "error": str(error)})

        self.jobs.submit(f"trade {name}", work)

    # Edits --------------------------------------------------------------------------------------

    def loosen(self) -> dict[str, Any]:
        """Apply the least loosening of the present plan's conflict."""
        planned = self._present()
        relax = planned.answer.reference.relax
        if not relax:
            raise StudioError("there is no loosening to apply")
        self.session.loosen(relax)
        return self.changed()

    def _present(self) -> Planned:
        if self.planned is None or self.planned.version != self.version:
            raise StudioError("the plan for these rules is not there yet: wait a moment")
        return self.planned

    # Leaving ------------------------------------------------------------------------------------

    def export(self, format_name: str) -> tuple[str, bytes, tuple[str, ...]]:
        """The plan as a file of a format: its name, its content, and warnings about it."""
        from scrl.export import ROUTE_FORMATS, ExportError, export
        from scrl.opening import open_run

        if format_name not in ROUTE_FORMATS:
            raise ExportError(f"unknown format '{format_name:.60}'")
        answer = self._present().answer
        with tempfile.TemporaryDirectory(prefix="scrl-studio-") as folder:
            run, file = Path(folder) / "plan", Path(folder) / ROUTE_FORMATS[format_name].file_name
            self._keep(answer, run)
            written = export(open_run(run), format_name, file)
            return file.name, file.read_bytes(), written.warnings

    def report(self) -> str:
        """The report page of the plan."""
        from scrl.report.page import page_text
        from scrl.report.reading import read_runs

        answer = self._present().answer
        with tempfile.TemporaryDirectory(prefix="scrl-studio-") as folder:
            run = Path(folder) / "plan"
            self._keep(answer, run)
            return page_text(read_runs([run]))

    def _keep(self, answer: Answer, run: Path) -> None:
        if self._planner is None:
            raise InternalError("there is a plan, and no planner")
        self._planner.keep(answer, run)


def _forms(settings: Any) -> list[dict[str, Any]]:
    """The settings as fields of forms: value, default, sentence, unit and range."""
    return [
        {
            "table": table, "key": each.name, "type": str(each.type),
            "value": settings.get(table, {}).get(each.name), "default": each.default,
            "sentence": known.sentence, "unit": known.unit, "choices": list(known.choices),
            "range": known.range_text(),
        }
        for table, parts in TABLES.items()
        for part in parts
        for each, known in settings_of(part)
    ]  # fmt: skip
