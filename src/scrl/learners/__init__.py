"""Learners: they improve a policy from the steps it took. A new one is a file and a line here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from scrl.learners import cal, ddpg, ppo, sac
from scrl.learners.config import CalConfig, DdpgConfig, NetworkConfig, PpoConfig, SacConfig
from scrl.learners.encoders import Encoder, SweepEncoder
from scrl.learners.learner import Learner, Pricing, TrainedPolicy


class LearnerEntry(NamedTuple):
    """A row of the table of learners."""

    config: type[NetworkConfig]
    make: Callable[[Any, Encoder], Learner]
    has_multipliers: bool = False
    """Whether its networks know the atoms it is told one by one."""


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
