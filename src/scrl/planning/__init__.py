"""`ask`: a price policy that serves any rules, and the search over prices that answers them."""

from scrl.planning.answer import Answer, Plan
from scrl.planning.planner import Planner, planner

__all__ = ["Answer", "Plan", "Planner", "planner"]
