"""Plans that react: prices that follow from what is left to give.

The fluid of the rest of the path is tiny: the number of cells left of each group, and the bounds of
the branch less what was given so far. In every step its multipliers are found anew, by a few rounds
of Newton's method on one multiplier after the other, from those of the whole path. They make the
price of a step in each group, and the throttle is the one whose step earns most beyond the fluid:

    score(a) = E[-1 / (1 + d) + (price earned) - (fluid gain of the way)],   d = v'(a) (1 + gust)

with the expectation over the next gust. With a flow, the pump opens by what a step of service earns
there, as in the fluid (`reference.fluid`). Nothing is learned, and nothing is remembered but the
amounts. Prices and costs are counted in efforts, amounts in steps of service.

Where rules leave a choice and must hold in single runs, the plan knows several branches and finds
the multipliers of each. It drives for the one whose rest of the path costs least, by the value of
its fluid's dual and a charge for what is out of its reach; so it switches on the way.

What can no longer be corrected is kept as a margin. Every atom aims some way inside its bound, for
the last cells that count for it. And the plan does not rely on full speed: a gust may slow the
vehicle down where it would have to be fastest, so n cells of a group are taken to need at least
n / max_speed + reserve sqrt(n / max_speed) steps where these count against an atom.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float, Int

from scrl.reference.fluid import FluidFlow
from scrl.worlds.sweep import dynamics
from scrl.worlds.sweep.lookup import on_device, rows_from
from scrl.worlds.sweep.spec import SweepSpec
from scrl.worlds.sweep.vehicle import Noise
from scrl.worlds.sweep.world import SweepState, SweepWorld, VehicleNumbers

FIRST_ROUNDS = 200
"""Rounds over all multipliers before the first step; in every step there is one."""
LARGEST_MOVE, LARGEST = 0.3, 3.0
"""A multiplier moves by at most so much at a time, and is at most so large, in efforts. What
the product costs comes on top."""
SOFTNESS = 0.01
"""With a flow, the range of prices over which the pump opens, in efforts. Unlike that of the fluid
it need not grow with what the product costs: later steps make up for what rounding leaves."""
FOR_RESERVE = 0.01
"""How far above the price at which full speed is best a multiplier goes for the sake of a reserve,
in efforts."""
OUT_OF_REACH = 10.0
"""Efforts for a step that an atom misses even if everything is driven for that atom."""
LONGEST, TIMES_LONGER = 9.0, 4.0
"""A cell is planned to take at most so many steps, or so many times what the fluid of the whole
path plans: what is hopeless would cost without end."""
TRIED = np.linspace(0.0, 1.0, 13, dtype=np.float32) ** 2
"""The throttles that are tried, from the crawl to 1, denser at low speeds."""
GUSTS = np.sqrt(3.0) * np.array([-1.0, 0.0, 1.0], np.float32)
GUST_WEIGHT = np.array([1.0, 4.0, 1.0], np.float32) / 6.0
"""Three-point Gauss-Hermite quadrature of a normal distribution."""
SURE = 5.0
"""The pump is closed where a gust of so many standard deviations leads to cells that must be given
nothing."""
FURTHEST = 2.0
"""The longest step that is looked at, in steps at top speed."""
MOST_MILESTONES = 4096
SHARES_OF_CELL = 4
"""Effects of cells that the border of a region cuts are rounded to multiples of 1 over this."""
FILLED_TO = 4
"""Atoms and groups are filled up to a multiple, so that few sizes are compiled."""
BRANCHES = (1, 2, 3, 4)
"""To one of these numbers branches are filled up."""


@dataclass(frozen=True)
class Aims:
    """The atoms that a plan keeps, in one way or another, and its margins."""

    coefficients: Float[np.ndarray, "atom region"]
    bounds: Float[np.ndarray, " atom"]
    inset: Float[np.ndarray, " atom"]
    """How far inside its bound each atom aims, in units; where the two sides of a band would cross,
    both aim at the middle between them."""
    reserve: float = 0.0
    """In standard deviations of the time that a stretch takes at full speed."""
    branches: Bool[np.ndarray, "branch atom"] | None = None
    """The atoms of each branch, of which a run keeps one; None: one branch with all atoms."""

    @property
    def is_in(self) -> Bool[np.ndarray, "branch atom"]:
        """The atoms of each branch."""
        return np.ones((1, len(self.bounds)), bool) if self.branches is None else self.branches

    @property
    def is_opposite(self) -> Bool[np.ndarray, "atom atom"]:
        """Which atoms are the two sides of a band of the same branch."""
        together = (self.is_in[:, :, None] & self.is_in[:, None]).any(axis=0)
        return together & (self.coefficients[:, None] == -self.coefficients[None]).all(axis=2)

    @property
    def half_widths(self) -> Float[np.ndarray, " atom"]:
        """How far inside its bound the middle of an atom's band lies; infinite without a band."""
        width = np.where(self.is_opposite, self.bounds[:, None] + self.bounds[None], np.inf)
        return np.maximum(width.min(axis=1, initial=np.inf), 0.0) / 2.0

    @property
    def sides(self) -> Float[np.ndarray, " atom"]:
        """What each atom's side is to be at most."""
        sides = self.bounds - self.inset
        width = np.where(self.is_opposite, sides[:, None] + sides[None], np.inf)
        return sides - np.minimum(width.min(axis=1, initial=np.inf), 0.0) / 2.0


