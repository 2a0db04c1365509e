"""Environments side by side, stepped on the host: observations, rewards and labels of each step.

An episode's last observation is kept and the next one begins in the same step. What a vector
environment does at the end of an episode hangs on its autoreset mode; all three come to the same
here. `terminated` and `truncated` are handed on as they are.
"""

from __future__ import annotations

import math
import multiprocessing
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv
from jaxtyping import Bool, Float

from scrl.environments.contract import LABELS, EnvironmentFault, place
from scrl.environments.labels import LabelError, Labels, Step
from scrl.environments.processes import end_all, first_ended
from scrl.environments.spaces import Observations


class LaneSteps(NamedTuple):
    """One step of all lanes."""

    reward: Float[np.ndarray, " lane"]
    labels: Float[np.ndarray, "lane region"]
    is_terminated: Bool[np.ndarray, " lane"]
    is_truncated: Bool[np.ndarray, " lane"]
    after: Float[np.ndarray, "lane feature"]
    """What was seen after the step, before any reset."""
    counted_after: Float[np.ndarray, "lane wider"]
    """The same with what the episode had so far."""


class Lanes:
    """A vector environment, what its steps give to the regions, and where its lanes stand."""

    def __init__(
        self,
        vector: VectorEnv[Any, Any, Any],
        labels: Labels,
        horizon_steps: int,
        *,
        is_ours: bool,
        limit_s: float | None = None,
    ) -> None:
        self.count = vector.num_envs
        self.labels = labels
        self._vector, self._horizon_steps, self._is_ours = vector, horizon_steps, is_ours
        self._limit_s = None if limit_s == math.inf else limit_s
        self._observations = Observations.of(vector.single_observation_space)
        self._mode = _mode(vector)
        self._episodes = np.zeros(self.count, int)
        self._steps = np.zeros(self.count, int)
        self._given = np.zeros((self.count, len(labels.names)))
        self.driven_steps = 0
        """Steps in all lanes so far; whoever counts them may set it back."""
        self.seen: Any = None
        """What all lanes see now, as the environment gave it."""

    def __enter__(self) -> Lanes:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._is_ours:
            _close(self._vector, self._limit_s, is_broken=kind is not None)

    @property
    def features(self) -> Float[np.ndarray, "lane feature"]:
        """What all lanes see now, as rows of numbers."""
        return self._observations.rows(self.seen, self.count)

    @property
    def counted(self) -> Float[np.ndarray, "lane wider"]:
        """The same, with what each region had so far in the episode, and its steps."""
        return self._counted(self.features)

    def _counted(self, rows: Float[np.ndarray, "lane feature"]) -> Float[np.ndarray, "lane wider"]:
        run = np.concatenate([self._given, self._steps[:, None]], axis=1)
        return np.concatenate([rows, run.astype(rows.dtype)], axis=1)

    def observations(self) -> list[Any]:
        """What all lanes see now, one by one, as the environment gave it."""
        return self._observations.single(self.seen, self.count)

    def reset(self, seeds: Sequence[int]) -> None:
        """Every lane at the start of an episode, by its seed."""
        self._episodes[:], self._steps[:], self._given[:] = 1, 0, 0.0
        self.seen, _ = self._call("reset", seed=[int(seed) for seed in seeds])
        self._check("the observation", self.features)

    def step(self, actions: np.ndarray) -> LaneSteps:
        """One step in every lane; one whose episode ends begins the next."""
        self._steps += 1
        self.driven_steps += self.count
        seen, reward, terminated, truncated, infos = self._call("step", actions)
        self.seen = seen
        is_over = terminated | truncated
        if self._is_ours:
            after, labels = self.features, np.asarray(infos[LABELS], float)
            self._check("the observation", after)
        else:
            after, labels = self._read(actions, reward, is_over, infos)
        self._check_horizon(is_over)
        self._given += labels
        counted = self._counted(after)
        self._begin_anew(is_over)
        return LaneSteps(np.asarray(reward, float), labels, terminated, truncated, after, counted)

    def _begin_anew(self, is_over: Bool[np.ndarray, " lane"]) -> None:
        if not is_over.any():
            return
        self._episodes[is_over] += 1
        self._steps[is_over], self._given[is_over] = 0, 0.0
        if self._mode is not AutoresetMode.SAME_STEP:
            self.seen, _ = self._call("reset", options={"reset_mask": is_over.copy()})
            self._check("the observation", self.features)

    def _read(
        self,
        actions: np.ndarray,
        reward: Float[np.ndarray, " lane"],
        is_over: Bool[np.ndarray, " lane"],
        infos: Mapping[str, Any],
    ) -> tuple[Float[np.ndarray, "lane feature"], Float[np.ndarray, "lane region"]]:
        """What was seen after a step and given in it, of lanes that nobody has guarded."""
        after, info_of = self.features, _infos(infos, self.count)
        singles = self.observations()
        if self._mode is AutoresetMode.SAME_STEP and is_over.any():
            last = _infos(infos.get("final_info", {}), self.count)
            for lane in np.flatnonzero(is_over):
                singles[lane], info_of[lane] = infos["final_obs"][lane], last[lane]
                after[lane] = self._observations.row(singles[lane])
        self._check("the observation", after)
        self._check("the reward", np.asarray(reward, float))
        steps = map(Step, singles, actions, reward, info_of)
        return after, np.stack([self._labels(lane, step) for lane, step in enumerate(steps)])

    def _labels(self, lane: int, step: Step) -> Float[np.ndarray, " region"]:
        try:
            return self.labels(step)
        except LabelError as error:
            raise EnvironmentFault(f"{self._place(lane)}: {error}") from error

    def _call(self, what: str, *arguments: Any, **options: Any) -> Any:
        try:
            if not isinstance(self._vector.unwrapped, AsyncVectorEnv):
                return getattr(self._vector, what)(*arguments, **options)
            with warnings.catch_warnings():
                # It warns of what a worker raised, line by line, before it raises the same here.
                warnings.filterwarnings("ignore", message=".*ERROR: ", category=UserWarning)
                if self._limit_s is None:
                    return getattr(self._vector, what)(*arguments, **options)
                getattr(self._vector, f"{what}_async")(*arguments, **options)
                return getattr(self._vector, f"{what}_wait")(timeout=self._limit_s)
        except EnvironmentFault:
            raise
        except Exception as error:
            raise self._fault(what, error) from error

    def _fault(self, what: str, error: Exception) -> EnvironmentFault:
        """What to say where a call has failed outside of any environment."""
        if isinstance(self._vector, AsyncVectorEnv):
            if isinstance(error, multiprocessing.TimeoutError) and self._limit_s is not None:
                return EnvironmentFault(
                    f"{self._place(_first_silent(self._vector))}: {what} has not returned within "
                    f"{self._limit_s:g} s; if it may take longer, give a larger step_timeout_s"
                )
            processes = self._vector.processes
            is_cut = isinstance(error, EOFError | ConnectionError)
            if is_cut and (lane := first_ended(processes)) is not None:
                code = processes[lane].exitcode
                return EnvironmentFault(
                    f"{self._place(lane)}: its process has ended in {what} (exit code {code})"
                )
        return EnvironmentFault(
            f"the environments' {what} raised {type(error).__name__}: {error} (after "
            f"{int(self._steps.max())} steps of an episode)"
        )

    def _check(self, what: str, values: Float[np.ndarray, "lane ..."]) -> None:
        is_good = np.isfinite(values.reshape(self.count, -1)).all(axis=1)
        if not is_good.all():
            lane = int(np.argmin(is_good))
            raise EnvironmentFault(f"{self._place(lane)}: {what} is not finite: {values[lane]}")

    def _check_horizon(self, is_over: Bool[np.ndarray, " lane"]) -> None:
        is_late = ~is_over & (self._steps >= self._horizon_steps)
        if is_late.any():
            lane = int(np.argmax(is_late))
            raise EnvironmentFault(
                f"{self._place(lane)}: the episode should have ended after "
                f"{self._horizon_steps} steps and goes on; wrap each environment in "
                "gymnasium.wrappers.TimeLimit, or give as `horizon_steps` when episodes end"
            )

    def _place(self, lane: int) -> str:
        return place(lane, int(self._episodes[lane]), int(self._steps[lane]))


