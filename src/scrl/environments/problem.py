"""An environment and the rules that hold in it: a problem that steps outside of this package."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces

from scrl.environments.contract import EnvironmentFault, Guard, rewards_of
from scrl.environments.labels import Labels, LabelSource, Step, in_first_step
from scrl.environments.lanes import Lanes
from scrl.environments.sources import JaxEnvironment, Source, made, own_horizon
from scrl.environments.spaces import Actions, Observations
from scrl.errors import check_texts, did_you_mean
from scrl.evaluation import Evaluation
from scrl.problems import ProblemOptions
from scrl.problems.problem import check_shares
from scrl.rules import RuleSet
from scrl.rules.ruleset import Source as RuleSource
from scrl.runs.environment import NEUTRAL, BaseEnvironmentProblem, EnvironmentRecord

if TYPE_CHECKING:
    from scrl.environments.compiled import Course

UNKNOWN_CHANCE = "how far chance goes in an environment, only the environment knows"
STEP_TIMEOUT_S = 300.0
"""Longest that a step or a reset may take in a process of its own, if nothing else is said."""


@dataclass(frozen=True, repr=False)
class EnvironmentProblem(BaseEnvironmentProblem):
    """Anybody's environment, what its steps give to which regions, and the rules for them."""

    source: Source
    labels: Labels
    rules: RuleSet
    horizon_steps: int
    observations: Observations
    actions: Actions
    options: ProblemOptions = field(default_factory=ProblemOptions)
    counts: str | Mapping[str, str] = NEUTRAL
    processes: bool = False
    """Whether every lane has a process of its own."""
    step_timeout_s: float | None = None
    """Longest that a step or a reset may take in a process of its own; none: `STEP_TIMEOUT_S`."""

    def _extent(self) -> str:
        return f"{len(self.regions)} regions, at most {self.horizon_steps} steps"

    def parts(self) -> dict[str, Any]:
        return self.record.parts()

    @property
    def record(self) -> EnvironmentRecord:
        """All that can be written down of it: an environment itself cannot."""
        return EnvironmentRecord(
            environment=self.source.name,
            rules=self.rules,
            horizon_steps=self.horizon_steps,
            features=self.observations.features,
            actions=self.actions.to_json(),
            options=self.options,
            counts=self.counts,
            labels=self.labels.keys if self.source.rewards is None else None,
        )

    def evaluate(
        self, policy: Any, *, episodes: int | None = None, seed: int = 0, name: str | None = None
    ) -> Evaluation:
        """What a function of an observation does; the same as `scrl.evaluate(problem, policy)`."""
        from scrl.environments.policy import evaluate

        return evaluate(self, policy, episodes=episodes, seed=seed, name=name)

    @cached_property
    def course(self) -> Course | None:
        """An environment of pure JAX functions, as it is compiled; else none."""
        return _course(self.source, self.labels, self.horizon_steps)

    def open(self, lanes: int) -> Lanes:
        """So many environments side by side; use it in a `with` statement."""
        if self.course is not None:
            return self.course.open(lanes)
        limit_s = (self.step_timeout_s or STEP_TIMEOUT_S) if self.processes else None
        vector = self.source.open(
            lanes, self.labels, horizon_steps=self.horizon_steps, limit_s=limit_s
        )
        is_ours = self.source.vector is None
        return Lanes(
            vector, self.labels, self.horizon_steps,
            is_ours=is_ours, limit_s=limit_s if is_ours else None,
        )  # fmt: skip


