"""What training ends with: an evaluation for every seed, and how far each is from the best."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from scrl.evaluation import Evaluation
from scrl.problems.terms import MOST_SHOWN, html_table


@dataclass(frozen=True)
class SeedResult:
    """The policy that one seed ended with, evaluated."""

    seed: int
    evaluation: Evaluation
    gap: float | None
    """(reference return - return) / |reference return|; none where there is no reference."""

    @property
    def is_satisfied(self) -> bool:
        return self.evaluation.is_satisfied


@dataclass(frozen=True, repr=False)
class TrainingResult:
    """All seeds of a run."""

    problem: str
    method: str
    reference: float | None
    """The best possible return, computed without learning."""
    seeds: tuple[SeedResult, ...]
    env_steps: int
    wall_s: float
    run: Path

    @property
    def satisfied(self) -> int:
        """How many seeds keep every rule."""
        return sum(seed.is_satisfied for seed in self.seeds)

    @property
    def is_satisfied(self) -> bool:
        """Whether every seed keeps every rule."""
        return self.satisfied == len(self.seeds)

    @property
    def best(self) -> SeedResult:
        """The seed with the best return among those that keep the rules, or violate least."""

        def rank(each: SeedResult) -> tuple[float, float]:
            violated = 0.0 if each.is_satisfied else each.evaluation.cons_vio
            return -violated, each.evaluation.return_

        return max(self.seeds, key=rank)

    @property
    def gaps(self) -> list[float]:
        """Of the seeds that keep every rule."""
        return [seed.gap for seed in self.seeds if seed.is_satisfied and seed.gap is not None]

    @property
    def gap_mean(self) -> float | None:
        return sum(self.gaps) / len(self.gaps) if self.gaps else None

    @property
    def gap_worst(self) -> float | None:
        return max(self.gaps, default=None)

    def to_json(self) -> dict[str, Any]:
        """The fields of the command contract."""
        return {
            "problem": self.problem,
            "method": self.method,
            "reference": self.reference,
            "seeds": [
                {
                    **each.evaluation.to_json(),
                    "seed": each.seed,
                    "gap": each.gap,
                    "run": str(self.run),
                }
                for each in self.seeds
            ],
            "satisfied": self.satisfied,
            "gap_mean": self.gap_mean,
            "gap_worst": self.gap_worst,
            "env_steps": self.env_steps,
            "wall_s": self.wall_s,
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any], run: Path) -> TrainingResult:
        """The same again from what `to_json` wrote."""
        return cls(
            problem=document["problem"],
            method=document["method"],
            reference=document["reference"],
            seeds=tuple(
                SeedResult(each["seed"], Evaluation.from_json(each), each["gap"])
                for each in document["seeds"]
            ),
            env_steps=document["env_steps"],
            wall_s=document["wall_s"],
            run=run,
        )

    @property
    def summary(self) -> str:
        """Problem, method, and how many seeds keep every rule, in one line."""
        return (
            f"{self.problem} with {self.method}: {self.satisfied} of {len(self.seeds)} seeds keep "
            f"every rule ({self.wall_s:.0f} s, {self.env_steps:,} steps)"
        )

    def __repr__(self) -> str:
        return f"<TrainingResult {self.summary}, {self.run}>"

    def _repr_html_(self) -> str:
        """A row for each seed, for notebooks."""
        rows = [
            (
                str(each.seed), f"{each.evaluation.return_:.2f}",
                "" if each.gap is None else f"{each.gap:+.1%}",
                "hold" if each.is_satisfied else f"violated by {each.evaluation.cons_vio:.2f}",
            )
            for each in self.seeds[:MOST_SHOWN]
        ]  # fmt: skip
        table = html_table(("seed", "return", "gap", "rules"), rows)
        return f"<b>{escape(self.summary)}</b>{table}run folder: {escape(str(self.run))}"

    def __str__(self) -> str:
        lines = [self.summary]
        if self.gap_mean is not None and self.gap_worst is not None:
            lines.append(
                f"  gap to the reference: mean {self.gap_mean:.1%}, worst {self.gap_worst:.1%}"
            )
        for each in self.seeds:
            found = each.evaluation
            state = (
                "every rule holds" if found.is_satisfied else f"violated by {found.cons_vio:.2f}"
            )
            lines.append(f"  seed {each.seed}: return {found.return_:.2f}, {state}")
        return "\n".join([*lines, f"  run folder: {self.run}"])
