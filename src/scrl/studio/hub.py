"""Joins the session, the computations and the windows of the page; still without HTTP.

What computes and draws is imported when it is first needed, so that the page is there sooner.
"""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Any

from scrl.errors import InternalError, ScrlError
from scrl.problems import Problem
from scrl.studio.commands import commands_of
from scrl.studio.document import RuleText
from scrl.studio.errors import StaleEditError, StudioError
from scrl.studio.jobs import DroppedError, IsStale, Jobs
from scrl.studio.leaving import exported, report_page
from scrl.studio.session import Session
from scrl.studio.settings import forms_of

if TYPE_CHECKING:
    from scrl.planning import Answer, Planner
    from scrl.studio.comparing import ShownPlan
    from scrl.studio.training import TrainingDesk

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
        self.training: TrainingDesk | None = None
        self.beside: ShownPlan | None = None
        """What is shown beside the plan."""
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
        if self.training is not None:
            self.training.close()
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
        if self.beside is not None:
            emit("comparison", self.comparison())
        if self.training is not None:
            emit("training", self.training.document())
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
                "settings": forms_of(document.settings),
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
            return {"outlines": None, "whyFixed": str(error)}
        where = session.world().world_spec.regions.georeference
        if where is None:
            raise InternalError("a GeoJSON map has no place")
        return {"outlines": outlines_document(outlines, special, where), "whyFixed": None}

    def edit(self, work: Callable[[], None], seen: int | None = None) -> dict[str, Any]:
        """Edit the problem, unless the page that asks for it saw another version of it."""
        with self.session.lock:
            if seen is not None and seen != self.version:
                raise StaleEditError(
                    "The problem was changed in another window just before: it is shown here as "
                    "it is now. Make your change again if it is still wanted"
                )
            work()
            return self._changed()

    def _changed(self) -> dict[str, Any]:
        """After an edit: count it, tell all windows, and ask for its plan."""
        with self._lock:
            self.version += 1
            self.trouble = None
        self.ask()
        state = self.state()
        self.tell("state", state)
        return state

    # Computations -------------------------------------------------------------------------------

    def estimate(
        self, name: str, number: int, rules: Sequence[RuleText], view: str
    ) -> dict[str, Any]:
        """The fluid estimate for rules that are being dragged; stale requests are dropped."""
        from scrl.studio import answers

        window = self._window(name)
        window.newest = max(window.newest, number)
        self.jobs.drop(PLAN)  # these rules are about to change
        self.jobs.drop(f"trade {name}")
        with window.lock:
            if number < window.newest:
                return {"stale": True}
            began = time.thread_time()
            top = None if self.planned is None else self.planned.document["route"]["top"]
            found = answers.estimate(self.session.problem(rules), top, view)
            return {"number": number, "cpuMs": 1e3 * (time.thread_time() - began), **found}

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
        if self.beside is not None:
            self.tell("comparison", self.comparison())
        self._look_for_training()

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

    # Plans beside each other --------------------------------------------------------------------

    def keep_plan(self) -> None:
        """Keep the present plan, so that the next ones stand beside it."""
        self.put_beside(self._shown(self._present(), "A, kept"))

    def put_beside(self, shown: ShownPlan | None) -> None:
        """Show a plan beside the present one, or none."""
        self.beside = shown
        self.tell("comparison", self.comparison())

    def _shown(self, planned: Planned, label: str) -> ShownPlan:
        from scrl.studio.comparing import ShownPlan
        from scrl.studio.drawing import map_document

        answer, document = planned.answer, planned.document
        return ShownPlan(label, answer.problem, answer.evaluation, document["verdict"],
                         map_document(answer.problem), document["route"])  # fmt: skip

    def comparison(self) -> dict[str, Any]:
        """What is beside the plan, and how the plan differs from it."""
        from scrl.studio.comparing import differences

        if self.beside is None or self.planned is None:
            return {"first": None, "second": None, "tables": {}}
        second = self._shown(self.planned, "B, asked for now")
        return {
            "first": self.beside.to_json(),
            "second": second.to_json(),
            "tables": differences(self.beside, second),
        }

    # Training -----------------------------------------------------------------------------------

    def _desk(self) -> TrainingDesk:
        from scrl.studio.training import TrainingDesk

        with self._lock:
            if self.training is None:
                self.training = TrainingDesk(
                    lambda document: self.tell("training", document), self.put_beside
                )
            return self.training

    def _look_for_training(self) -> None:
        """Show the last training of the folder, once there is a plan to stand beside it."""
        if self.training is None:
            desk, folder = self._desk(), self.session.place.folder
            if folder is not None:
                desk.look(folder)

    def train(self, steps: int | None, seeds: int) -> None:
        """Train for the present problem in a new folder of the opened one."""
        problem = self.session.problem()
        self._desk().start(problem, self.session.training_folder(), steps=steps, seeds=seeds)
        self.tell("state", self.state())  # a built-in problem has been copied

    def resume_training(self) -> None:
        """Go on with a training that was stopped."""
        self._desk().resume()

    def cancel_training(self) -> None:
        """Stop the training after its present round."""
        self._desk().cancel()

    # Edits --------------------------------------------------------------------------------------

    def loosen(self) -> None:
        """Apply the least loosening of the present plan's conflict."""
        planned = self._present()
        relax = planned.answer.reference.relax
        if not relax:
            raise StudioError("there is no loosening to apply")
        self.session.loosen(relax)

    def _present(self) -> Planned:
        if self.planned is None or self.planned.version != self.version:
            raise StudioError("the plan for these rules is not there yet: wait a moment")
        return self.planned

    # Leaving ------------------------------------------------------------------------------------

    def export(self, format_name: str) -> tuple[str, bytes, tuple[str, ...]]:
        """The plan as a file of a format: its name, its content, and warnings about it."""
        return exported(self._known_planner, self._present().answer, format_name)

    def report(self) -> str:
        """The report page of the plan."""
        return report_page(self._known_planner, self._present().answer)

    @property
    def _known_planner(self) -> Planner:
        self._present()
        if self._planner is None:
            raise InternalError("there is a plan, and no planner")
        return self._planner