def environment(  # noqa: PLR0913 (named by whoever calls it)
    env: Any,
    *,
    labels: LabelSource | Labels | None = None,
    rules: RuleSource = (),
    rewards: Mapping[str, float] | Sequence[str] | None = None,
    regions: Sequence[str] | None = None,
    horizon_steps: int | None = None,
    processes: bool = False,
    step_timeout_s: float | None = None,
    unit: str | Mapping[str, str] = NEUTRAL,
    **options: Any,
) -> EnvironmentProblem:
    """A problem from anybody's Gymnasium environment.

    `env` is an id, a function that makes one, one or several environments, or a vector environment.
    `labels` say what a step gives to each region (see `Labels`), `rules` what must hold of the
    sums over an episode. Where a step has several rewards, `rewards` names them and says how much
    each weighs in the return; they are labels too. With `processes` every environment is stepped in
    a process of its own, and a step or reset that takes longer than `step_timeout_s` seconds (300)
    ends the run: in this process nothing could interrupt it. `unit` names what is counted: one word
    for all regions, or a mapping from regions to words. `options` are those of a problem file:
    `name`, `tolerance`, `discount`, `margin`, `equality_band`, `confidence`.
    """
    for key in options:
        if key not in OPTIONS:
            raise EnvironmentFault(f"unknown option '{key}'{did_you_mean(key, OPTIONS)}")
    _check_timeout(step_timeout_s, processes)
    check_texts(unit, "unit", error=EnvironmentFault)
    source = replace(Source.of(env), rewards=rewards_of(rewards))
    labels = _with_rewards(labels, source)
    sample, spaces, horizon = _first_look(source, horizon_steps)
    found = Labels.of(labels, regions, sample=sample)
    in_first_step(found, sample)
    chosen = ProblemOptions(**{"name": source.name, **options})
    rule_set = RuleSet.of(rules, found.names, chosen.conventions, chosen.confidence)
    check_shares(rule_set, is_random=True, unbounded=UNKNOWN_CHANCE)
    observations, actions = spaces
    return EnvironmentProblem(
        source, found, rule_set, horizon, observations, actions, chosen,
        _checked_unit(unit, found.names), processes, step_timeout_s,
    )  # fmt: skip


def _with_rewards(labels: LabelSource | Labels | None, source: Source) -> LabelSource | Labels:
    """Labels with one for each of several rewards, where there are some."""
    if source.rewards is None:
        if labels is None:
            raise EnvironmentFault("labels are missing: what a step gives to each region")
        return labels
    if source.vector is not None or source.compiled is not None:
        raise EnvironmentFault(
            "rewards are read in single environments of Gymnasium: give a function that makes one, "
            "or a list of them"
        )
    of_rewards = {name: name for name in source.rewards}
    if labels is None:
        return of_rewards
    return {**of_rewards, **labels} if isinstance(labels, Mapping) else labels


def _checked_unit(unit: str | Mapping[str, str], regions: Sequence[str]) -> str | Mapping[str, str]:
    """A word, or one for each region; regions that a mapping leaves out get the neutral one."""
    if isinstance(unit, str):
        return unit
    if not isinstance(unit, Mapping) or not all(isinstance(each, str) for each in unit.values()):
        raise EnvironmentFault(
            f"unit = {unit!r:.80} must be a text, or a mapping from regions to texts"
        )
    for name in unit:
        if name not in regions:
            raise EnvironmentFault(
                f"unit: unknown region '{name}'{did_you_mean(str(name), regions)}"
            )
    return {name: unit.get(name, NEUTRAL) for name in regions}


OPTIONS: tuple[str, ...] = (
    "labels", "rules", "rewards", "regions", "horizon_steps", "processes", "step_timeout_s", "unit",
    *(each.name for each in fields(ProblemOptions)),
)  # fmt: skip
"""Names of all that `environment` takes beside the environment."""


def _check_timeout(step_timeout_s: Any, processes: bool) -> None:
    if step_timeout_s is None:
        return
    if isinstance(step_timeout_s, bool) or not isinstance(step_timeout_s, int | float):
        raise EnvironmentFault(f"step_timeout_s = {step_timeout_s!r} must be a number of seconds")
    if not step_timeout_s > 0:
        raise EnvironmentFault(f"step_timeout_s = {step_timeout_s!r} must be above 0")
    if not processes:
        raise EnvironmentFault(
            f"step_timeout_s = {step_timeout_s!r} is for environments in processes of their own, "
            "for a step in this process cannot be ended: give processes=True too"
        )


