"""The questions that a world answers. Whoever searches or trains asks these and nothing else.

A world that answers `step` can be trained. One that also answers `respond` can be planned for by
column generation (`reference.columns`), whatever its policies are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
from jaxtyping import Bool, Float

if TYPE_CHECKING:  # these two bring JAX, which the reference does not need
    from jaxtyping import Array, PRNGKeyArray

State = TypeVar("State")
Policy = TypeVar("Policy")


class StepResult(NamedTuple, Generic[State]):
    """What happened in one step."""

    state: State
    """The state it led to."""
    reward: Float[Array, ""]
    labels: Float[Array, " region"]
    """What the step gave to each region, in steps of service: the amount divided by the rate."""
    is_terminated: Bool[Array, ""]
    """The episode has come to its end."""
    is_truncated: Bool[Array, ""]
    """The horizon cut the episode off before its end; never true together with the former."""


class SteppedWorld(Protocol[State]):
    """A world that answers `step`.

    All are pure functions of arrays, so that worlds run side by side under `jax.vmap`. A key is
    used for nothing else.
    """

    def initial(self, *, key: PRNGKeyArray) -> State:
        """The state in which an episode begins."""
        ...

    def observe(self, state: State) -> Float[Array, " feature"]:
        """What a policy sees of a state."""
        ...

    def step(
        self, state: State, action: Float[Array, "*action"], *, key: PRNGKeyArray
    ) -> StepResult[State]:
        """What happens next. Every episode ends, terminated or truncated, after finitely many."""
        ...


@dataclass(frozen=True)
class Column(Generic[Policy]):
    """A policy and what it does: so mixtures of columns can be done as well."""

    policy: Policy
    return_: float
    """In expectation, as are the amounts."""
    amounts: Float[np.ndarray, " region"]
    """In units."""


@dataclass(frozen=True)
class Response(Generic[Policy]):
    """The answer to one vector of prices."""

    column: Column[Policy] | None
    """None where the policy that was found does not come to the end of an episode in time."""
    at_most: float = float("inf")
    """return + prices . amounts of any policy is at most this, as far as the world can tell: proven
    for a finite MDP, rounded on a lattice, infinite where nothing is known."""


class Respond(Protocol[Policy]):
    """`respond(prices)`: for each vector of prices a policy that earns (nearly) the most.

    A price is what one unit of a region's amount is worth, in return, so a policy earns
    return + prices . amounts. There is one response for each vector, in the same order. What a
    response says of its policy is what the policy itself does, by exact evaluation or by driving
    it: an estimate would make mixtures that nobody can follow. How near the most a policy comes
    decides how good a search on top of it is, never whether what it finds is true.

    A world may let prices change along the way. They have an axis more then, before the regions.
    """

    def __call__(
        self, prices: Float[np.ndarray, "response *place region"], /
    ) -> Sequence[Response[Policy]]: ...
