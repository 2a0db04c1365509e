"""Linear programs by HiGHS: one branch of the rules, its optimum and its multipliers."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from threading import Lock
from time import monotonic

import numpy as np
import scipy
from jaxtyping import Float

from scrl.errors import ScrlError
from scrl.reference.model import LinearModel, stack_rows

OUTPUT = 1
"""The file descriptor of standard output."""


class _ClosedOutput:
    """Standard output of the whole process, closed from the first user until the last leaves."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.users = 0
        self.saved: int | None = None

    def enter(self) -> None:
        """Redirect the output, unless another thread has done so."""
        with self.lock:
            if self.users == 0:
                self.saved = self._closed()
            self.users += 1

    def leave(self) -> None:
        """Restore the output, unless another thread still needs it closed."""
        with self.lock:
            self.users -= 1
            if self.users == 0 and self.saved is not None:
                _flush_compiled()
                os.dup2(self.saved, OUTPUT)
                os.close(self.saved)

    def _closed(self) -> int | None:
        try:
            sys.stdout.flush()
            saved = os.dup(OUTPUT)
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, OUTPUT)
            os.close(nowhere)
        except (AttributeError, OSError, ValueError):  # there is no standard output
            return None
        return saved


_OUTPUT = _ClosedOutput()


@contextmanager
def stdout_closed_to_c() -> Iterator[None]:
    """Discard what compiled code prints; HiGHS has a line that no option silences.

    It redirects the output of the whole process, so nothing else may print meanwhile. Threads that
    overlap share one redirection.
    """
    _OUTPUT.enter()
    try:
        yield
    finally:
        _OUTPUT.leave()


def _flush_compiled() -> None:
    """Write out what compiled code has printed and the C library still holds."""
    if os.name == "posix":
        ctypes.CDLL(None).fflush(None)


INTERIOR_POINT_FROM = 3_000
"""Models with more variables are solved by interior points with crossover, else by simplex."""


class NumericalTroubleError(ScrlError):
    """A solver failed, or its result failed the certificate."""


class OutOfTimeError(ScrlError):
    """A linear program did not end within its time limit."""


class Status(Enum):
    """How a search ended."""

    OPTIMAL = "optimal"
    INFEASIBLE = "infeasible"
    TIME_LIMIT = "time limit"


@dataclass(frozen=True)
class Optimum:
    """The best point of a model under atoms that must all hold, with its multipliers.

    Multipliers are at least 0 and per unit: `of_atom` for a . density <= b, `of_equal` (any sign)
    and `of_below` for the rows of the model.
    """

    point: Float[np.ndarray, " variable"]
    return_: float
    density: Float[np.ndarray, " region"]
    of_atom: Float[np.ndarray, " atom"]
    of_equal: Float[np.ndarray, " equality"]
    of_below: Float[np.ndarray, " inequality"]


def best_point(
    model: LinearModel,
    coefficients: Float[np.ndarray, "atom region"],
    bounds: Float[np.ndarray, " atom"],
    *,
    time_limit_s: float = float("inf"),
) -> Optimum | None:
    """The optimum with all of these atoms enforced; None if they cannot all hold."""
    below, below_at, atom_scale = rows_of(model, coefficients, bounds)
    reward_scale = float(np.abs(model.reward).max(initial=0.0)) or 1.0
    result = _solve(model, model.reward / reward_scale, below, below_at, time_limit_s)
    if result is None:
        return None
    own = len(below_at) - len(bounds)
    multipliers = -np.asarray(result.ineqlin.marginals) * reward_scale
    equal = -np.asarray(result.eqlin.marginals) * reward_scale
    return Optimum(
        point=result.x,
        return_=float(model.reward @ result.x),
        density=model.density @ result.x,
        of_atom=multipliers[own:] / atom_scale,
        of_equal=equal if model.equal is not None else np.zeros(0),
        of_below=multipliers[:own],
    )


def rows_of(
    model: LinearModel,
    coefficients: Float[np.ndarray, "atom region"],
    bounds: Float[np.ndarray, " atom"],
) -> tuple[scipy.sparse.csr_array, np.ndarray, Float[np.ndarray, " atom"]]:
    """The inequalities of model and atoms; each atom is divided by the scale that comes third.

    HiGHS allows each row 1e-7, whatever its units: scaled, that is relative to the row.
    """
    rows = scipy.sparse.csr_array(scipy.sparse.csr_array(coefficients) @ model.density)
    largest = np.zeros(len(bounds))
    np.maximum.at(largest, np.repeat(np.arange(len(bounds)), np.diff(rows.indptr)), abs(rows.data))
    scale = np.where(largest > 0, largest, 1.0)
    scaled = scipy.sparse.csr_array(scipy.sparse.diags_array(1 / scale) @ rows)
    below, below_at = stack_rows(model.below, model.below_at, scaled, bounds / scale)
    return below, below_at, scale


def _solve(
    model: LinearModel,
    reward: np.ndarray,
    below: scipy.sparse.csr_array,
    below_at: np.ndarray,
    time_limit_s: float,
) -> scipy.optimize.OptimizeResult | None:
    """Run HiGHS, a second time without presolve if the first run ends undecided."""
    deadline = monotonic() + time_limit_s
    is_large = model.variables > INTERIOR_POINT_FROM
    result = scipy.optimize.OptimizeResult(message="not started")
    for method, presolve in (("highs-ipm" if is_large else "highs-ds", True), ("highs-ds", False)):
        options: dict[str, bool | float] = {"presolve": presolve}
        if np.isfinite(deadline):
            options["time_limit"] = max(deadline - monotonic(), 1e-3)
        result = scipy.optimize.linprog(
            -reward,
            A_ub=below,
            b_ub=below_at,
            A_eq=model.equal,
            b_eq=model.equal_to,
            bounds=np.column_stack([model.lower, model.upper]),
            method=method,
            options=options,
        )
        if result.status == 0 and np.isfinite(result.x).all():
            return result
        if result.status == 2:
            return None
        if result.status == 1 and monotonic() >= deadline:
            raise OutOfTimeError(f"the linear program needs more than {time_limit_s:g} s")
    raise NumericalTroubleError(f"the linear program was not solved: {result.message}")
