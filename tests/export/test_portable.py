"""Policies that run elsewhere: ONNX Runtime and bare JAX against the original."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import onnxruntime
import pytest

from scrl.export import POLICY_FORMATS, ExportError
from scrl.export.feedback import PortableFeedbackPolicy
from scrl.export.policies import PortableSweepPolicy, throttle_function
from scrl.learners import LEARNERS, ReactingPolicy, TrainedPolicy, policy_of
from scrl.learners.encoders import SweepEncoder
from scrl.planning.feedback import SOFTNESS, Aims, FeedbackPolicy
from scrl.policies import Constant
from scrl.problems import Problem, load
from scrl.reference.priced import price_rules
from scrl.single_runs import RunAtoms
from scrl.worlds.sweep.spec import Service, SweepRoute
from scrl.worlds.sweep.vehicle import Vehicle, Wind
from scrl.worlds.sweep.world import SweepState

STATES = 1_000
LARGEST_DIFFERENCE = 2e-6


class States(NamedTuple):
    cell: np.ndarray
    offset: np.ndarray
    speed: np.ndarray
    gust: np.ndarray


def some_states(problem: Problem) -> States:
    """All over the path, its ends among them."""
    chance = np.random.default_rng(5)
    cells = problem.world.length
    cell = chance.integers(0, cells, STATES).astype(np.int32)
    cell[:2] = 0, cells - 1
    numbers = [
        chance.uniform(low, high, STATES).astype(np.float32)
        for low, high in ((0, 1), (0, 3), (-2, 2))
    ]
    return States(cell, *numbers)


def lively_policy(name: str, problem: Problem, *, sees_prices: bool) -> TrainedPolicy:
    """A policy of a learner with prices and weights so large that it uses all throttles."""
    regions = len(problem.world_spec.regions.names)
    encoder = SweepEncoder(jnp.asarray(0.03), jnp.ones(1 + regions), regions, sees_prices, atoms=2)
    squashed = {"is_squashed": sees_prices} if name == "ddpg" else {}
    learner = LEARNERS[name].make(LEARNERS[name].config(width=16, depth=1, **squashed), encoder)
    network = eqx.filter_jit(lambda key: learner.actor(learner.init(key=key)))(jax.random.key(1))
    last = lambda each: each.network.layers[-1].weight  # noqa: E731
    network = eqx.tree_at(last, network, replace_fn=lambda weight: 100.0 * weight)
    price = jax.random.normal(jax.random.key(2), (regions,)) * 0.03
    return TrainedPolicy(network, encoder, price)


def reacting_policy(problem: Problem, *, sees_prices: bool) -> TrainedPolicy:
    """A lively policy that sees what was given, for three atoms of single runs."""
    regions = len(problem.regions)
    chance = np.random.default_rng(4)
    rows = chance.integers(-1, 2, (3, regions)) * 1.0
    rows[:, 0] = 1.0
    atoms = RunAtoms(
        jnp.asarray(rows, float),
        jnp.asarray(chance.normal(size=3), float),
        jnp.full(regions, 9.0),
        jnp.asarray(problem.world_spec.regions.sizes, float),
        jnp.ones(regions),
    )
    encoder = SweepEncoder(
        jnp.asarray(0.03), jnp.ones(1 + regions + 3), regions, sees_prices, of_runs=atoms
    )
    learner = LEARNERS["ppo"].make(LEARNERS["ppo"].config(width=16, depth=1), encoder)
    network = eqx.filter_jit(lambda key: learner.actor(learner.init(key=key)))(jax.random.key(1))
    last = lambda each: each.network.layers[-1].weight  # noqa: E731
    network = eqx.tree_at(last, network, replace_fn=lambda weight: 100.0 * weight)
    price = jax.random.normal(jax.random.key(2), (regions + 3,)) * 0.03
    return policy_of(network, encoder, price)


def original(problem: Problem, policy: TrainedPolicy, states: Sequence[np.ndarray]) -> np.ndarray:
    """One observation after the other, as in an episode."""
    found = jax.jit(throttle_function(problem, policy))(*states)
    assert float(jnp.ptp(found)) > 0.2, "too tame to tell"
    return np.asarray(found)


@pytest.mark.parametrize(
    ("name", "sees_prices", "world_name"),
    [
        *((name, sees_prices, "islands") for name in LEARNERS for sees_prices in (True, False)),
        ("ppo", True, "agri-joint"),
        ("ppo", False, "agri-joint"),
    ],
)
def test_onnx_agrees_on_a_thousand_states(
    name: str, sees_prices: bool, world_name: str, problem: Problem
) -> None:
    world = problem if world_name == "islands" else load(world_name)
    policy, states = lively_policy(name, world, sees_prices=sees_prices), some_states(world)
    model, _ = POLICY_FORMATS["onnx"].write(PortableSweepPolicy.of(world, policy))
    (found,) = onnxruntime.InferenceSession(model).run(["throttle"], states._asdict())
    assert np.abs(found - original(world, policy, states)).max() <= LARGEST_DIFFERENCE


@pytest.mark.parametrize("sees_prices", [True, False])
def test_a_trained_policy_that_reacts_is_the_same_elsewhere(
    sees_prices: bool, problem: Problem
) -> None:
    policy, states = reacting_policy(problem, sees_prices=sees_prices), some_states(problem)
    assert isinstance(policy, ReactingPolicy)
    sizes = np.array(problem.world_spec.regions.sizes)
    given = np.random.default_rng(6).uniform(0.0, 3.0, (STATES, len(sizes))) * sizes
    inputs = {**states._asdict(), "given": given.astype(np.float32)}
    wanted = original(problem, policy, list(inputs.values()))
    nothing = original(problem, policy, [*states, np.zeros_like(inputs["given"])])
    assert np.abs(wanted - nothing).max() > 0.2, "what was given is not seen"
    portable = PortableSweepPolicy.of(problem, policy)
    model, _ = POLICY_FORMATS["onnx"].write(portable)
    (found,) = onnxruntime.InferenceSession(model).run(["throttle"], inputs)
    # An atom that is just kept or just missed may be told apart by the last bit.
    assert (np.abs(found - wanted) <= 1e-4).mean() >= 0.995
    data, _ = POLICY_FORMATS["stablehlo"].write(portable)
    again = np.asarray(jax.export.deserialize(bytearray(data)).call(*inputs.values()))
    assert np.abs(again - wanted).max() <= LARGEST_DIFFERENCE


def test_stablehlo_agrees_on_a_thousand_states_without_this_package(
    problem: Problem, tmp_path: Path
) -> None:
    policy, states = lively_policy("ppo", problem, sees_prices=True), some_states(problem)
    data, _ = POLICY_FORMATS["stablehlo"].write(PortableSweepPolicy.of(problem, policy))
    (tmp_path / "policy.stablehlo").write_bytes(data)
    np.savez(tmp_path / "states.npz", **states._asdict())
    code = (
        "import sys, jax.export, numpy\n"
        "policy = jax.export.deserialize(open('policy.stablehlo', 'rb').read())\n"
        "states = numpy.load('states.npz')\n"
        "names = ('cell', 'offset', 'speed', 'gust')\n"
        "numpy.save('found.npy', policy.call(*(states[name] for name in names)))\n"
        "few = policy.call(*(states[name][:3] for name in names))\n"
        "assert few.shape == (3,) and 'scrl' not in sys.modules\n"
    )
    # -I: neither the folder nor PYTHONPATH is looked at.
    subprocess.run([sys.executable, "-I", "-c", code], cwd=tmp_path, check=True, timeout=120)
    found = np.load(tmp_path / "found.npy")
    assert np.abs(found - original(problem, policy, states)).max() <= LARGEST_DIFFERENCE


FREE = Vehicle(flow=(0.0, 2.25), product_cost=0.02)
PROPORTIONAL = Vehicle(flow=(0.2, 2.25), pump="proportional", dose=(0.15, 1.2), product_cost=0.01)


@pytest.mark.parametrize(
    ("service", "branches", "vehicle"),
    [
        ("landing", 1, Vehicle()),
        ("poured", 1, Vehicle()),
        ("poured", 3, Vehicle()),
        ("poured", 3, FREE),
        ("poured", 1, PROPORTIONAL),
    ],
)
def test_a_plan_that_reacts_is_the_same_elsewhere(
    service: Service, branches: int, vehicle: Vehicle
) -> None:
    """Med-joint has a band, and a stretch at its end that nothing can make up for."""
    problem = load("med-joint")
    spec = dataclasses.replace(
        problem.world_spec,
        vehicle=vehicle,
        wind=Wind(strength=0.1),
        route=SweepRoute(service=service),
    )
    problem = dataclasses.replace(problem, world_spec=spec)
    branch = price_rules(problem).branch
    assert branch is not None
    rows, bounds = branch.coefficients, branch.bounds
    if vehicle.has_flow:  # the time counts whatever the pump does, and S1 must get nothing
        problem = problem.with_rules("time <= 1500")
        spec = problem.world_spec
        rows = np.pad(rows, ((0, 2), (0, 1)))
        rows[-2, -1] = rows[-1, 0] = 1.0
        bounds = np.append(bounds, [1500.0, 0.0])
    atoms = len(bounds)
    is_in = ~np.eye(branches, atoms, dtype=bool) if branches > 1 else None
    aims = Aims(rows, bounds, np.full(atoms, 2.0), 3.0, is_in)
    whole = FeedbackPolicy.of(spec, problem.world, aims)
    policy, states = PortableFeedbackPolicy.of(problem, whole), some_states(problem)
    chance = np.random.default_rng(6)
    sizes = 0.75 * np.array(spec.regions.sizes) * states.cell[:, None] / problem.world.length
    given = sizes * chance.uniform(0.8, 1.2, (STATES, 1))
    if vehicle.has_flow:
        given = np.column_stack([given, 0.4 * states.cell])
    given = given.astype(np.float32)
    first = np.asarray(policy.policy.multipliers)
    assert first.shape == (branches, atoms)
    memory = first.ravel() * chance.uniform(0.5, 1.5, (STATES, first.size))
    inputs = {**states._asdict(), "given": given, "multipliers": memory.astype(np.float32)}
    wanted = [np.asarray(each) for each in jax.jit(policy.function())(*inputs.values())]
    assert (np.ptp(wanted[0], axis=0) > 0.9).all()
    model, described = POLICY_FORMATS["onnx"].write(policy)
    names = ["action" if vehicle.has_flow else "throttle", "next_multipliers"]
    found = onnxruntime.InferenceSession(model).run(names, inputs)
    assert np.asarray(found[0]).shape == wanted[0].shape
    assert np.abs(found[1] - wanted[1]).max() <= 1e-4
    # Where two throttles score the same, the last bit decides. An opening answers to small prices.
    largest = LARGEST_DIFFERENCE * np.array([1.0, 1.0 / SOFTNESS])[: len(wanted[0][0].ravel())]
    assert (np.abs(found[0] - wanted[0]).reshape(STATES, -1) <= largest).mean() >= 0.995
    assert len(json.loads(described)["first_multipliers"]) == first.size
    data, _ = POLICY_FORMATS["stablehlo"].write(policy)
    again = jax.export.deserialize(bytearray(data)).call(*inputs.values())
    for one, other in zip(again, wanted, strict=True):
        assert np.abs(np.asarray(one) - other).max() <= largest.max()
    # What only fills the arrays up changes nothing.
    state = SweepState(*(jnp.asarray(each[7]) for each in states), step=jnp.asarray(0))
    more, filled = whole.is_in.shape
    padded = np.pad(
        inputs["multipliers"][7].reshape(branches, atoms), ((0, 0), (0, filled - atoms))
    )
    padded = np.pad(padded, ((0, more - branches), (0, 0)), mode="edge")
    action, _ = whole.at(problem.world, state, jnp.asarray(given[7] / 2.25), jnp.asarray(padded))
    assert np.asarray(action) == pytest.approx(wanted[0][7], abs=1e-5)


def test_the_original_is_what_an_episode_asks(problem: Problem) -> None:
    """The function of states and the policy on the world's own observations are one."""
    policy, states = lively_policy("ppo", problem, sees_prices=True), some_states(problem)
    whole = original(problem, policy, states)
    for index in range(5):
        cell, offset, speed, gust = (jnp.asarray(part[index]) for part in states)
        state = SweepState(cell, offset, speed, gust, step=jnp.asarray(7))
        alone = policy(problem.world.observe(state), key=jax.random.key(9))
        assert float(alone) == pytest.approx(float(whole[index]), abs=1e-6)


