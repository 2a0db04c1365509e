"""The learners. A new one is a module and an entry in this table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from scrl.learners import cal, ddpg, ppo, sac
from scrl.learners.config import CalConfig, DdpgConfig, NetworkConfig, PpoConfig, SacConfig
from scrl.learners.encoders import Encoder, SweepEncoder
from scrl.learners.learner import Learner, Pricing, TrainedPolicy


class LearnerEntry(NamedTuple):
    """An entry of the table of learners."""

    config: type[NetworkConfig]
    make: Callable[[Any, Encoder], Learner]
    has_multipliers: bool = False
    """Whether it keeps one multiplier per atom of the reading itself."""


LEARNERS: dict[str, LearnerEntry] = {
    "ppo": LearnerEntry(PpoConfig, ppo.learner),
    "ddpg": LearnerEntry(DdpgConfig, ddpg.learner),
    "sac": LearnerEntry(SacConfig, sac.learner),
    "cal": LearnerEntry(CalConfig, cal.learner, has_multipliers=True),
}

__all__ = [
    "LEARNERS",
    "Encoder",
    "Learner",
    "LearnerEntry",
    "NetworkConfig",
    "Pricing",
    "SweepEncoder",
    "TrainedPolicy",
]