def _mode(vector: VectorEnv[Any, Any, Any]) -> AutoresetMode:
    """The autoreset mode; those of lanes that we cannot reset by themselves are refused."""
    mode = vector.metadata.get("autoreset_mode")
    if mode is AutoresetMode.SAME_STEP:
        return mode
    inner = getattr(vector, "unwrapped", vector)
    if isinstance(inner, SyncVectorEnv | AsyncVectorEnv) or mode is AutoresetMode.DISABLED:
        return AutoresetMode.DISABLED
    raise EnvironmentFault(
        f"the vector environment {type(inner).__name__} has the autoreset mode {mode}: make it "
        "with gymnasium.vector.AutoresetMode.SAME_STEP or DISABLED"
    )


def _infos(infos: Mapping[str, Any], lanes: int) -> list[dict[str, Any]]:
    """A vector environment's info, lane by lane: `_key` says which lanes have a `key`."""
    found: list[dict[str, Any]] = [{} for _ in range(lanes)]
    for key, values in infos.items():
        if key.startswith("_") or key in ("final_obs", "final_info"):
            continue
        has = infos.get(f"_{key}", np.ones(lanes, bool))
        each = _infos(values, lanes) if isinstance(values, Mapping) else values
        for lane in np.flatnonzero(has):
            found[lane][key] = each[lane]
    return found


def _first_silent(vector: AsyncVectorEnv) -> int:
    """The first lane whose process has not answered."""
    pipes = vector.parent_pipes
    return next((at for at, pipe in enumerate(pipes) if pipe and not pipe.poll(0)), 0)


def _close(vector: VectorEnv[Any, Any, Any], limit_s: float | None, *, is_broken: bool) -> None:
    """Close the environments; the processes of some end, whatever state they are in."""
    faults: Sequence[str | None] = ()
    try:
        if isinstance(vector, SyncVectorEnv):
            faults = vector.call("shut")
        elif isinstance(vector, AsyncVectorEnv) and not is_broken:
            vector.call_async("shut")
            faults = vector.call_wait(timeout=limit_s)
    except multiprocessing.TimeoutError:
        faults = [f"close has not returned within {limit_s:g} s"]
    except Exception as error:  # a process is gone: no reason to lose a result
        faults = [f"close raised {type(error).__name__}: {error}"]
    finally:
        if isinstance(vector, AsyncVectorEnv):
            end_all(vector)
        else:
            vector.close()
    raised = [fault for fault in faults if fault is not None]
    if raised:
        others = f" (and of {len(raised) - 1} others)" if len(raised) > 1 else ""
        warnings.warn(
            f"{raised[0]}{others}; what was found before is not affected",
            RuntimeWarning,
            stacklevel=3,
        )
