"""An environment and the rules that hold in it: a problem that steps outside of this package."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from scrl.errors import check_text, did_you_mean
from scrl.evaluation import Evaluation
from scrl.labels import Labels, LabelSource, Step
from scrl.outside.contract import EnvironmentFault, Guard
from scrl.outside.lanes import Lanes
from scrl.outside.sources import Source, made, own_horizon
from scrl.outside.spaces import Actions, Observations
from scrl.problems import ProblemOptions
from scrl.rules import RuleSet
from scrl.rules.ruleset import Source as RuleSource
from scrl.runfiles.environment import EnvironmentTerms, KeptEnvironment


@dataclass(frozen=True, repr=False)
class EnvironmentProblem(EnvironmentTerms):
    """Anybody's environment, what its steps give to which regions, and the rules for them."""

    source: Source
    labels: Labels
    rules: RuleSet
    horizon_steps: int
    observations: Observations
    actions: Actions
    options: ProblemOptions = field(default_factory=ProblemOptions)
    counts: str = "steps"
    processes: bool = False
    """Whether every lane has a process of its own."""

    def _extent(self) -> str:
        return f"{len(self.regions)} regions, at most {self.horizon_steps} steps"

    def parts(self) -> dict[str, Any]:
        return self.kept.parts()

    @property
    def kept(self) -> KeptEnvironment:
        """All that can be written down of it: an environment itself cannot."""
        return KeptEnvironment(
            environment=self.source.name,
            rules=self.rules,
            horizon_steps=self.horizon_steps,
            features=self.observations.features,
            actions=self.actions.to_json(),
            options=self.options,
            counts=self.counts,
        )

    def evaluate(
        self, policy: Any, *, episodes: int | None = None, seed: int = 0, name: str | None = None
    ) -> Evaluation:
        """What a function of an observation does; the same as `scrl.evaluate(problem, policy)`."""
        from scrl.outside.judging import evaluate

        return evaluate(self, policy, episodes=episodes, seed=seed, name=name)

    def open(self, lanes: int) -> Lanes:
        """So many environments side by side; use it in a `with` statement."""
        vector = self.source.open(
            lanes, self.labels, horizon_steps=self.horizon_steps, processes=self.processes
        )
        is_ours = self.source.vector is None
        return Lanes(vector, self.labels, self.horizon_steps, is_ours=is_ours)


def environment(
    env: Any,
    *,
    labels: LabelSource | Labels,
    rules: RuleSource = (),
    regions: Sequence[str] | None = None,
    horizon_steps: int | None = None,
    processes: bool = False,
    unit: str = "steps",
    **options: Any,
) -> EnvironmentProblem:
    """A problem from anybody's Gymnasium environment.

    `env` is an id, a function that makes one, one or several environments, or a vector environment.
    `labels` say what a step gives to each region (`scrl.labels`), `rules` what must hold of the
    sums over an episode. `options` are those of a problem file: `name`, `tolerance`, `discount`,
    `margin`, `equality_band`.
    """
    for key in options:
        if key not in OPTIONS:
            raise EnvironmentFault(f"unknown option '{key}'{did_you_mean(key, OPTIONS)}")
    check_text(unit, "unit", error=EnvironmentFault)
    source = Source.of(env)
    sample, spaces, horizon = _first_look(source, horizon_steps)
    found = Labels.of(labels, regions, sample=sample)
    found(sample)
    chosen = ProblemOptions(**{"name": source.name, **options})
    rule_set = RuleSet.of(rules, found.names, chosen.conventions)
    observations, actions = spaces
    return EnvironmentProblem(
        source, found, rule_set, horizon, observations, actions, chosen, unit, processes
    )


OPTIONS: tuple[str, ...] = (
    "labels", "rules", "regions", "horizon_steps", "processes", "unit",
    *(each.name for each in fields(ProblemOptions)),
)  # fmt: skip
"""Names of all that `environment` takes beside the environment."""


def _first_look(
    source: Source, horizon_steps: int | None
) -> tuple[Step, tuple[Observations, Actions], int]:
    """One step of an environment, its spaces, and how long its episodes are at most."""
    if horizon_steps is not None and (not isinstance(horizon_steps, int) or horizon_steps < 1):
        raise EnvironmentFault(f"horizon_steps = {horizon_steps!r} must be a whole number above 0")
    if source.vector is not None:
        return _look_at_vector(source, horizon_steps)
    env = made(source.maker(0), 0)
    try:
        horizon = _horizon(horizon_steps, own_horizon(env), source.name)
        spaces = Observations.of(env.observation_space), Actions.of(env.action_space)
        guarded = Guard(env, 0)
        guarded.reset(seed=0)
        action = spaces[1].to_environment(spaces[1].random(1, np.random.default_rng(0)))[0]
        observation, reward, _, _, info = guarded.step(action)
    finally:
        if not source.is_given(0):
            env.close()
    return Step(observation, action, reward, info), spaces, horizon


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
