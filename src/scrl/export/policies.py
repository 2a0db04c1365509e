"""Trained policies as functions of arrays, on a map or in an external environment."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from scrl.environments import EnvironmentPolicy
from scrl.environments.driver import act_on, uniform_size
from scrl.environments.encoder import FARTHEST, EnvironmentEncoder, spread_of
from scrl.export.frame import frame_of
from scrl.export.portable import Graph, Port, draw_choice, draw_numbers
from scrl.export.segments import ExportError
from scrl.learners import ReactingPolicy, SweepEncoder, TrainedPolicy
from scrl.learners.actions import Discrete
from scrl.learners.encoders import FASTEST_PACE, NEAR
from scrl.problems import Problem
from scrl.runs.folder import EnvironmentRecord
from scrl.single_runs import SPREAD
from scrl.worlds.sweep.places import turns_of
from scrl.worlds.sweep.spec import SweepSpec
from scrl.worlds.sweep.vehicle import Vehicle
from scrl.worlds.sweep.world import SweepState, SweepWorld

Throttle = Callable[..., Float[Array, "state *action"]]


STATE = (
    Port("cell", "int32", (), "the path cell that the vehicle is in, from 0"),
    Port("offset", "float32", (), "how far it is into that cell, from 0 to below 1"),
    Port(
        "speed", "float32", (),
        "its own speed after the last step, in cells per step; 0 at the start",
    ),
    Port("gust", "float32", (), "the gust as a share of the speed; 0 in calm air"),
)  # fmt: skip


def given_port(problem: Problem) -> Port:
    """What was given so far, as an input."""
    regions = problem.world_spec.amounts
    sentence = f"what each region has received so far, in units: {', '.join(regions)}"
    return Port("given", "float32", (len(regions),), sentence)


THROTTLE = Port("throttle", "float32", (), "from 0 to 1, as a share of the top speed")
ACTION = Port(
    "action", "float32", (2,),
    "the throttle and the opening of the pump, each from 0 to 1",
)  # fmt: skip
"""Of a vehicle with a flow."""


def action_port(problem: Problem) -> Port:
    """What a policy decides."""
    return ACTION if problem.world_spec.vehicle.has_flow else THROTTLE


@dataclass(frozen=True)
class PortableSweepPolicy:
    """A trained policy on a map."""

    problem: Problem
    policy: TrainedPolicy

    @property
    def outputs(self) -> tuple[Port, ...]:
        return (action_port(self.problem),)

    @property
    def inputs(self) -> tuple[Port, ...]:
        return (*STATE, given_port(self.problem)) if self._counts else STATE

    @property
    def _counts(self) -> bool:
        """Whether the policy sees what was given so far."""
        return isinstance(self.policy, ReactingPolicy)

    @classmethod
    def of(cls, problem: Problem, policy: Any) -> PortableSweepPolicy:
        """The portable form of a policy; raises unless it was trained for this problem's world."""
        if not isinstance(policy, TrainedPolicy):
            raise ExportError(
                "only a policy can be written as a function, and this run holds a fixed plan: "
                "export it as csv, which has the throttle of every step"
            )
        there = len(problem.regions)
        if policy.regions != there:
            raise ExportError(
                f"the policy was trained on a map with {policy.regions} regions, and "
                f"{problem.name} has {there}"
            )
        return cls(problem, policy)

    @property
    def name(self) -> str:
        return self.problem.name

    def function(self) -> Throttle:
        return throttle_function(self.problem, self.policy)

    def draw(self, graph: Graph) -> tuple[str]:
        inputs = _inputs(graph, self.problem.world, self.policy)
        action = draw_numbers(graph, self.policy.network, inputs, self.outputs[0].shape)
        return (graph.node("Clip", action, graph.constant(0.0), graph.constant(1.0)),)

    def about(self) -> dict[str, Any]:
        return about_world(self.problem.world_spec)


def about_world(spec: SweepSpec) -> dict[str, Any]:
    """The vehicle and the path."""
    frame = frame_of(spec)
    path = spec.path
    bends = np.floor(turns_of(path)).astype(int)
    starts = np.array(path.stretches)
    corners = np.unique([*starts, *(starts[1:] - 1), *bends, len(path.cells) - 1])
    places = frame.places(path.cells[corners] + 0.5)
    return {
        "vehicle": {
            "max_speed_cells_per_step": spec.vehicle.max_speed,
            "inertia": spec.vehicle.inertia,
            "crawl": spec.vehicle.crawl,
            "next_speed": "inertia * speed + (1 - inertia) * max_speed * max(throttle, crawl)",
            **_about_flow(spec.vehicle),
        },
        "metres_per_cell": spec.units.cell,
        "seconds_per_step": spec.units.step,
        "path": {
            "cells": len(path.cells),
            "legs_start_at_cell": list(path.legs),
            "transits_before_cell": starts[1:].tolist(),
            "coordinates_are": frame.sentence,
            "corners": [
                [int(cell), *place]
                for cell, place in zip(corners.tolist(), places.tolist(), strict=True)
            ],
            "corners_are": "path cell and the x and y of its centre; straight in between",
        },
    }


