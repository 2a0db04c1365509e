"""Fluid estimates, proven bounds, conflicts and finite MDPs: computed without learning."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scrl.reference.answer import BestDriven, Dual, Loosened, Reference, Taken
    from scrl.reference.certificate import Certificate, certify
    from scrl.reference.finite import FiniteMDP
    from scrl.reference.linear import NumericalTroubleError, Status
    from scrl.reference.solve_finite import FiniteSolution, solve_mdp
    from scrl.reference.trade import Trade, trade_off

__all__ = [
    "BestDriven",
    "Certificate",
    "Dual",
    "FiniteMDP",
    "FiniteSolution",
    "Loosened",
    "NumericalTroubleError",
    "Reference",
    "Status",
    "Taken",
    "Trade",
    "certify",
    "solve_mdp",
    "trade_off",
]

_HOMES = {
    "answer": ("BestDriven", "Dual", "Loosened", "Reference", "Taken"),
    "certificate": ("Certificate", "certify"),
    "finite": ("FiniteMDP",),
    "linear": ("NumericalTroubleError", "Status"),
    "solve_finite": ("FiniteSolution", "solve_mdp"),
    "trade": ("Trade", "trade_off"),
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: `scrl check` needs no solver."""
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"scrl.reference.{home}"), name)
    raise AttributeError(f"module 'scrl.reference' has no attribute '{name}'")
