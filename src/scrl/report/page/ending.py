"""The outcome of a run: a sentence and the key figures."""

from __future__ import annotations

from dataclasses import dataclass

from scrl.evaluation import Evaluation
from scrl.opening import PlanRun
from scrl.planning.plan_files import PLAN
from scrl.problems import BaseProblem
from scrl.reference.answer import Loosened
from scrl.report.reading import RunView
from scrl.report.words import amount, percent
from scrl.runs.folder import RunError
from scrl.runs.result import RunResult


@dataclass(frozen=True)
class Figure:
    """A key figure with a title and a remark."""

    name: str
    value: str
    remark: str = ""
    state: str = ""
    """`good`, `bad` or empty."""


@dataclass(frozen=True)
class Impossible:
    """Why no plan keeps every rule and what would help, from the answer of `scrl ask`."""

    rules: tuple[tuple[str, str], ...]
    """A smallest set of rules in conflict: names and texts."""
    relax: tuple[str, ...]
    """The least loosening."""
    others: tuple[str, ...]
    """Alternative loosenings."""


def impossible_of(view: RunView) -> Impossible | None:
    """The explanation of rules that are proven impossible; None for anything else."""
    path, run = view.folder.path, view.run
    if not isinstance(run, PlanRun):
        return None
    answer = run.answer
    if answer.get("status") != "impossible":
        return None
    try:
        relax = [Loosened(**each) for each in answer["relax"]]
        # Older folders have neither field.
        ways = [[Loosened(**each) for each in way] for way in answer.get("alternatives", [])]
        others = ["; ".join(map(str, way)) for way in ways if way != relax]
        return Impossible(
            tuple((str(each["rule"]), str(each["text"])) for each in answer["conflict"]),
            tuple(map(str, relax)),
            (*others, *map(str, answer.get("vehicle_hints", []))),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise RunError(f"{path / PLAN}: damaged: {error}") from None


def impossible_verdict(result: RunResult, problem: BaseProblem) -> str:
    """The sentence for impossible rules, with the violation of the plan."""
    best = result.best.evaluation
    by = f"{amount(best.cons_vio)} {_unit_broken(problem, best)}"
    return (
        "Impossible: no plan keeps every rule. Shown is a plan for the least loosening; it breaks "
        f"the rules by {by}."
    )


def _unit_broken(problem: BaseProblem, found: Evaluation) -> str:
    """The common unit of all amounts that broken rules name."""
    return problem.unit_of_rules({rule.name for rule in found.rules if not rule.is_satisfied})


def unfinished(view: RunView) -> str:
    """The sentence for an unfinished run: how many rounds are done."""
    if not view.rows:
        return "This run is not finished, and nothing has been measured yet."
    last = max(row["iteration"] for row in view.rows)
    done = "1 round is" if last == 1 else f"{last:,} rounds are"
    return f"This run is not finished: {done} done."


def verdict_on(
    result: RunResult, problem: BaseProblem, confidence: float | None = None
) -> tuple[str, str]:
    """The outcome in a sentence or two, and whether it is good.

    `confidence` is the share of single episodes that an earlier version was asked for, besides
    what the rules ask for.
    """
    if not problem.rules.rules:
        return "There are no rules to keep.", "good"
    text, state = _as_asked(result, problem)
    best = result.best.evaluation
    if best.episodes == 1:
        return text, state
    of_whom = " of the best seed" if len(result.seeds) > 1 else ""
    text += f" {percent(best.share)} of {best.episodes:,} single episodes{of_whom} keep every rule"
    asked = confidence if best.confidence is None else best.confidence
    if asked is not None:
        text += f"; {percent(asked)} were asked for"
        state = state if best.share >= asked else "bad"
    if best.broken_violation is not None:
        by = f"{amount(best.broken_violation)} {problem.unit_of_rules()}"
        text += f". The others break them by {by} on average"
    return f"{text}.", state


def _as_asked(result: RunResult, problem: BaseProblem) -> tuple[str, str]:
    """Whether the rules hold: for the mean densities, or in the share that they ask for."""
    count, best = len(result.seeds), result.best.evaluation
    mean = f" {best.how}" if best.episodes > 1 else ""
    if result.satisfied == 0:
        least = f"{amount(best.cons_vio)} {_unit_broken(problem, best)}"
        if count == 1:
            broken = mean if best.is_on_average else ""
            return f"Rules are broken{broken}, by {least}.", "bad"
        return f"None of {count} seeds keeps every rule. The best breaks them by {least}.", "bad"
    if best.episodes == 1 and not best.episodes_satisfied:
        mean = " on average over several plans, not by each alone"
    where, state = mean, "good"
    if not result.is_satisfied:
        where, state = f"{mean} in {result.satisfied} of {count} seeds", "mixed"
    elif count > 1:
        where = f"{mean} in all {count} seeds"
    gap = result.best.gap
    if gap is None:
        return f"Every rule holds{where}.", state
    near = f"{percent(gap)} below the proven bound"
    if gap < 0.0005:
        near = "at the proven bound"
    best = "the best of them is" if count > 1 else "the plan is"
    return f"Every rule holds{where}; {best} {near}.", state


def figures_of(result: RunResult, problem: BaseProblem) -> tuple[Figure, ...]:
    """The key figures of a run."""
    best, count = result.best.evaluation, len(result.seeds)
    found = [_rules_kept(result)] if best.rules else []
    if count > 1 and best.rules:
        state = "good" if result.is_satisfied else "bad" if not result.satisfied else "mixed"
        found.append(Figure("Seeds", f"{result.satisfied} of {count}", "keep every rule", state))
    found.append(Figure("Return", amount(best.return_), "best seed" if count > 1 else ""))
    if result.gap_mean is not None and result.gap_worst is not None:
        worst = f"on average, {percent(result.gap_worst)} at worst" if count > 1 else ""
        found.append(Figure("Below the proven bound", percent(result.gap_mean), worst))
    elif result.bound is not None:
        found.append(Figure("Proven bound", amount(result.bound), "of the return"))
    if not best.is_satisfied:
        found.append(
            Figure("Violated by", amount(best.cons_vio), _unit_broken(problem, best), "bad")
        )
    units, transit = problem.units, problem.transit_steps
    steps, _, clock = units.duration(best.steps + transit).rstrip(")").partition(" (")
    about = f"{clock} an episode" if clock else "an episode"
    about += f", {units.duration(transit)} of it in transit" if transit else ""
    found.append(Figure("Time", steps, about))
    if best.given_out is not None and best.outside is not None:
        share = percent(best.outside / best.given_out if best.given_out else 0.0)
        about = f"{problem.unit}, {share} outside all regions"
        found.append(Figure("Given out", amount(best.shown_total), about))
    if problem.units.currency in best.cost:
        *others, (currency, money) = best.cost.items()
        about = ", ".join(f"{amount(each)} {name}" for name, each in others)
        found.append(Figure("Cost", f"{amount(money)} {currency}", about))
    if best.episodes > 1 and best.rules:
        enough = 1.0 if best.confidence is None else best.confidence
        state = "good" if best.share >= enough else "mixed"
        about = f"of {best.episodes:,} keep every rule"
        if best.share_low is not None and best.share_high is not None:
            about += f" (95 % interval: {percent(best.share_low)} to {percent(best.share_high)})"
        found.append(Figure("Single episodes", percent(best.share), about, state))
    return tuple(found)


def _rules_kept(result: RunResult) -> Figure:
    """How many rules hold as surely as they must, by the best seed."""
    best = result.best.evaluation
    kept = sum(rule.is_satisfied for rule in best.rules)
    about = [best.how] if best.episodes > 1 else []
    about += ["by the best seed"] if len(result.seeds) > 1 else []
    state = "good" if kept == len(best.rules) else "bad"
    return Figure("Rules kept", f"{kept} of {len(best.rules)}", ", ".join(about), state)