class FeedbackPolicy(eqx.Module):
    """A throttle from the state of the vehicle and the amounts so far."""

    group_of_cell: Int[Array, " cell_and_window"]
    left: Float[Array, "milestone group"]
    """Cells of each group from a milestone to the end."""
    effect: Float[Array, "atom group"]
    """What a step of service in a cell of the group adds to each atom's side, at most 1."""
    effect_of_time: Float[Array, " atom"]
    """What a step adds whatever the pump does; with a fixed rate this is part of `effect`."""
    effect_of_region: Float[Array, "atom region"]
    """The same for a step of service in a region."""
    aims: Float[Array, " atom"]
    """What each atom's side is to be at most."""
    is_in: Float[Array, "branch atom"]
    """1 for the atoms of each branch."""
    own: Int[Array, "branch own"]
    """The atoms of each branch, filled up with others."""
    multipliers: Float[Array, "branch atom"]
    """Of the whole path, in efforts."""
    reserve: Float[Array, "atom group"]
    """How much longer a stretch may take at full speed, for the root of its time; 0 in groups whose
    steps can be made up for later."""
    longest: Float[Array, ""]
    """The most steps that a cell is planned to take."""
    opposite: Float[Array, "atom atom"]
    """1 where two atoms are the sides of a band."""
    pieces: Float[Array, "piece 3"] | None
    """With a flow, the pieces of the curves between which the fluid serves a cell."""
    is_barred: Bool[Array, " group"]
    """Groups that must be given nothing."""
    stride: int = eqx.field(static=True)
    """Cells between two milestones."""
    window: int = eqx.field(static=True)
    """Cells that a step may reach."""

    @classmethod
    def of(cls, spec: SweepSpec, world: SweepWorld, aims: Aims) -> FeedbackPolicy:
        """The policy with these aims."""
        vehicle, wind = spec.vehicle, spec.wind
        largest = np.abs(aims.coefficients).max(axis=1, initial=0.0)
        unit = np.where(largest > 0.0, largest, 1.0)
        coefficients = aims.coefficients / unit[:, None]
        window = math.ceil(FURTHEST * vehicle.max_speed) + 2
        effect, is_late, group_of_cell = _groups(spec, coefficients)
        of_time, share_at_least, pieces = np.zeros(len(unit)), 1.0, None
        if vehicle.has_flow:
            if spec.timed is not None:
                of_time = coefficients[:, spec.timed] * spec.service.kinds[0, spec.timed]
            effect = effect - of_time[:, None]
            share_at_least = max(vehicle.least_flow, vehicle.least_dose * vehicle.max_speed)
            pieces = np.array(FluidFlow.of(vehicle).pieces)
        left, stride = _left(group_of_cell, effect.shape[1])
        spread = math.hypot(*(_spread(each) for each in (wind, vehicle.supply)))
        slowest = 1.0 / (vehicle.max_speed * vehicle.crawl)
        atoms = -len(unit) % FILLED_TO
        branches = next(each for each in BRANCHES if each >= len(aims.is_in)) - len(aims.is_in)
        is_in = np.pad(aims.is_in, ((0, 0), (0, atoms)))
        is_in = np.pad(is_in, ((0, branches), (0, 0)), mode="edge")

        def numbers(values: ArrayLike) -> Array:
            return on_device(values, float)

        policy = cls(
            on_device(np.pad(group_of_cell, (0, window)).astype(np.int32)),
            numbers(left),
            numbers(np.pad(effect, ((0, atoms), (0, 0)))),
            numbers(np.pad(of_time, (0, atoms))),
            numbers(np.pad(coefficients, ((0, atoms), (0, 0)))),
            numbers(np.pad(aims.sides / (vehicle.rate * unit), (0, atoms))),
            numbers(is_in),
            on_device(own_atoms(is_in)),
            numbers(np.zeros(is_in.shape)),
            numbers(np.pad(aims.reserve * spread * share_at_least * is_late, ((0, atoms), (0, 0)))),
            numbers(slowest),
            numbers(np.pad(aims.is_opposite, (0, atoms))),
            None if pieces is None else numbers(pieces),
            on_device(_barred(aims, effect)),
            stride=stride,
            window=window,
        )
        multipliers, times = (np.asarray(each) for each in _of_whole_path(policy, world))
        used = times[:, left[0] > 0.0]
        longest = min(max(LONGEST, TIMES_LONGER * float(used.max())), slowest)
        return replace(
            policy,
            multipliers=on_device(multipliers),
            longest=on_device(longest, float),
        )

    @property
    def is_random(self) -> bool:
        return False

    @property
    def cells(self) -> int:
        """Number of cells of the path."""
        return self.group_of_cell.shape[-1] - self.window

    @property
    def regions(self) -> int:
        return self.effect_of_region.shape[-1]

    def begin(self) -> Float[Array, "branch atom"]:
        """What is remembered before the first step: the multipliers of the whole path."""
        return self.multipliers

    def first(self, world: SweepWorld) -> Int[Array, ""]:
        """The branch that is cheapest before the first step."""
        nothing = jnp.zeros_like(self.aims)
        return self._cheapest(world, self.left[0], nothing, self.multipliers)

    def at(
        self,
        world: SweepWorld,
        state: SweepState,
        service: Float[Array, " region"],
        memory: Float[Array, "branch atom"],
    ) -> tuple[Float[Array, " *action"], Float[Array, "branch atom"]]:
        """The action in this state, after so many steps of service in each region."""
        left = self._left(world, state)
        given = (self.effect_of_region * service).sum(axis=1)
        multipliers = self._rounds(world.numbers, left, given, memory)
        taken = multipliers[0]
        if len(multipliers) > 1:
            best = self._cheapest(world, left, given, multipliers)
            taken = ((jnp.arange(len(multipliers)) == best)[:, None] * multipliers).sum(axis=0)
        crawl = world.numbers.crawl
        throttles = crawl + (1.0 - crawl) * jnp.asarray(TRIED)
        prices = self._prices(world.numbers, taken)
        scores, openings = self._scores(world, state, prices, throttles)
        best = jnp.argmax(scores)
        if openings is None:
            return throttles[best], multipliers
        return jnp.stack([throttles[best], openings[best]]), multipliers

    def _prices(self, numbers: VehicleNumbers, multipliers: Float[Array, " atom"]) -> _Prices:
        """What a step of service is worth in each group, beyond its cost, and a step anywhere."""
        # A sum, since XLA would call a library for a matrix product, which costs more.
        service = -(multipliers[:, None] * self.effect).sum(axis=0)
        time = -(multipliers * self.effect_of_time).sum()
        return _Prices(service - numbers.product / numbers.effort, time)

    def _left(self, world: SweepWorld, state: SweepState) -> Float[Array, " group"]:
        """The cells left of each group."""
        # A step that is counted where it lands serves the middle of its way on average.
        ahead = 0.0 if world.is_poured else 0.5 * state.speed
        milestone, past = jnp.divmod(state.cell, self.stride)
        along = (past + state.offset + ahead) / self.stride
        whole = jnp.floor(along)
        first = jnp.minimum(milestone + whole.astype(int), len(self.left) - 2)
        rows = rows_from(self.left, first, 2)
        return rows[0] + jnp.minimum(along - whole, 1.0) * (rows[1] - rows[0])

    def _cheapest(
        self,
        world: SweepWorld,
        left: Float[Array, " group"],
        given: Float[Array, " atom"],
        multipliers: Float[Array, "branch atom"],
    ) -> Int[Array, ""]:
        """The branch whose rest of the path costs least."""
        numbers = world.numbers

        def dual(multipliers: Float[Array, " atom"]) -> Float[Array, ""]:
            prices = self._prices(numbers, multipliers)
            gained = (left * self._gain(numbers, prices)).sum()
            return (multipliers * (given - self.aims)).sum() - gained

        at_best, at_most = self.limits(numbers)
        furthest = jnp.where(self.effect > 0.0, at_best, at_most)
        missed = given + (self.effect * left * furthest).sum(axis=1) - self.aims
        if not world.is_poured:
            # The last step in a stretch may end past it.
            against = (jnp.maximum(self.effect, 0.0) * left).sum(axis=1)
            missed = missed - jnp.minimum(against, 1.0)
        missed = (self.is_in * jnp.maximum(missed, 0.0)).sum(axis=1)
        return jnp.argmin(jax.vmap(dual)(multipliers) + OUT_OF_REACH * missed)

    def _rounds(
        self,
        numbers: VehicleNumbers,
        left: Float[Array, " group"],
        given: Float[Array, " atom"],
        multipliers: Float[Array, "branch atom"],
    ) -> Float[Array, "branch atom"]:
        """One round for the multipliers of each branch."""
        # One after the other: side by side within episodes side by side takes longer.
        branches = zip(multipliers, self.is_in, self.own, strict=True)
        return jnp.stack([_round(self, numbers, left, given, *each) for each in branches])

    def round(
        self,
        numbers: VehicleNumbers,
        left: Float[Array, "group run"],
        given: Float[Array, "atom run"],
        multipliers: Float[Array, "atom run"],
        is_in: Float[Array, " atom"],
        own: Int[Array, " own"],
    ) -> Float[Array, "atom run"]:
        """Newton's method for one multiplier of a branch after the other, for many runs."""
        if not len(own):
            return multipliers
        fastest = 1.0 / numbers.max_speed
        at_best, root = left * self.limits(numbers)[0], jnp.sqrt(left * fastest)
        # The price up to which full speed is best.
        full = 1.0 - (1.0 + fastest) ** -2
        product = numbers.product / numbers.effort
        furthest = LARGEST_MOVE + product

        def one(now: _Rounds, atom: _Atom) -> tuple[_Rounds, None]:
            multipliers, prices = now
            effect = atom.effect[:, None]
            old = jax.lax.dynamic_index_in_dim(multipliers, atom.number, keepdims=False)
            fluid = self._fluid(numbers, prices)
            steps = left * fluid.services
            excess = atom.excess + (effect * steps).sum(axis=0)
            lack = jnp.maximum(at_best + atom.reserve[:, None] * root - steps, 0.0)
            lacking = (jnp.maximum(effect, 0.0) * lack).sum(axis=0)
            if self.pieces is not None:
                excess += atom.effect_of_time * (left * fluid.times).sum(axis=0)
            along = atom.effect_of_time + effect * fluid.of_time
            # At full speed a group counts too: where a step is counted at its end, it may still
            # end elsewhere.
            slope = (along**2 * left * (1.0 + fluid.times) ** 3).sum(axis=0) / 2.0
            if self.pieces is not None:
                # Where the pump is open or closed, the multiplier moves to where that changes. A
                # closed pump counts too: a gust may carry a step into another group.
                is_far = (effect * prices.service * excess > 0.0) | (prices.service < 0.0)
                reach = jnp.maximum(jnp.abs(prices.service) * is_far, SOFTNESS)
                counts = is_far | (prices.service < SOFTNESS)
                slope += (effect**2 * left * counts * fluid.span / reach).sum(axis=0)
            # For a reserve alone hardly anything is slowed down.
            most = (atom.opposite[:, None] * multipliers).sum(axis=0) + full + FOR_RESERVE
            for_reserve = jnp.minimum(_newton(excess + lacking, slope, furthest), most - old)
            step = jnp.maximum(_newton(excess, slope, furthest), for_reserve)
            new = atom.is_in * jnp.clip(old + step, 0.0, LARGEST + product)
            after = jax.lax.dynamic_update_index_in_dim(multipliers, new, atom.number, 0)
            moved = new - old
            service = prices.service - moved * effect
            return _Rounds(after, _Prices(service, prices.time - moved * atom.effect_of_time)), None

        excess = given - self.aims[:, None]
        of_atom = self.effect, self.effect_of_time, excess, self.reserve, self.opposite, is_in
        atoms = _Atom(own, *(each[own] for each in of_atom))
        prices = _Prices(-self.effect.T @ multipliers - product, -self.effect_of_time @ multipliers)
        # A loop: written out atom by atom this takes twice as long, to compile too.
        found, _ = jax.lax.scan(one, _Rounds(multipliers, prices), atoms)
        return found.multipliers

    def _times(self, price: Float[Array, "*any"]) -> Float[Array, "*any"]:
        """Steps per cell where the slope 1 - (1 + t)^-2 of the cost is the price."""
        highest = 1.0 - (1.0 + self.longest) ** -2
        return jax.lax.rsqrt(1.0 - jnp.clip(price, 0.0, highest)) - 1.0

    def limits(self, numbers: VehicleNumbers) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """The least and the largest service of a cell."""
        fastest = 1.0 / numbers.max_speed
        if self.pieces is None:
            return fastest, self.longest
        return _curves(numbers, fastest)[0], _curves(numbers, self.longest)[1]

    def _fluid(self, numbers: VehicleNumbers, prices: _Prices) -> _Fluid:
        """What is best in a cell of each group."""
        fastest = 1.0 / numbers.max_speed
        if self.pieces is None:
            times = jnp.maximum(self._times(prices.service), fastest)
            return _Fluid(times, times, prices.service * times, jnp.ones(()), jnp.zeros(()))
        opening, earned = _opening(prices.service)
        times, of_time = fastest, jnp.zeros(())
        # Convex, so the slope changes where the curves have kinks only downwards.
        for low, high, until in self.pieces:
            slope = prices.time + earned * high + (prices.service - earned) * low
            times = jnp.maximum(times, jnp.minimum(self._times(slope), until))
        for low, high, until in self.pieces[::-1]:
            of_time = jnp.where(times < until, low + opening * (high - low), of_time)
        least, most = _curves(numbers, times)
        value = prices.service * least + earned * (most - least) + prices.time * times
        return _Fluid(times, least + opening * (most - least), value, of_time, most - least)

    def _gain(self, numbers: VehicleNumbers, prices: _Prices) -> Float[Array, " group"]:
        """What is best in a cell of each group earns, less what it costs."""
        fluid = self._fluid(numbers, prices)
        return fluid.value - fluid.times**2 / (1.0 + fluid.times)

    def _scores(
        self,
        world: SweepWorld,
        state: SweepState,
        prices: _Prices,
        throttles: Float[Array, " tried"],
    ) -> tuple[Float[Array, " tried"], Float[Array, " tried"] | None]:
        """What the step of each throttle earns beyond the fluid, in expectation; with a flow, the
        best opening for each."""
        numbers = world.numbers
        highest = 1.0 - (1.0 + self.longest) ** -2
        prices = prices._replace(service=jnp.minimum(prices.service, highest))
        gain = self._gain(numbers, prices)
        is_there = state.cell + jnp.arange(self.window) < world.length
        group = rows_from(self.group_of_cell, state.cell, self.window)
        price, gain = prices.service[group] * is_there, gain[group] * is_there
        speed = dynamics.next_speed(numbers, state.speed, throttles, jnp)
        gusts = numbers.persistence * state.gust + numbers.freshness * jnp.asarray(GUSTS)
        distance = dynamics.ground_speed(speed, gusts[:, None], jnp)
        landing = state.offset + distance
        cell = jnp.minimum(landing.astype(int), self.window - 1)

        def along(values: Float[Array, " cell"]) -> Float[Array, "gust tried"]:
            """The sum along the way of what a cell has."""
            before = jnp.cumsum(values) - values
            return before[cell] + (landing - cell) * values[cell] - state.offset * values[0]

        def expected(values: Float[Array, "gust tried"]) -> Float[Array, " tried"]:
            return (jnp.asarray(GUST_WEIGHT)[:, None] * values).sum(axis=0)

        earned = along(price) / distance if world.is_poured else price[cell]
        if self.pieces is None:
            return expected(earned - 1.0 / (1.0 + distance) - along(gain)), None
        # The pump is set before the gust is known.
        low, high = dynamics.flow_limits(numbers, distance, jnp)
        span = expected(high - low)
        surest = numbers.persistence * state.gust + numbers.freshness * SURE
        reached = state.offset + dynamics.ground_speed(speed, surest, jnp)
        is_barred = self.is_barred[group] & is_there & (jnp.arange(self.window) < reached[:, None])
        worth = expected((high - low) * earned) / jnp.maximum(span, 1e-9)
        opening, worth = _opening(jnp.where(is_barred.any(axis=1), -LARGEST, worth))
        always = expected(low * earned - 1.0 / (1.0 + distance) - along(gain))
        return always + span * worth + prices.time, opening


