"""Packs on the workers of a Ray cluster: sent out, watched, brought home; the lost ones again.

Run folders are made here, as the local engine makes them, and are at any time what that engine
would go on with: a worker's files take their places whenever it has saved a checkpoint.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scrl.bench.engines import Workers
from scrl.bench.engines.cluster import Cluster, cluster
from scrl.bench.engines.parcels import RESULT, unpack
from scrl.bench.engines.parcels import pack as parcel
from scrl.bench.engines.worker import End, Manner, News, Parcelled, RoundNews, Worker, identity
from scrl.bench.packing import Job, packs
from scrl.bench.progress import ProgressCounter
from scrl.errors import ScrlError
from scrl.runs.files import RunError, parse_json
from scrl.training.algorithm import Metrics
from scrl.training.loop import DivergedError, InterruptedTrainingError, finishing_the_round
from scrl.training.progress import TrainingProgress
from scrl.training.result import TrainingResult, read_result
from scrl.training.run import TrainingRun

MOST_TRIES = 4
"""Workers that a pack may have: one, and one more for each that was lost."""
LOOK_EVERY_S = 0.2


class LostWorkerError(ScrlError):
    """A pack has lost worker after worker."""


class CrashedWorkerError(RuntimeError):
    """A worker has met an error that is nobody's input: a bug, or no memory left."""


def train_jobs(
    jobs: Sequence[Job], teller: ProgressCounter, workers: Workers, *, at_once: int | None
) -> None:
    """The engine of a Ray cluster; a worker has one run at a time, unless it is told otherwise."""
    with finishing_the_round(teller) as is_interrupted, cluster(workers) as joined:
        # Only now: a cluster is best started before JAX has threads.
        _Head(packs(jobs, at_once=at_once or 1), teller, joined).run(is_interrupted)


@dataclass
class _Attempt:
    """A pack and the worker that has it."""

    pack: Sequence[Job]
    number: int
    actor: Any
    who: dict[str, str] = field(default_factory=dict)
    """What the worker has said of itself."""
    runs: list[TrainingRun] = field(default_factory=list)
    """None before the worker has been found fit."""
    held: ExitStack = field(default_factory=ExitStack)
    """The locks of the run folders."""


