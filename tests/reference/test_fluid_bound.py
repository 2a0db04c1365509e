"""With poured service and in calm air no drive beats the fluid (docs/bound.md)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import Float

from scrl.reference.fluid import FluidSweep
from scrl.worlds.sweep import dynamics
from scrl.worlds.sweep.dynamics import Scalars
from scrl.worlds.sweep.regions import from_masks
from scrl.worlds.sweep.spec import SweepRoute, SweepSpec
from scrl.worlds.sweep.vehicle import Vehicle

from ..worlds.sweep.outlined import outlined, tilted


class Driven(NamedTuple):
    return_: float
    amounts: Float[np.ndarray, " region"]


def driven(
    spec: SweepSpec,
    throttles: Sequence[float],
    start: float = 0.0,
    openings: Sequence[float] = (1.0,),
) -> Driven:
    """A drive to the end of the path in double precision; throttles and openings are repeated."""
    places, speeds, speed = [start], [], 0.0
    while places[-1] < len(spec.path.cells):
        throttle = throttles[len(speeds) % len(throttles)]
        speed = dynamics.next_speed(spec.vehicle, speed, throttle, Scalars)
        speeds.append(speed)
        places.append(places[-1] + speed)
    begin, end = np.array(places[:-1]), np.array(places[1:])
    opened = np.resize(openings, len(speeds))
    flows = dynamics.flow_of(spec.vehicle, np.array(speeds), opened, np)
    shares = flows * spec.service.share_between(spec.service.of_regions, begin, end)
    on_path = (np.minimum(end, len(spec.path.cells)) - begin) / (end - begin)
    rewards = dynamics.step_reward(spec.vehicle, np.array(speeds))
    rewards -= spec.vehicle.product * flows * on_path
    return Driven(float(rewards.sum()), spec.vehicle.rate * shares.sum(axis=1))


def most(fluid: FluidSweep, prices: Float[np.ndarray, " region"]) -> float:
    """max over all times of return + prices . amounts: the dual value at these prices."""
    worth = prices @ fluid.amount
    point, smoothing = fluid.best_point(-worth)
    return fluid.return_of(point) + float(worth @ point) + smoothing


@st.composite
def worlds(draw: st.DrawFn) -> SweepSpec:
    """Small maps with one to three regions that may overlap, and any vehicle.

    Regions are sets of cells, or polygons of which parts of cells have shares.
    """
    shape = draw(st.integers(1, 4)), draw(st.integers(2, 9))
    cells = st.lists(st.booleans(), min_size=shape[0] * shape[1], max_size=shape[0] * shape[1])
    if draw(st.booleans()):
        rng = np.random.default_rng(draw(st.integers(0, 10_000)))
        regions = outlined([tilted(rng, shape) for _ in range(draw(st.integers(1, 3)))], shape)
    else:
        masks = np.array(draw(st.lists(cells.filter(any), min_size=1, max_size=3)))
        regions = from_masks(masks.reshape(-1, *shape))
    vehicle = Vehicle(
        max_speed=draw(st.sampled_from([0.4, 1.0, 3.0, 7.5])),
        inertia=draw(st.one_of(st.just(0.0), st.floats(0.0, 0.9))),
        crawl=draw(st.sampled_from([0.05, 0.3, 1.0])),
        rate=draw(st.sampled_from([0.5, 2.25])),
        effort=draw(st.sampled_from([0.1, 4.0])),
    )
    route = SweepRoute(swath=draw(st.integers(1, 3)), horizon_steps=10**6)
    return SweepSpec(regions, vehicle, route=route)


throttles = st.lists(
    st.one_of(st.sampled_from([0.0, 1.0]), st.floats(0.0, 1.0)), min_size=1, max_size=40
)
worths = st.lists(st.floats(-2.0, 2.0), min_size=3, max_size=3)
"""Prices in efforts for a step; above 1 it is best to go as slowly as can be."""


def prices_of(spec: SweepSpec, worths: Sequence[float]) -> Float[np.ndarray, " region"]:
    count = len(spec.regions.names)
    return np.array(worths[:count]) * spec.vehicle.effort / spec.vehicle.rate


def is_beaten(spec: SweepSpec, drive: Driven, prices: Float[np.ndarray, " region"]) -> bool:
    """Whether a drive earns more than the fluid at these prices, beyond rounding."""
    earned, size = (float(each @ drive.amounts) for each in (prices, np.abs(prices)))
    bound = most(FluidSweep.of(spec), prices) + 1e-7 * (size - drive.return_)
    return drive.return_ + earned > bound


@given(worlds(), throttles, worths)
@settings(max_examples=300)
def test_no_drive_beats_the_fluid_at_any_prices(
    spec: SweepSpec, throttles: list[float], worths: list[float]
) -> None:
    assert not is_beaten(spec, driven(spec, throttles), prices_of(spec, worths))


@st.composite
def with_flow(draw: st.DrawFn) -> SweepSpec:
    """A world whose vehicle has a flow, and perhaps limits of the dose and a cost."""
    spec, full = draw(worlds()), draw(st.sampled_from([0.5, 2.25]))
    least = draw(st.sampled_from([0.0, 0.1, 0.9, 1.0]))
    limits = sorted(draw(st.tuples(st.floats(0.0, 1.0), st.floats(0.0, 3.0))))
    low, high = (each * full / spec.vehicle.max_speed for each in limits)
    can_be_kept = low * spec.vehicle.max_speed <= full and limits[1] >= least
    dose = (low, high) if draw(st.booleans()) and can_be_kept else None
    vehicle = dataclasses.replace(
        spec.vehicle, rate=Vehicle.rate, flow=(least * full, full), dose=dose,
        product_cost=draw(st.sampled_from([0.0, 0.01, 1.0])),
    )  # fmt: skip
    return dataclasses.replace(spec, vehicle=vehicle)


@given(with_flow(), throttles, throttles, worths)
@settings(max_examples=300)
def test_no_flow_beats_the_fluid_at_any_prices(
    spec: SweepSpec, throttles: list[float], openings: list[float], worths: list[float]
) -> None:
    drive = driven(spec, throttles, openings=openings)
    assert not is_beaten(spec, drive, prices_of(spec, worths))


@given(with_flow(), worths)
@settings(max_examples=100)
def test_the_best_point_is_the_best_of_a_grid(spec: SweepSpec, worths: list[float]) -> None:
    """The dual by its closed form, against every time and service of a grid in each group."""
    fluid = FluidSweep.of(spec)
    assert fluid.flow is not None
    prices = prices_of(spec, worths)
    of_service = fluid.split(prices @ fluid.amount)[1] / fluid.weight - fluid.effort * fluid.product
    grid = np.geomspace(fluid.fastest, fluid.slowest, 3000)
    # The best time may be at a kink of L or U, beside which a grid loses as much as its step.
    kinks = [np.clip(until, fluid.fastest, fluid.slowest) for *_, until in fluid.flow.pieces]
    times = np.concatenate([grid, kinks])
    earned = np.maximum(of_service * fluid.flow.least(times), of_service * fluid.flow.most(times))
    by_grid = float(fluid.weight @ (earned - fluid.cost(times)).max(axis=0))
    found = most(fluid, prices)
    assert found >= by_grid - 1e-9 * (1.0 + abs(by_grid))
    assert found == pytest.approx(by_grid, rel=2e-4, abs=1e-4)


@given(worlds(), worths, st.floats(0.0, 0.2))
@settings(max_examples=100)
def test_a_crawl_from_rest_does_not_beat_the_fluid(
    spec: SweepSpec, worths: list[float], throttle: float
) -> None:
    assert not is_beaten(spec, driven(spec, [throttle]), prices_of(spec, worths))


@given(worlds(), throttles, throttles, worths)
@settings(max_examples=30)
def test_from_a_random_start_no_drives_beat_the_fluid_on_average(
    spec: SweepSpec, some: list[float], others: list[float], worths: list[float]
) -> None:
    """Starts in the middle of quarters of cells, in turn with these throttles and with those.

    They leave as much of each cell ahead, on average, as starts that are drawn evenly.
    """
    noise = len(spec.path.cells) // 2
    noisy = dataclasses.replace(spec.vehicle, start_noise=float(noise))
    starts = (np.arange(4 * noise) + 0.5) / 4
    all_ = [driven(spec, (some, others)[index % 2], start) for index, start in enumerate(starts)]
    mean = Driven(
        float(np.mean([each.return_ for each in all_])),
        np.mean([each.amounts for each in all_], axis=0),
    )
    assert not is_beaten(dataclasses.replace(spec, vehicle=noisy), mean, prices_of(spec, worths))


def test_without_the_start_from_rest_the_crawl_would_beat_the_fluid() -> None:
    """One region of twelve cells: 12 / 0.5 steps at the crawl, and up to 0.9 / 0.1 = 9 more."""
    vehicle = Vehicle(max_speed=1.0, inertia=0.9, crawl=0.5)
    spec = SweepSpec(from_masks(np.ones((1, 1, 12), bool)), vehicle)
    fluid, drive = FluidSweep.of(spec), driven(spec, [0.0])
    steps = float(drive.amounts[0]) / vehicle.rate
    assert 24.0 + 8.0 < steps <= 24.0 + 9.0
    assert fluid.slowest * fluid.weight == pytest.approx([33.0])
    assert not is_beaten(spec, drive, prices_of(spec, [5.0]))
    at_crawl = dataclasses.replace(fluid, slowest=np.array([2.0]))
    prices = prices_of(spec, [5.0])
    assert drive.return_ + prices @ drive.amounts > most(at_crawl, prices)


def test_with_landing_service_the_fluid_can_be_beaten() -> None:
    """Cells 2, 5 and 8 of nine are the region: steps of three cells land in nothing else."""
    masks = np.zeros((1, 1, 9), bool)
    masks[0, 0, 2::3] = True
    vehicle = Vehicle(max_speed=3.0, inertia=0.0)
    prices = np.array([0.5 * vehicle.effort / vehicle.rate])
    landing, poured = (
        SweepSpec(from_masks(masks), vehicle, route=SweepRoute(service=service))
        for service in ("landing", "poured")
    )
    # 2.4 cells first, then 5.4 and 8.4, then the end.
    throttles = [0.8, 1.0, 1.0, 1.0]
    assert is_beaten(landing, driven(landing, throttles), prices)
    assert not is_beaten(poured, driven(poured, throttles), prices)
