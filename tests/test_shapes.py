"""The check of shapes is switched on: arrays that are not as annotated are refused."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Float, TypeCheckError, jaxtyped

from scrl.learners.offpolicy import draw, empty
from scrl.penalty import next_kappa
from scrl.rollout import Episode

from .shapes import check_record, checked, kind_of, once


def test_axes_of_one_name_must_agree() -> None:
    assert next_kappa(jnp.zeros(2), jnp.ones(2), 0.5).tolist() == [0.5, 0.5]
    with pytest.raises(TypeCheckError, match="parameter 'signed'"):
        next_kappa(jnp.zeros(2), jnp.ones(1), 0.5)


def jaxtyped_once(function: Callable[..., Any]) -> Callable[..., Any]:
    return once(cast(FunctionType, function), jaxtyped(typechecker=checked))


def test_each_kind_of_call_is_checked_whatever_was_checked_before() -> None:
    """Also of results alone: here their length is that of no argument."""

    def halves(values: Float[Array, " region"], count: int) -> Float[Array, " region"]:
        return values[:count]

    calls = [jaxtyped_once(halves), jaxtyped_once(halves)]
    for call in calls:  # the second is another wrapper of the same code
        for _ in range(2):
            assert call(jnp.ones(4), 4).tolist() == [1.0] * 4
            with pytest.raises(TypeCheckError, match="return value"):
                call(jnp.ones(4), 2)
            with pytest.raises(TypeCheckError, match="parameter 'values'"):
                call(jnp.ones((4, 1)), 4)
            with pytest.raises(TypeCheckError, match="parameter 'values'"):
                call(jnp.ones(4, int), 4)


def test_arguments_are_known_by_their_names() -> None:
    @jaxtyped_once
    def product(table: Float[Array, "row column"], row: Float[Array, " column"]) -> Any:
        return table @ row

    assert product(table=jnp.ones((2, 3)), row=jnp.ones(3)).shape == (2,)
    with pytest.raises(TypeCheckError, match="parameter 'table'"):
        product(row=jnp.ones((2, 3)), table=jnp.ones(3))


def test_kinds_differ_where_annotations_could_tell() -> None:
    one = jnp.ones(2)
    kinds = [
        one, jnp.ones(3), jnp.ones(2, int), np.ones(2), 1.0, (one,), (1.0,), None,
        Episode(one, one, one, one, one), Episode(one, one, one, one, None), jax.random.key(0),
    ]  # fmt: skip
    found = [kind_of(each) for each in kinds]
    jax.eval_shape(lambda traced: found.append(kind_of(traced)), jnp.ones(2))
    assert len(set(found)) == len(kinds) + 1
    assert kind_of(jnp.zeros(2)) == kind_of(jnp.ones(2))


def test_fields_of_a_named_tuple_must_agree() -> None:
    replay = empty(4, features=2, labels=3)._replace(filled=jnp.asarray(4))
    assert draw(replay, 5, key=jax.random.key(0)).labels.shape == (5, 3)
    broken = replay._replace(memory=replay.memory._replace(reward=jnp.zeros(1)))
    with pytest.raises(TypeCheckError, match="parameter 'replay'"):
        draw(broken, 5, key=jax.random.key(0))


def test_axes_in_front_may_be_any_if_all_fields_have_them() -> None:
    sums = (jnp.zeros((2, 4)), jnp.zeros((2, 4, 3)), jnp.zeros((2, 4), int))
    assert check_record(Episode(*sums, jnp.zeros((2, 4), bool), None))
    with pytest.raises(TypeError, match="is_terminated"):
        check_record(Episode(*sums, jnp.zeros((1, 4), bool), None))
