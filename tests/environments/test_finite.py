"""The finite benchmark: its reference is right where it can be worked by hand."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from benchmarks import finite


def test_the_best_walk_along_the_cliff() -> None:
    # 13 steps along the edge, 12 of them on it; 15 steps a row higher are on it twice. The rule
    # allows 4, so that at most a share p of walks may take the edge: 12 p + 2 (1 - p) = 4, p = 0.2,
    # and 0.2 * -13 + 0.8 * -15 = -14.6.
    given = finite.PROBLEMS["cliff"]
    assert finite.best_of(given, has_rules=False).return_ == pytest.approx(-13.0)
    assert finite.best_of(given).return_ == pytest.approx(-14.6)


def test_the_compiled_lake_has_the_outcomes_of_the_table() -> None:
    given = finite.PROBLEMS["lake"]
    assert given.table is not None
    env, table = finite.compiled(given).source.compiled, given.table()
    keys = jax.random.split(jax.random.key(0), 3000)
    # From the corner three ways may lead: one of them stays there and counts as a visit.
    state = jnp.asarray(table.first)
    after, seen, reward, is_terminated, info = jax.vmap(lambda key: env.step(state, 0, key))(keys)
    np.testing.assert_array_equal(seen.argmax(axis=1), after)
    for place in range(len(table.outcomes)):
        there = [each for each in table.outcomes[table.first][0] if each.after == place]
        share = sum(each.chance for each in there)
        assert float((after == place).mean()) == pytest.approx(share, abs=0.03)
        assert (info["corner"][after == place] == float(finite.in_corner(place))).all()
    # Where the goal is one step away it may be found, which pays and ends the episode.
    _, _, reward, is_terminated, _ = jax.vmap(lambda key: env.step(jnp.asarray(14), 2, key))(keys)
    assert float(reward.mean()) == pytest.approx(1 / 3, abs=0.03)
    np.testing.assert_array_equal(is_terminated, reward > 0)
