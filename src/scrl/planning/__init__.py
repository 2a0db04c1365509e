"""`ask` and `solve`: drives at any prices, and the search over prices that answers rules."""

from scrl.planning.answer import Answer, Plan
from scrl.planning.planner import Planner, planner

__all__ = ["Answer", "Plan", "Planner", "planner"]
