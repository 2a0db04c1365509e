"""Optimum, bound and multipliers computed without learning, or a proof of infeasibility."""

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
