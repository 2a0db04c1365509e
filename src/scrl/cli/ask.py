"""`scrl ask`: a plan for any rules on any map, without training."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

from scrl.cli.evaluate import print_evaluation
from scrl.cli.output import (
    JsonFlag,
    StrictFlag,
    below_bound,
    command_line,
    console,
    explain_return,
    messages,
    print_json,
    warn,
    working,
)
from scrl.cli.solve import print_conflict
from scrl.errors import ScrlError
from scrl.terminal import table

if TYPE_CHECKING:
    from scrl.planning import Answer
    from scrl.planning.answer import Plan
    from scrl.problems import Problem

MOST_RULE_SETS = 10_000
NO_CONFIDENCE = (
    "--confidence is a setting of the problem now: write confidence = 0.95 below [problem] in the "
    'problem file, or say it in a rule, as in "S1 >= 300 in 95 %"'
)
NO_POLICY = (
    "--policy: plans for maps are computed and no policy is trained for them any more; ask without "
    "it"
)
LEAST_PRICE = 0.000_005
"""Smaller prices would be shown as 0."""


def ask(
    world: Annotated[
        str,
        typer.Argument(
            help="agri, med, a built-in problem, a problem file, a map, or a run of `scrl learn`."
        ),
    ],
    rules: Annotated[
        list[str] | None,
        typer.Argument(
            help="Rule sets, one plan for each; several rules of one set with ; between them."
        ),
    ] = None,
    file: Annotated[
        Path | None, typer.Option(help="A file with a rule set in each line (# for comments).")
    ] = None,
    with_rules: Annotated[
        bool, typer.Option("--with-rules", help="Add the problem's own rules to each rule set.")
    ] = False,
    mix: Annotated[
        bool,
        typer.Option(
            "--mix", help="Allow several plans that keep the rules on average, not each alone."
        ),
    ] = False,
    even: Annotated[
        bool,
        typer.Option("--even", help="One speed and one dose for each region (needs a flow)."),
    ] = False,
    time_limit: Annotated[
        float, typer.Option(min=0.001, help="Seconds of the search for each rule set.")
    ] = 60.0,
    confidence: Annotated[str | None, typer.Option(hidden=True)] = None,
    policy: Annotated[str | None, typer.Option(hidden=True)] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the search.")] = 0,
    out: Annotated[
        Path | None,
        typer.Option(help="Save the plan as a run folder (of several, one inside it for each)."),
    ] = None,
    strict: StrictFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Find plans that keep rules, without training.

    Exit code 1: some rules are not kept: proven impossible, or no plan was found.
    """
    from scrl.problems import find_world
    from scrl.runs.folder import check_free

    _refuse_removed(confidence, policy)
    sets = rule_sets(rules or [], file)
    if out is not None:
        check_free(out, can_resume=False)
    if (Path(world) / "environment.json").is_file():
        from scrl.cli.learn import ask_learned

        _refuse_for_learned(with_rules=with_rules, strict=strict)
        ask_learned(
            world, sets, mix=mix, seed=seed, time_limit=time_limit, out=out, as_json=as_json
        )
        return
    found = find_world(world, strict=strict)
    if not found.rules.rules and (with_rules or not sets):
        raise ScrlError(f'{world} has no rules of its own: write some, as in "S1 >= 300"')
    asked = [_with_own(found, each) if with_rules else each for each in sets]
    answers = []
    with working("planning ...") as say:
        from scrl.planning import planner

        asking = planner()
        for number, each in enumerate(asked or [None], start=1):
            which = f"planning {number} of {len(asked)}" if len(asked) > 1 else "planning"
            say(f"{which} ...")

            def watch(text: str, which: str = which) -> None:
                say(f"{which}: {text} ...")

            answers.append(
                asking.ask(
                    found,
                    each,
                    mix=mix,
                    even=even,
                    seed=seed,
                    time_limit_s=time_limit,
                    watch=watch,
                )
            )
    kept = [
        asking.keep(answer, out if len(answers) == 1 else out / str(number), seed=seed)
        for number, answer in enumerate(answers, start=1)
        if out is not None
    ]
    if as_json:
        print_json([answer.to_json() for answer in answers])
    else:
        for answer in answers:
            print_plan(answer, console())
        explain_return(found, console())
    warn(list(answers[0].warnings))
    for path in kept:
        messages().print(
            f"kept in {path}: {command_line('report', path)} draws it, "
            f"{command_line('export', path, '--format', 'geojson')} writes the route",
            soft_wrap=True,
            markup=False,
        )
    if not all(answer.is_satisfied for answer in answers):
        raise typer.Exit(1)