def _about_flow(vehicle: Vehicle) -> dict[str, Any]:
    """What the opening of the pump means; nothing where the rate is fixed."""
    if vehicle.flow is None:
        return {}
    low, high = vehicle.dose_limits
    return {
        "flow_per_step": list(vehicle.flow),
        "dose_per_cell": [low, high if math.isfinite(high) else None],
        "next_flow": "least + opening * (most - least), least and most: dose * speed over the "
        "ground within flow; without a dose, flow",
    }


def throttle_function(problem: Problem, policy: TrainedPolicy) -> Throttle:
    """The policy as a function of whole arrays of states."""
    world = problem.world

    def one(
        cell: Int[Array, ""],
        offset: Float[Array, ""],
        speed: Float[Array, ""],
        gust: Float[Array, ""],
        *given: Float[Array, " region"],
    ) -> Float[Array, "*action"]:
        state = SweepState(cell, offset, speed, gust, jax.numpy.zeros((), int))
        if isinstance(policy, ReactingPolicy):
            return policy.at(world, state, given[0] / world.rate, ())[0]
        return policy.throttle(world.observe(state))

    return jax.vmap(one)


def _inputs(graph: Graph, world: SweepWorld, policy: TrainedPolicy) -> str:
    """The inputs of the network, [n, input], as from `SweepWorld.observe` and `Encoder.actor`."""
    scalars = _scalars(graph, world)
    kinds, kind_of_part = np.asarray(world.kinds), np.asarray(world.kind_of_part)
    here = _part(graph, world)

    def seen(table: np.ndarray, ahead: int) -> str:
        """The row of a table for the kind of the place so many cells ahead."""
        moved = graph.node("Add", here, graph.constant(world.parts * ahead, np.int32))
        part = graph.node("Min", moved, graph.constant(world.parts * world.length, np.int32))
        return graph.rows(table, graph.rows(kind_of_part, part, np.int32))

    ahead = np.asarray(world.cells_ahead).tolist()
    left = graph.rows(
        np.asarray(world.left), graph.node("Div", "cell", graph.constant(world.stride, np.int32))
    )
    if policy.encoder.of_runs is not None:
        views = [seen(kinds, each) for each in ahead]
        return graph.node("Concat", *scalars, *_of_run(graph, world, policy, views, left), axis=1)
    if policy.encoder.sees_prices:
        prices = kinds @ np.asarray(policy.price) / np.asarray(policy.encoder.price_unit)
        views = [graph.column(seen(prices, each)) for each in ahead]
        return graph.node("Concat", *scalars, seen(kinds, 0), *views, axis=1)
    views = [seen(kinds, each) for each in ahead]
    return graph.node("Concat", *scalars, *views, left, axis=1)


def _of_run(
    graph: Graph, world: SweepWorld, policy: TrainedPolicy, views: list[str], left: str
) -> list[str]:
    """The inputs of a network that sees what was given, as from `SweepEncoder.actor`."""
    encoder = cast(SweepEncoder, policy.encoder)
    assert encoder.of_runs is not None  # noqa: S101 (for the type checker)
    atoms, unit = encoder.of_runs, np.asarray(encoder.price_unit)
    rows = np.asarray(atoms.coefficients)
    service = graph.node("Div", "given", graph.constant(np.asarray(world.rate)))
    if not encoder.sees_prices:
        cells = graph.constant(np.maximum(np.asarray(atoms.cells), 1.0))
        return [*views, left, graph.node("Div", service, cells)]

    run = _forecast(graph, policy, service, left, np.ones(len(rows)))
    here = graph.times(views[0], (rows / np.abs(rows).max(axis=1, keepdims=True)).T)
    ahead = [
        graph.node(
            "Asinh",
            graph.node(
                "Div",
                graph.node("ReduceSum", graph.node("Mul", view, run.price),
                           graph.constant([1], np.int64), keepdims=1),
                graph.constant(unit),
            ),
        )
        for view in views
    ]  # fmt: skip
    return [views[0], *ahead, run.pace, graph.node("Mul", run.pace, here), run.near]


