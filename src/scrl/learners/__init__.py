"""The learners. A new one is a module and an entry in this table."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from scrl.learners import cal, cpo, ddpg, ppo, sac
from scrl.learners.config import (
    CalConfig,
    CpoConfig,
    DdpgConfig,
    NetworkConfig,
    PpoConfig,
    SacConfig,
)
from scrl.learners.encoders import Encoder, SweepEncoder
from scrl.learners.learner import Learner, Pricing, ReactingPolicy, TrainedPolicy, policy_of


class LearnerEntry(NamedTuple):
    """An entry of the table of learners."""

    config: type[NetworkConfig]
    make: Callable[[Any, Encoder], Learner]
    has_multipliers: bool = False
    """Whether it keeps one multiplier per atom of the reading itself."""
    needs_labels: bool = False
    """Whether its critic always predicts what each region receives beside the return."""
    most_atoms: float = math.inf
    """How many atoms it can be told."""


LEARNERS: dict[str, LearnerEntry] = {
    "ppo": LearnerEntry(PpoConfig, ppo.learner),
    "ddpg": LearnerEntry(DdpgConfig, ddpg.learner),
    "sac": LearnerEntry(SacConfig, sac.learner),
    "cal": LearnerEntry(CalConfig, cal.learner, has_multipliers=True),
    "cpo": LearnerEntry(CpoConfig, cpo.learner, needs_labels=True, most_atoms=cpo.MOST_ATOMS),
    "pcpo": LearnerEntry(
        CpoConfig, cpo.projecting_learner, needs_labels=True, most_atoms=cpo.MOST_ATOMS
    ),
}

__all__ = [
    "LEARNERS",
    "Encoder",
    "Learner",
    "LearnerEntry",
    "NetworkConfig",
    "Pricing",
    "ReactingPolicy",
    "SweepEncoder",
    "TrainedPolicy",
    "policy_of",
]