def _refuse_removed(confidence: str | None, policy: str | None) -> None:
    """Say what became of options of earlier versions."""
    for given, message in ((confidence, NO_CONFIDENCE), (policy, NO_POLICY)):
        if given is not None:
            raise ScrlError(message)


def _refuse_for_learned(**given: bool) -> None:
    """Options that are for maps alone."""
    for name, value in given.items():
        if value:
            option = f"--{name.replace('_', '-')}"
            raise ScrlError(f"{option} is for maps, and this is a folder of `scrl learn`")


def rule_sets(texts: list[str], file: Path | None) -> list[list[str]]:
    """Rule sets from the command line and from a file."""
    from scrl.rules.parse import says_something, split_rules

    lines = list(texts)
    if file is not None:
        try:
            written = file.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError as error:
            raise ScrlError(f"{file}: not a text file (byte {error.start})") from None
        more = [line for line in written if says_something(line)]
        if not more:
            raise ScrlError(f"{file}: no rules in it: write a rule set in each line")
        lines += more
    if len(lines) > MOST_RULE_SETS:
        raise ScrlError(f"{len(lines):,} rule sets; at most {MOST_RULE_SETS:,} at a time")
    sets = [split_rules(line) for line in lines]
    if [] in sets:
        number = sets.index([]) + 1
        raise ScrlError(f'rule set {number} is empty: write a rule, as in "S1 >= 300"')
    return sets


def _with_own(problem: Problem, rules: list[str]) -> dict[str, str]:
    """The problem's own rules, then these under unused names."""
    found = {rule.name: rule.text for rule in problem.rules.rules}
    names = (f"rule-{number}" for number in itertools.count(1))
    free = (name for name in names if name not in found)
    return found | dict(zip(itertools.islice(free, len(rules)), rules, strict=True))


def print_plan(answer: Answer, out: Console) -> None:
    """Print amounts, rules, disjuncts, prices and the gap."""
    is_impossible = answer.status == "impossible"
    if answer.reference.conflict and not answer.is_satisfied:
        print_conflict(answer.reference, out)
        out.print("what follows is a plan for the least loosening, as near as its steps come")
    print_evaluation(answer.problem, answer.evaluation, out, is_impossible=is_impossible)
    _print_ways(answer, out)
    _print_prices(answer.plans, out)
    if answer.status == "unknown":
        out.print("no plan found, none excluded: what is shown violates the rules least")
    gap = "" if answer.gap is None else f", {below_bound(answer.gap)}"
    colour = "green" if answer.is_satisfied else "red"
    out.print(f"[bold {colour}]{answer.status}[/]{gap}; found in {answer.wall_s:.2f} s")


def _print_ways(answer: Answer, out: Console) -> None:
    """Print the disjuncts of rules that have several, and which ones the plan keeps."""
    from scrl.report.words import RuleDescriber

    if not answer.disjuncts:
        return
    ways = table("rule", "way to keep it", "this plan", ">fluid estimate", title="Choices")
    for each in answer.disjuncts:
        none = "none" if each.is_decided else "not decided"
        best = none if each.return_ is None else f"{each.return_:.3f}"
        mark = "[bold]met[/bold]" if answer.is_met(each) else "not met"
        ways.add_row(escape(each.rule), escape(each.text), mark, best)
    out.print(ways)
    teller = RuleDescriber.of(answer.problem, answer.evaluation.density)
    named = {each.rule for each in answer.disjuncts}
    for rule in answer.problem.rules.rules:
        if rule.name in named:
            said = teller.say(rule.formula).text
            out.print(f"{rule.name}: {said}", markup=False, soft_wrap=True)


def _print_prices(plans: Sequence[Plan], out: Console) -> None:
    """Print the prices of the regions whose price is not 0."""
    titles = [f">plan {number}" for number in range(1, len(plans) + 1)]
    prices = table("region", *titles, title="Prices per step, on average along the path")
    everything = list(plans[0].prices)
    priced = [
        name for name in everything
        if any(abs(plan.prices[name]) >= LEAST_PRICE for plan in plans)
    ]  # fmt: skip
    for name in priced:
        prices.add_row(escape(name), *(f"{plan.prices[name]:+.5f}" for plan in plans))
    if len(plans) > 1:
        prices.add_row("share of episodes", *(f"{plan.weight:.1%}" for plan in plans))
    if any(len(plan.stretches) > 1 for plan in plans):
        prices.add_row("prices change", *(_times(len(plan.stretches)) for plan in plans))
    if prices.row_count:
        out.print(prices)
    if len(priced) < len(everything):
        out.print(f"{len(everything) - len(priced)} of {len(everything)} regions have no price")


def _times(stretches: int) -> str:
    return "never" if stretches == 1 else f"{stretches - 1} times"