@pytest.mark.parametrize("name", ["onnx", "stablehlo"])
def test_the_description_says_how_to_use_the_file(name: str, problem: Problem) -> None:
    policy = lively_policy("ppo", problem, sees_prices=True)
    described = json.loads(POLICY_FORMATS[name].write(PortableSweepPolicy.of(problem, policy))[1])
    assert list(described["inputs"]) == ["cell", "offset", "speed", "gust"]
    assert list(described["outputs"]) == ["throttle"]
    assert (described["metres_per_cell"], described["seconds_per_step"]) == (70.0, 10.0)
    path = described["path"]
    assert path["legs_start_at_cell"] == list(problem.world_spec.path.legs)
    # Between two corners of a leg, path cells lie evenly: any cell's place can be worked out.
    cells = [corner[0] for corner in path["corners"]]
    places = np.array([corner[1:] for corner in path["corners"]])
    where = problem.world_spec.regions.georeference
    assert where is not None
    true = where.places(problem.world_spec.path.cells + 0.5)
    for axis in (0, 1):
        between = np.interp(np.arange(path["cells"]), cells, places[:, axis])
        assert np.allclose(between, true[:, axis], atol=1e-6)


def test_a_plan_or_another_maps_policy_is_refused(problem: Problem) -> None:
    with pytest.raises(ExportError, match="export it as csv"):
        PortableSweepPolicy.of(problem, Constant(jnp.ones(())))
    other = lively_policy("ppo", load("agri-joint"), sees_prices=True)
    with pytest.raises(ExportError, match="trained on a map with 5 regions"):
        PortableSweepPolicy.of(problem, other)


@pytest.mark.parametrize(("name", "package"), [("onnx", "onnx"), ("stablehlo", "flatbuffers")])
def test_a_missing_package_is_named(
    name: str, package: str, problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    policy = PortableSweepPolicy.of(problem, lively_policy("ppo", problem, sees_prices=True))
    with pytest.raises(ExportError, match=rf"need the package {package}: pip install 'scrl\[exp"):
        POLICY_FORMATS[name].write(policy)
