"""One policy for every rule: it sees prices, and rules are answered by a search over them."""

from scrl.prices.answer import Answer, Plan
from scrl.prices.planner import Planner, planner
from scrl.prices.school import LearningProgress, learn, resume_learning

__all__ = ["Answer", "LearningProgress", "Plan", "Planner", "learn", "planner", "resume_learning"]
