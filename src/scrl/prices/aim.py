"""How a search goes about it, and what counts as kept: what is measured holds only so surely."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from jaxtyping import Bool, Float

from scrl.density import standard_error
from scrl.penalty import clause_violation, signed_violation
from scrl.problems import Problem


@dataclass(frozen=True)
class Aim:
    """What counts as kept where chance plays a part."""

    episodes: int = 1
    """Behind each plan."""
    plans: int = 8
    """In each round."""
    rounds: int = 40
    """At most, as long as no single plan keeps the rules."""
    deviations: float = 0.0
    """Standard errors that the measured densities must lie inside their bounds."""
    confidence: float | None = None
    """Share of single episodes that must keep every rule; none: it is enough in expectation."""
    may_mix: bool = True
    """Whether a mixture is an answer, and a single plan that is too dear."""
    by_rules: bool = True
    """Whether plans are judged by the rules, or by the branch alone: impossible rules cannot."""

    def room(self, sides: Float[np.ndarray, "plan episode atom"]) -> Float[np.ndarray, "plan atom"]:
        """How far inside each bound the mean must lie."""
        room = self.deviations * standard_error(sides, axis=1)
        if self.confidence is None or self.episodes == 1:
            return room
        spread = sides.std(axis=1, ddof=1)
        # Each atom may fail as often as if all failed apart.
        share = 1.0 - (1.0 - self.confidence) / max(sides.shape[2], 1)
        return np.maximum(room, NormalDist().inv_cdf(share) * spread)

    def keeps_rules(
        self, problem: Problem, amounts: Float[np.ndarray, "plan episode region"]
    ) -> Bool[np.ndarray, " plan"]:
        """Whether the rules hold, by whichever disjunct."""
        table = problem.atoms
        sides = amounts @ table.coefficients.T
        signed = sides.mean(axis=1) - table.bounds + self.deviations * standard_error(sides, axis=1)
        kept = clause_violation(table.listed, signed).sum(axis=-1) <= problem.tolerance
        if self.confidence is None:
            return kept
        single = signed_violation(table.coefficients, table.bounds, amounts)
        alone = clause_violation(table.listed, single).sum(axis=-1) <= problem.tolerance
        share = alone.mean(axis=1)
        error = np.sqrt(share * (1.0 - share) / self.episodes)
        return kept & (share - self.deviations * error >= self.confidence)
