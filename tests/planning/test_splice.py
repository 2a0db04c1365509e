"""Several plans as one: splices give what the mixture gives, patchworks the best of each part."""

from __future__ import annotations

import numpy as np
import pytest

from scrl.planning.proposals import FIRST_SHARES, around, patchwork, splices


@pytest.mark.parametrize("atoms", [1, 3, 5])
def test_a_splice_gives_what_the_mixture_gives(atoms: int) -> None:
    rng = np.random.default_rng(atoms)
    plans, parts = atoms + 1, 64
    # In steps of service: each plan has a pace of its own, so their sums lie far apart.
    pace = rng.uniform(0.0, 3.0, (plans, 1, atoms))
    given = pace * rng.uniform(0.5, 1.5, (plans, parts, atoms))
    weights = rng.dirichlet(np.ones(plans))
    wanted = np.tensordot(weights, given.sum(axis=1), axes=1)
    taken = splices(given, weights, np.full(atoms, 0.5), count=4, rng=rng)
    assert taken.shape == (4, parts)
    assert len(np.unique(taken, axis=0)) == 4
    found = given[taken, np.arange(parts)].sum(axis=1)
    nearest_single = np.abs(given.sum(axis=1) - wanted).max(axis=1).min()
    assert nearest_single > 15.0
    assert np.abs(found - wanted).max() < 8.0
    assert (found - wanted).max() < 2.5  # they are chosen to keep within the mixture and room


def test_one_plan_alone_is_its_own_splice() -> None:
    given = np.ones((1, 64, 2))
    taken = splices(given, np.ones(1), np.zeros(2), count=3, rng=np.random.default_rng(0))
    assert np.array_equal(taken, np.zeros((1, 64), int))


def test_a_patchwork_takes_a_dear_plan_only_where_it_does_most_good() -> None:
    # Plan 0 costs nothing and gives nothing. Plan 1 costs 1 a part and takes 5 off the atom on the
    # first two parts, 1 elsewhere. To stay at or below -10, two dear parts are enough: these.
    returns = np.array([[0.0] * 6, [-1.0] * 6])
    over = np.zeros((2, 6, 1))
    over[1, :, 0] = [-5.0, -5.0, -1.0, -1.0, -1.0, -1.0]
    found = patchwork(returns, over, np.array([-10.0]), dear=100.0)
    assert found is not None
    assert found.tolist() == [1, 1, 0, 0, 0, 0]


def test_what_cannot_be_kept_is_broken_at_its_price() -> None:
    returns = np.array([[0.0] * 3, [-1.0] * 3])
    over = np.stack([np.zeros((3, 1)), -np.ones((3, 1))])
    cheap = patchwork(returns, over, np.array([-9.0]), dear=0.5)
    dear = patchwork(returns, over, np.array([-9.0]), dear=2.0)
    assert cheap is not None
    assert dear is not None
    assert cheap.tolist() == [0, 0, 0]
    assert dear.tolist() == [1, 1, 1]


def test_the_first_multipliers_lie_on_all_sides_of_the_fluids() -> None:
    found = around(np.array([2.0, 0.0, 1.0, 3.0]))
    assert found[0].tolist() == [2.0, 0.0, 1.0, 3.0]
    assert found[:, 0] == pytest.approx(2.0 * np.array(FIRST_SHARES))
    assert not found[:, 1].any()
    # Each of the others is once larger and once smaller where the one before it is either.
    sides = np.sign(found[1:-1, 2:] / found[1:-1, :1] - np.array([0.5, 1.5]))
    assert {(1, 1), (1, -1), (-1, 1), (-1, -1)} == set(map(tuple, sides.astype(int).tolist()))
