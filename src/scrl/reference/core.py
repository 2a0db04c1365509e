"""The reachable part of an MDP: linear solves, exact values, the best policy for given rewards."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import ceil, log
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy import sparse
from scipy.sparse.csgraph import reverse_cuthill_mckee
from scipy.sparse.linalg import gmres, splu

from scrl.reference.linear import NumericalTroubleError

RESIDUAL = 1e-12
"""Linear systems are solved to this, relative to their right side."""
SMALL = 300
"""Systems of up to this many states are factorised without iterating first."""
FORGETS = 0.97
"""Below this discount fixed-point iteration converges quickly."""
CHEAP_FACTORS = 2e9
"""Other systems with states * bandwidth^2 below this are factorised without iterating first."""
ROUND = 16
"""Steps of fixed-point iteration between two checks of the residual."""
MOST_STARTS = 25
"""Restarts of the iteration before the system is factorised."""
MOST_ROUNDS = 1_000
"""Limit on rounds of policy iteration, which normally needs far fewer."""


@dataclass(frozen=True)
class Values:
    """The exact return, densities and state visits of a policy."""

    return_: float
    density: Float[np.ndarray, " region"]
    visits: Float[np.ndarray, " reached"]
    """Expected (discounted) visits to each state that can be reached."""


@dataclass(frozen=True)
class BestPolicy:
    """The best policy for given rewards, with values that bound every other policy."""

    actions: Int[np.ndarray, " reached"]
    values: Float[np.ndarray, " reached"]
    bound: float
    """No policy has a higher expected sum of these rewards."""


@dataclass(frozen=True, eq=False)
class Core:
    """The states of an MDP that can be reached; rows are state * actions + action."""

    states: Int[np.ndarray, " reached"]
    transitions: sparse.csr_array
    rewards: Float[np.ndarray, " row"]
    labels: Float[np.ndarray, "row region"]
    available: Bool[np.ndarray, "reached action"]
    start: Float[np.ndarray, " reached"]
    discount: float

    @cached_property
    def longest(self) -> float:
        """Upper bound on the (discounted) expected length of an episode of any policy."""
        if self.discount < 1:
            return 1 / (1 - self.discount)
        _, times, most = self._iterate(np.ones(len(self.rewards)), None)
        if most > 0.5:
            raise NumericalTroubleError("episodes are too long to bound their expected time")
        # T <= start . times + most T for every policy's expected time T
        return float(self.start @ times) / (1 - max(most, 0.0))

    @cached_property
    def is_direct(self) -> bool:
        """Whether to factorise: if the system is small, or iteration slow and factors cheap.

        A small discount needs few iterations. Factors need states * bandwidth^2 operations, which
        is cheap where an ordering gives a small bandwidth, as on maps and paths.
        """
        count, actions = self.available.shape
        if count <= SMALL or self.discount < FORGETS:
            return count <= SMALL
        rows, nexts = self.transitions.nonzero()
        graph = sparse.csr_array((np.ones(len(rows)), (rows // actions, nexts)), (count, count))
        order = reverse_cuthill_mckee(sparse.csr_matrix(graph + graph.T), symmetric_mode=True)
        place = np.argsort(order)
        width = np.abs(place[rows // actions] - place[nexts]).max(initial=0) + 1
        return float(count) * float(width) ** 2 <= CHEAP_FACTORS

    def chain(self, actions: Int[np.ndarray, " reached"]) -> sparse.csr_array:
        """I - discount * P of a deterministic policy."""
        count, width = self.available.shape
        rows = np.arange(count) * width + actions
        identity = sparse.eye_array(count, format="csr")
        return sparse.csr_array(identity - self.discount * self.transitions[rows])

    def gains(
        self, rewards: Float[np.ndarray, " row"], values: Float[np.ndarray, " reached"]
    ) -> Any:
        """[reached action]: r + discount * P v - v; -inf where an action is not available."""
        ahead = rewards + self.discount * (self.transitions @ values)
        table = ahead.reshape(self.available.shape) - values[:, None]
        return np.where(self.available, table, -np.inf)

    def solve(
        self, matrix: sparse.csr_array, right: np.ndarray, guess: np.ndarray | None = None
    ) -> np.ndarray:
        """The solution of a policy's equations by factors or iteration; the residual is checked."""
        size = float(np.linalg.norm(right))
        if not size:
            return np.zeros(len(right))
        if not self.is_direct:
            found = self._iterated(matrix, right, guess)
            if float(np.linalg.norm(matrix @ found - right)) <= 100 * RESIDUAL * size:
                return found
        factors = splu(sparse.csc_matrix(matrix))
        found = factors.solve(right)
        found += factors.solve(right - matrix @ found)
        residual = float(np.linalg.norm(matrix @ found - right))
        if not residual <= 100 * RESIDUAL * (size + float(np.linalg.norm(found))):
            raise NumericalTroubleError(
                f"the values of a policy were not found (residual {residual:.1e}): "
                "its episodes are too long"
            )
        return found

    def _iterated(
        self, matrix: sparse.csr_array, right: np.ndarray, guess: np.ndarray | None
    ) -> np.ndarray:
        """Fixed-point iteration x + (right - matrix x), whose error shrinks by the discount.

        For a discount close to 1, restarted minimal residuals, which may stall.
        """
        if self.discount >= FORGETS:
            return gmres(matrix, right, guess, rtol=RESIDUAL, restart=40, maxiter=MOST_STARTS)[0]
        found = right.copy() if guess is None else guess.copy()
        enough = RESIDUAL * float(np.linalg.norm(right))
        for _ in range(2 * ceil(log(RESIDUAL) / log(self.discount)) // ROUND + 1):
            rest = right
            for _ in range(ROUND):
                rest = right - matrix @ found
                found += rest
            # rarely, since a norm uses threads, which cost more than the step on busy cores
            if float(np.linalg.norm(rest)) <= enough:
                break
        return found

    def visits(self, actions: Int[np.ndarray, " reached"]) -> Float[np.ndarray, " reached"]:
        """Expected (discounted) visits of a deterministic policy: (I - discount P')^-1 start."""
        return self.solve(sparse.csr_array(self.chain(actions).T), self.start)

    def values(self, policy: Float[np.ndarray, "reached action"]) -> Values:
        """Exact return and densities of a randomised policy."""
        count, width = policy.shape
        mixing = sparse.csr_array(
            (policy.ravel(), np.arange(count * width), np.arange(count + 1) * width),
            shape=(count, count * width),
        )
        step = sparse.csr_array(mixing @ self.transitions)
        identity = sparse.eye_array(count, format="csr")
        matrix = sparse.csr_array(identity - self.discount * step.T)
        visits = self.solve(matrix, self.start)
        taken = (visits[:, None] * policy).ravel()
        return Values(float(taken @ self.rewards), taken @ self.labels, visits)

    def best_policy(
        self, rewards: Float[np.ndarray, " row"], first: BestPolicy | None = None
    ) -> BestPolicy:
        """The best deterministic policy for these rewards, by policy iteration.

        With gain = max over states of max_a (r + discount P v) - v, every policy's sum is at most
        start . v + max(gain, 0) * longest: this bound holds despite rounding errors in v.
        """
        actions, values, most = self._iterate(rewards, first)
        return BestPolicy(
            actions, values, float(self.start @ values) + max(most, 0.0) * self.longest
        )

    def _iterate(
        self, rewards: Float[np.ndarray, " row"], first: BestPolicy | None
    ) -> tuple[np.ndarray, np.ndarray, float]:
        """Policy iteration: actions, their values, and the largest gain that is left (rounding)."""
        count, width = self.available.shape
        actions = self.available.argmax(axis=1) if first is None else first.actions
        values = None if first is None else first.values
        for _ in range(MOST_ROUNDS):
            values = self.solve(
                self.chain(actions), rewards[np.arange(count) * width + actions], values
            )
            gain = self.gains(rewards, values)
            better = improved(actions, gain, 1e-12 * float(np.abs(values).max()))
            if (better == actions).all():
                return actions, values, float(gain.max())
            actions = better
        raise NumericalTroubleError("policy iteration did not end")


def improved(
    actions: Int[np.ndarray, " reached"],
    gain: Float[np.ndarray, "reached action"],
    least: float,
) -> Int[np.ndarray, " reached"]:
    """The best action of each state; the present one where nothing gains more than `least`."""
    now = np.take_along_axis(gain, actions[:, None], axis=1)[:, 0]
    return np.where(gain.max(axis=1) > now + least, gain.argmax(axis=1), actions)


def flat_labels(
    labels: Float[np.ndarray, "state action region"],
) -> Float[np.ndarray, "row region"]:
    """Labels with one row for each state and action."""
    return np.ascontiguousarray(labels.reshape(-1, labels.shape[2]))
