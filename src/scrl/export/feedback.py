"""Plans that react as functions of arrays: of the state, the amounts so far, and a memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from scrl.export.policies import STATE, THROTTLE, about_world, given_port
from scrl.export.portable import Graph, Port
from scrl.planning.feedback import (
    FOR_RESERVE,
    GUST_WEIGHT,
    GUSTS,
    LARGEST,
    LARGEST_MOVE,
    OUT_OF_REACH,
    TRIED,
    FeedbackPolicy,
    own_atoms,
)
from scrl.problems import Problem
from scrl.worlds.sweep.dynamics import SMALLEST_WIND_FACTOR
from scrl.worlds.sweep.world import SweepState

_INT64 = 7
"""The ONNX code of the type int64."""


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
        of_atoms = ("effect", "effect_of_region", "aims", "reserve")
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
        return THROTTLE, self._memory("to be given back in the next step")

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
            throttle, after = policy.at(world, state, given / world.rate, of_branches)
            return throttle, after.ravel()

        return jax.vmap(one)

    def draw(self, graph: Graph) -> tuple[str, ...]:
        drawn = _Drawn(graph, self.problem, self.policy)
        branches = drawn.branches()
        return drawn.throttle(drawn.cheapest(branches)), graph.node("Concat", *branches, axis=1)


class _Drawn:
    """The equations of `FeedbackPolicy` as nodes; values are [n, column]."""

    def __init__(self, graph: Graph, problem: Problem, policy: FeedbackPolicy) -> None:
        self.graph, self.policy, self.vehicle = graph, policy, problem.world_spec.vehicle
        self.wind, self.world = problem.world_spec.wind, problem.world
        self.fastest = 1.0 / self.vehicle.max_speed
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

    def _where(self, condition: str, one: str | float, other: str | float) -> str:
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

    def _prices(self, multipliers: str) -> str:
        return self._do("MatMul", multipliers, -np.asarray(self.policy.effect))

    def _times(self, price: str) -> str:
        highest = 1.0 - (1.0 + float(self.policy.longest)) ** -2
        slope = self._do("Sub", 1.0, self._do("Clip", price, 0.0, highest))
        free = self._do("Sub", self._do("Reciprocal", self._do("Sqrt", slope)), 1.0)
        return self._do("Max", free, self.fastest)

    def branches(self) -> list[str]:
        """The multipliers of each branch after one round."""
        policy = self.policy
        count, atoms = policy.is_in.shape
        self.left = self._left()
        of_region = np.asarray(policy.effect_of_region).T / self.vehicle.rate
        self.given = self._do("MatMul", "given", of_region)
        at_best = self._do("Mul", self.left, self.fastest)
        root = self._do("Sqrt", at_best)
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
        furthest = np.where(effect > 0.0, self.fastest, float(policy.longest))
        over = self._do("Sub", self.given, np.asarray(policy.aims))
        reached = self._do("MatMul", self.left, (effect * furthest).T)
        missed = self._do("Add", over, reached)
        if not self.world.is_poured:
            against = self._do("MatMul", self.left, np.maximum(effect, 0.0).T)
            missed = self._do("Sub", missed, self._do("Min", against, 1.0))
        missed = self._do("Max", missed, 0.0)
        costs = []
        for multipliers, is_in in zip(branches, np.asarray(policy.is_in), strict=True):
            price = self._prices(multipliers)
            times = self._times(price)
            cost = self._do("Div", self._do("Mul", times, times), self._do("Add", times, 1.0))
            of_cell = self._do("Sub", cost, self._do("Mul", price, times))
            rest = self._sum(self._do("Mul", self.left, of_cell))
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
        times = self._times(self._prices(now))
        steps, is_against = self._do("Mul", self.left, times), effect > 0.0
        side = self._sum(self._do("Mul", steps, effect))
        excess = self._do("Add", so_far, self._do("Sub", side, float(policy.aims[atom])))
        lack = self._do("Max", self._do("Sub", least, steps), 0.0)
        lacking = self._sum(self._do("Mul", lack, effect * is_against))
        bent = self._do("Mul", self._do("Pow", self._do("Add", times, 1.0), 3.0), self.left)
        slope = self._sum(self._do("Mul", bent, effect**2 / 2.0))
        full = 1.0 - (1.0 + self.fastest) ** -2
        other = self._do("MatMul", now, np.asarray(policy.opposite[atom])[:, None])
        most = self._do("Sub", self._do("Add", other, full + FOR_RESERVE), old)
        for_reserve = self._newton(self._do("Add", excess, lacking), slope)
        step = self._do("Max", self._newton(excess, slope), self._do("Min", for_reserve, most))
        return self._do("Clip", self._do("Add", old, step), 0.0, LARGEST)

    def _newton(self, excess: str, slope: str) -> str:
        step = self._do("Div", excess, self._do("Max", slope, 1e-6))
        step = self._do("Clip", step, -LARGEST_MOVE, LARGEST_MOVE)
        may = self._do("Or", self._do("Greater", slope, 1e-6), self._do("Less", excess, 0.0))
        return self._where(may, step, 0.0)

    def throttle(self, multipliers: str) -> str:
        """The throttle of the best score."""
        price, cells = self._prices(multipliers), np.arange(self.policy.window)
        times = self._times(price)
        price = self._do("Min", price, 1.0 - (1.0 + float(self.policy.longest)) ** -2)
        cost = self._do("Div", self._do("Mul", times, times), self._do("Add", times, 1.0))
        gain = self._do("Sub", self._do("Mul", price, times), cost)
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
        score = self._do("Sub", self._do("Sub", earned, effort), along(gain))
        weights = np.kron(np.eye(len(throttles)), GUST_WEIGHT.astype(float)[:, None])
        best = self.graph.node("ArgMax", self._do("MatMul", score, weights), axis=1, keepdims=0)
        return self.graph.rows(throttles, best)