class _ForecastNodes(NamedTuple):
    """What the forecast of a run tells a network: names of values [n, atom] and [n, region]."""

    pace: str
    near: str
    price: str


def _forecast(
    graph: Graph, policy: TrainedPolicy, service: str, left: str, step: Float[np.ndarray, " atom"]
) -> _ForecastNodes:
    """From the service so far and what is left, with paces and sides in these steps."""
    atoms, regions = policy.encoder.of_runs, policy.encoder.regions
    assert atoms is not None  # noqa: S101 (for the type checker)
    rows, price = np.asarray(atoms.coefficients), np.asarray(policy.price)
    expected = graph.node("Mul", left, graph.constant(np.asarray(atoms.expected)))
    forecast = graph.node("Add", service, expected)
    bounds = graph.constant(np.asarray(atoms.bounds))
    side = graph.node("Sub", graph.times(forecast, rows.T), bounds)
    cells = graph.times(left, (np.abs(rows) * np.asarray(atoms.cells)).T)
    over = graph.node("Max", cells, graph.constant(1.0))
    pace = graph.node("Div", graph.node("Div", side, over), graph.constant(step))
    near = graph.node("Div", side, graph.constant(NEAR * step))
    unit = np.asarray(atoms.unit)
    variance = graph.times(left, ((rows * unit) ** 2 * np.asarray(atoms.cells)).T)
    spread = graph.node("Mul", graph.node("Sqrt", variance), graph.constant(SPREAD))
    spread = graph.node("Add", spread, graph.constant(np.asarray(atoms.least_spread)))
    is_violated = graph.node("Sigmoid", graph.node("Div", side, spread))
    of_violation = graph.times(is_violated, price[regions:, None] * rows)
    return _ForecastNodes(
        graph.within(pace, -FASTEST_PACE, FASTEST_PACE), graph.within(near, -1.0, 1.0),
        graph.node("Add", graph.constant(price[:regions]), of_violation),
    )  # fmt: skip


def _part(graph: Graph, world: SweepWorld) -> str:
    """The part of the path where the vehicle is."""
    if world.parts == 1:
        return "cell"
    within = graph.node("Mul", "offset", graph.constant(float(world.parts)))
    before = graph.node("Cast", within, to=6)  # int32, cut off
    first = graph.node("Mul", "cell", graph.constant(world.parts, np.int32))
    return graph.node("Add", first, before)


def _scalars(graph: Graph, world: SweepWorld) -> list[str]:
    """Progress, speed, gust, row and column."""
    cell = graph.node("Cast", "cell", to=1)
    along = graph.node("Add", cell, "offset")
    progress = graph.node("Div", along, graph.constant(world.length))
    progress = graph.node("Min", progress, graph.constant(1.0))
    speed = graph.node("Div", "speed", graph.constant(world.numbers.max_speed))
    gust = graph.node("Clip", "gust", graph.constant(-1.0), graph.constant(1.0))
    place = graph.rows(np.stack(world.place, axis=1), "cell")
    return [*(graph.column(each) for each in (progress, speed, gust)), place]