def _first_look(
    source: Source, horizon_steps: int | None
) -> tuple[Step, tuple[Observations, Actions], int]:
    """One step of an environment, its spaces, and how long its episodes are at most."""
    _check_horizon(horizon_steps)
    if source.vector is not None:
        return _look_at_vector(source, horizon_steps)
    if source.compiled is not None:
        return _look_at_compiled(source, source.compiled, horizon_steps)
    env = made(source.maker(0), 0)
    guarded = Guard(env, 0, rewards=source.rewards)
    try:
        horizon = _horizon(horizon_steps, own_horizon(env), source.name)
        spaces = Observations.of(env.observation_space), Actions.of(env.action_space)
        guarded.reset(seed=0)
        action = spaces[1].to_environment(spaces[1].random(1, np.random.default_rng(0)))[0]
        observation, reward, _, _, info = guarded.step(action)
    finally:
        if not source.is_given(0):
            guarded.close()
    return Step(observation, action, reward, info), spaces, horizon


def _check_horizon(horizon_steps: Any) -> None:
    if horizon_steps is not None and (not isinstance(horizon_steps, int) or horizon_steps < 1):
        raise EnvironmentFault(f"horizon_steps = {horizon_steps!r} must be a whole number above 0")


def _course(source: Source, labels: Labels, horizon_steps: int) -> Course | None:
    if source.compiled is None:
        return None
    from scrl.environments.compiled import Course  # with JAX, which other environments do without

    return Course(source.compiled, labels, horizon_steps)


def _look_at_compiled(
    source: Source, env: JaxEnvironment, horizon_steps: int | None
) -> tuple[Step, tuple[Observations, Actions], int]:
    if not isinstance(env.observation_space, spaces.Box):
        raise EnvironmentFault(
            f"the observations of a JAX environment are a Box, not {env.observation_space!r:.80}"
        )
    _check_horizon(env.horizon_steps)
    horizon = _horizon(horizon_steps, env.horizon_steps, source.name)
    observations, actions = Observations.of(env.observation_space), Actions.of(env.action_space)
    course = _course(source, Labels(("first look",), lambda _: 0.0), horizon)
    assert course is not None  # noqa: S101 (for the type checker)
    action = actions.to_environment(actions.random(1, np.random.default_rng(0)))[0]
    return course.first_step(action), (observations, actions), horizon


def _look_at_vector(
    source: Source, horizon_steps: int | None
) -> tuple[Step, tuple[Observations, Actions], int]:
    vector = source.vector
    assert vector is not None  # noqa: S101 (for the type checker)
    own = own_horizon(vector) or _inner_horizon(vector)
    if own is not None and horizon_steps is not None and horizon_steps < own:
        raise EnvironmentFault(
            f"horizon_steps = {horizon_steps}, but episodes in '{source.name}' take up to {own} "
            "steps, and a vector environment ends them itself: wrap each environment in "
            "gymnasium.wrappers.TimeLimit"
        )
    horizon = _horizon(horizon_steps, own, source.name)
    observations = Observations.of(vector.single_observation_space)
    actions = Actions.of(vector.single_action_space)
    seen: list[Step] = []

    def note(step: Step) -> Any:
        seen.append(step)
        return 0.0

    lanes = Lanes(vector, Labels(("first look",), note), horizon, is_ours=False)
    lanes.reset(range(lanes.count))
    lanes.step(actions.to_environment(actions.random(lanes.count, np.random.default_rng(0))))
    return seen[0], (observations, actions), horizon


def _inner_horizon(vector: Any) -> int | None:
    """The horizon of a vector environment's first environment, if it can be asked."""
    try:
        spec = vector.get_attr("spec")[0]
    except Exception:  # vector environments of all kinds, and not all can be asked
        return None
    return getattr(spec, "max_episode_steps", None)


def _horizon(given: int | None, own: int | None, name: str) -> int:
    """The smaller of what was given and what the environment says; one of them must be there."""
    known = [each for each in (given, own) if each is not None]
    if not known:
        raise EnvironmentFault(
            f"environment '{name}' does not say when its episodes end, so they may never: give "
            "`horizon_steps`, or wrap it in gymnasium.wrappers.TimeLimit"
        )
    return min(known)
