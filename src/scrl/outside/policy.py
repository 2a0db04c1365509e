"""A trained policy for somebody's environment: an observation in, an action out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from scrl.errors import PolicyError
from scrl.learners import SeeingPolicy
from scrl.learners.actions import Choice
from scrl.outside.compiled import choose_all
from scrl.outside.driving import Act
from scrl.outside.lanes import Lanes
from scrl.outside.spaces import Actions


class OutsidePolicy:
    """What a run learned, without noise: `action = policy(observation)`."""

    def __init__(self, policy: SeeingPolicy, actions: Actions) -> None:
        self.policy, self.actions = policy, actions
        self._of_one = jax.tree.map(lambda leaf: np.asarray(leaf)[None], policy)

    @property
    def is_random(self) -> bool:
        return False

    @property
    def features(self) -> int:
        """Numbers in the observations that it was trained on."""
        return self.policy.eyes.features

    def __call__(self, observation: Any) -> np.ndarray:
        """What to do, as the environment wants it; for an observation of plain numbers."""
        row = np.asarray(observation, np.float32).ravel()
        if len(row) != self.features:
            raise PolicyError(
                f"this policy was trained on observations of {self.features} numbers, and this "
                f"one has {len(row)}"
            )
        action = self.on_rows(row[None])[0]
        return action if isinstance(self.actions.kind, Choice) else np.asarray(action)

    def on_rows(self, rows: Float[np.ndarray, "lane feature"]) -> np.ndarray:
        """The same for many observations at once."""
        return self.actions.to_environment(np.asarray(choose_all(self._of_one, rows[None]))[0])


def acting(policy: OutsidePolicy | Callable[[Any], Any]) -> Act:
    """A policy, or any function of an observation, for all lanes."""
    if isinstance(policy, OutsidePolicy):
        return lambda lanes: policy.on_rows(lanes.features)

    def act(lanes: Lanes) -> np.ndarray:
        return np.stack([np.asarray(policy(each)) for each in lanes.observations()])

    return act
