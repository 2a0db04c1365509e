"""One run under way: what is checked and logged after every round, what is kept, how it ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float

from scrl.errors import ScrlError
from scrl.evaluation import Evaluation
from scrl.learners import TrainedPolicy
from scrl.problems import Problem, Terms
from scrl.runs.folder import RunFolder
from scrl.training.algorithm import LoopState, Metrics, Task
from scrl.training.config import TrainingConfig
from scrl.training.devices import task_of
from scrl.training.progress import TrainingProgress
from scrl.training.result import (
    SeedResult,
    TrainingResult,
    config_of,
    overpriced,
    report,
    seed_policy,
)


class DivergedError(ScrlError):
    """Numbers grew beyond all bounds; the last good checkpoint, if there is one, is kept."""


class Evaluator(NamedTuple):
    """Who says in the end how good policies are."""

    report: Callable[[Any, TrainedPolicy, int, str], Evaluation]
    """(problem, policy, seed, name) -> what it does in episodes that did not choose it."""
    reference: Callable[[Any], float | None]
    """(problem) -> the best possible return; none where nobody knows."""


class TrainingRun:
    """One problem, one method and its seeds, on the way to a result."""

    def __init__(
        self,
        problem: Terms,
        config: TrainingConfig,
        folder: RunFolder,
        judge: Evaluator | None = None,
    ) -> None:
        self.problem, self.config, self.folder = problem, config, folder
        self._judge = judge or Evaluator(report, _reference_return)
        self.seeds = folder.record.seeds
        self.done = 0
        """Rounds done."""
        self.env_steps = 0
        self.wall_s = 0.0
        self.warning: str | None = None
        """What whoever goes on with the run must know."""
        self._episode_steps = 0.0
        """Mean steps of an episode in the last round, summed over the seeds."""

    @classmethod
    def again(cls, folder: RunFolder) -> TrainingRun:
        """A run as its folder has it."""
        return cls(folder.problem(), config_of(folder), folder)

    @property
    def rounds_in_all(self) -> int:
        return self.config.loop.iterations + self.config.loop.settle

    def task(self) -> Task:
        """What is to be learned, as the loop wants it."""
        return task_of(cast(Problem, self.problem), self.config)

    def restore(self, fresh: LoopState) -> LoopState:
        """The state of the last checkpoint; where there is none, the fresh one.

        Where the last one is damaged, `warning` says so.
        """
        found = self.folder.load_checkpoint(self._kept(fresh))
        if found is None:
            return fresh
        self.done, self.wall_s = found.iteration, found.wall_s
        self.warning = found.warning
        state, env_steps = found.state
        self.env_steps = int(env_steps)
        if self.config.loop.budget is not None:
            rows = self.folder.metrics()
            last = [row["steps"] for row in rows if row["iteration"] == self.done]
            self._episode_steps = float(sum(last))
        return state

    def begun(self, steps: int) -> None:
        """Count what was driven before the first round."""
        self.env_steps += steps

    @property
    def is_over(self) -> bool:
        """Whether all rounds are done, or one more would take a seed beyond its budget."""
        if self.done >= self.rounds_in_all:
            return True
        budget = self.config.loop.budget
        if budget is None or self.done == 0:
            return False
        return self.env_steps + self._expected_steps() > budget * len(self.seeds)

    def _expected_steps(self) -> int:
        """Steps of all seeds in the next round; in somebody's environment, the most there can be.

        There the best policy is measured anew in the first round of settling, and lanes whose
        episodes are done go on until all are.
        """
        horizon = getattr(self.problem, "horizon_steps", None)
        if horizon is None:
            return self._round_steps(self._episode_steps)
        times = 2 if self.done == self.config.loop.iterations else 1
        return times * self._round_steps(horizon * len(self.seeds))

    def round_done(
        self, metrics: Metrics, *, wall_s: float, counted_steps: int | None = None
    ) -> None:
        """Check and log what one more round saw, and the steps it took where they were counted."""
        self._episode_steps = float(metrics.steps.sum())
        steps = self._round_steps(self._episode_steps) if counted_steps is None else counted_steps
        self.env_steps += steps
        self.done += 1
        self.wall_s = wall_s
        sound = np.isfinite(metrics.loss) & np.isfinite(metrics.return_)
        sound &= np.isfinite(metrics.kappa).all(axis=-1)
        self._stop_unless(sound)
        self._log(metrics)

    def save(self, state: LoopState, actor: Any) -> None:
        """Keep a checkpoint. It must be a good one: the last update may have spoilt the actor."""
        weights = jax.tree.leaves(eqx.filter(actor, eqx.is_inexact_array))
        flat = [np.asarray(leaf).reshape(len(self.seeds), -1) for leaf in weights]
        self._stop_unless(np.all([np.isfinite(leaf).all(axis=1) for leaf in flat], axis=0))
        self.folder.save_checkpoint(self._kept(state), iteration=self.done, wall_s=self.wall_s)

    def progress(self, metrics: Metrics) -> TrainingProgress:
        """Where it is."""
        return TrainingProgress(
            self.problem, self.config, self.folder.path, self.done, self.rounds_in_all,
            self.env_steps, self.wall_s, metrics,
        )  # fmt: skip

    def finish(self, policies: TrainedPolicy) -> TrainingResult:
        """Evaluate the chosen policies of all seeds and write the result."""
        self.folder.save_policy(policies)
        reference = self._judge.reference(self.problem)
        results = [
            self._seed_result(seed_policy(policies, index), seed, reference)
            for index, seed in enumerate(self.seeds)
        ]
        result = TrainingResult(
            problem=self.problem.name,
            method=self.config.method,
            reference=reference,
            seeds=tuple(results),
            env_steps=self.env_steps,
            wall_s=round(self.wall_s, 3),
            run=self.folder.path,
        )
        self.folder.save_result(result.to_json())
        return result

    def _kept(self, state: LoopState) -> tuple[LoopState, np.ndarray]:
        """What a checkpoint holds."""
        return state, np.asarray(self.env_steps, np.int64)

    def _stop_unless(self, sound: np.ndarray) -> None:
        if sound.all():
            return
        lost = ", ".join(
            str(seed) for seed, is_sound in zip(self.seeds, sound, strict=True) if not is_sound
        )
        raise DivergedError(
            f"training diverged in round {self.done} (seed {lost}): a loss, a weight or a kappa is "
            f"no longer a number. {self.folder.kept_so_far}; try a smaller learning_rate or "
            "kappa_rate"
        )

    def _round_steps(self, episode_steps: float) -> int:
        """Steps of all seeds in the next round, if their episodes take so many together."""
        loop, is_learning = self.config.loop, self.done < self.config.loop.iterations
        episodes = loop.measured(is_random=self.problem.is_random, is_learning=is_learning)
        driven = loop.worlds * loop.steps * len(self.seeds) if is_learning else 0
        return driven + round(episode_steps * episodes)

    def _log(self, metrics: Metrics) -> None:
        regions = self.problem.regions
        self.folder.log(
            [
                _row(metrics, index, self.done, seed, regions)
                for index, seed in enumerate(self.seeds)
            ]
        )

    def _seed_result(self, policy: TrainedPolicy, seed: int, reference: float | None) -> SeedResult:
        found = self._judge.report(self.problem, policy, seed, self.config.method)
        gap = None if reference is None else (reference - found.return_) / abs(reference)
        return SeedResult(seed, found, gap, overpriced(self.problem.rules, found, policy.price))


def _row(
    metrics: Metrics, index: int, done: int, seed: int, regions: Sequence[str]
) -> dict[str, Any]:
    """One line of the metrics file."""

    def number(values: Float[Array | np.ndarray, " seed"]) -> float:
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
    from scrl.reference import solve  # its solvers take a while to import, and are needed last

    try:
        return solve(problem, drives=0).return_
    except ScrlError:
        return None
