"""What a run ended with: an evaluation for every seed, and how far each is from the bound."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

from scrl.evaluation import Evaluation
from scrl.problems.problem import MOST_SHOWN, html_table
from scrl.runs.files import Each, Range, conform

_NUMBER = int | float
_SHARE = Range(_NUMBER | None, 0.0, 1.0)
_EVALUATION: Mapping[str, Any] = {
    "problem": str, "policy": str, "unit": str, "return": _NUMBER,
    "density": Each(_NUMBER), "density_se": Each(_NUMBER), "cons_vio": Range(_NUMBER, 0.0),
    "satisfied": bool, "episodes": Range(int, 1), "episodes_satisfied": Range(int, 0),
    "episodes_truncated": Range(int, 0), "steps": Range(_NUMBER, 0.0),
    "horizon_is_an_end?": bool, "given_out?": _NUMBER | None, "outside?": _NUMBER | None,
    "overlap?": _NUMBER, "cost?": Each(_NUMBER),
    "units?": Each(str), "confidence?": _SHARE, "share_low?": _SHARE, "share_high?": _SHARE,
    "broken_violation?": Range(_NUMBER | None, 0.0),
    "rules": [{"name": str, "text": str, "satisfied": bool, "margin": _NUMBER, "asked?": _SHARE,
               "share?": _SHARE, "share_low?": _SHARE, "share_high?": _SHARE}],
}  # fmt: skip
RESULT: dict[str, Any] = {
    "problem": str, "method": str, "bound?": _NUMBER | None, "env_steps?": Range(int, 0),
    "wall_s": Range(_NUMBER, 0.0),
    "seeds": [{**_EVALUATION, "seed": Range(int, 0, 2**32), "gap": _NUMBER | None,
               "last?": {"return": _NUMBER, "cons_vio": Range(_NUMBER, 0.0), "satisfied": bool},
               "warnings?": [str]}],
}  # fmt: skip
"""What a result holds in result.json."""


class LastPolicy(NamedTuple):
    """What the policy of the last round does, beside the one that was chosen."""

    return_: float
    cons_vio: float
    is_satisfied: bool


@dataclass(frozen=True)
class SeedResult:
    """The policy that one seed ended with, evaluated."""

    seed: int
    evaluation: Evaluation
    gap: float | None
    """(bound - return) / |bound|; none without a bound, where a rule is violated, and where the
    return is a sample mean."""
    warnings: tuple[str, ...] = ()
    """Why its return may be worse than need be."""
    last: LastPolicy | None = None
    """None where it was not evaluated."""

    @property
    def is_satisfied(self) -> bool:
        return self.evaluation.is_satisfied


@dataclass(frozen=True, repr=False)
class RunResult:
    """What a run ended with: one evaluation for each seed."""

    SCHEMA: ClassVar[Mapping[str, Any]] = RESULT

    problem: str
    method: str
    bound: float | None
    """No policy that keeps the rules returns more: proven; none where nothing is."""
    seeds: tuple[SeedResult, ...]
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
    def warnings(self) -> list[str]:
        """Those of all seeds."""
        return [f"seed {each.seed}: {text}" for each in self.seeds for text in each.warnings]

    @property
    def gaps(self) -> list[float]:
        """Of the seeds that keep every rule."""
        return [seed.gap for seed in self.seeds if seed.is_satisfied and seed.gap is not None]

    def gap_to_best(self, each: SeedResult) -> float | None:
        """The same against the best single plan known, which is the best seed's."""
        best, found = self.best.evaluation, each.evaluation
        is_sure = best.episodes == found.episodes == 1
        if not is_sure or not (best.is_satisfied and found.is_satisfied):
            return None
        return (best.return_ - found.return_) / max(abs(best.return_), 1e-300)

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
            "bound": self.bound,
            "seeds": [
                {
                    **each.evaluation.to_json(),
                    "seed": each.seed,
                    "gap": each.gap,
                    "gap_to_best": self.gap_to_best(each),
                    "run": str(self.run),
                    "warnings": list(each.warnings),
                    **_of_last(each.last),
                }
                for each in self.seeds
            ],
            "satisfied": self.satisfied,
            "gap_mean": self.gap_mean,
            "gap_worst": self.gap_worst,
            "wall_s": self.wall_s,
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any], run: Path) -> Self:
        """The same again from what `to_json` wrote, checked."""
        conform(document, cls.SCHEMA, str(run / "result.json"), "result")
        return cls(
            problem=document["problem"],
            method=document["method"],
            bound=document.get("bound"),
            seeds=tuple(
                SeedResult(
                    each["seed"],
                    Evaluation.from_json(each),
                    each["gap"] if "bound" in document else None,  # else it is to the fluid
                    tuple(each.get("warnings", ())),
                    _last_from(each.get("last")),
                )
                for each in document["seeds"]
            ),
            wall_s=document["wall_s"],
            run=run,
            **cls._own_fields(document),
        )

    @classmethod
    def _own_fields(cls, document: Mapping[str, Any]) -> dict[str, Any]:
        """What a kind of result holds besides."""
        del document
        return {}

    @property
    def effort(self) -> str:
        """What it took, in words."""
        return f"{self.wall_s:.2f} s"

    @property
    def summary(self) -> str:
        """Problem, method, and how many seeds keep every rule, in one line."""
        return (
            f"{self.problem} with {self.method}: {self.satisfied} of {len(self.seeds)} seeds keep "
            f"every rule ({self.effort})"
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.summary}, {self.run}>"

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
                f"  gap to the proven bound: mean {self.gap_mean:.1%}, worst {self.gap_worst:.1%}"
            )
        for each in self.seeds:
            found = each.evaluation
            lines.append(f"  seed {each.seed}: return {found.return_:.2f}, {found.summary}")
        lines += [f"  warning: {text}" for text in self.warnings]
        return "\n".join([*lines, f"  run folder: {self.run}"])


def _of_last(last: LastPolicy | None) -> dict[str, Any]:
    if last is None:
        return {}
    keys = ("return", "cons_vio", "satisfied")
    return {"last": dict(zip(keys, last, strict=True))}


def _last_from(document: Mapping[str, Any] | None) -> LastPolicy | None:
    if document is None:
        return None
    return LastPolicy(document["return"], document["cons_vio"], document["satisfied"])
