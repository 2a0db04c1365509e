"""`scrl eval`: evaluates a policy by the rules."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from scrl.cli.output import (
    JsonFlag,
    command_line,
    console,
    explain_return,
    print_json,
    verdict,
    warn,
    working,
)
from scrl.errors import PolicyError
from scrl.terminal import table

if TYPE_CHECKING:
    from scrl.evaluation import Evaluation
    from scrl.opening import Run
    from scrl.problems import BaseProblem, Problem


MEASURED = "when the run ended"


WORLD = ("map", "vehicle", "wind", "route")
"""The parts of a problem that a policy depends on, besides rules."""


def evaluate(
    problem: Annotated[
        str,
        typer.Argument(
            help="A built-in problem (see `scrl list`), a problem file or folder, a map, or a run "
            "folder: then its own policy on its own problem."
        ),
    ],
    policy: Annotated[
        str | None,
        typer.Option(help="full-speed, constant:V (V: the target speed), or a run folder."),
    ] = None,
    episodes: Annotated[
        int | None,
        typer.Option(
            min=1, max=1_000_000, help="Episodes to average (default: 1, or 100 if random)."
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Seed of the episodes (default: 0).")
    ] = None,
    policy_seed: Annotated[
        int | None, typer.Option(min=0, help="Which seed of a run folder (default: its best).")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Run a policy and judge its densities by the rules.

    Exit code 1: a rule is violated.
    """
    from scrl.opening import on_map

    run = _opened(problem)
    if run is not None and on_map(run) is None:
        if (policy, episodes, seed) != (None, None, None):
            raise PolicyError(
                f"{problem}: this run was trained in an external environment, which cannot be made "
                "from here, so no --policy, --episodes or --seed can be driven in it. Without "
                f"them `{command_line('eval', problem)}` shows what was measured when the run "
                f"ended; again, in Python: {run.recreation.evaluate}"
            )
        result = _show_measured(run, policy_seed, as_json=as_json)
    else:
        loaded, result = _drive(problem, run, policy, episodes, seed or 0, policy_seed)
        if as_json:
            print_json(result.to_json())
        else:
            print_evaluation(loaded, result, console())
            explain_return(loaded, console())
    warn(result.warnings())
    if not result.is_satisfied:
        raise typer.Exit(1)


def _opened(path: str) -> Run | None:
    """The run folder at that path; none where there is none."""
    if not (Path(path) / "run.json").is_file():
        return None
    from scrl.opening import open_run

    return open_run(path)


def _show_measured(run: Run, seed: int | None, *, as_json: bool) -> Evaluation:
    """Print what the result says of a seed, or of the best one, and how to judge it again."""
    found, again = run.seed_result(seed), run.recreation.evaluate
    if as_json:
        more = {"run": str(run.path), "seed": found.seed, "measured": MEASURED, "again": again}
        print_json({**found.evaluation.to_json(), **more})
        return found.evaluation
    out = console()
    which = f"seed {found.seed}" if seed is not None else f"seed {found.seed}, the best"
    out.print(
        f"measured {MEASURED} ({which}), in {found.evaluation.episodes:,} episodes that had no "
        "part in choosing the policy",
        markup=False,
        soft_wrap=True,
    )
    print_evaluation(run.problem, found.evaluation, out)
    explain_return(run.problem, out)
    out.print(f"again, in Python: {again}", markup=False, soft_wrap=True)
    return found.evaluation


def _drive(
    problem: str,
    run: Run | None,
    policy: str | None,
    episodes: int | None,
    seed: int,
    policy_seed: int | None,
) -> tuple[Problem, Evaluation]:
    """Evaluate a policy on a map."""
    from scrl.problems import load

    loaded = load(problem)
    warn(loaded.world_spec.regions.warnings)
    if policy is None and run is None:
        raise PolicyError(
            f"'{problem}' has no policy of its own: say with --policy what is to drive "
            "(full-speed, constant:V, or a run folder)"
        )
    policy = policy or problem
    with working("driving ..."):
        from scrl.evaluation import evaluate as judge
        from scrl.opening import on_map, open_run

        options: dict[str, Any] = {"episodes": episodes, "seed": seed, "name": policy}
        if Path(policy).is_dir():
            made = on_map(open_run(policy))
            if made is None:
                raise PolicyError(f"{policy}: a policy of an external environment drives no map")
            warn(_foreign(policy, made.problem, loaded))
            found = made.evaluate(loaded, policy_seed=policy_seed, **options)
        elif policy_seed is not None:
            raise PolicyError(f"'{policy}' has no seeds: --policy-seed goes with a run folder")
        else:
            found = judge(loaded, policy, **options)
    return loaded, found


def _foreign(run: str, own: BaseProblem, problem: Problem) -> list[str]:
    """A warning if a run was made for another world; other rules need no warning."""
    from scrl.problems import difference_between

    parts = [each for each in difference_between(own, problem) if each in WORLD]
    if not parts:
        return []
    return [f"'{run}' was made for another {' and another '.join(parts)} than {problem.name} has"]


def print_evaluation(
    problem: BaseProblem, result: Evaluation, out: Console, *, is_impossible: bool = False
) -> None:
    """Print tables of amounts and rules.

    If the rules are impossible, a rule is `kept` by the plan or `broken`, instead of `holds`.
    """
    out.print(_received(problem, result))
    if result.total is not None:
        out.print(escape(result.total), soft_wrap=True)
    if result.cost_text is not None:
        out.print(escape(result.cost_text), soft_wrap=True)
    title, held = ("Rules in this plan", "kept") if is_impossible else ("Rules", "holds")
    margin = "margin" if result.units else f"margin, {result.unit}"
    asked = () if result.is_on_average else ("must hold",)
    single = (">single episodes",) if result.episodes > 1 else ()
    rules = table("rule", "", f">{margin}", *asked, *single, "text", title=title)
    for rule in result.rules:
        rules.add_row(
            escape(rule.name),
            verdict(rule.is_satisfied, held),
            rule.margin_text("+,.2f"),
            *((rule.asked_text,) if asked else ()),
            *((rule.share_text,) if single else ()),
            escape(rule.text),
        )
    out.print(rules)
    time = problem.units.duration(result.steps, problem.transit_steps)
    out.print(
        f"return {result.return_:.3f} in {time}; {result.summary}",
        soft_wrap=True,
    )


def _received(problem: BaseProblem, result: Evaluation) -> Table:
    """The table of amounts, with the size of each region on a map, and its dose per hectare."""
    from scrl.problems import Problem

    spec = problem.world_spec if isinstance(problem, Problem) else None
    has_hectares = spec is not None and spec.units.cell is not None
    cells = () if spec is None else (">cells",)
    unit = "received" if result.units else f"{result.unit} received"
    units = ("unit",) if result.units else ()
    hectares, dose = ((">hectares",), (">per hectare",)) if has_hectares else ((), ())
    shown = table("region", *cells, *hectares, f">{unit}", *units, *dose, ">+-", title="Received")
    for index, name in enumerate(problem.regions):
        error, received = result.density_se[name], result.density[name]
        is_region = spec is not None and index < len(spec.regions.names)
        area = spec.areas[index] if spec is not None and is_region and has_hectares else None
        shown.add_row(
            escape(name),
            *(() if spec is None else (str(spec.regions.sizes[index]) if is_region else "",)),
            *(("" if area is None else f"{area:,.3f}",) if has_hectares else ()),
            f"{received:,.2f}",
            *((escape(result.units[name]),) if result.units else ()),
            *((f"{received / area:,.2f}" if area else "",) if has_hectares else ()),
            f"{error:.2f}" if error else "",
        )
    return shown
