"""`scrl.train`: seeds side by side, round after round, into a run folder that can be gone on with.

A round is one call of compiled code. What decides the numbers is the state alone; when checkpoints
are written does not, so a run that was interrupted ends with the same bits.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float

from scrl.errors import ScrlError
from scrl.learners import SeeingPolicy
from scrl.loop import LoopState, Metrics
from scrl.methods import TrainingConfig, configure
from scrl.outcome import SeedResult, TrainingResult
from scrl.problems import Problem
from scrl.problems import load as load_problem
from scrl.reference import solve
from scrl.rounds import Rounds
from scrl.rules import told
from scrl.runs import RunFolder, RunRecord, new_run_path
from scrl.trained import REPORT_SEED, read_result, report, seed_policy

CHECKPOINT_EVERY_S = 20.0
LARGEST_SEED = 2**32 - REPORT_SEED
"""Seeds below this give different keys, in training and in the report."""


class DivergedError(ScrlError):
    """Numbers grew beyond all bounds; the last good checkpoint is kept."""


class InterruptedTrainingError(ScrlError):
    """Somebody pressed Ctrl-C; everything up to here is saved."""

    def __init__(self, run: Path) -> None:
        super().__init__(f"interrupted; all is saved in {run}")
        self.run = run


@dataclass(frozen=True)
class Progress:
    """Where a run is after a round, for whoever watches it."""

    problem: Problem
    config: TrainingConfig
    run: Path
    rounds: int
    """Rounds done."""
    rounds_in_all: int
    env_steps: int
    """Steps of all seeds so far."""
    wall_s: float
    metrics: Metrics
    """What the last round saw, for every seed."""


Watcher = Callable[[Progress], None]


def train(  # noqa: PLR0913 (one for each thing that a user may want to say)
    problem: Problem | str,
    *,
    method: str | None = None,
    seeds: int | Sequence[int] = 1,
    seed: int = 0,
    learner: str | None = None,
    penalty: str | None = None,
    preset: str | None = None,
    steps: int | None = None,
    settings: Mapping[str, Any] | None = None,
    out: Path | str | None = None,
    watch: Watcher | None = None,
) -> TrainingResult:
    """Learn to keep the rules of a problem at the least cost, for some seeds at once.

    `seeds` is how many (from `seed` on), or which. The run folder is `out`, or a new one in
    `runs/`.
    """
    loaded = load_problem(problem) if isinstance(problem, str) else problem
    config = configure(
        method, learner=learner, penalty=penalty, preset=preset, steps=steps, settings=settings
    )
    chosen = tuple(range(seed, seed + seeds)) if isinstance(seeds, int) else tuple(seeds)
    is_whole = all(isinstance(each, int) and 0 <= each < LARGEST_SEED for each in chosen)
    if not chosen or not is_whole or len(set(chosen)) < len(chosen):
        raise ScrlError(
            "seeds must be one or more different whole numbers of at least 0 and below "
            f"{LARGEST_SEED:,}"
        )
    told(loaded.rules, config.told)  # rules that do not fit are refused before anything is written
    path = Path(out) if out else new_run_path(Path("runs"), loaded.name, config.method)
    record = RunRecord.now(loaded.name, config.method, config.to_json(), chosen)
    folder = RunFolder.create(path, loaded, record)
    return _Training(loaded, config, chosen, folder).run(watch)


def resume(path: Path | str, *, watch: Watcher | None = None) -> TrainingResult:
    """Go on with a run that was interrupted; a finished one is read."""
    folder = RunFolder.open(path)
    if (finished := read_result(folder)) is not None:
        return finished
    config = TrainingConfig.from_json(folder.record.settings)
    return _Training(folder.problem(), config, folder.record.seeds, folder).run(watch)


class _Training:
    """One run under way."""

    def __init__(
        self, problem: Problem, config: TrainingConfig, seeds: tuple[int, ...], folder: RunFolder
    ) -> None:
        self.problem, self.config, self.seeds, self.folder = problem, config, seeds, folder
        self.rounds = Rounds(problem, config, seeds)
        self.rounds_in_all = config.loop.iterations + config.loop.settle
        self.env_steps = 0

    def run(self, watch: Watcher | None) -> TrainingResult:
        """Train to the end, evaluate, write the result."""
        started = time.monotonic()
        with _finishing_the_round(watch) as is_interrupted:
            state, done, before_s = self._begin_or_go_on()
            saved = time.monotonic()
            while done < self.rounds_in_all:
                is_learning = done < self.config.loop.iterations
                advance = self.rounds.learn if is_learning else self.rounds.settle
                state, metrics = advance(state)
                done += 1
                metrics = jax.tree.map(np.asarray, metrics)
                self._check(metrics, done)
                wall_s = before_s + time.monotonic() - started
                self._log(metrics, done, is_learning)
                if is_interrupted() or time.monotonic() - saved > CHECKPOINT_EVERY_S:
                    self._check_weights(state, done)
                    self.folder.save_checkpoint(self._kept(state), iteration=done, wall_s=wall_s)
                    saved = time.monotonic()
                if is_interrupted():
                    raise InterruptedTrainingError(self.folder.path)
                if watch is not None:
                    watch(self._progress(metrics, done, wall_s))
            self._check_weights(state, done)
            wall_s = before_s + time.monotonic() - started
            self.folder.save_checkpoint(self._kept(state), iteration=done, wall_s=wall_s)
            return self._finish(state, wall_s)

    def _begin_or_go_on(self) -> tuple[LoopState, int, float]:
        fresh = self.rounds.begin()
        found = self.folder.load_checkpoint(self._kept(fresh))
        if found is None:
            return fresh, 0, 0.0
        state, self.env_steps = found.state
        self.env_steps = int(self.env_steps)
        return self.rounds.place(state), found.iteration, found.wall_s

    def _kept(self, state: LoopState) -> tuple[LoopState, np.ndarray]:
        """What a checkpoint holds."""
        return state, np.asarray(self.env_steps, np.int64)

    def _check(self, metrics: Metrics, done: int) -> None:
        sound = np.isfinite(metrics.loss) & np.isfinite(metrics.return_)
        sound &= np.isfinite(metrics.kappa).all(axis=-1)
        self._stop_unless(sound, done)

    def _check_weights(self, state: LoopState, done: int) -> None:
        """A checkpoint must be a good one: the last update may have spoilt what it learned."""
        weights = jax.tree.leaves(eqx.filter(self.rounds.actor(state), eqx.is_inexact_array))
        flat = [np.asarray(leaf).reshape(len(self.seeds), -1) for leaf in weights]
        self._stop_unless(np.all([np.isfinite(leaf).all(axis=1) for leaf in flat], axis=0), done)

    def _stop_unless(self, sound: np.ndarray, done: int) -> None:
        if sound.all():
            return
        lost = ", ".join(
            str(seed) for seed, is_sound in zip(self.seeds, sound, strict=True) if not is_sound
        )
        raise DivergedError(
            f"training diverged in round {done} (seed {lost}): a loss, a weight or a kappa is no "
            f"longer a number. The last good checkpoint is kept in {self.folder.path}; try a "
            "smaller learning_rate or kappa_rate"
        )

    def _log(self, metrics: Metrics, done: int, is_learning: bool) -> None:
        loop = self.config.loop
        is_random = self.problem.world_spec.is_random
        episodes = loop.measured(is_random=is_random, is_learning=is_learning)
        measured = float(metrics.steps.sum()) * episodes
        driven = loop.worlds * loop.steps * len(self.seeds) if is_learning else 0
        self.env_steps += driven + round(measured)
        regions = self.problem.world_spec.regions.names
        self.folder.log(
            [_row(metrics, index, done, seed, regions) for index, seed in enumerate(self.seeds)]
        )

    def _progress(self, metrics: Metrics, done: int, wall_s: float) -> Progress:
        return Progress(
            self.problem, self.config, self.folder.path, done, self.rounds_in_all,
            self.env_steps, wall_s, metrics,
        )  # fmt: skip

    def _finish(self, state: LoopState, wall_s: float) -> TrainingResult:
        policies = state.best.policy
        self.folder.save_policy(policies)
        reference = _reference_return(self.problem)
        results = [
            self._judge(seed_policy(policies, index), seed, reference)
            for index, seed in enumerate(self.seeds)
        ]
        result = TrainingResult(
            problem=self.problem.name,
            method=self.config.method,
            reference=reference,
            seeds=tuple(results),
            env_steps=self.env_steps,
            wall_s=wall_s,
            run=self.folder.path,
        )
        self.folder.save_result(result.to_json())
        return result

    def _judge(self, policy: SeeingPolicy, seed: int, reference: float | None) -> SeedResult:
        found = report(self.problem, policy, seed, self.config.method)
        gap = None if reference is None else (reference - found.return_) / abs(reference)
        return SeedResult(seed, found, gap)


def _row(
    metrics: Metrics, index: int, done: int, seed: int, regions: Sequence[str]
) -> dict[str, Any]:
    """One line of the metrics file."""

    def number(values: Float[Array, " seed"]) -> float:
        return float(values[index])

    row = {
        "iteration": done,
        "seed": seed,
        "return": number(metrics.return_),
        "violation": number(metrics.violation),
        "steps": number(metrics.steps),
        "loss": number(metrics.loss),
        "best_return": number(metrics.best_return),
        "best_violation": number(metrics.best_violation),
    }
    row |= {
        f"density/{name}": float(value)
        for name, value in zip(regions, metrics.density[index], strict=True)
    }
    row |= {f"kappa/{atom}": float(value) for atom, value in enumerate(metrics.kappa[index])}
    return row


def _reference_return(problem: Problem) -> float | None:
    """The reference's return; none where there is no reference."""
    try:
        return solve(problem, drives=0).return_
    except ScrlError:
        return None


@contextmanager
def _finishing_the_round(watch: Watcher | None) -> Iterator[Callable[[], bool]]:
    """The first Ctrl-C lets the round end, so that its state can be saved; the second does not.

    A watcher with a method `stopping` is told of the first.
    """
    pressed = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield pressed.is_set
        return
    before = signal.getsignal(signal.SIGINT)

    def note(number: int, frame: Any) -> None:
        del number, frame
        if pressed.is_set():
            raise KeyboardInterrupt
        pressed.set()
        if (stopping := getattr(watch, "stopping", None)) is not None:
            stopping()

    signal.signal(signal.SIGINT, note)
    try:
        yield pressed.is_set
    finally:
        signal.signal(signal.SIGINT, before)
