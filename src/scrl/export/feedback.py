"""Plans that react as functions of arrays: of the state, the amounts so far, and a memory."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from scrl.export.policies import STATE, about_world, action_port, given_port
from scrl.export.portable import Graph, Port
from scrl.planning.feedback import (
    FOR_RESERVE,
    GUST_WEIGHT,
    GUSTS,
    LARGEST,
    LARGEST_MOVE,
    OUT_OF_REACH,
    SOFTNESS,
    SURE,
    TRIED,
    FeedbackPolicy,
    own_atoms,
)
from scrl.problems import Problem
from scrl.worlds.sweep.dynamics import SMALLEST_WIND_FACTOR
from scrl.worlds.sweep.world import SweepState

_INT64 = 7
"""The ONNX code of the type int64."""
NOWHERE = 1e9
"""A place that no step reaches."""


@dataclass(frozen=True)
class PortableFeedbackPolicy:
    """A plan that reacts, on a map."""

    problem: Problem
    policy: FeedbackPolicy

    @classmethod
    def of(cls, problem: Problem, policy: FeedbackPolicy) -> PortableFeedbackPolicy:
        """The portable form, without the atoms and branches that only fill the arrays up."""
        used = np.flatnonzero(np.asarray(policy.effect_of_region).any(axis=1))
        _, first = np.unique(np.asarray(policy.is_in), axis=0, return_index=True)
        branches = np.sort(first)
        of_atoms = ("effect", "effect_of_time", "effect_of_region", "aims", "reserve")
        of_branches = ("is_in", "multipliers")
        return cls(
            problem,
            replace(
                policy,
                **{name: getattr(policy, name)[used] for name in of_atoms},
                **{name: getattr(policy, name)[branches][:, used] for name in of_branches},
                own=jnp.asarray(own_atoms(np.asarray(policy.is_in)[branches][:, used] > 0.0)),
                opposite=policy.opposite[used][:, used],
            ),
        )

    @property
    def name(self) -> str:
        return self.problem.name

    @property
    def inputs(self) -> tuple[Port, ...]:
        return (
            *STATE,
            given_port(self.problem),
            self._memory("those of the last step; before the first one, first_multipliers"),
        )

    @property
    def outputs(self) -> tuple[Port, ...]:
        return action_port(self.problem), self._memory("to be given back in the next step")

    def _memory(self, sentence: str) -> Port:
        count = self.policy.is_in.size
        name = "multipliers" if sentence.startswith("those") else "next_multipliers"
        return Port(name, "float32", (count,), sentence)

    def about(self) -> dict[str, Any]:
        """The memory at the start, and the world."""
        first = np.asarray(self.policy.multipliers, float).ravel().tolist()
        return {"first_multipliers": first, **about_world(self.problem.world_spec)}

    def function(self) -> Callable[..., tuple[Array, ...]]:
        world, policy = self.problem.world, self.policy

        def one(
            cell: Array, offset: Array, speed: Array, gust: Array, given: Array, memory: Array
        ) -> tuple[Array, ...]:
            state = SweepState(cell, offset, speed, gust, jnp.zeros((), int))
            of_branches = memory.reshape(policy.is_in.shape)
            action, after = policy.at(world, state, given / world.rate, of_branches)
            return action, after.ravel()

        return jax.vmap(one)

    def draw(self, graph: Graph) -> tuple[str, ...]:
        drawn = _Drawn(graph, self.problem, self.policy)
        branches = drawn.branches()
        return drawn.action(drawn.cheapest(branches)), graph.node("Concat", *branches, axis=1)


class _Drawn:
    """The equations of `FeedbackPolicy` as nodes; values are [n, column]."""

    def __init__(self, graph: Graph, problem: Problem, policy: FeedbackPolicy) -> None:
        self.graph, self.policy, self.vehicle = graph, policy, problem.world_spec.vehicle
        self.wind, self.world = problem.world_spec.wind, problem.world
        self.fastest = 1.0 / self.vehicle.max_speed
        self.product = self.vehicle.product / self.vehicle.effort
        self.pieces = None if policy.pieces is None else np.asarray(policy.pieces, float).tolist()
        self.offset, self.speed, self.gust = (
            graph.column(name) for name in ("offset", "speed", "gust")
        )
        self.cell = graph.column("cell")

    def _do(self, kind: str, *inputs: str | float | np.ndarray, **attributes: Any) -> str:
        """A node; numbers among its inputs become constants."""
        named = [each if isinstance(each, str) else self.graph.constant(each) for each in inputs]
        return self.graph.node(kind, *named, **attributes)

    def _sum(self, value: str) -> str:
        """Over the columns."""
        return self.graph.node("ReduceSum", value, self.graph.constant([1], np.int64), keepdims=1)

    def _where(self, condition: str, one: str | float | np.ndarray, other: str | float) -> str:
        return self._do("Where", condition, one, other)

    def _left(self) -> str:
        """Cells left of each group."""
        along = self._do("Add", self._do("Cast", self.cell, to=1), self.offset)
        if not self.world.is_poured:
            along = self._do("Add", along, self._do("Mul", self.speed, 0.5))
        along = self._do("Div", along, float(self.policy.stride))
        whole = self._do("Floor", along)
        last = float(len(self.policy.left) - 2)
        first = self._do("Cast", self._do("Min", whole, last), to=_INT64)
        first = self.graph.node("Squeeze", first, self.graph.constant([1], np.int64))
        table = np.asarray(self.policy.left)
        near, far = self.graph.rows(table[:-1], first), self.graph.rows(table[1:], first)
        past = self._do("Min", self._do("Sub", along, whole), 1.0)
        return self._do("Add", near, self._do("Mul", past, self._do("Sub", far, near)))

    def _prices(self, multipliers: str) -> _PriceNodes:
        """Of a step of service in each group, and, with a flow, of a step anywhere."""
        service = self._do("MatMul", multipliers, -np.asarray(self.policy.effect))
        if self.product:
            service = self._do("Sub", service, self.product)
        of_time = -np.asarray(self.policy.effect_of_time)[:, None]
        return _PriceNodes(
            service, self._do("MatMul", multipliers, of_time) if self.pieces else None
        )

    def _times(self, price: str) -> str:
        highest = 1.0 - (1.0 + float(self.policy.longest)) ** -2
        slope = self._do("Sub", 1.0, self._do("Clip", price, 0.0, highest))
        return self._do("Sub", self._do("Reciprocal", self._do("Sqrt", slope)), 1.0)

    def _opening(self, worth: str) -> tuple[str, str]:
        """How far the pump opens, and what that earns."""
        half = self._do("Add", self._do("Div", worth, SOFTNESS), 0.5)
        opening = self._do("Clip", half, 0.0, 1.0)
        closed = self._do("Sub", 1.0, opening)
        soft = self._do("Mul", self._do("Mul", opening, closed), 0.5 * SOFTNESS)
        return opening, self._do("Add", self._do("Mul", worth, opening), soft)

    def _curves(self, times: str) -> tuple[str, str]:
        """The least and the largest service for so many steps in a cell."""
        always, vehicle = self._do("Mul", times, self.vehicle.least_flow), self.vehicle
        least, most = self._do("Max", always, vehicle.least_dose), times
        if math.isfinite(vehicle.most_dose):
            most = self._do("Min", times, self._do("Add", always, vehicle.most_dose))
        return least, self._do("Max", most, least)

    def _fluid(self, prices: _PriceNodes) -> _FluidNodes:
        """What is best in a cell of each group."""
        service = prices.service
        if prices.time is None or self.pieces is None:
            times = self._do("Max", self._times(service), self.fastest)
            return _FluidNodes(times, times, self._do("Mul", service, times))
        opening, earned = self._opening(service)
        beyond, times = self._do("Sub", service, earned), self._do("Mul", service, 0.0)
        for low, high, until in self.pieces:
            slope = self._do("Add", self._do("Mul", earned, high), self._do("Mul", beyond, low))
            longer = self._times(self._do("Add", slope, prices.time))
            if math.isfinite(until):
                longer = self._do("Min", longer, until)
            times = self._do("Max", times, longer, self.fastest)
        of_time = self._do("Mul", service, 0.0)
        for low, high, until in reversed(self.pieces):
            here = self._do("Add", self._do("Mul", opening, high - low), low)
            of_time = self._where(self._do("Less", times, until), here, of_time)
        least, most = self._curves(times)
        span = self._do("Sub", most, least)
        value = self._do("Add", self._do("Mul", service, least), self._do("Mul", earned, span))
        value = self._do("Add", value, self._do("Mul", times, prices.time))
        services = self._do("Add", least, self._do("Mul", opening, span))
        return _FluidNodes(times, services, value, of_time, span)

    def _gain(self, prices: _PriceNodes) -> str:
        """What is best in a cell of each group earns, less what it costs."""
        fluid = self._fluid(prices)
        squared = self._do("Mul", fluid.times, fluid.times)
        return self._do(
            "Sub", fluid.value, self._do("Div", squared, self._do("Add", fluid.times, 1.0))
        )

    def branches(self) -> list[str]:
        """The multipliers of each branch after one round."""
        policy = self.policy
        count, atoms = policy.is_in.shape
        self.left = self._left()
        of_region = np.asarray(policy.effect_of_region).T / self.vehicle.rate
        self.given = self._do("MatMul", "given", of_region)
        root = self._do("Sqrt", self._do("Mul", self.left, self.fastest))
        at_best = self._do("Mul", self.left, self._limits[0])
        least = [
            self._do("Add", at_best, self._do("Mul", root, each))
            for each in np.asarray(policy.reserve)
        ]
        found = []
        for branch in range(count):
            rows = np.eye(count * atoms)[:, branch * atoms : (branch + 1) * atoms]
            now = self._do("MatMul", "multipliers", rows)
            for atom in np.flatnonzero(policy.is_in[branch]):
                moved = self._moved(int(atom), now, least[atom])
                row = np.eye(atoms)[atom]
                kept = self._do("Mul", now, 1.0 - row)
                now = self._do("Add", kept, self._do("Mul", moved, row))
            found.append(now)
        return found

    def cheapest(self, branches: list[str]) -> str:
        """The multipliers of the branch whose rest of the path costs least."""
        if len(branches) == 1:
            return branches[0]
        policy, effect = self.policy, np.asarray(self.policy.effect)
        furthest = np.where(effect > 0.0, *self._limits)
        over = self._do("Sub", self.given, np.asarray(policy.aims))
        reached = self._do("MatMul", self.left, (effect * furthest).T)
        missed = self._do("Add", over, reached)
        if not self.world.is_poured:
            against = self._do("MatMul", self.left, np.maximum(effect, 0.0).T)
            missed = self._do("Sub", missed, self._do("Min", against, 1.0))
        missed = self._do("Max", missed, 0.0)
        costs = []
        for multipliers, is_in in zip(branches, np.asarray(policy.is_in), strict=True):
            gain = self._gain(self._prices(multipliers))
            rest = self._do("Neg", self._sum(self._do("Mul", self.left, gain)))
            dual = self._do("Add", rest, self._sum(self._do("Mul", multipliers, over)))
            charge = self._do("MatMul", missed, OUT_OF_REACH * is_in[:, None])
            costs.append(self._do("Add", dual, charge))
        best, least = branches[0], costs[0]
        for multipliers, cost in zip(branches[1:], costs[1:], strict=True):
            is_less = self._do("Less", cost, least)
            best = self._where(is_less, multipliers, best)
            least = self._do("Min", least, cost)
        return best

    def _moved(self, atom: int, now: str, least: str) -> str:
        """One multiplier after its Newton step, [n, 1]."""
        policy, effect = self.policy, np.asarray(self.policy.effect[atom])
        pick = np.eye(len(policy.aims))[atom][:, None]
        old, so_far = (self._do("MatMul", each, pick) for each in (now, self.given))
        prices = self._prices(now)
        fluid, service = self._fluid(prices), prices.service
        steps, is_against = self._do("Mul", self.left, fluid.services), effect > 0.0
        side = self._sum(self._do("Mul", steps, effect))
        excess = self._do("Add", so_far, self._do("Sub", side, float(policy.aims[atom])))
        lack = self._do("Max", self._do("Sub", least, steps), 0.0)
        lacking = self._sum(self._do("Mul", lack, effect * is_against))
        bent = self._do("Mul", self._do("Pow", self._do("Add", fluid.times, 1.0), 3.0), self.left)
        if fluid.of_time is None or fluid.span is None:
            slope = self._sum(self._do("Mul", bent, effect**2 / 2.0))
        else:
            of_time = float(policy.effect_of_time[atom])
            spent = self._sum(self._do("Mul", self.left, fluid.times))
            excess = self._do("Add", excess, self._do("Mul", spent, of_time))
            along = self._do("Add", self._do("Mul", fluid.of_time, effect), of_time)
            bent = self._do("Mul", bent, self._do("Mul", along, along))
            slope = self._do("Mul", self._sum(bent), 0.5)
            towards = self._do("Mul", self._do("Mul", service, effect), excess)
            is_far = self._do(
                "Or", self._do("Greater", towards, 0.0), self._do("Less", service, 0.0)
            )
            reach = self._do("Max", self._where(is_far, self._do("Abs", service), 0.0), SOFTNESS)
            counts = self._do("Or", is_far, self._do("Less", service, SOFTNESS))
            turned = self._do("Mul", self._do("Div", fluid.span, reach), self.left)
            turned = self._do("Mul", self._where(counts, turned, 0.0), effect**2)
            slope = self._do("Add", slope, self._sum(turned))
        full = 1.0 - (1.0 + self.fastest) ** -2
        other = self._do("MatMul", now, np.asarray(policy.opposite[atom])[:, None])
        most = self._do("Sub", self._do("Add", other, full + FOR_RESERVE), old)
        for_reserve = self._newton(self._do("Add", excess, lacking), slope)
        step = self._do("Max", self._newton(excess, slope), self._do("Min", for_reserve, most))
        return self._do("Clip", self._do("Add", old, step), 0.0, LARGEST + self.product)

    def _newton(self, excess: str, slope: str) -> str:
        step = self._do("Div", excess, self._do("Max", slope, 1e-6))
        furthest = LARGEST_MOVE + self.product
        step = self._do("Clip", step, -furthest, furthest)
        may = self._do("Or", self._do("Greater", slope, 1e-6), self._do("Less", excess, 0.0))
        return self._where(may, step, 0.0)

    @property
    def _limits(self) -> tuple[float, float]:
        """The least and the largest service of a cell."""
        least, most = self.policy.limits(self.world.numbers)
        return float(least), float(most)

    def action(self, multipliers: str) -> str:
        """The throttle of the best score, and with a flow the opening for it."""
        prices, cells = self._prices(multipliers), np.arange(self.policy.window)
        highest = 1.0 - (1.0 + float(self.policy.longest)) ** -2
        price = self._do("Min", prices.service, highest)
        gain = self._gain(prices._replace(service=price))
        here = self.graph.node("Add", self.cell, self.graph.constant(cells, np.int32))
        group = self.graph.rows(np.asarray(self.policy.group_of_cell), here, np.int64)
        is_there = self.graph.node("Less", here, self.graph.constant(self.world.length, np.int32))
        is_there = self._do("Cast", is_there, to=1)
        price, gain = (
            self._do("Mul", self.graph.node("GatherElements", each, group, axis=1), is_there)
            for each in (price, gain)
        )
        crawl, inertia = self.vehicle.crawl, self.vehicle.inertia
        throttles = crawl + (1.0 - crawl) * TRIED.astype(float)
        # One column for each throttle and gust.
        gained = np.repeat((1.0 - inertia) * self.vehicle.max_speed * throttles, len(GUSTS))
        fresh = np.tile(self.wind.freshness * GUSTS.astype(float), len(throttles))
        speed = self._do("Add", self._do("Mul", self.speed, inertia), gained[None])
        blown = self._do("Add", self._do("Mul", self.gust, self.wind.persistence), 1.0)
        factor = self._do("Max", self._do("Add", blown, fresh[None]), SMALLEST_WIND_FACTOR)
        distance = self._do("Mul", speed, factor)
        landing = self._do("Add", distance, self.offset)
        cell = self._do("Min", self._do("Floor", landing), float(self.policy.window - 1))
        index = self._do("Cast", cell, to=_INT64)
        past = self._do("Sub", landing, cell)

        def at(values: str) -> str:
            return self.graph.node("GatherElements", values, index, axis=1)

        def along(values: str) -> str:
            upto = self.graph.node("CumSum", values, self.graph.constant(1, np.int64))
            before = at(self._do("Sub", upto, values))
            first = self._do("MatMul", values, np.eye(len(cells))[:, :1])
            reached = self._do("Add", before, self._do("Mul", past, at(values)))
            return self._do("Sub", reached, self._do("Mul", self.offset, first))

        earned = at(price)
        if self.world.is_poured:
            earned = self._do("Div", along(price), distance)
        effort = self._do("Reciprocal", self._do("Add", distance, 1.0))
        beyond = self._do("Sub", self._do("Neg", effort), along(gain))
        weights = np.kron(np.eye(len(throttles)), GUST_WEIGHT.astype(float)[:, None])

        def best_of(score: str) -> str:
            return self.graph.node("ArgMax", score, axis=1, keepdims=0)

        if prices.time is None:
            score = self._do("MatMul", self._do("Add", earned, beyond), weights)
            return self.graph.rows(throttles, best_of(score))
        is_closed = self._reaches_barred(group, is_there, speed, blown, len(throttles))
        low, high = (
            self._flow_at(distance, dose)
            for dose in (self.vehicle.least_dose, self.vehicle.most_dose)
        )
        of_gust = self._do("Sub", high, low)
        span = self._do("MatMul", of_gust, weights)
        worth = self._do("MatMul", self._do("Mul", of_gust, earned), weights)
        worth = self._do("Div", worth, self._do("Max", span, 1e-9))
        opening, worth = self._opening(self._where(is_closed, -LARGEST, worth))
        always = self._do("MatMul", self._do("Add", self._do("Mul", low, earned), beyond), weights)
        # The price of time is the same for all throttles.
        best = best_of(self._do("Add", always, self._do("Mul", span, worth)))
        column = self.graph.column(best)
        return self.graph.node(
            "Concat",
            self.graph.rows(throttles, column),
            self.graph.node("GatherElements", opening, column, axis=1),
            axis=1,
        )

    def _reaches_barred(
        self, group: str, is_there: str, speed: str, blown: str, throttles: int
    ) -> str:
        """Whether a step of each throttle may reach cells that must be given nothing."""
        surest = self._do("Add", blown, SURE * self.wind.freshness)
        reached = self._do("Mul", speed, self._do("Max", surest, SMALLEST_WIND_FACTOR))
        # The speeds are there once for each gust.
        reached = self._do("MatMul", reached, np.kron(np.eye(throttles), [[1.0], [0.0], [0.0]]))
        barred = self.graph.rows(np.asarray(self.policy.is_barred, float), group)
        is_barred = self._do("Greater", self._do("Mul", barred, is_there), 0.0)
        places = self._where(is_barred, np.arange(self.policy.window)[None], NOWHERE)
        first = self.graph.node("ReduceMin", places, self.graph.constant([1], np.int64), keepdims=1)
        return self._do("Greater", self._do("Add", reached, self.offset), first)

    def _flow_at(self, distance: str, dose: float) -> str:
        """The flow of a dose, within the limits of the pump."""
        if not math.isfinite(dose):
            return self._do("Add", self._do("Mul", distance, 0.0), 1.0)
        return self._do("Clip", self._do("Mul", distance, dose), self.vehicle.least_flow, 1.0)


class _PriceNodes(NamedTuple):
    """As in `planning.feedback`, [n, group] and [n, 1]."""

    service: str
    time: str | None


class _FluidNodes(NamedTuple):
    """As in `planning.feedback`; the last two with a flow only."""

    times: str
    services: str
    value: str
    of_time: str | None = None
    span: str | None = None
