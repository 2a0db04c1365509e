"""Rules on single runs: how far a run is from keeping an atom is an amount of that run as well.

What an atom asks of one run is violated by max(0, a . amounts - b). Where the state holds the
amounts so far, this is an amount like any other, and a step adds to it. So rules that must hold in
a share of single runs reach a learner as prices too: as prices of violations.

What a step adds is counted for the forecast of the whole run: what was given so far, and for the
rest of each region what the present policy gives there on average. A map tells what is left of a
region; in an external environment it is what is left of the steps of an average run. The forecast
is uncertain by the root of what is left, so the violation that is to be expected, and with it the
price of a step, is a smooth function of the forecast: sharp only near the end of a run. There
nothing is left to forecast, so the sum over a run is its violation, less the forecast at its start.
A step is charged or rewarded only where it changes whether the run will keep the atom.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from scrl.worlds.contract import StepResult
from scrl.worlds.sweep.world import SweepState, SweepWorld

SPREAD, LEAST_SPREAD = 0.15, 1e-6
"""How uncertain what a cell gives is, and the spread at the end of a run, in typical steps."""


class RunAtoms(eqx.Module):
    """Atoms of single runs: coefficients . service <= bounds, and the forecast they are held to."""

    coefficients: Float[Array, "atom region"]
    bounds: Float[Array, " atom"]
    expected: Float[Array, " region"]
    """The service of a whole run, on average."""
    cells: Float[Array, " region"]
    """Cells of the path in each region; without a path, the steps of a run on average."""
    unit: Float[Array, " region"]
    """What a typical step gives to each region."""

    @classmethod
    def of(
        cls,
        coefficients: Float[Array, "atom region"],
        bounds: Float[Array, " atom"],
        expected: Float[Array, " region"],
        cells: Float[Array, " region"],
        unit: Float[Array, " region"],
        *,
        rate: float | Float[Array, ""] = 1.0,
    ) -> RunAtoms:
        """Atoms in units, divided by d = sum |a_i|, as in the paper's w."""
        size = jnp.abs(coefficients).sum(axis=1)
        return cls(coefficients / size[:, None], bounds / (size * rate), expected, cells, unit)

    def following(
        self, service: Float[Array, " region"], cells: Float[Array, "*region"]
    ) -> RunAtoms:
        """Forecasts halfway to those of a policy that was measured."""
        expected, cells = 0.5 * (self.expected + service), 0.5 * (self.cells + cells)
        return replace(self, expected=expected, cells=cells)

    def left(self, steps: Float[Array, ""]) -> Float[Array, " region"]:
        """The share of a run that is left after so many steps, where no path tells."""
        return jnp.maximum(1.0 - steps / jnp.maximum(self.cells, 1.0), 0.0)

    def forecast(
        self, service: Float[Array, " region"], left: Float[Array, " region"]
    ) -> Float[Array, " region"]:
        """The service of the whole run, if the rest of each region is as expected."""
        return service + left * self.expected

    def side(self, forecast: Float[Array, " region"]) -> Float[Array, " atom"]:
        """a . service - b: above 0, the atom is violated by so much."""
        # A sum, since XLA would call a library for a matrix product, which costs more.
        return (self.coefficients * forecast).sum(axis=-1) - self.bounds

    @property
    def least_spread(self) -> Float[Array, " atom"]:
        """That of the end of a run, in the largest typical step of the regions of each atom."""
        return LEAST_SPREAD * jnp.where(self.coefficients != 0.0, self.unit, 0.0).max(axis=1)

    def spread(self, left: Float[Array, " region"]) -> Float[Array, " atom"]:
        """How uncertain the forecast of each side is: as a sum over the cells that are left."""
        variance = ((self.coefficients * self.unit) ** 2 * left * self.cells).sum(axis=-1)
        return SPREAD * jnp.sqrt(variance) + self.least_spread

    def violation(
        self, forecast: Float[Array, " region"], left: Float[Array, " region"]
    ) -> Float[Array, " atom"]:
        """The mean of max(0, a . service - b), if the forecast has a logistic distribution."""
        spread = self.spread(left)
        return spread * jax.nn.softplus(self.side(forecast) / spread)

    def price(
        self,
        of_violation: Float[Array, " atom"],
        forecast: Float[Array, " region"],
        left: Float[Array, " region"],
    ) -> Float[Array, " region"]:
        """What service is worth in this run, where its violations have prices."""
        counts = of_violation * jax.nn.sigmoid(self.side(forecast) / self.spread(left))
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
        return self.atoms.violation(self.atoms.forecast(state.service, left), left)


def observe_run(
    world: SweepWorld, state: SweepState, service: Float[Array, " region"]
) -> Float[Array, " feature"]:
    """What is seen of the state, and then the service so far."""
    return jnp.concatenate([world.observe(state), service])


class SeenRun(NamedTuple):
    """What an observation tells that ends with the service so far and the steps so far."""

    service: Float[Array, " region"]
    left: Float[Array, " region"]
    forecast: Float[Array, " region"]

    @classmethod
    def of(cls, atoms: RunAtoms, observation: Float[Array, " feature"]) -> SeenRun:
        service, steps = observation[-1 - len(atoms.expected) : -1], observation[-1]
        left = atoms.left(steps)
        return cls(service, left, atoms.forecast(service, left))

    def needs(self, atoms: RunAtoms, step: Float[Array, " atom"]) -> Float[Array, " input"]:
        """What was given, what is left of the run, and how each atom stands, in typical steps.

        Of an atom: by how much each step that is left must differ, and how near its bound is.
        """
        given = self.service / (jnp.abs(self.service) + jnp.abs(atoms.expected) + 1e-6)
        pace = jnp.clip(atoms.pace(self.forecast, self.left) / step, -FASTEST_PACE, FASTEST_PACE)
        near = jnp.clip(atoms.side(self.forecast) / (NEAR * step), -1.0, 1.0)
        return jnp.concatenate([given, self.left[:1], pace, near])


FASTEST_PACE, NEAR = 2.0, 8.0
"""Limits of what is seen of a forecast: steps per cell, and steps of service."""


def added_violations(
    atoms: RunAtoms,
    before: Float[Array, "*batch feature"],
    after: Float[Array, "*batch feature"],
    is_over: Bool[Array, "*batch"],
) -> Float[Array, "*batch atom"]:
    """What steps between two observations of `SeenRun` add to the violations of the forecast."""

    def one(before: Array, after: Array, is_over: Array) -> Array:
        then, first = SeenRun.of(atoms, after), SeenRun.of(atoms, before)
        left = jnp.where(is_over, 0.0, then.left)
        forecast = atoms.forecast(then.service, left)
        return atoms.violation(forecast, left) - atoms.violation(first.forecast, first.left)

    for _ in is_over.shape:
        one = jax.vmap(one)
    return one(before, after, is_over)
