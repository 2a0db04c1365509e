"""Rules on single runs: how far a run is from keeping an atom is an amount of that run as well.

What an atom asks of one run is violated by max(0, a . amounts - b). Where the state holds the
amounts so far, this is an amount like any other, and a step adds to it. So rules that must hold in
a share of single runs reach a learner as prices too: as prices of violations.

What a step adds is counted for the forecast of the whole run: what was given so far, and for the
rest of each region what the present policy gives there on average. At the end of a run nothing is
left to forecast, so the sum over a run is its violation, less the forecast at its start. A step is
charged or rewarded only where it changes whether the run will keep the atom.
"""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from scrl.worlds.contract import StepResult
from scrl.worlds.sweep.world import SweepState, SweepWorld


class RunAtoms(eqx.Module):
    """Atoms of single runs: coefficients . service <= bounds, and the forecast they are held to."""

    coefficients: Float[Array, "atom region"]
    bounds: Float[Array, " atom"]
    expected: Float[Array, " region"]
    """The service of a whole run, on average."""
    cells: Float[Array, " region"]
    """Cells of the path in each region."""

    def forecast(
        self, service: Float[Array, " region"], left: Float[Array, " region"]
    ) -> Float[Array, " region"]:
        """The service of the whole run, if the rest of each region is as expected."""
        return service + left * self.expected

    def side(self, forecast: Float[Array, " region"]) -> Float[Array, " atom"]:
        """a . service - b: above 0, the atom is violated by so much."""
        # A sum, since XLA would call a library for a matrix product, which costs more.
        return (self.coefficients * forecast).sum(axis=-1) - self.bounds

    def violation(self, forecast: Float[Array, " region"]) -> Float[Array, " atom"]:
        """max(0, a . service - b)."""
        return jnp.maximum(self.side(forecast), 0.0)

    def price(
        self, of_violation: Float[Array, " atom"], forecast: Float[Array, " region"]
    ) -> Float[Array, " region"]:
        """What service is worth in this run, where its violations have prices."""
        counts = of_violation * (self.side(forecast) >= 0.0)
        return (self.coefficients * counts[:, None]).sum(axis=0)

    def pace(
        self, forecast: Float[Array, " region"], left: Float[Array, " region"]
    ) -> Float[Array, " atom"]:
        """By how many steps each cell that is left must differ for the atom to be just kept."""
        cells = (jnp.abs(self.coefficients) * left * self.cells).sum(axis=-1)
        return self.side(forecast) / jnp.maximum(cells, 1.0)


class CountedState(NamedTuple):
    """A state, and what each region had so far in this run, in steps of service."""

    state: SweepState
    service: Float[Array, "*batch region"]


class CountedWorld(eqx.Module):
    """A world whose state holds the service so far, with a label for the violation of each atom."""

    world: SweepWorld
    atoms: RunAtoms

    def initial(self, *, key: PRNGKeyArray) -> CountedState:
        return CountedState(self.world.initial(key=key), jnp.zeros(self.world.regions))

    def observe(self, state: CountedState) -> Float[Array, " feature"]:
        return observe_run(self.world, state.state, state.service)

    def step(
        self, state: CountedState, action: Float[Array, " *action"], *, key: PRNGKeyArray
    ) -> StepResult[CountedState]:
        after = self.world.step(state.state, action, key=key)
        then = CountedState(after.state, state.service + after.labels)
        added = self._violation(then) - self._violation(state)
        return StepResult(then, after.reward, jnp.concatenate([after.labels, added]), *after[3:])

    def _violation(self, state: CountedState) -> Float[Array, " atom"]:
        left = self.world.left_of(state.state)
        return self.atoms.violation(self.atoms.forecast(state.service, left))


def observe_run(
    world: SweepWorld, state: SweepState, service: Float[Array, " region"]
) -> Float[Array, " feature"]:
    """What is seen of the state, and then the service so far."""
    return jnp.concatenate([world.observe(state), service])
