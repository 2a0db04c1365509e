"""How it is learned: the settings of the loop, and a learner with its own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from scrl.learners import LEARNERS, Eyes, Learner, NetworkConfig
from scrl.measuring import Task
from scrl.worlds.settings import check_settings, setting

SETTLE_SHARE = 0.25
"""Of a budget, at most, for the rounds in which kappa settles."""


@dataclass(frozen=True)
class LoopConfig:
    """How much is driven in one iteration, and how kappa moves."""

    iterations: int = setting(200, "Rounds of driving and learning.", low=1, high=10_000_000)
    settle: int = setting(
        200,
        "Rounds after them in which kappa alone moves, with shrinking steps.",
        low=0,
        high=100_000,
    )
    worlds: int = setting(16, "Worlds side by side.", low=1, high=65_536)
    steps: int = setting(1024, "Steps in each world and round.", low=1, high=1_000_000)
    kappa_rate: float | None = setting(
        None, "Beta: how far kappa moves per unit of violation (none: by the world's scale).",
        low=0.0, high=1e9,
    )  # fmt: skip
    last_kappa_rate: float = setting(
        0.3, "Beta in the last round, as a share of that in the first.", low=0.0, high=1.0
    )
    sees_prices: bool = setting(
        True, "Whether the policy sees what steps earn under the present kappa."
    )
    wobble: float = setting(
        0.15, "Worlds drive under kappas up to e^wobble times the present one.", low=0.0, high=3.0
    )
    inset: float = setting(
        0.5, "How far inside each bound kappa aims, in steps of service.", low=0.0, high=1e6
    )
    episodes: int = setting(
        16, "Episodes behind each measurement, where chance plays a part.", low=1, high=100_000
    )
    settle_episodes: int = setting(256, "The same while kappa settles.", low=1, high=100_000)
    deviations: float = setting(
        4.0,
        "Standard errors that a measured density must lie inside its bounds.",
        low=0.0,
        high=10.0,
    )
    budget: int | None = setting(
        None, "Steps of each seed in training, all counted, at most (none: no limit).",
        unit="steps", low=1, high=10**15,
    )  # fmt: skip

    def __post_init__(self) -> None:
        check_settings(self)

    def measured(self, *, is_random: bool, is_learning: bool) -> int:
        """Episodes behind one measurement: where chance plays no part, one tells everything."""
        if not is_random:
            return 1
        return self.episodes if is_learning else self.settle_episodes

    def within(self, budget: int, *, episode_steps: float, is_random: bool) -> LoopConfig:
        """As many rounds as a budget of steps for each seed allows, all that is driven counted.

        A share of it goes into settling. What an episode takes is only known once it is driven, so
        training also ends before a round that would not fit any more. A budget of less than one
        round makes that round shorter.
        """
        learn, settle = (
            episode_steps * self.measured(is_random=is_random, is_learning=is_learning)
            for is_learning in (True, False)
        )
        steps = min(self.steps, max(1, int((budget - learn) // self.worlds)))
        learn += self.worlds * steps
        rounds = min(self.settle, int(SETTLE_SHARE * budget // settle)) if settle else self.settle
        left = budget - rounds * settle
        return replace(
            self, steps=steps, iterations=max(1, int(left // learn)), settle=rounds, budget=budget
        )


class LearningPlan(NamedTuple):
    """How it is learned: the loop, and a learner with its settings."""

    loop: LoopConfig
    learner: str
    settings: NetworkConfig

    def build(self, task: Task, eyes: Eyes) -> Learner:
        """The learner for a task; without a discount of its own it takes the task's."""
        settings = self.settings
        if settings.discount is None:
            settings = replace(settings, discount=task.discount)
        return LEARNERS[self.learner].make(settings, eyes)
