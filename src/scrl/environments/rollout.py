"""Lanes + something that acts -> sums of whole episodes, or a rollout of steps to learn from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Bool, Float, Shaped

from scrl.environments.lanes import Lanes
from scrl.environments.spaces import Actions
from scrl.rollout import Episode, Rollout

Act: TypeAlias = Callable[[Lanes], np.ndarray]
"""What all lanes see -> what each does, as the environment wants it."""


def run_episodes(
    lanes: Lanes, act: Act, *, each: int, seeds: Sequence[int], discount: float = 1.0
) -> Episode:
    """So many whole episodes in every lane, whichever ends first: the short ones are no majority.

    Lanes are the first axis of what is found, episodes the second.
    """
    count, regions = lanes.count, len(lanes.labels.names)
    shape = (count, each)
    sums = np.zeros(shape), np.zeros((*shape, regions)), np.zeros(shape, int), np.zeros(shape, bool)
    return_, service, steps, is_terminated = sums
    done, lane = np.zeros(count, int), np.arange(count)
    lanes.reset(seeds)
    while (is_open := done < each).any():
        now = lanes.step(act(lanes))
        at = (lane[is_open], done[is_open])
        weight = discount ** steps[at]
        return_[at] += weight * now.reward[is_open]
        service[at] += weight[:, None] * now.labels[is_open]
        steps[at] += 1
        is_terminated[at] = now.is_terminated[is_open]
        done += now.is_terminated | now.is_truncated
    return Episode._make((*sums, None))


class Explored(NamedTuple):
    """What was done in every lane, for the environment and for the learner."""

    action: Shaped[np.ndarray, "lane ..."]
    log_probability: Float[np.ndarray, " lane"]


def collect(
    lanes: Lanes,
    actions: Actions,
    explore: Callable[[Float[np.ndarray, "lane feature"], int], Explored],
    *,
    steps: int,
    seeds: Sequence[int],
    is_counted: bool = False,
) -> Rollout:
    """Steps of all lanes from the start of an episode on; `explore(features, time)` acts.

    With `is_counted` observations have what the episode had so far.
    """
    lanes.reset(seeds)
    rows = []
    for time in range(steps):
        seen = lanes.counted if is_counted else lanes.features
        chosen = explore(seen, time)
        *now, after, counted = lanes.step(actions.to_environment(chosen.action))
        rows.append((seen, *chosen, *now, counted if is_counted else after))  # as in a rollout
    return Rollout._make(np.stack(each) for each in zip(*rows, strict=True))


class FirstEpisodes(NamedTuple):
    """What random actions bring, one episode in each lane: units are read off it."""

    size: Float[np.ndarray, "*seeds lane"]
    """Sum of all rewards of an episode, without their signs."""
    steps: Float[np.ndarray, "*seeds lane"]
    served: Float[np.ndarray, "*seeds lane region"]
    """Sum of all labels, without their signs."""
    net: Float[np.ndarray, "*seeds lane region"]
    """Sum of all labels, with their signs."""
    times: Float[np.ndarray, "*seeds lane region"]
    """Steps with a label that is not 0."""
    features: Float[np.ndarray, "*seeds lane sample feature"]


SAMPLES = 256
"""Observations that are kept of each lane's first episode."""


def run_at_random(lanes: Lanes, actions: Actions, *, seeds: Sequence[int]) -> FirstEpisodes:
    """One episode of random actions in each lane."""
    chance = np.random.default_rng(list(map(int, seeds)))
    regions = len(lanes.labels.names)
    size, steps = np.zeros(lanes.count), np.zeros(lanes.count)
    served, net, times = np.zeros((3, lanes.count, regions))
    kept: list[np.ndarray] = []
    is_open: Bool[np.ndarray, " lane"] = np.ones(lanes.count, bool)
    lanes.reset(seeds)
    while is_open.any():
        kept.append(lanes.features)
        now = lanes.step(actions.to_environment(actions.random(lanes.count, chance)))
        size += is_open * np.abs(now.reward)
        steps += is_open
        served += is_open[:, None] * np.abs(now.labels)
        net += is_open[:, None] * now.labels
        times += is_open[:, None] * (now.labels != 0)
        is_open &= ~(now.is_terminated | now.is_truncated)
    chosen = np.linspace(0, len(kept) - 1, SAMPLES).astype(int)
    samples = np.stack([kept[place] for place in chosen], axis=1)
    return FirstEpisodes(size, steps, served, net, times, samples)