class _Prices(NamedTuple):
    """What something is worth, in efforts."""

    service: Float[Array, "group ..."]
    """A step of service in each group, beyond what its product costs."""
    time: Float[Array, "*run"]
    """A step anywhere; with a fixed rate it counts as service."""


class _Fluid(NamedTuple):
    """What is best in a cell of each group, and how it answers."""

    times: Float[Array, "group ..."]
    services: Float[Array, "group ..."]
    value: Float[Array, "group ..."]
    """What times and services earn."""
    of_time: Float[Array, "*any"]
    """More service for more time."""
    span: Float[Array, "*any"]
    """From the least service to the largest one."""


class _Rounds(NamedTuple):
    """The multipliers in a round, and the prices they make."""

    multipliers: Float[Array, "atom run"]
    prices: _Prices


class _Atom(NamedTuple):
    """What a round needs of an atom, or of each one."""

    number: Int[Array, "*each"]
    effect: Float[Array, "*each group"]
    effect_of_time: Float[Array, "*each"]
    excess: Float[Array, "*each run"]
    """What was given so far, above the aim."""
    reserve: Float[Array, "*each group"]
    opposite: Float[Array, "*each atom"]
    is_in: Float[Array, "*each"]


@jax.custom_batching.custom_vmap
def _round(
    policy: FeedbackPolicy,
    numbers: VehicleNumbers,
    left: Float[Array, " group"],
    given: Float[Array, " atom"],
    multipliers: Float[Array, " atom"],
    is_in: Float[Array, " atom"],
    own: Int[Array, " own"],
) -> Float[Array, " atom"]:
    """A round of one run."""
    moved = policy.round(numbers, left[:, None], given[:, None], multipliers[:, None], is_in, own)
    return moved[:, 0]


