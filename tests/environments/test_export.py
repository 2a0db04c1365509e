"""Policies of environments as files: ONNX Runtime and bare JAX against the original."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import onnxruntime
import pytest

import scrl
from scrl.environments import EnvironmentPolicy
from scrl.environments.driver import Uniform
from scrl.environments.encoder import EnvironmentEncoder, RunningMoments
from scrl.environments.spaces import Actions
from scrl.errors import PolicyError
from scrl.export import POLICY_FORMATS, ROUTE_FORMATS, ExportError, export
from scrl.export.policies import PortableEnvironmentPolicy
from scrl.learners import LEARNERS, TrainedPolicy
from scrl.learners.actions import ActionKind, Continuous, Discrete
from scrl.opening import open_run
from scrl.problems import ProblemOptions
from scrl.rules import RuleSet
from scrl.runs.folder import EnvironmentRecord, RunFolder
from scrl.single_runs import RunAtoms

from .small import HORIZON, LOOP, REGIONS, RULES, loaded, make_walk

STATES, FEATURES = 1_000, 4
LARGEST_DIFFERENCE = 2e-5
"""In actions that are up to 10 wide."""
PLANE = Actions(Continuous((2, 1)), (-1.0, -5.0), (1.0, 5.0))
CHOICES = Actions(Discrete((3,)), dtype="int64", first=(-1,))
SEVERAL = Actions(Discrete((3, 2), (2, 1)), dtype="int64", first=(-1, 4))


OF_RUNS = RunAtoms(
    coefficients=jnp.array([[-1.0, 0.0], [0.5, -0.5], [0.0, 1.0]]), bounds=jnp.array([-2, 1, 3.0]),
    expected=jnp.array([4.0, -5.0]), cells=jnp.array([9.0, 9.0]),
    unit=jnp.array([0.5, 2.0]),
)  # fmt: skip


def lively(
    name: str, actions: Actions, *, sees_prices: bool, of_runs: RunAtoms | None = None
) -> PortableEnvironmentPolicy:
    """A policy with weights so large that it does all there is to do."""
    kind: ActionKind = actions.kind
    keys = jax.random.split(jax.random.key(4), 4)
    usual = RunningMoments(
        jnp.asarray(9.0), jax.random.normal(keys[0], (FEATURES,)),
        jnp.exp(jax.random.normal(keys[1], (FEATURES,))),
    )  # fmt: skip
    encoder = EnvironmentEncoder(
        jnp.asarray(0.3), jnp.ones(3), jnp.asarray([0.5, 2.0]), usual, kind, FEATURES, 2,
        sees_prices, 2, of_runs,
    )  # fmt: skip
    learner = LEARNERS[name].make(LEARNERS[name].config(width=16, depth=1), encoder)
    network = eqx.filter_jit(lambda key: learner.actor(learner.init(key=key)))(keys[2])
    last = lambda each: each.network.layers[-1].weight  # noqa: E731
    network = eqx.tree_at(last, network, replace_fn=lambda weight: 60.0 * weight)
    price = jax.random.normal(keys[3], (2 if of_runs is None else 5,))
    rules = RuleSet.of(RULES, REGIONS)
    options = ProblemOptions(name="walk")
    kept = EnvironmentRecord("Walk-v0", rules, HORIZON, FEATURES, actions.to_json(), options)
    return PortableEnvironmentPolicy(
        kept, EnvironmentPolicy(TrainedPolicy(network, encoder, price), actions)
    )


def some_rows() -> np.ndarray:
    """Usual ones, and some far out that are cut off."""
    chance = np.random.default_rng(5)
    rows = chance.normal(0.0, 2.0, (STATES, FEATURES))
    rows[:20] *= 50.0
    return rows.astype(np.float32)


def inputs(policy: PortableEnvironmentPolicy, rows: np.ndarray) -> dict[str, np.ndarray]:
    """What the exported policy is given."""
    drawn = Uniform(policy.policy.policy, 7)(len(rows))
    return {port.name: given for port, given in zip(policy.inputs, (rows, drawn), strict=False)}


def original(policy: PortableEnvironmentPolicy, rows: np.ndarray) -> np.ndarray:
    found = policy.policy.on_rows(rows, Uniform(policy.policy.policy, 7))
    assert np.ptp(found) > 1, "too tame to tell"
    return found


@pytest.mark.parametrize(
    ("name", "actions", "sees_prices"),
    [
        ("ppo", PLANE, True),
        ("ppo", PLANE, False),
        ("ppo", CHOICES, True),
        ("ppo", SEVERAL, True),
        ("ddpg", PLANE, True),
        ("sac", PLANE, True),
    ],
)
def test_onnx_agrees_on_a_thousand_observations(
    name: str, actions: Actions, sees_prices: bool
) -> None:
    policy, rows = lively(name, actions, sees_prices=sees_prices), some_rows()
    model, described = POLICY_FORMATS["onnx"].write(policy)
    (found,) = onnxruntime.InferenceSession(model).run(["action"], inputs(policy, rows))
    expected = original(policy, rows)
    assert isinstance(found, np.ndarray)
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() <= LARGEST_DIFFERENCE
    about = json.loads(described)
    assert about["environment"] == "Walk-v0"
    assert about["actions"] == json.loads(json.dumps(actions.to_json()))
    shape = "[n]" if actions is CHOICES else "[n, 2, 1]"
    drawn = {PLANE: "", CHOICES: "uniform [n, 3], ", SEVERAL: "uniform [n, 5], "}[actions]
    assert about["shapes"] == (
        f"observation [n, 4], {drawn}action {shape}; n is any number of states"
    )


@pytest.mark.parametrize("sees_prices", [True, False])
def test_onnx_of_a_policy_that_reacts_takes_what_was_given_and_the_steps(sees_prices: bool) -> None:
    policy = lively("ppo", PLANE, sees_prices=sees_prices, of_runs=OF_RUNS)
    chance = np.random.default_rng(6)
    run = np.hstack([chance.normal(0.0, 3.0, (STATES, 2)), chance.integers(0, 12, (STATES, 1))])
    rows = np.hstack([some_rows(), run]).astype(np.float32)
    model, described = POLICY_FORMATS["onnx"].write(policy)
    (found,) = onnxruntime.InferenceSession(model).run(["action"], {"observation": rows})
    assert np.abs(np.asarray(found) - original(policy, rows)).max() <= LARGEST_DIFFERENCE
    assert "observation [n, 7]" in json.loads(described)["shapes"]


@pytest.mark.parametrize("actions", [PLANE, CHOICES, SEVERAL])
def test_stablehlo_agrees_without_this_package(actions: Actions, tmp_path: Path) -> None:
    policy, rows = lively("ppo", actions, sees_prices=True), some_rows()
    data, _ = POLICY_FORMATS["stablehlo"].write(policy)
    (tmp_path / "policy.stablehlo").write_bytes(data)
    np.savez(tmp_path / "rows.npz", *inputs(policy, rows).values())
    code = (
        "import sys, jax.export, numpy\n"
        "policy = jax.export.deserialize(open('policy.stablehlo', 'rb').read())\n"
        "given = list(numpy.load('rows.npz').values())\n"
        "numpy.save('found.npy', policy.call(*given))\n"
        "assert len(policy.call(*[each[:3] for each in given])) == 3\n"
        "assert 'scrl' not in sys.modules\n"
    )
    # -I: neither the folder nor PYTHONPATH is looked at.
    subprocess.run([sys.executable, "-I", "-c", code], cwd=tmp_path, check=True, timeout=120)
    found, expected = np.load(tmp_path / "found.npy"), original(policy, rows)
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() <= LARGEST_DIFFERENCE


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("export") / "run"
    known: dict[str, Any] = {"labels": "amounts", "regions": REGIONS, "rules": RULES}
    scrl.train(make_walk, horizon_steps=HORIZON, seeds=2, settings=LOOP, out=out, **known)
    return out


def test_a_run_is_exported_as_the_policy_that_is_loaded(run: Path, tmp_path: Path) -> None:
    rows = np.array([[0.2, 0.0], [2.0, 0.5]], np.float32)
    for seed in (0, 1):
        opened = open_run(run)
        written = export(opened, "onnx", tmp_path / "policy.onnx", seed=seed)
        assert (written.coordinates, written.warnings) == (None, ())
        session = onnxruntime.InferenceSession(tmp_path / "policy.onnx")
        (found,) = session.run(["action"], {"observation": rows})
        assert found == pytest.approx(loaded(run, seed).on_rows(rows), abs=1e-6)
        told = next(each for each in scrl.resume(run).seeds if each.seed == seed)
        assert opened.received(seed) == (told.evaluation.density, told.evaluation.steps)
    assert open_run(run).seed_result().seed == scrl.resume(run).best.seed


def test_routes_are_refused_and_nothing_is_written(run: Path, tmp_path: Path) -> None:
    opened = open_run(run)
    assert len(ROUTE_FORMATS) == 8
    for name in ROUTE_FORMATS:
        with pytest.raises(
            ExportError, match=rf"'{name}' writes a route .* \(make_walk\)\. Its po"
        ):
            export(opened, name, tmp_path / "file")
    assert not list(tmp_path.iterdir())
    with pytest.raises(PolicyError, match="there is no route, since there is no map"):
        opened.route()
    assert RunFolder.open(run).environment() == opened.problem
