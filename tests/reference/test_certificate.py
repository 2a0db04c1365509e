"""Certificates: a true optimum proves itself, anything else does not."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from scrl.reference.certificate import certify, require
from scrl.reference.linear import NumericalTroubleError, Optimum, best_point
from scrl.reference.model import LinearModel

MODEL = LinearModel(
    reward=np.array([3.0, 2.0]),
    density=sparse.csr_array(np.eye(2)),
    lower=np.zeros(2),
    upper=np.full(2, 10.0),
)
COEFFICIENTS, BOUNDS = np.array([[1.0, 1], [1, 0]]), np.array([4.0, 3])


@pytest.fixture
def optimum() -> Optimum:
    # x = 3, y = 1, return 11; multipliers 2 and 1 prove 2 * 4 + 1 * 3 = 11
    found = best_point(MODEL, COEFFICIENTS, BOUNDS)
    assert found is not None
    return found


def test_an_optimum_proves_itself(optimum: Optimum) -> None:
    certificate = require(certify(MODEL, COEFFICIENTS, BOUNDS, optimum))
    assert certificate.bound == pytest.approx(11)
    assert certificate.worst <= 1e-12


@pytest.mark.parametrize(
    ("change", "failure"),
    [
        ({"point": np.array([3.0, 1.1]), "density": np.array([3.0, 1.1])}, "primal"),
        ({"point": np.array([3.0, -0.1])}, "primal"),
        ({"point": np.array([2.0, 1.0]), "density": np.array([2.0, 1.0])}, "gap"),
        ({"point": np.array([3.0, np.nan])}, "primal"),
        ({"density": np.array([3.0, 0.9])}, "primal"),
        ({"return_": 11.1}, "gap"),
        ({"return_": np.nan}, "gap"),
        ({"of_atom": np.array([2.0, 0.0])}, "gap"),
        ({"of_atom": np.array([3.0, -1.0])}, "dual"),
        ({"of_atom": np.array([np.nan, 1.0])}, "gap"),
    ],
)
def test_a_corrupted_optimum_fails(optimum: Optimum, change: dict[str, Any], failure: str) -> None:
    certificate = certify(MODEL, COEFFICIENTS, BOUNDS, replace(optimum, **change))
    assert not getattr(certificate, failure) <= 1e-6
    with pytest.raises(NumericalTroubleError, match="does not prove itself"):
        require(certificate)


def test_a_feasible_point_that_claims_the_optimum_fails(optimum: Optimum) -> None:
    # (2, 1) gives 8, not the 11 that stands beside it: no stated number is believed.
    claim = replace(optimum, point=np.array([2.0, 1.0]), density=np.array([2.0, 1.0]))
    assert claim.return_ == pytest.approx(11)
    assert certify(MODEL, COEFFICIENTS, BOUNDS, claim).gap > 0.1


def test_tiny_rewards_are_held_to_the_same_standard(optimum: Optimum) -> None:
    # everything times 1e-9: a return of 8e-9 in place of 11e-9 is as wrong as 8 in place of 11
    tiny = replace(MODEL, reward=MODEL.reward * 1e-9)
    claim = replace(
        optimum,
        point=np.array([2.0, 1.0]),
        density=np.array([2.0, 1.0]),
        return_=8e-9,
        of_atom=optimum.of_atom * 1e-9,
    )
    assert certify(tiny, COEFFICIENTS, BOUNDS, claim).gap > 0.1


def test_the_bound_holds_for_any_multipliers(optimum: Optimum) -> None:
    # Without multipliers the box alone: 3 * 10 + 2 * 10.
    free = replace(optimum, of_atom=np.zeros(2))
    assert certify(MODEL, COEFFICIENTS, BOUNDS, free).bound == pytest.approx(50)


def test_an_unbounded_variable():
    # x <= 4 by its atom only. Multiplier 3 proves 12; 2.9 leaves 0.1 on x, so nothing is proven,
    # unless all entries are known to sum to at most 5: then 2.9 * 4 + 0.1 * 5 = 12.1.
    model = LinearModel(
        np.array([3.0]), sparse.csr_array(np.eye(1)), np.zeros(1), np.array([np.inf])
    )
    found = Optimum(np.array([4.0]), 12.0, np.array([4.0]), np.array([3.0]), *[np.zeros(0)] * 2)
    one, four = np.ones((1, 1)), np.array([4.0])
    assert require(certify(model, one, four, found)).bound == pytest.approx(12)
    less = replace(found, of_atom=np.array([2.9]))
    certificate = certify(model, one, four, less)
    assert certificate.bound == np.inf
    assert certificate.dual == pytest.approx(0.1 / 4)
    known = replace(model, total=5.0)
    assert certify(known, one, four, less).bound == pytest.approx(12.1)
    assert certify(known, one, four, less).dual == 0


def test_nothing_to_gain_is_fine():
    model = replace(MODEL, reward=np.zeros(2))
    found = best_point(model, COEFFICIENTS, BOUNDS)
    assert found is not None
    assert require(certify(model, COEFFICIENTS, BOUNDS, found)).gap == 0