@_round.def_vmap
def _rounds_side_by_side(count: Any, is_batched: Any, *inputs: Any) -> tuple[Array, bool]:
    """Runs are the last axis, where sums over groups are sums of vectors: a quarter of the time."""
    of_all, of_run, of_branch = inputs[:2], inputs[2:5], inputs[5:]
    if any(jax.tree.leaves((is_batched[:2], is_batched[5:]))):
        axes = jax.tree.map(lambda each: 0 if each else None, tuple(is_batched))
        return jax.vmap(_round.fun, axes)(*inputs), True
    runs = [
        each.T if is_many else jnp.broadcast_to(each[:, None], (len(each), count))
        for each, is_many in zip(of_run, is_batched[2:5], strict=True)
    ]
    policy, numbers = of_all
    return policy.round(numbers, *runs, *of_branch).T, True  # pyright: ignore[reportCallIssue]


def own_atoms(is_in: Bool[np.ndarray, "branch atom"]) -> Int[np.ndarray, "branch own"]:
    """The atoms of each branch, filled up with others to an even number, so that few sizes are
    compiled."""
    most = int(is_in.sum(axis=1).max())
    return np.argsort(~is_in, axis=1, kind="stable")[:, : most + most % 2].astype(np.int32)


def _spread(noise: Noise) -> float:
    """The standard deviation of a sum of disturbances, for the root of the number of steps."""
    return noise.strength * math.sqrt((1.0 + noise.persistence) / (1.0 - noise.persistence))


