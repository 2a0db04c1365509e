"""Trees of arrays come back bit for bit, or it is said why not."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from scrl.runs.folder import RunError, RunFolder


class Network(eqx.Module):
    """Numbers, and a function that no file can hold."""

    weights: list[jax.Array]
    activation: Callable[[jax.Array], jax.Array]


def network(scale: float = 1.0) -> Network:
    shapes = [(8, 3), (8,), (1, 8)]
    chance = np.random.default_rng(0)
    weights = [jnp.asarray(scale * chance.normal(size=shape), jnp.float32) for shape in shapes]
    return Network(weights, jnp.tanh)


def state_of_training() -> dict[str, Any]:
    return {
        "network": network(),
        "key": jax.random.key(7),
        "keys": jax.random.key(8, impl="rbg")[None],
        "half": jnp.arange(3, dtype=jnp.bfloat16),
        "columns": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "scalars": (True, 3, 0.1, np.float32(0.2), 2j),
        "empty": (jnp.zeros((0, 4)), None),
    }


def abstract(leaf: Any) -> Any:
    is_array = isinstance(leaf, jax.Array)
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) if is_array else leaf


def numbers_of(tree: Any) -> list[Any]:
    leaves = [leaf for leaf in jax.tree.leaves(tree) if not callable(leaf)]
    is_key = [jnp.issubdtype(getattr(leaf, "dtype", int), jax.dtypes.prng_key) for leaf in leaves]
    pairs = zip(leaves, is_key, strict=True)
    return [jax.random.key_data(leaf) if key else leaf for leaf, key in pairs]


@pytest.mark.parametrize("is_abstract", [False, True])
def test_every_kind_of_leaf_comes_back_bit_for_bit(run: RunFolder, is_abstract: bool) -> None:
    state = state_of_training()
    run.save_checkpoint(state, iteration=5, wall_s=1.5)
    like = jax.tree.map(abstract, state) if is_abstract else state
    found = RunFolder.open(run.path).load_checkpoint(like)
    assert found is not None
    assert (found.iteration, found.wall_s) == (5, 1.5)
    for old, new in zip(numbers_of(state), numbers_of(found.state), strict=True):
        assert np.asarray(old).dtype == np.asarray(new).dtype
        assert np.array_equal(old, new)
    assert found.state["keys"].dtype == state["keys"].dtype
    assert jax.random.uniform(found.state["key"]) == jax.random.uniform(state["key"])
    assert found.state["network"].activation is jnp.tanh


def test_policies_are_files_that_equinox_reads(run: RunFolder) -> None:
    with pytest.raises(RunError, match="there is no policy yet"):
        run.load_policy(network())
    run.save_policy(network())
    blank = network(scale=0.0)
    assert eqx.tree_equal(run.load_policy(blank), network())
    assert eqx.tree_equal(eqx.tree_deserialise_leaves(run.path / "policy.eqx", blank), network())
    eqx.tree_serialise_leaves(run.path / "policy.eqx", network(scale=2.0))
    assert eqx.tree_equal(run.load_policy(blank), network(scale=2.0))


@pytest.mark.parametrize(
    ("like", "message"),
    [
        ({"w": jnp.ones(4)}, r"\['w'\]: the file holds float32 of shape \(3,\), asked for is"),
        ({"w": jnp.ones(3, jnp.int32)}, r"float32 .* asked for is int32 of shape \(3,\)"),
        ({"w": np.ones(3)}, r"asked for is float64"),
        ({}, "holds more than is asked for"),
        ({"w": jnp.ones(3), "x": 1.0}, r"\['x'\]: damaged, or the file ends here"),
        ({"w": jax.random.key(0)}, r"asked for is uint32 of shape \(2,\)"),
    ],
)
def test_trees_of_other_settings_are_refused(run: RunFolder, like: Any, message: str) -> None:
    run.save_policy({"w": jnp.ones(3)})
    with pytest.raises(RunError, match=message):
        run.load_policy(like)


def test_objects_are_neither_written_nor_read(run: RunFolder) -> None:
    like = {"w": np.array([{"a": 1}], dtype=object)}
    with pytest.raises(ValueError, match="allow_pickle"):
        run.save_policy(like)
    np.save(run.path / "policy.npy", like["w"], allow_pickle=True)
    (run.path / "policy.npy").rename(run.path / "policy.eqx")
    with pytest.raises(RunError, match="object"):
        run.load_policy({"w": jnp.ones(1)})


def test_whatever_bytes_a_policy_holds_it_loads_or_says_so(run: RunFolder) -> None:
    chance = random.Random(0)
    like = {"w": np.ones(3, np.float32), "b": np.ones((), np.float32)}
    run.save_policy(like)
    whole = (run.path / "policy.eqx").read_bytes()
    refused = 0
    for _ in range(400):
        damaged = bytearray(whole[: chance.choice([len(whole), chance.randrange(len(whole))])])
        for _ in range(chance.randrange(1, 6)):
            if damaged:
                damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        (run.path / "policy.eqx").write_bytes(damaged)
        try:
            run.load_policy(like)
        except RunError:
            refused += 1
    assert refused > 300
