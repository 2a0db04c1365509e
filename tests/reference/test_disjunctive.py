"""The best branch by the mixed-integer program."""

import ctypes
import os
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import ArrayLike
from scipy import sparse

from scrl.reference import disjunctive
from scrl.reference.disjunctive import BoundedAtoms, choose_branch
from scrl.reference.linear import NumericalTroubleError, Status, stdout_closed_to_c
from scrl.reference.model import LinearModel

MODEL = LinearModel(
    reward=np.array([3.0, 2.0]),
    density=sparse.csr_array(np.eye(2)),
    lower=np.zeros(2),
    upper=np.full(2, 10.0),
)


def atoms(rows: ArrayLike, members: ArrayLike, model: LinearModel = MODEL) -> BoundedAtoms:
    """Rows (a, b, bound) for a x + b y <= bound over the box 0..upper."""
    table = np.array(rows, float)
    coefficients = table[:, :2]
    high = np.maximum(coefficients, 0) @ model.upper
    low = np.minimum(coefficients, 0) @ model.upper
    return BoundedAtoms(coefficients, table[:, 2], np.array(members, bool), low, high)


def test_the_cheaper_disjunct_wins():
    # x <= 4: 12 + 20 = 32. y <= 5: 30 + 10 = 40.
    choice = choose_branch(MODEL, atoms([(1, 0, 4), (0, 1, 5)], [[1, 1]]))
    assert choice.status is Status.OPTIMAL
    assert choice.branch is not None
    assert choice.branch.tolist() == [1]
    assert choice.optimum is not None
    assert choice.optimum.return_ == pytest.approx(40)
    assert choice.bound == pytest.approx(40)
    assert choice.in_force is not None
    assert choice.in_force.tolist() == [1]
    assert choice.optimum.of_atom == pytest.approx([2])


def test_clauses_together():
    # (x <= 4 or y <= 5) and (x + y <= 9 or y >= 8): with y >= 8 the first needs x <= 4: 32.
    # With x + y <= 9 and y <= 5: 27. So 32, by atoms 0 and 3.
    rules = atoms([(1, 0, 4), (0, 1, 5), (1, 1, 9), (0, -1, -8)], [[1, 1, 0, 0], [0, 0, 1, 1]])
    choice = choose_branch(MODEL, rules)
    assert choice.branch is not None
    assert choice.branch.tolist() == [0, 3]
    assert choice.optimum is not None
    assert choice.optimum.return_ == pytest.approx(32)


def test_a_disjunct_that_cannot_hold_is_not_taken():
    # x >= 11 is impossible in the box, so x <= 4 it is.
    choice = choose_branch(MODEL, atoms([(-1, 0, -11), (1, 0, 4)], [[1, 1]]))
    assert choice.branch is not None
    assert choice.branch.tolist() == [1]
    assert choice.optimum is not None
    assert choice.optimum.return_ == pytest.approx(32)


def test_a_disjunct_that_always_holds_costs_nothing():
    # x <= 10 holds everywhere: nothing is in force.
    choice = choose_branch(MODEL, atoms([(1, 0, 10), (0, 1, 5)], [[1, 1]]))
    assert choice.branch is not None
    assert choice.branch.tolist() == [0]
    assert choice.in_force is not None
    assert choice.in_force.tolist() == []
    assert choice.optimum is not None
    assert choice.optimum.return_ == pytest.approx(50)


@pytest.mark.parametrize(
    ("rows", "members"),
    [
        ([(-1, 0, -11)], [[1]]),
        ([(1, 0, 3), (-1, 0, -4)], [[1, 0], [0, 1]]),
        (
            [(1, 0, 3), (0, 1, 3), (-1, 0, -4), (0, -1, -4)],
            [[1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]],
        ),
    ],
    ids=["atom", "pair", "branches"],
)
def test_no_branch_holds(rows: list[tuple[int, int, int]], members: list[list[int]]) -> None:
    choice = choose_branch(MODEL, atoms(rows, members))
    assert choice.status is Status.INFEASIBLE
    assert choice.optimum is None
    assert choice.bound == -np.inf


def test_no_rules_at_all():
    nothing = BoundedAtoms(
        np.zeros((0, 2)), np.zeros(0), np.zeros((0, 0), bool), np.zeros(0), np.zeros(0)
    )
    choice = choose_branch(MODEL, nothing)
    assert choice.optimum is not None
    assert choice.optimum.return_ == pytest.approx(50)
    assert choice.branch is not None
    assert choice.branch.tolist() == []


def test_an_unknown_range_is_an_error():
    rules = replace(atoms([(1, 0, 4), (0, 1, 5)], [[1, 1]]), high=np.full(2, np.inf))
    with pytest.raises(NumericalTroubleError, match="range of every atom"):
        choose_branch(MODEL, rules)


def test_a_branch_that_slips_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    # A solver that takes z = 0.999999 for 1 may pick a worse branch, or one that cannot hold: here
    # the first pick is forced to be x <= 4 (32), and the loop must still end at y <= 5 (40).
    honest, picks = disjunctive._one_each, []

    def slipping(
        members: np.ndarray, picked: np.ndarray, density: np.ndarray, table: BoundedAtoms
    ) -> np.ndarray:
        picks.append(honest(members, picked, density, table))
        return np.array([True, False]) if len(picks) == 1 else picks[-1]

    monkeypatch.setattr(disjunctive, "_one_each", slipping)
    choice = choose_branch(MODEL, atoms([(1, 0, 4), (0, 1, 5)], [[1, 1]]))
    assert len(picks) == 2
    assert choice.status is Status.OPTIMAL
    assert choice.optimum is not None
    assert choice.optimum.return_ == pytest.approx(40)


def test_no_time_leaves_a_bound():
    random = np.random.default_rng(0)
    model = LinearModel(
        random.random(60),
        sparse.csr_array(np.eye(60)),
        np.zeros(60),
        np.ones(60),
    )
    coefficients = random.normal(size=(200, 60))
    members = np.kron(np.eye(50), np.ones((1, 4))).astype(bool)
    high = np.maximum(coefficients, 0).sum(axis=1)
    low = np.minimum(coefficients, 0).sum(axis=1)
    rules = BoundedAtoms(coefficients, 0.1 * low, members, low, high)
    choice = choose_branch(model, rules, time_limit_s=0.05)
    assert choice.status is Status.TIME_LIMIT
    assert choice.bound >= (choice.optimum.return_ if choice.optimum else -np.inf)


@pytest.mark.skipif(os.name != "posix", reason="the C library is found by name elsewhere")
def test_a_solver_cannot_print_into_the_answer(capfd: pytest.CaptureFixture[str]) -> None:
    # HiGHS prints a line on standard output now and then; --json promises one document there.
    with stdout_closed_to_c():
        ctypes.CDLL(None).puts(b"chatter")
    print("answer")
    seen = capfd.readouterr()
    assert seen.out == "answer\n"
    assert "chatter" not in seen.err
