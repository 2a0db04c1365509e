"""One policy for every rule: it sees prices, and rules are answered by a search over them."""

from scrl.prices.answer import Answer, Plan
from scrl.prices.learn import LearningProgress, learn, resume_learning
from scrl.prices.planner import Planner, planner

__all__ = ["Answer", "LearningProgress", "Plan", "Planner", "learn", "planner", "resume_learning"]
