"""Finite MDPs with labels: the checked description and the exact values of policies."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from scipy import sparse

from scrl.reference import checks
from scrl.reference.checks import MdpError, endless_state, reachable_states
from scrl.reference.core import Core, Values, flat_labels

__all__ = ["FiniteMDP", "MdpError"]


@dataclass(frozen=True, init=False, eq=False)
class FiniteMDP:
    """States 0..n-1, actions 0..m-1; everything is checked once, when it is built."""

    transitions: sparse.csr_array
    """[(state action) next]: row state * actions + action; empty where not available."""
    rewards: Float[np.ndarray, "state action"]
    labels: Float[np.ndarray, "state action region"]
    """What each region receives when the action is taken in the state, in units."""
    start: Float[np.ndarray, " state"]
    discount: float
    """1 means undiscounted: every policy must end the episode with certainty."""
    regions: tuple[str, ...]
    available: Bool[np.ndarray, "state action"]

    def __init__(
        self,
        *,
        transitions: Any,
        rewards: Any,
        labels: Any,
        start: Any,
        discount: float = 1.0,
        regions: Iterable[str],
        available: Any = None,
    ) -> None:
        """`transitions`: [state action next], or sparse [(state action) next].

        `rewards` [state action] and `labels` [state action region] may leave out the action axis.
        """
        discount = checks.checked_discount(discount)
        names = checks.checked_regions(regions)
        shape, rows = checks.checked_transitions(transitions, start)
        choice = checks.checked_available(available, shape)
        rows = checks.checked_rows(rows, choice, discount, shape)
        put = object.__setattr__
        put(self, "transitions", rows)
        put(self, "rewards", checks.checked_rewards(rewards, shape))
        put(self, "labels", checks.checked_labels(labels, shape, len(names)))
        put(self, "start", checks.checked_start(start, shape[0]))
        put(self, "discount", discount)
        put(self, "regions", names)
        put(self, "available", choice)
        self._check_reachable()

    def _check_reachable(self) -> None:
        reached = reachable_states(self.transitions, self.start)
        stuck = reached & ~self.available.any(axis=1)
        if stuck.any():
            raise MdpError(f"state {np.flatnonzero(stuck)[0]} can be reached and has no action")
        if self.discount < 1:
            return
        state = endless_state(self.transitions, reached, self.available)
        if state is not None:
            raise MdpError(
                f"state {state}: from here a policy may never end the episode, so the undiscounted "
                "sums diverge: add a way out to every loop, or set a discount below 1"
            )

    @property
    def states(self) -> int:
        return len(self.start)

    @property
    def actions(self) -> int:
        return self.rewards.shape[1]

    @cached_property
    def core(self) -> Core:
        """The part that can be reached from the start, which the solvers work on."""
        states = np.flatnonzero(reachable_states(self.transitions, self.start))
        rows = (states[:, None] * self.actions + np.arange(self.actions)).ravel()
        return Core(
            states=states,
            transitions=sparse.csr_array(self.transitions[rows][:, states]),
            rewards=self.rewards[states].ravel(),
            labels=flat_labels(self.labels[states]),
            available=self.available[states],
            start=self.start[states],
            discount=self.discount,
        )

    def values(self, policy: Any) -> Values:
        """The exact return and densities of a policy [state action], by a sparse linear solve."""
        return self.core.values(self._checked(policy)[self.core.states])

    def lift(
        self, policy: Float[np.ndarray, "reached action"]
    ) -> Float[np.ndarray, "state action"]:
        """A policy of the core as one of the MDP; uniform over what is available elsewhere."""
        full = self.available / np.maximum(self.available.sum(axis=1, keepdims=True), 1)
        full[self.core.states] = policy
        return full

    def _checked(self, policy: Any) -> Float[np.ndarray, "state action"]:
        return checks.checked_policy(policy, self.available, self.core.states)
