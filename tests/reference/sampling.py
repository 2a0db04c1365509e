"""Simulated episodes of a finite MDP: an independent estimate of the exact values."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log

import numpy as np
from jaxtyping import Float

from scrl.reference.finite import FiniteMDP

FORGOTTEN = 1e-9
"""A discounted episode stops when this share of its weight is left."""
MOST_STEPS = 1_000_000


@dataclass(frozen=True)
class Sampled:
    """Means over episodes with their standard errors."""

    return_: float
    return_se: float
    density: Float[np.ndarray, " region"]
    density_se: Float[np.ndarray, " region"]


def sample(
    mdp: FiniteMDP, policy: Float[np.ndarray, "state action"], episodes: int, seed: int
) -> Sampled:
    """Run episodes in parallel until all have ended or what is left of them weighs nothing."""
    core = mdp.core
    policy = policy[core.states]
    random = np.random.default_rng(seed)
    width = core.available.shape[1]
    upto = np.cumsum(core.transitions.data)
    before = np.concatenate([[0.0], upto])[core.transitions.indptr]
    state = random.choice(len(core.start), size=episodes, p=core.start)
    alive = np.arange(episodes)
    sums = np.zeros((episodes, 1 + core.labels.shape[1]))
    steps = MOST_STEPS
    if core.discount < 1:
        steps = ceil(log(FORGOTTEN) / log(core.discount))
    for step in range(steps):
        ladder = np.cumsum(policy[state], axis=1)
        draw = random.random(len(alive)) * ladder[:, -1]
        row = state * width + np.minimum((ladder <= draw[:, None]).sum(axis=1), width - 1)
        gained = np.column_stack([core.rewards[row], core.labels[row]])
        sums[alive] += core.discount**step * gained
        place = np.searchsorted(upto, before[row] + random.random(len(alive)), side="right")
        goes_on = place < core.transitions.indptr[row + 1]
        alive, state = alive[goes_on], core.transitions.indices[place[goes_on]]
        if not len(alive):
            break
    assert not len(alive) or core.discount < 1, f"not ended within {steps} steps"
    mean = sums.mean(axis=0)
    error = sums.std(axis=0, ddof=min(episodes - 1, 1)) / np.sqrt(episodes)
    return Sampled(float(mean[0]), float(error[0]), mean[1:], error[1:])
