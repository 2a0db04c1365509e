"""Training runs: what is checked and logged after a round, what a checkpoint holds, the result.

Several runs with one plan, the same seeds and tasks of one shape train side by side. A kill may
leave some of them one checkpoint ahead: those stand still until the others have caught up, in the
same compiled call as before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from scrl.evaluation import Evaluation
from scrl.learners import TrainedPolicy
from scrl.problems import BaseProblem
from scrl.reference.answer import gap_to
from scrl.runs.folder import RunFolder
from scrl.runs.result import LastPolicy, SeedResult
from scrl.training.algorithm import LoopState, Metrics
from scrl.training.config import TrainingConfig
from scrl.training.devices import Rounds
from scrl.training.loop import DivergedError
from scrl.training.progress import TrainingProgress
from scrl.training.result import TrainingResult, overpriced, seed_policy

Report = Callable[[TrainedPolicy, int], Evaluation]
"""(policy, seed) -> what it does in episodes that had no part in choosing it."""


class TrainingRun:
    """One problem, one method and its seeds, in a run folder."""

    def __init__(
        self,
        problem: BaseProblem,
        config: TrainingConfig,
        folder: RunFolder,
        *,
        report: Report,
        bound: Callable[[], float | None] = lambda: None,
        reports_last: bool = False,
    ) -> None:
        self.problem, self.config, self.folder = problem, config, folder
        self.report, self.bound, self.reports_last = report, bound, reports_last
        self.seeds = folder.record.seeds
        self.done = 0
        """Rounds done."""
        self.env_steps = 0
        self.wall_s = 0.0
        self.warning: str | None = None
        """What was noticed when the checkpoint was restored."""
        self._episode_steps = 0.0
        """Mean steps of an episode in the last round, summed over the seeds."""

    @property
    def rounds_in_all(self) -> int:
        return self.config.loop.iterations + self.config.loop.settle

    @property
    def is_learning(self) -> bool:
        """Whether the next round is one of learning, not of settling."""
        return self.done < self.config.loop.iterations

    @property
    def is_remeasured(self) -> bool:
        """Whether the next round is the first of settling and begins with the best policy."""
        return self.done == self.config.loop.iterations and self.problem.is_random

    @property
    def is_over(self) -> bool:
        """Whether all rounds are done, or one more would take a seed beyond its budget."""
        if self.done >= self.rounds_in_all:
            return True
        budget = self.config.loop.budget
        if budget is None or self.done == 0:
            return False
        return self.env_steps + self._expected_steps() > budget * len(self.seeds)

    def _expected_steps(self) -> float:
        """Steps of all seeds in the next round, if its episodes are as long as may be expected."""
        loop, seeds = self.config.loop, len(self.seeds)
        longest = seeds * self.problem.expected_episode_steps(self._episode_steps / seeds)
        episodes = loop.measured(is_random=self.problem.is_random, is_learning=self.is_learning)
        collected = loop.rollouts * loop.worlds * loop.rollout_steps * seeds
        collected = collected if self.is_learning else 0
        return collected + longest * episodes * (2 if self.is_remeasured else 1)

    def restore(self, fresh: LoopState) -> LoopState:
        """The state of the last checkpoint; the fresh one if there is none."""
        found = self.folder.load_checkpoint(self._checkpoint(fresh))
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

    def round_done(self, metrics: Metrics, *, wall_s: float) -> TrainingProgress:
        """Count, check and log one more round."""
        self._episode_steps = float(metrics.steps.sum())
        self.env_steps += int(metrics.env_steps.sum())
        self.done += 1
        self.wall_s = wall_s
        sound = np.isfinite(metrics.loss) & np.isfinite(metrics.return_)
        sound &= np.isfinite(metrics.kappa).all(axis=-1)
        self._stop_unless(sound)
        rows = [self._row(metrics, index, seed) for index, seed in enumerate(self.seeds)]
        self.folder.log(rows)
        return TrainingProgress(
            self.problem, self.config, self.folder.path, self.done, self.rounds_in_all,
            self.env_steps, self.wall_s, metrics,
        )  # fmt: skip

    def save(self, state: LoopState) -> None:
        """Write a checkpoint, but no bad one: the last update may have spoilt the networks."""
        weights = jax.tree.leaves(eqx.filter(state.learner, eqx.is_inexact_array))
        flat = [np.asarray(leaf).reshape(len(self.seeds), -1) for leaf in weights]
        self._stop_unless(np.all([np.isfinite(leaf).all(axis=1) for leaf in flat], axis=0))
        checkpoint = self._checkpoint(state)
        self.folder.save_checkpoint(checkpoint, iteration=self.done, wall_s=self.wall_s)

    def finish(self, policies: TrainedPolicy, last: TrainedPolicy) -> TrainingResult:
        """Evaluate the chosen and the last policies of all seeds and write the result."""
        self.folder.save_policy(policies)
        bound = self.bound()
        results = [
            self._seed_result(seed_policy(policies, index), seed_policy(last, index), seed, bound)
            for index, seed in enumerate(self.seeds)
        ]
        result = TrainingResult(
            problem=self.problem.name,
            method=self.config.method,
            bound=bound,
            seeds=tuple(results),
            env_steps=self.env_steps,
            wall_s=round(self.wall_s, 3),
            run=self.folder.path,
        )
        self.folder.save_result(result.to_json())
        return result

    def _checkpoint(self, state: LoopState) -> tuple[LoopState, np.ndarray]:
        """A checkpoint holds the `LoopState` of all seeds and their environment steps so far."""
        return state, np.asarray(self.env_steps, np.int64)

    def _stop_unless(self, sound: np.ndarray) -> None:
        if sound.all():
            return
        lost = ", ".join(
            str(seed) for seed, is_sound in zip(self.seeds, sound, strict=True) if not is_sound
        )
        raise DivergedError(
            f"training diverged in round {self.done} (seed {lost}): a loss, a weight or a kappa is "
            f"no longer a number. {self.folder.saved_so_far}; try a smaller learning_rate or "
            "kappa_rate"
        )

    def _row(self, metrics: Metrics, index: int, seed: int) -> dict[str, Any]:
        """One line of the metrics file."""
        named = {
            "return": metrics.return_,
            "violation": metrics.violation,
            "steps": metrics.steps,
            "loss": metrics.loss,
            "best_return": metrics.best_return,
            "best_violation": metrics.best_violation,
        }
        density = zip(self.problem.regions, metrics.density[index], strict=True)
        return {
            "iteration": self.done,
            "seed": seed,
            **{name: float(values[index]) for name, values in named.items()},
            **{f"density/{name}": float(value) for name, value in density},
            **{f"kappa/{atom}": float(value) for atom, value in enumerate(metrics.kappa[index])},
        }

    def _seed_result(
        self, policy: TrainedPolicy, last: TrainedPolicy, seed: int, bound: float | None
    ) -> SeedResult:
        found = self.report(policy, seed)
        gap = None
        if found.is_satisfied and not self.problem.is_random:
            gap = gap_to(bound, found.return_)
        warnings = overpriced(self.problem.rules, found, policy.price)
        return SeedResult(seed, found, gap, warnings, self._last(last, seed))

    def _last(self, policy: TrainedPolicy, seed: int) -> LastPolicy | None:
        if not self.reports_last:
            return None
        found = self.report(policy, seed)
        return LastPolicy(found.return_, found.cons_vio, found.is_satisfied)


class Training:
    """Runs side by side and their common state: work for `training.loop`."""

    def __init__(self, runs: Sequence[TrainingRun], rounds: Rounds) -> None:
        self.runs, self.rounds = runs, rounds
        self._state: LoopState | None = None

    @property
    def folders(self) -> list[RunFolder]:
        return [run.folder for run in self.runs]

    @property
    def warnings(self) -> list[str]:
        return [run.warning for run in self.runs if run.warning is not None]

    @property
    def is_over(self) -> bool:
        return all(run.is_over for run in self.runs)

    def begin(self) -> float:
        """Restore the runs that have a checkpoint; the seconds spent so far."""
        fresh, env_steps = self.rounds.begin()
        parts = zip(self.runs, self.rounds.split(fresh), self.rounds.split(env_steps), strict=True)
        restored = []
        for run, state, steps in parts:
            restored.append(run.restore(state))
            if run.done == 0:
                run.env_steps += int(np.sum(steps))
        is_any = any(run.done for run in self.runs)
        self._state = self.rounds.join(restored) if is_any else fresh
        return max(run.wall_s for run in self.runs)

    def advance(self, clock: Callable[[], float]) -> list[TrainingProgress]:
        """One more round of the runs that have done the fewest and are not over."""
        state = self._now
        now = min(run.done for run in self.runs if not run.is_over)
        is_behind = [run.done == now and not run.is_over for run in self.runs]
        # The old state is used up by the call: runs that stand still need a copy.
        before = None if all(is_behind) else jax.tree.map(jnp.copy, state)
        behind = self.runs[is_behind.index(True)]
        if behind.is_remeasured:
            state, env_steps = self.rounds.remeasure(state)
            of_runs = zip(self.runs, self.rounds.split(env_steps), is_behind, strict=True)
            for run, steps, is_new in of_runs:
                run.env_steps += int(np.sum(steps)) if is_new else 0
        state, metrics = (self.rounds.learn if behind.is_learning else self.rounds.settle)(state)
        self._state = state if before is None else self.rounds.chosen(is_behind, state, before)
        wall_s = clock()
        seen = self.rounds.split(jax.device_get(metrics))
        return [
            run.round_done(own, wall_s=wall_s)
            for run, own, is_new in zip(self.runs, seen, is_behind, strict=True)
            if is_new
        ]

    def save(self) -> None:
        for run, state in zip(self.runs, self.rounds.split(self._now), strict=True):
            run.save(state)

    def finish(self) -> list[TrainingResult]:
        """Evaluate and write the results of all runs.

        A CPU drives single episodes faster than a GPU.
        """
        last = self.rounds.split(self.rounds.present(self._now))
        best = [state.best.policy for state in self.rounds.split(self._now)]
        with jax.default_device(jax.local_devices(backend="cpu")[0]):
            parts = zip(self.runs, *jax.device_get((best, last)), strict=True)
            return [run.finish(policy, of_last) for run, policy, of_last in parts]

    @property
    def _now(self) -> LoopState:
        if self._state is None:
            raise RuntimeError("training has not begun")
        return self._state
