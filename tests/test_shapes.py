"""The check of shapes is switched on: arrays that are not as annotated are refused."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest
from jaxtyping import TypeCheckError

from scrl.learners.offpolicy import draw, empty
from scrl.penalty import next_kappa
from scrl.rollout import Episode

from .shapes import check_record


def test_axes_of_one_name_must_agree() -> None:
    assert next_kappa(jnp.zeros(2), jnp.ones(2), 0.5).tolist() == [0.5, 0.5]
    with pytest.raises(TypeCheckError, match="parameter 'signed'"):
        next_kappa(jnp.zeros(2), jnp.ones(1), 0.5)


def test_fields_of_a_named_tuple_must_agree() -> None:
    replay = empty(4, features=2, regions=3)._replace(filled=jnp.asarray(4))
    assert draw(replay, 5, key=jax.random.key(0)).labels.shape == (5, 3)
    broken = replay._replace(memory=replay.memory._replace(reward=jnp.zeros(1)))
    with pytest.raises(TypeCheckError, match="parameter 'replay'"):
        draw(broken, 5, key=jax.random.key(0))


def test_axes_in_front_may_be_any_if_all_fields_have_them() -> None:
    sums = (jnp.zeros((2, 4)), jnp.zeros((2, 4, 3)), jnp.zeros((2, 4), int))
    assert check_record(Episode(*sums, jnp.zeros((2, 4), bool), None))
    with pytest.raises(TypeError, match="is_terminated"):
        check_record(Episode(*sums, jnp.zeros((1, 4), bool), None))
