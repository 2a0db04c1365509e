"""Training for the problem on the page: started, watched, stopped and resumed."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from threading import Event, Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from scrl.errors import ScrlError
from scrl.problems import Problem
from scrl.studio.comparing import ShownPlan
from scrl.studio.errors import StudioError
from scrl.studio.jobs import IsStale, Jobs
from scrl.studio.place import TRAINING

if TYPE_CHECKING:
    from scrl.training.progress import TrainingProgress
    from scrl.training.run import TrainingRun

MOST_POINTS = 300
TELL_EVERY_S = 0.2
END_WITHIN_S = 5.0
"""How long the end of the studio waits for a checkpoint."""


class TrainingDesk:
    """One training at a time, in a thread of its own beside the planning."""

    def __init__(
        self, tell: Callable[[dict[str, Any]], None], done: Callable[[ShownPlan], None]
    ) -> None:
        self.jobs = Jobs("studio-training")
        self.tell, self.done = tell, done
        self.status = "none"
        """`none`, `running`, `stopping`, `stopped`, `finished` or `failed`."""
        self.text = ""
        self.run: Path | None = None
        self.points: list[tuple[int, float, float]] = []
        """Some rounds with the mean return and the mean violation of the seeds after them."""
        self._every = 1
        self._stop, self._lock = Event(), Lock()
        self._told_s = 0.0

    def document(self) -> dict[str, Any]:
        """What the page shows of it."""
        run = None if self.run is None else self.run.name
        return {"status": self.status, "text": self.text, "run": run, "points": self.points}

    def _say(self, status: str, text: str = "") -> None:
        self.status, self.text = status, text
        self.tell(self.document())

    # What a person does -------------------------------------------------------------------------

    def start(self, problem: Problem, path: Path, *, steps: int | None, seeds: int) -> None:
        """Train from the start in a new folder."""
        self._begin()
        self.run, self.points, self._every = path, [], 1
        self._say("running", "compiling")
        self._submit(lambda: _created(problem, path, steps=steps, seeds=seeds))

    def resume(self) -> None:
        """Go on from the last checkpoint."""
        if (path := self.run) is None or self.status not in ("stopped", "failed"):
            raise StudioError("there is no training to resume")
        self._begin()
        self._say("running", "compiling")
        self._submit(lambda: _opened(path))

    def cancel(self) -> None:
        """Stop after the round under way, with a checkpoint."""
        if self.status == "running":
            self._say("stopping", "stops after this round, and is saved")
            self._stop.set()

    def look(self, folder: Path) -> None:
        """Find the newest training of the opened folder, in the background."""
        runs = (each for each in folder.glob(f"{TRAINING}*/run.json") if _is_inside(each))
        found = sorted(runs, key=lambda each: each.stat().st_mtime_ns)
        if found:
            self.run = found[-1].parent
            self.jobs.submit("look", lambda _: self._found(found[-1].parent))

    def close(self) -> None:
        """End soon, with a checkpoint where that is quick."""
        self.jobs.close()
        self.jobs.join(END_WITHIN_S)

    def _begin(self) -> None:
        """Become the one that is running; raise where there is one."""
        with self._lock:
            if self.status in ("running", "stopping"):
                raise StudioError("a training is running already: stop it first")
            self.status = "running"

    # In the thread ------------------------------------------------------------------------------

    def _submit(self, make: Callable[[], TrainingRun]) -> None:
        self._stop.clear()
        self.jobs.submit(TRAINING, lambda is_stale: self._train(make, is_stale))

    def _train(self, make: Callable[[], TrainingRun], is_stale: IsStale) -> None:
        from scrl.training.loop import InterruptedTrainingError
        from scrl.training.maps import train_side_by_side

        try:
            train_side_by_side(
                [make()], self._watch, is_stopped=lambda: self._stop.is_set() or is_stale()
            )
        except InterruptedTrainingError:
            self._say("stopped", "stopped, with everything saved")
            return
        except (ScrlError, OSError) as error:
            self._say("failed", str(error))
            return
        except Exception as error:
            self._say("failed", str(error) or type(error).__name__)
            raise
        self._finished()

    def _watch(self, now: TrainingProgress) -> None:
        if now.rounds % self._every == 0 or now.rounds == now.rounds_in_all:
            metrics = now.metrics
            means = float(np.mean(metrics.return_)), float(np.mean(metrics.violation))
            self.points.append((now.rounds, *means))
        if len(self.points) > MOST_POINTS:
            self.points, self._every = self.points[::2], 2 * self._every
        if self.status == "running" and time.monotonic() - self._told_s > TELL_EVERY_S:
            self._told_s = time.monotonic()
            from scrl.training.progress import summary

            self._say("running", f"round {now.rounds} of {now.rounds_in_all}: {summary(now)}")

    def _found(self, path: Path) -> None:
        """Show a training of an earlier session."""
        from scrl.opening import MapRun, open_run

        try:
            run = open_run(path)
            rows = run.folder.metrics() if run.folder.has_metrics else []
        except (ScrlError, OSError):
            self.run = None
            return
        if not isinstance(run, MapRun) or self.status != "none":
            return
        self.points = _points_of(rows)
        if run.result is None:
            self._say("stopped", "not finished when the studio ended")
        else:
            self._finished()

    def _finished(self) -> None:
        """Show what was trained beside the plan."""
        from scrl.opening import open_run
        from scrl.report.page.ending import verdict_on
        from scrl.studio.drawing import map_document, route_document

        if self.run is None:
            return
        try:
            run = open_run(self.run)
            result, route = run.result, run.route()
        except (ScrlError, OSError) as error:
            self._say("failed", str(error))
            return
        if result is None:
            return
        verdict, _ = verdict_on(result, run.problem)
        problem = route.problem
        self._say("finished", verdict)
        self.done(
            ShownPlan(f"Trained ({self.run.name})", problem, result.best.evaluation, verdict,
                      map_document(problem), route_document(route))
        )  # fmt: skip


def _is_inside(record: Path) -> bool:
    return not record.is_symlink() and not record.parent.is_symlink()


def _created(problem: Problem, path: Path, *, steps: int | None, seeds: int) -> TrainingRun:
    from scrl.training import maps

    config = maps.configure_map(problem, seeds=seeds, steps=steps)
    return maps.create_run(problem, config, tuple(range(seeds)), path)


def _opened(path: Path) -> TrainingRun:
    from scrl.runs.folder import RunFolder
    from scrl.training import maps

    return maps.training_run(RunFolder.open(path))


def _points_of(rows: list[dict[str, Any]]) -> list[tuple[int, float, float]]:
    """Means over the seeds from the rows of a run folder."""
    found: dict[int, list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault(row["iteration"], []).append(row)

    def mean(some: list[dict[str, Any]], key: str) -> float:
        return float(np.mean([row[key] for row in some]))

    points = [(at, mean(some, "return"), mean(some, "violation")) for at, some in found.items()]
    return points[:: max(1, -(-len(points) // MOST_POINTS))]