def _barred(aims: Aims, effect: Float[np.ndarray, "atom group"]) -> Bool[np.ndarray, " group"]:
    """Groups to which an atom allows nothing, whatever the branch."""
    is_strict = (aims.bounds <= 0.0) & (aims.coefficients >= 0.0).all(axis=1)
    return np.any(effect[is_strict & aims.is_in.all(axis=0)] > 0.0, axis=0)


def _opening(worth: Float[Array, "*any"]) -> tuple[Float[Array, "*any"], Float[Array, "*any"]]:
    """How far the pump opens for what a step of service is worth, and what that earns."""
    opening = jnp.clip(worth / SOFTNESS + 0.5, 0.0, 1.0)
    return opening, worth * opening + 0.5 * SOFTNESS * opening * (1.0 - opening)


def _curves(
    numbers: VehicleNumbers, times: Float[Array, "*any"]
) -> tuple[Float[Array, "*any"], Float[Array, "*any"]]:
    """The least and the largest service for so many steps in a cell."""
    least = jnp.maximum(numbers.least_flow * times, numbers.least_dose)
    most = jnp.minimum(times, numbers.most_dose + numbers.least_flow * times)
    return least, jnp.maximum(most, least)


def _newton(
    excess: Float[Array, " run"], slope: Float[Array, " run"], furthest: Float[Array, ""]
) -> Float[Array, " run"]:
    """The step of one multiplier that makes up for an excess."""
    step = jnp.clip(excess / jnp.maximum(slope, 1e-6), -furthest, furthest)
    return jnp.where((slope > 1e-6) | (excess < 0.0), step, 0.0)