@dataclass(frozen=True)
class PortableEnvironmentPolicy:
    """A trained policy in an external environment."""

    kept: EnvironmentRecord
    policy: EnvironmentPolicy

    @property
    def name(self) -> str:
        return self.kept.name

    @property
    def inputs(self) -> tuple[Port, ...]:
        sentence = "the numbers of an observation, as the environment gives them, in one row"
        if self.policy.is_reacting:
            sentence += "; then what each region had so far in the episode, and its steps so far"
        trained = self.policy.policy
        seen = Port("observation", "float32", (trained.encoder.features,), sentence)
        if not (count := uniform_size(trained)):
            return (seen,)
        sentence = "numbers drawn uniformly from 0 to 1: equal ones give the likeliest choice"
        return (seen, Port("uniform", "float32", (count,), sentence))

    @property
    def outputs(self) -> tuple[Port]:
        actions = self.policy.actions
        if isinstance(actions.kind, Discrete):
            pairs = zip(actions.first, actions.kind.counts, strict=True)
            ranges = ", ".join(f"{first} to {first + count - 1}" for first, count in pairs)
            shape = actions.kind.shape
            sentence = "one of the choices" if not shape else "for each entry one of the choices"
            return (Port("action", "int32", shape, f"{sentence} {ranges}"),)
        return (Port("action", "float32", actions.kind.shape, "within the bounds of the actions"),)

    def function(self) -> Callable[..., Array]:
        actions, trained = self.policy.actions, self.policy.policy

        def act(rows: Float[Array, "n feature"], *drawn: Float[Array, "n choice"]) -> Array:
            uniform = drawn[0] if drawn else jnp.zeros((rows.shape[0], 0))
            chosen = jax.vmap(partial(act_on, trained))(rows, uniform)
            if isinstance(actions.kind, Discrete):
                return (chosen + self._first()).astype(jnp.int32)
            low, wide = map(jnp.asarray, self._bounds())
            return low + jnp.clip(chosen, 0.0, 1.0) * wide

        return act

    def draw(self, graph: Graph) -> tuple[str]:
        actions, network = self.policy.actions, cast(Any, self.policy.policy.network)
        inputs = self._inputs(graph)
        if isinstance(actions.kind, Discrete):
            chosen = draw_choice(graph, network, inputs)
            moved = graph.node("Add", chosen, graph.constant(self._first(), np.int64))
            return (graph.node("Cast", moved, to=_INT32),)
        numbers = draw_numbers(graph, network, inputs, actions.kind.shape)
        cut = graph.node("Clip", numbers, graph.constant(0.0), graph.constant(1.0))
        low, wide = (graph.constant(each) for each in self._bounds())
        return (graph.node("Add", low, graph.node("Mul", cut, wide)),)

    def about(self) -> dict[str, Any]:
        """The environment and its actions."""
        return {
            "environment": self.kept.environment,
            "actions": dict(self.kept.actions),
            "observations": "what is no Box of numbers goes through gymnasium.spaces.flatten first",
        }

    def _bounds(self) -> tuple[Float[np.ndarray, "*action"], Float[np.ndarray, "*action"]]:
        """The lower bounds of the actions, and the widths of their ranges."""
        actions = self.policy.actions
        assert not isinstance(actions.kind, Discrete)  # noqa: S101 (for the type checker)
        low, high = (np.reshape(each, actions.kind.shape) for each in (actions.low, actions.high))
        return low.astype(np.float32), (high - low).astype(np.float32)

    def _first(self) -> Int[np.ndarray, "*action"]:
        """The first choice of each entry."""
        return np.reshape(self.policy.actions.first, self.policy.actions.kind.shape).astype(int)

    def _inputs(self, graph: Graph) -> str:
        """The inputs of the network, [n, input], as from `EnvironmentEncoder.actor`."""
        trained = self.policy.policy
        encoder = cast(EnvironmentEncoder, trained.encoder)
        own, regions, is_reacting = encoder.own_features, encoder.regions, self.policy.is_reacting
        observed = graph.columns("observation", 0, own) if is_reacting else "observation"
        shifted = graph.node("Sub", observed, graph.constant(encoder.moments.mean))
        scaled = graph.node("Div", shifted, graph.constant(spread_of(encoder.moments)))
        cut = graph.within(scaled, -FARTHEST, FARTHEST)
        if encoder.of_runs is not None:
            atoms = encoder.of_runs
            service = graph.columns("observation", own, own + regions)
            steps = graph.columns("observation", own + regions, own + regions + 1)
            cells = graph.constant(np.maximum(np.asarray(atoms.cells), 1.0))
            gone = graph.node("Sub", graph.constant(1.0), graph.node("Div", steps, cells))
            left = graph.node("Max", gone, graph.constant(0.0))
            run = _forecast(graph, trained, service, left, np.asarray(encoder.step_of_atom))
            usual = graph.constant(np.abs(np.asarray(atoms.expected)) + 1e-6)
            whole = graph.node("Add", graph.node("Abs", service), usual)
            given = graph.node("Div", service, whole)
            parts = [cut, given, graph.columns(left, 0, 1), run.pace, run.near]
            if encoder.sees_prices:
                unit = graph.constant(np.asarray(encoder.label_unit / encoder.price_unit))
                parts.append(graph.node("Asinh", graph.node("Mul", run.price, unit)))
            return graph.node("Concat", *parts, axis=1)
        if not encoder.sees_prices:
            return cut
        seen = encoder.seen_prices(trained.price)
        states = graph.node("Shape", "observation", start=0, end=1)
        width = graph.constant([encoder.regions], np.int64)
        rows = graph.node("Concat", states, width, axis=0)
        return graph.node("Concat", cut, graph.node("Expand", graph.constant(seen), rows), axis=1)


_INT32 = 6
"""The ONNX code of the type int32."""
