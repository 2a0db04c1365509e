"""Evaluates policies: return, densities, and which rules hold, on average and per episode."""

from scrl.evaluation.evaluating import (
    NO_MIXTURE,
    REPORT_EPISODES,
    REPORT_SEED,
    chosen_episodes,
    evaluate,
    evaluate_mixture,
)
from scrl.evaluation.judging import of_runs, verdict
from scrl.evaluation.record import Evaluation, RuleResult

__all__ = [
    "NO_MIXTURE",
    "REPORT_EPISODES",
    "REPORT_SEED",
    "Evaluation",
    "RuleResult",
    "chosen_episodes",
    "evaluate",
    "evaluate_mixture",
    "of_runs",
    "verdict",
]
