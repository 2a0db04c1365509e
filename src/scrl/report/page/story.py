"""What the page says of the runs of one problem, section by section."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scrl.problems import Problem
from scrl.report.compare import compare
from scrl.report.compared import Comparison
from scrl.report.numbers import amount, percent
from scrl.report.page.bars import Received, RegionBars, region_bars
from scrl.report.page.charts import Chart
from scrl.report.page.ending import Figure, figures_of, unfinished, verdict_on
from scrl.report.page.learning import learning_charts
from scrl.report.page.maps import DrawnMap, draw_map
from scrl.report.page.origin import Origin, origin_of
from scrl.report.page.plan import Plans, plans_of
from scrl.report.page.spread import Spread, Whiskers, spread_of, whiskers_of
from scrl.report.reading import RunView, difference_between
from scrl.report.words import Said, Teller
from scrl.rules import Rule

MOST_RULES = 60
MOST_SEEDS = 100
LONGEST_RULE = 1_000


@dataclass(frozen=True)
class Outcome:
    """A rule in one run."""

    label: str
    run: int
    said: Said
    is_held: bool
    kept_by: str
    """In how many seeds it holds."""


@dataclass(frozen=True)
class RuleCard:
    """A rule, and what came of it in every run."""

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
class RunStory:
    """One run: how it ended, seed by seed, and where it came from."""

    label: str
    run: int
    verdict: str
    state: str
    figures: tuple[Figure, ...]
    seeds: tuple[SeedRow, ...]
    seeds_left_out: int
    origin: Origin


@dataclass(frozen=True)
class Story:
    """All runs of one problem."""

    name: str
    description: str
    unit: str
    is_discounted: bool
    is_random: bool
    reference: str | None
    map: DrawnMap
    runs: tuple[RunStory, ...]
    plans: Plans
    bars: tuple[RegionBars, ...]
    bars_left_out: int
    rules: tuple[RuleCard, ...]
    rules_left_out: int
    spread: Spread | None
    comparison: Comparison | None
    whiskers: Whiskers | None
    charts: tuple[Chart, ...]
    top_speed: str

    @property
    def is_alone(self) -> bool:
        return len(self.runs) == 1

    @property
    def is_finished(self) -> bool:
        """Whether any run has a result."""
        return bool(self.bars)


def stories_of(views: Sequence[RunView]) -> list[Story]:
    """Runs of the same problem together, in the order in which they were named."""
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
    problem = views[0].problem
    spec = problem.world_spec
    done = [view for view in views if view.result is not None]
    reference = next((view.result.reference for view in done if view.result), None)
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
        unit=spec.units.unit,
        is_discounted=problem.discount < 1.0,
        is_random=spec.is_random,
        reference=None if reference is None else amount(reference),
        map=draw_map(spec.regions),
        runs=tuple(_run(index, view) for index, view in enumerate(views)),
        plans=plans_of(views),
        bars=tuple(bars),
        bars_left_out=missing,
        rules=tuple(_card(problem, rule, views) for rule in problem.rules.rules[:MOST_RULES]),
        rules_left_out=max(0, len(problem.rules.rules) - MOST_RULES),
        spread=spread_of(views, reference),
        comparison=comparison,
        whiskers=None if comparison is None else whiskers_of(comparison),
        charts=tuple(learning_charts(views, reference)),
        top_speed=spec.units.speed(spec.vehicle.max_speed),
    )


def _run(index: int, view: RunView) -> RunStory:
    result = view.result
    if result is None:
        verdict, state, figures = unfinished(view), "open", ()
    else:
        verdict, state = verdict_on(result, view.problem)
        figures = figures_of(result, view.problem)
    seeds = () if result is None else result.seeds
    return RunStory(
        view.label, index, verdict, state, figures,
        tuple(
            SeedRow(
                each.seed,
                each.is_satisfied,
                (
                    amount(each.evaluation.return_),
                    "" if each.gap is None else percent(each.gap),
                    "" if each.is_satisfied else amount(each.evaluation.cons_vio),
                    f"{each.evaluation.steps:,.0f}",
                ),
            )
            for each in seeds[:MOST_SEEDS]
        ),
        max(0, len(seeds) - MOST_SEEDS),
        origin_of(view),
    )  # fmt: skip


def _card(problem: Problem, rule: Rule, views: Sequence[RunView]) -> RuleCard:
    outcomes = []
    place = [each.name for each in problem.rules.rules].index(rule.name)
    for index, view in enumerate(views):
        if view.result is None:
            continue
        best = view.result.best.evaluation
        teller = Teller(
            best.density,
            problem.rules.conventions,
            problem.tolerance,
            problem.world_spec.units.unit,
        )
        said = teller.say(rule.formula)
        kept = sum(each.evaluation.rules[place].is_satisfied for each in view.result.seeds)
        count = len(view.result.seeds)
        kept_by = "" if count == 1 else f"holds in {kept} of {count} seeds"
        outcomes.append(Outcome(view.label, index, said, best.rules[place].is_satisfied, kept_by))
    text = rule.text if len(rule.text) <= LONGEST_RULE else rule.text[:LONGEST_RULE] + " …"
    return RuleCard(rule.name, text, tuple(outcomes))
