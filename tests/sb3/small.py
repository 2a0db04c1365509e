"""A world with a known answer, for algorithms with continuous and with discrete actions."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import torch
from stable_baselines3 import PPO

STEPS = 10
RULE = "if left > 2 then right >= 7"


class Sharing(gymnasium.Env[np.ndarray, Any]):
    """Ten steps; in each, a share a goes to `right` and the rest to `left`, at a cost of a^2.

    So nothing goes right unless it pays. With a price p for a step to the right, a = p / 2 is best:
    the answer moves smoothly. `RULE` can be kept by left <= 2, which is right >= 8 (return
    -10 * 0.64 = -6.4), or by right >= 7 (return -4.9, the best). Untrained policies give
    about 0 or 5.
    """

    def __init__(self, shares: int | None = None) -> None:
        """With `shares`, actions are 0, 1, ..., for a share of 0, 1 / (shares - 1), ..., 1."""
        self.shares = shares
        if shares is None:
            self.action_space = gymnasium.spaces.Box(0.0, 1.0, (1,), np.float32)
        else:
            self.action_space = gymnasium.spaces.Discrete(shares)
        self.observation_space = gymnasium.spaces.Box(0.0, 1.0, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self._steps = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        share = float(action[0]) if self.shares is None else int(action) / (self.shares - 1)
        self._steps += 1
        seen = np.full(1, self._steps / STEPS, np.float32)
        info = {"amounts": {"left": 1.0 - share, "right": share}}
        return seen, -(share**2), self._steps == STEPS, False, info


def action_layer(model: PPO) -> torch.nn.Linear:
    """The last layer of the policy, from which its actions come."""
    layer = model.policy.action_net
    assert isinstance(layer, torch.nn.Linear)
    return layer
