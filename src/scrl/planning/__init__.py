"""`ask`: a price policy that serves any rules, and the search over prices that answers them."""

from scrl.planning.answer import Answer, Plan
from scrl.planning.learn import LearningProgress, learn, resume_learning
from scrl.planning.planner import Planner, planner

__all__ = ["Answer", "LearningProgress", "Plan", "Planner", "learn", "planner", "resume_learning"]