def _groups(
    spec: SweepSpec, coefficients: Float[np.ndarray, "atom region"]
) -> tuple[
    Float[np.ndarray, "atom group"], Bool[np.ndarray, "atom group"], Int[np.ndarray, " cell"]
]:
    """What a step in each group adds to the atoms, for which atoms it is late, and cells' groups.

    A cell is late for an atom if it counts against it and no later cell helps it. Cells whose
    steps have the same effect and are late for the same atoms are one group; groups are filled up.
    Where the border of a region cuts a cell, its effect is rounded, so that groups stay few.
    """
    service = spec.service
    of_kind = np.round(service.kinds[:-1].astype(float) @ coefficients.T, 9)
    kinds, kind_of_cell = np.unique(
        np.sort(service.on_path.reshape(-1, service.parts), axis=1), axis=0, return_inverse=True
    )
    of_kind = of_kind[kinds].mean(axis=1)
    if service.parts > 1:
        of_kind = np.round(SHARES_OF_CELL * of_kind) / SHARES_OF_CELL
    kind_of_cell = kind_of_cell.ravel()
    of_cell = of_kind[kind_of_cell]
    helps_later = np.cumsum((of_cell < 0.0)[::-1], axis=0)[::-1] > 0
    # Of each atom there is a last cell that helps it, so few sets of atoms are helped later.
    part = helps_later.sum(axis=1)
    _, first, group = np.unique(
        (len(coefficients) + 1) * kind_of_cell + part, return_index=True, return_inverse=True
    )
    is_late = (of_cell[first] > 0.0) & ~helps_later[first]
    rows, of_row = np.unique(np.hstack([of_cell[first], is_late]), axis=0, return_inverse=True)
    rows = np.pad(rows, ((0, -len(rows) % FILLED_TO), (0, 0)))
    effect, is_late = np.split(rows.T, 2)
    return effect, is_late > 0, of_row.ravel()[group.ravel()]


