"""Optimum, bound and multipliers computed without learning, or a proof of infeasibility."""

from scrl.reference.answer import Dual, Loosened, Reference, Stepwise, Taken
from scrl.reference.certificate import Certificate, certify
from scrl.reference.finite import FiniteMDP
from scrl.reference.linear import NumericalTroubleError, Status
from scrl.reference.solve import Method, solve
from scrl.reference.solve_finite import FiniteSolution, solve_mdp
from scrl.reference.trade import Trade, trade_off

__all__ = [
    "Certificate",
    "Dual",
    "FiniteMDP",
    "FiniteSolution",
    "Loosened",
    "Method",
    "NumericalTroubleError",
    "Reference",
    "Status",
    "Stepwise",
    "Taken",
    "Trade",
    "certify",
    "solve",
    "solve_mdp",
    "trade_off",
]
