"""The content of the HTML page, section by section, and its rendering."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined

from scrl._version import __version__
from scrl.errors import ScrlError
from scrl.evaluation import Evaluation, RuleResult
from scrl.files import replacing
from scrl.opening import on_map
from scrl.problems import BaseProblem, difference_between
from scrl.report.compare import Comparison, compare
from scrl.report.page.bars import Received, RegionBars, region_bars
from scrl.report.page.charts import Chart, learning_charts
from scrl.report.page.ending import (
    Figure,
    Impossible,
    figures_of,
    impossible_of,
    impossible_verdict,
    unfinished,
    verdict_on,
)
from scrl.report.page.fans import Fans, fans_of
from scrl.report.page.origin import Provenance, origin_of
from scrl.report.page.plan import Plans, plans_of
from scrl.report.page.spread import Spread, Whiskers, spread_of, whiskers_of
from scrl.report.page.ways import SPEED_COLOURS
from scrl.report.reading import RunView
from scrl.report.words import RuleDescriber, Said, amount, percent
from scrl.rules import Rule
from scrl.runs.result import RunResult, SeedResult

MOST_RULES = 60
MOST_SEEDS = 100
LONGEST_RULE = 1_000


@dataclass(frozen=True)
class Outcome:
    """The outcome of a rule in one run."""

    label: str
    run: int
    said: Said
    is_held: bool
    kept_by: str
    """In how many seeds the rule holds, as text."""
    single: str
    """How many single episodes keep the rule, and how many must, as text."""
    is_binding: bool
    """Whether the amounts lie at the bound of the rule, up to 1 % of it or two standard errors."""


@dataclass(frozen=True)
class RuleCard:
    """A rule and its outcome in every run."""

    name: str
    text: str
    outcomes: tuple[Outcome, ...]


@dataclass(frozen=True)
class SeedRow:
    """One seed in a table."""

    seed: int
    is_held: bool
    cells: tuple[str, ...]


@dataclass(frozen=True)
class SeedTable:
    """The seeds of a run as a table."""

    columns: tuple[str, ...] = ()
    rows: tuple[SeedRow, ...] = ()
    left_out: int = 0


@dataclass(frozen=True)
class RunStory:
    """One run: outcome, seeds, and provenance."""

    label: str
    run: int
    verdict: str
    state: str
    figures: tuple[Figure, ...]
    seeds: SeedTable
    origin: Provenance
    impossible: Impossible | None = None
    """The explanation of rules that are proven impossible."""


@dataclass(frozen=True)
class Story:
    """All runs of one problem."""

    name: str
    description: str
    return_text: str
    """What the return sums up."""
    unit: str
    is_discounted: bool
    is_random: bool
    bound: str | None
    """The proven bound of the return."""
    runs: tuple[RunStory, ...]
    plans: Plans | None
    """None without a map."""
    bars: tuple[RegionBars, ...]
    bars_left_out: int
    totals: tuple[str, ...]
    """For each run, what was given out in all and outside of all regions."""
    fans: Fans | None
    """None where nothing is left to chance."""
    rules: tuple[RuleCard, ...]
    rules_left_out: int
    spread: Spread | None
    comparison: Comparison | None
    whiskers: Whiskers | None
    charts: tuple[Chart, ...]

    @property
    def is_alone(self) -> bool:
        return len(self.runs) == 1

    @property
    def is_impossible(self) -> bool:
        """Whether it is proven that no plan keeps every rule."""
        return any(run.impossible for run in self.runs)

    @property
    def has_units(self) -> bool:
        """Whether regions have different units."""
        return any(region.unit for region in self.bars)

    @property
    def is_finished(self) -> bool:
        """Whether any run has a result."""
        return bool(self.bars)


def stories_of(views: Sequence[RunView]) -> list[Story]:
    """The runs grouped by problem, in the given order."""
    groups: list[list[RunView]] = []
    for view in views:
        for group in groups:
            same = group[0].problem
            if view.problem.name == same.name and not difference_between(same, view.problem):
                group.append(view)
                break
        else:
            groups.append([view])
    return [_story(group) for group in groups]


def _story(views: Sequence[RunView]) -> Story:
    problem, on_a_map = views[0].problem, on_map(views[0].run)
    done = [view for view in views if view.result is not None]
    bound = next((view.result.bound for view in done if view.result), None)
    received = [
        Received(view.label, index, view.result.best.evaluation.density,
                 view.result.best.evaluation.density_se)
        for index, view in enumerate(views) if view.result
    ]  # fmt: skip
    bars, missing = region_bars(problem, received) if received else ([], 0)
    comparison = compare(done) if len(done) > 1 else None
    return Story(
        name=problem.name,
        description=problem.options.description,
        return_text=problem.return_text,
        unit=problem.unit,
        is_discounted=problem.discount < 1.0,
        is_random=problem.is_random,
        bound=None if bound is None else amount(bound),
        runs=tuple(_run(index, view) for index, view in enumerate(views)),
        plans=None if on_a_map is None else plans_of(on_a_map.problem, views),
        bars=tuple(bars),
        bars_left_out=missing,
        totals=tuple(_totals(done)),
        fans=fans_of(views),
        rules=tuple(_card(problem, rule, views) for rule in problem.rules.rules[:MOST_RULES]),
        rules_left_out=max(0, len(problem.rules.rules) - MOST_RULES),
        spread=spread_of(views, bound),
        comparison=comparison,
        whiskers=None if comparison is None else whiskers_of(comparison),
        charts=tuple(learning_charts(views, bound)),
    )


def _totals(views: Sequence[RunView]) -> list[str]:
    """The totals as sentences; runs without a map have none."""
    found = [(view.label, view.result.best.evaluation.total) for view in views if view.result]
    if len(found) == 1:
        return [f"{total[0].upper()}{total[1:]}" for _, total in found if total]
    return [f"{label}: {total}" for label, total in found if total]


def _run(index: int, view: RunView) -> RunStory:
    result = view.result
    if result is None:
        return RunStory(
            view.label, index, unfinished(view), "open", (), SeedTable(), origin_of(view)
        )
    confidence = view.folder.record.settings.get("confidence")
    verdict, state = verdict_on(result, view.problem, confidence)
    if (impossible := impossible_of(view)) is not None:
        verdict, state = impossible_verdict(result, view.problem), "bad"
    figures = figures_of(result, view.problem)
    return RunStory(
        view.label, index, verdict, state, figures, _seeds(result), origin_of(view), impossible
    )


def _seeds(result: RunResult) -> SeedTable:
    """The table of seeds; the column of gaps needs a bound."""
    columns: dict[str, Callable[[SeedResult], str]] = {
        "return": lambda each: amount(each.evaluation.return_),
        "gap": lambda each: "" if each.gap is None else percent(each.gap),
        "violated by": lambda each: "" if each.is_satisfied else amount(each.evaluation.cons_vio),
        "steps": lambda each: f"{each.evaluation.steps:,.0f}",
    }
    if result.bound is None:
        del columns["gap"]
    rows = (
        SeedRow(each.seed, each.is_satisfied, tuple(show(each) for show in columns.values()))
        for each in result.seeds[:MOST_SEEDS]
    )
    return SeedTable(tuple(columns), tuple(rows), max(0, len(result.seeds) - MOST_SEEDS))


def _card(problem: BaseProblem, rule: Rule, views: Sequence[RunView]) -> RuleCard:
    outcomes = []
    place = [each.name for each in problem.rules.rules].index(rule.name)
    for index, view in enumerate(views):
        if view.result is None:
            continue
        best = view.result.best.evaluation
        said = RuleDescriber.of(problem, best.density).say(rule.formula)
        holding = sum(each.evaluation.rules[place].is_satisfied for each in view.result.seeds)
        count = len(view.result.seeds)
        kept_by = "" if count == 1 else f"holds in {holding} of {count} seeds"
        found = best.rules[place]
        if found.asked is not None and best.episodes > 1:
            said = replace(said, text=f"For the mean amounts: {said.text}")
        single = _single_episodes(best, found)
        outcomes.append(
            Outcome(
                view.label, index, said, found.is_satisfied, kept_by, single,
                is_binding(problem, best, place),
            )
        )  # fmt: skip
    text = rule.text if len(rule.text) <= LONGEST_RULE else rule.text[:LONGEST_RULE] + " …"
    return RuleCard(rule.name, text, tuple(outcomes))


BINDING_SHARE = 0.01
"""A rule binds within this share of its bound."""


def is_binding(problem: BaseProblem, evaluation: Evaluation, place: int) -> bool:
    """Whether the rule at this place holds with hardly a margin: another bound would change it."""
    table, found = problem.atoms, evaluation.rules[place]
    own = table.members[table.clause_rule == place].any(axis=0)
    weights, bounds = np.abs(table.coefficients[own]), np.abs(table.bounds[own])
    errors = np.array([evaluation.density_se.get(name, 0.0) for name in problem.regions])
    near = np.maximum(2.0 * weights @ errors, BINDING_SHARE * bounds).max(initial=0.0)
    return found.is_satisfied and found.margin <= near


def _single_episodes(evaluation: Evaluation, rule: RuleResult) -> str:
    """How many single episodes keep a rule, and how many must; empty where there is one."""
    if evaluation.episodes == 1 or rule.share is None:
        return ""
    asked = "it must hold on average" if rule.asked is None else f"asked: {rule.asked_text}"
    return f"{rule.share_text} of {evaluation.episodes:,} single episodes keep it; {asked}"


def write_page(views: Sequence[RunView], path: Path) -> Path:
    """Write the page to a file atomically."""
    if path.suffix.lower() not in (".html", ".htm"):
        raise ScrlError(f"{path}: a page's name ends in .html")
    text = page_text(views)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        file.write(text.encode("utf-8"))
    return path


def page_text(views: Sequence[RunView]) -> str:
    """The HTML text of the page."""
    stories = stories_of(views)
    template = page_environment().get_template("page.html")
    return template.render(
        stories=stories,
        title=", ".join(dict.fromkeys(story.name for story in stories)),
        speed_colours=SPEED_COLOURS,
        version=__version__,
        written=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    )


@cache
def page_environment() -> Environment:
    """The templates of pages."""
    found = Environment(
        loader=PackageLoader("scrl.report.page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    found.filters["minus"] = _with_minus
    return found


def _with_minus(text: str) -> str:
    """A number with a minus sign instead of a hyphen."""
    return "\N{MINUS SIGN}" + text[1:] if text.startswith("-") else text
