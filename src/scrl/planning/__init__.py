"""One policy for every rule: it sees prices, and rules are answered by a search over them."""

from scrl.planning.answer import Answer, Plan
from scrl.planning.learn import LearningProgress, learn, resume_learning
from scrl.planning.planner import Planner, planner

__all__ = ["Answer", "LearningProgress", "Plan", "Planner", "learn", "planner", "resume_learning"]
