"""What a comparison of runs found: figures, differences, and whether they could be chance."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from scrl.report.numbers import chance
from scrl.statistics import Difference, Mean

Quantity = Literal["return", "violation", "satisfied"]
CHANCE = 0.05
"""A p below this is taken as not being chance."""


@dataclass(frozen=True)
class RunFigures:
    """One run: the means over its seeds."""

    label: str
    seeds: tuple[int, ...]
    values: dict[Quantity, Float[np.ndarray, " seed"]]
    means: dict[Quantity, Mean]
    satisfied: int


@dataclass(frozen=True)
class Contrast:
    """One quantity of the first run less that of another."""

    quantity: Quantity
    difference: Difference
    p: float
    """The difference's own p, or a larger one where several runs are held against the first."""
    sentence: str

    @property
    def is_real(self) -> bool:
        return self.p < CHANCE


@dataclass(frozen=True)
class Pair:
    """The first run beside another."""

    one: RunFigures
    other: RunFigures
    is_paired: bool
    """Whether the same seeds were used, so that seed is held against seed."""
    contrasts: tuple[Contrast, ...]
    p_least: float
    """The smallest p that so few seeds can give, made larger where there are several pairs."""
    pairs: int = 1
    """How many pairs the comparison has."""

    @property
    def too_few(self) -> str | None:
        """Where so few seeds cannot show anything: a sentence that says so."""
        if self.p_least < CHANCE:
            return None
        which = "both runs" if self.pairs == 1 else f"all {self.pairs + 1} runs"
        return (
            "So few seeds cannot show a difference, however large it is "
            f"({chance(self.p_least)} is the least they can give): train at least "
            f"{fewest_seeds(self.pairs)} of the same seeds in {which}."
        )


def fewest_seeds(pairs: int) -> int:
    """With fewer seeds no difference, however large, gets a p below `CHANCE` in every pair.

    Of the 2^n ways to sign n differences two are the most extreme, and among m pairs Holm's way
    makes the smallest p m times as large: n is the least with m 2 / 2^n < `CHANCE`.
    """
    return math.floor(math.log2(2.0 * pairs / CHANCE)) + 1


@dataclass(frozen=True)
class Comparison:
    """Runs of one problem; each but the first is held against the first."""

    problem: str
    unit: str
    reference: float | None
    runs: tuple[RunFigures, ...]
    pairs: tuple[Pair, ...]

    @property
    def is_paired(self) -> bool:
        """Whether all runs have the same seeds."""
        return all(pair.is_paired for pair in self.pairs)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "problem": self.problem,
            "unit": self.unit,
            "reference": self.reference,
            "runs": [
                {
                    "run": run.label,
                    "seeds": list(run.seeds),
                    "satisfied": run.satisfied,
                    "return": run.means["return"]._asdict(),
                    "violation": run.means["violation"]._asdict(),
                }
                for run in self.runs
            ],
            "pairs": [
                {
                    "one": pair.one.label,
                    "other": pair.other.label,
                    "is_paired": pair.is_paired,
                    "too_few_seeds": pair.too_few is not None,
                    **{
                        each.quantity: {
                            "difference": each.difference.mean,
                            "low": each.difference.low,
                            "high": each.difference.high,
                            "p": each.p,
                            "is_real": each.is_real,
                            "sentence": each.sentence,
                        }
                        for each in pair.contrasts
                    },
                }
                for pair in self.pairs
            ],
        }
