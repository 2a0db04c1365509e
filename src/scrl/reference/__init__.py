"""The exact optimum and its multipliers, computed without learning; or why there is none."""

from scrl.reference.answer import Dual, Loosened, Reference, Stepwise, Taken
from scrl.reference.certificate import Certificate, certify
from scrl.reference.finite import FiniteMDP
from scrl.reference.linear import NumericalTroubleError, Status
from scrl.reference.solve import solve
from scrl.reference.trade import Trade, trade_off

__all__ = [
    "Certificate",
    "Dual",
    "FiniteMDP",
    "Loosened",
    "NumericalTroubleError",
    "Reference",
    "Status",
    "Stepwise",
    "Taken",
    "Trade",
    "certify",
    "solve",
    "trade_off",
]
