"""The Ray engine: trains groups of runs on workers, and again those whose worker was lost.

Run folders are created here, as by the local engine, and can be resumed by it at any time: a
worker's files are written here whenever it has saved a checkpoint.
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
"""Attempts to train a group, each on a new worker."""
LOOK_EVERY_S = 0.2


class LostWorkerError(ScrlError):
    """All attempts to train a group have lost their worker."""


class CrashedWorkerError(RuntimeError):
    """A worker failed by an internal error, such as a bug or a lack of memory."""


def train_jobs(
    jobs: Sequence[Job], teller: ProgressCounter, workers: Workers, *, at_once: int | None
) -> None:
    """Train the jobs on a Ray cluster; a worker has one run at a time unless `at_once` is set."""
    with finishing_the_round(teller) as is_interrupted, cluster(workers) as joined:
        # Imported late: a cluster should start before JAX has threads.
        _Head(packs(jobs, at_once=at_once or 1), teller, joined).run(is_interrupted)


@dataclass
class _Attempt:
    """A group of runs and its worker."""

    pack: Sequence[Job]
    number: int
    actor: Any
    who: dict[str, str] = field(default_factory=dict)
    """Machine and versions of the worker."""
    runs: list[TrainingRun] = field(default_factory=list)
    """The runs; empty until the worker's versions were checked."""
    held: ExitStack = field(default_factory=ExitStack)
    """The locks of the run folders."""


class _Head:
    """Assigns groups to workers and updates the run folders."""

    def __init__(
        self, given: Sequence[Sequence[Job]], teller: ProgressCounter, joined: Cluster
    ) -> None:
        self.teller, self.cluster, self.ray = teller, joined, joined.ray
        self.paths = [job.path for each in given for job in each]
        self.waiting = deque((each, 1) for each in given)
        self.asked: dict[Any, _Attempt] = {}
        """The running attempts by their pending remote call."""
        self.errors: list[Exception] = []
        manner = Manner.here(joined.workers.cores, joined.folder)
        self.make_worker: Callable[[], Any] = lambda: (
            self.ray.remote(Worker)
            .options(num_cpus=joined.workers.cores, max_restarts=0)
            .remote(manner)
        )

    def run(self, is_interrupted: Callable[[], bool]) -> None:
        """Run until all groups are finished; a failed run does not stop the others."""
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
        """Handle the workers that have answered, and call them again."""
        if is_stopping:  # attempts that have not started have nothing to save
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
        """Create or open the run folders, and send them to the worker."""
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
        """Handle a lost worker: its runs resume on another from the last checkpoint here."""
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
    """Raise if the worker has other versions, whose results could differ."""
    ours = identity()
    for name, value in ours.items():
        if theirs.get(name) != value:
            raise ScrlError(
                f"the worker on {theirs.get('machine', 'another machine')} has another version: "
                f"{name} {theirs.get(name)}, here {value}; install the same on all machines"
            )


def _bring_home(files: dict[str, bytes], run: TrainingRun) -> None:
    """Write the files that a worker has sent; the result, which ends the run, last."""
    path = run.folder.path
    unpack({name: content for name, content in files.items() if name != RESULT}, path)
    if RESULT in files:
        document = parse_json(files[RESULT], str(path / RESULT), {"schema": int, "result": dict})
        # The path of the worker's temporary folder is replaced.
        run.folder.save_result(TrainingResult.from_json(document["result"], path).to_json())


def _result(run: TrainingRun) -> TrainingResult:
    result = read_result(run.folder, run.problem)
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