class _Head:
    """Who keeps the workers busy and the run folders up to date."""

    def __init__(
        self, given: Sequence[Sequence[Job]], teller: ProgressCounter, joined: Cluster
    ) -> None:
        self.teller, self.cluster, self.ray = teller, joined, joined.ray
        self.paths = [job.path for each in given for job in each]
        self.waiting = deque((each, 1) for each in given)
        self.asked: dict[Any, _Attempt] = {}
        """The attempts under way, by the question that each has not answered yet."""
        self.errors: list[Exception] = []
        manner = Manner.here(joined.workers.cores, joined.folder)
        self.make_worker: Callable[[], Any] = lambda: (
            self.ray.remote(Worker)
            .options(num_cpus=joined.workers.cores, max_restarts=0)
            .remote(manner)
        )

    def run(self, is_interrupted: Callable[[], bool]) -> None:
        """Until everything is home; a run that failed does not keep the others from it."""
        try:
            while self.asked or (self.waiting and not is_interrupted()):
                while self.waiting and len(self.asked) < self.cluster.room() > 0:
                    if is_interrupted():
                        break
                    self._start(*self.waiting.popleft())
                self._look(is_interrupted())
        finally:
            for attempt in self.asked.values():
                self.ray.kill(attempt.actor)
                attempt.held.close()
        if self.errors:
            raise self.errors[0]
        if is_interrupted() and len(self.teller.found) < self.teller.cells:
            raise InterruptedTrainingError(Path(os.path.commonpath(self.paths)))

    def _start(self, pack: Sequence[Job], number: int) -> None:
        attempt = _Attempt(pack, number, self.make_worker())
        self.asked[attempt.actor.identity.remote()] = attempt

    def _look(self, is_stopping: bool) -> None:
        """Hear whoever has answered, and ask again."""
        if is_stopping:  # who waits for a place, or is only just coming up, has nothing to save
            for question, attempt in list(self.asked.items()):
                if not attempt.runs:
                    self._drop(self.asked.pop(question))
        if not self.asked:
            return
        answered, _ = self.ray.wait(list(self.asked), timeout=LOOK_EVERY_S)
        for question in answered:
            attempt = self.asked.pop(question)
            try:
                self._hear(attempt, self.ray.get(question), is_stopping)
            except self.ray.exceptions.RayTaskError as error:
                self._fail(attempt, CrashedWorkerError(str(error)))
            except self.ray.exceptions.RayError as error:
                self._lose(attempt, error, is_stopping)
            except RunError as error:
                self._fail(attempt, error)
            except BaseException:
                self._drop(attempt)
                raise

    def _hear(self, attempt: _Attempt, answer: Any, is_stopping: bool) -> None:
        if isinstance(answer, News):
            for index, files in answer.files.items():
                _bring_home(files, attempt.runs[index])
            for index, news in answer.rounds.items():
                self.teller(_progress(attempt.runs[index], news))
            if answer.end is not None:
                self._end(attempt, answer.end)
                return
        else:
            _check_same(answer)
            attempt.who = answer
            self._begin(attempt)
        self.asked[attempt.actor.news.remote(is_stopping)] = attempt

    def _begin(self, attempt: _Attempt) -> None:
        """Make the run folders, or take those that are there, and send them to the worker."""
        attempt.runs = [job.run() for job in attempt.pack]
        for run in attempt.runs:
            attempt.held.enter_context(run.folder.writing())
        self.teller.begin(attempt.pack)
        paths = [run.folder.path for run in attempt.runs]
        attempt.actor.begin.remote([Parcelled(str(path), parcel(path)) for path in paths])

    def _end(self, attempt: _Attempt, end: End) -> None:
        match end.how:
            case "done":
                self.ray.kill(attempt.actor)
                attempt.held.close()
                results = [_result(run) for run in attempt.runs]
                self.teller.finished(attempt.pack, results)
            case "stopped":
                self._drop(attempt)
            case "refused":
                kind = DivergedError if end.kind == DivergedError.__name__ else ScrlError
                self._fail(attempt, kind(end.text))
            case _:
                self._fail(attempt, CrashedWorkerError(end.text))

    def _lose(self, attempt: _Attempt, error: Exception, is_stopping: bool) -> None:
        """The worker is gone: its runs go on elsewhere from what is home."""
        reason = " ".join(str(error).split())[:300]
        if is_stopping:
            self._drop(attempt)
        elif attempt.number < MOST_TRIES:
            self._drop(attempt)
            self.waiting.appendleft((attempt.pack, attempt.number + 1))
            self.teller.say(
                f"the worker on {attempt.who.get('machine', 'some machine')} was lost; "
                f"{_names(attempt.pack)} goes on from the last checkpoint "
                f"(try {attempt.number + 1} of {MOST_TRIES})"
            )
        else:
            self._fail(
                attempt,
                LostWorkerError(
                    f"{_names(attempt.pack)}: {MOST_TRIES} workers were lost, the last: {reason} "
                    "All other runs are finished; the same command again goes on with this one"
                ),
            )

    def _fail(self, attempt: _Attempt, error: Exception) -> None:
        self._drop(attempt)
        self.errors.append(error)

    def _drop(self, attempt: _Attempt) -> None:
        self.ray.kill(attempt.actor)
        attempt.held.close()
        self.teller.dropped(attempt.pack)


def _check_same(theirs: Mapping[str, str]) -> None:
    """Another scrl would train something else, and may not even understand the files."""
    ours = identity()
    for name, value in ours.items():
        if theirs.get(name) != value:
            raise ScrlError(
                f"the worker on {theirs.get('machine', 'another machine')} has another version: "
                f"{name} {theirs.get(name)}, here {value}; install the same on all machines"
            )


def _bring_home(files: dict[str, bytes], run: TrainingRun) -> None:
    """Put what a worker has sent in place; the result, which ends the run, last."""
    path = run.folder.path
    unpack({name: content for name, content in files.items() if name != RESULT}, path)
    if RESULT in files:
        document = parse_json(files[RESULT], str(path / RESULT), {"schema": int, "result": dict})
        # The worker's folder is gone; the result belongs here.
        run.folder.save_result(TrainingResult.from_json(document["result"], path).to_json())


def _result(run: TrainingRun) -> TrainingResult:
    result = read_result(run.folder)
    if result is None:
        raise CrashedWorkerError(f"{run.folder.path}: a worker has ended without a result")
    return result


def _progress(run: TrainingRun, news: RoundNews) -> TrainingProgress:
    return TrainingProgress(
        run.problem, run.config, run.folder.path, news.rounds, run.rounds_in_all,
        news.env_steps, news.wall_s, Metrics(*news.metrics),
    )  # fmt: skip


def _names(pack: Sequence[Job]) -> str:
    one, *others = (f"{job.cell.problem} {job.cell.label}" for job in pack)
    return one + (f" and {len(others)} more" if others else "")