def _left(
    group_of_cell: Int[np.ndarray, " cell"], groups: int
) -> tuple[Float[np.ndarray, "milestone group"], int]:
    """The cells of each group from each milestone to the end, and the distance of milestones."""
    cells = len(group_of_cell)
    stride = -(-cells // MOST_MILESTONES)
    milestones = -(-cells // stride)
    counts = np.zeros((milestones + 1, groups))
    np.add.at(counts, (np.arange(cells) // stride, group_of_cell), 1.0)
    return np.cumsum(counts[::-1], axis=0)[::-1], stride


@jax.jit
def _of_whole_path(
    policy: FeedbackPolicy, world: SweepWorld
) -> tuple[Float[Array, "branch atom"], Float[Array, "branch group"]]:
    """The multipliers before the first step, and the fluid's times at them."""
    nothing, left = jnp.zeros_like(policy.aims), policy.left[0]

    def one(_: int, multipliers: Float[Array, "branch atom"]) -> Float[Array, "branch atom"]:
        return policy._rounds(world.numbers, left, nothing, multipliers)

    found = jax.lax.fori_loop(0, FIRST_ROUNDS, one, policy.multipliers)

    def times(multipliers: Float[Array, " atom"]) -> Float[Array, " group"]:
        return policy._fluid(world.numbers, policy._prices(world.numbers, multipliers)).times

    return found, jax.vmap(times)(found)
