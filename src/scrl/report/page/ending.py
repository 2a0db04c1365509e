"""How a run ended: a sentence, and the numbers that matter."""

from __future__ import annotations

from dataclasses import dataclass

from scrl.outcome import TrainingResult
from scrl.problems import Terms
from scrl.report.numbers import amount, percent
from scrl.report.reading import RunView


@dataclass(frozen=True)
class Figure:
    """One number that matters, with a word before and a remark after."""

    name: str
    value: str
    remark: str = ""
    state: str = ""
    """`good` or `bad`, where it is one of them."""


def unfinished(view: RunView) -> str:
    """How far it has come."""
    if not view.rows:
        return "This run is not finished, and nothing has been measured yet."
    last = max(row["iteration"] for row in view.rows)
    return f"This run is not finished: {last:,} rounds are done."


def verdict_on(result: TrainingResult, problem: Terms) -> tuple[str, str]:
    """How it ended, in a sentence, and whether that is good."""
    count, unit = len(result.seeds), problem.unit
    if not problem.rules.rules:
        return "There are no rules to keep.", "good"
    if result.satisfied == 0:
        least = f"{amount(result.best.evaluation.cons_vio)} {unit}"
        if count == 1:
            return f"Rules are broken, by {least}.", "bad"
        return f"None of {count} seeds keeps every rule. The best breaks them by {least}.", "bad"
    where, state = "", "good"
    if not result.is_satisfied:
        where, state = f" in {result.satisfied} of {count} seeds", "mixed"
    elif count > 1:
        where = f" in all {count} seeds"
    gap = result.best.gap
    if gap is None:
        return f"Every rule holds{where}.", state
    near = f"{percent(gap)} from the best possible"
    if gap < 0.0005:
        near = "as good as the reference"
    best = "the best of them is" if count > 1 else "the plan is"
    return f"Every rule holds{where}; {best} {near}.", state


def figures_of(result: TrainingResult, problem: Terms) -> tuple[Figure, ...]:
    """The few numbers that matter most."""
    best, count = result.best.evaluation, len(result.seeds)
    state = "good" if result.is_satisfied else "bad" if not result.satisfied else "mixed"
    found = [
        Figure(
            "Rules kept", f"{result.satisfied} of {count}", "seeds" if count > 1 else "seed", state
        ),
        Figure("Return", amount(best.return_), "best seed" if count > 1 else ""),
    ]
    if result.gap_mean is not None and result.gap_worst is not None:
        worst = f"on average, {percent(result.gap_worst)} at worst" if count > 1 else ""
        found.append(Figure("From the best possible", percent(result.gap_mean), worst))
    elif result.reference is not None:
        found.append(Figure("Best possible", amount(result.reference), "return"))
    if not best.is_satisfied:
        found.append(Figure("Violated by", amount(best.cons_vio), problem.unit, "bad"))
    units, transit = problem.units, problem.transit_steps
    about = f"an episode, {units.duration(transit)} of it in transit" if transit else "an episode"
    found.append(Figure("Time", units.duration(best.steps + transit), about))
    if best.episodes > 1:
        kept = percent(best.episodes_satisfied / best.episodes)
        found.append(Figure("Single episodes", kept, f"of {best.episodes:,} keep every rule"))
    return tuple(found)
