"""Simulated episodes of a finite MDP: the slow, obvious witness of the exact values."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log

import numpy as np
from jaxtyping import Float

from scrl.reference.core import Core
from scrl.reference.linear import NumericalTroubleError

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
    amounts: Float[np.ndarray, "episode region"]
    """What each region received in each episode."""
    steps: Float[np.ndarray, " episode"]


def sample(
    core: Core, policy: Float[np.ndarray, "reached action"], episodes: int, seed: int
) -> Sampled:
    """Run episodes side by side until all have ended, or until the discount has forgotten them."""
    random = np.random.default_rng(seed)
    width = core.available.shape[1]
    upto = np.cumsum(core.transitions.data)
    before = np.concatenate([[0.0], upto])[core.transitions.indptr]
    state = random.choice(len(core.start), size=episodes, p=core.start)
    alive = np.arange(episodes)
    sums = np.zeros((episodes, 1 + core.labels.shape[1]))
    length = np.zeros(episodes)
    steps = MOST_STEPS
    if core.discount < 1:
        steps = ceil(log(FORGOTTEN) / log(core.discount))
    for step in range(steps):
        ladder = np.cumsum(policy[state], axis=1)
        draw = random.random(len(alive)) * ladder[:, -1]
        row = state * width + np.minimum((ladder <= draw[:, None]).sum(axis=1), width - 1)
        gained = np.column_stack([core.rewards[row], core.labels[row]])
        sums[alive] += core.discount**step * gained
        length[alive] += 1
        place = np.searchsorted(upto, before[row] + random.random(len(alive)), side="right")
        goes_on = place < core.transitions.indptr[row + 1]
        alive, state = alive[goes_on], core.transitions.indices[place[goes_on]]
        if not len(alive):
            break
    if len(alive) and core.discount == 1:
        raise NumericalTroubleError(f"{len(alive)} episodes did not end within {steps} steps")
    mean = sums.mean(axis=0)
    error = sums.std(axis=0, ddof=min(episodes - 1, 1)) / np.sqrt(episodes)
    return Sampled(float(mean[0]), float(error[0]), mean[1:], error[1:], sums[:, 1:], length)
