"""`scrl eval`: what a policy does to the rules."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from scrl.cli.output import (
    JsonFlag,
    ProblemArgument,
    console,
    print_json,
    table,
    verdict,
    warn,
    working,
)
from scrl.errors import PolicyError

if TYPE_CHECKING:
    from scrl.evaluation import Evaluation
    from scrl.problems import Problem


def evaluate(
    problem: ProblemArgument,
    policy: Annotated[
        str,
        typer.Option(help="full-speed, constant:V (V: the target speed), or a run folder."),
    ],
    episodes: Annotated[
        int | None,
        typer.Option(
            min=1, max=1_000_000, help="Episodes to average (default: 1, or 100 if random)."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the episodes.")] = 0,
    policy_seed: Annotated[
        int | None, typer.Option(min=0, help="Which seed of a run folder (default: its best).")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Run a policy and hold what each region receives against the rules (exit 1: one is broken)."""
    from scrl.problems import load

    loaded = load(problem)
    with working("driving ..."):
        import numpy as np

        from scrl.evaluation import DEFAULT_EPISODES, evaluate_mixture
        from scrl.evaluation import evaluate as run

        plans: list[tuple[float, Any]] = [(1.0, policy)]
        if Path(policy).is_dir():
            from scrl.driver import run_plans

            plans = run_plans(policy, policy_seed)
        elif policy_seed is not None:
            raise PolicyError(f"'{policy}' has no seeds: --policy-seed goes with a run folder")
        if len(plans) == 1:
            result = run(loaded, plans[0][1], episodes=episodes, seed=seed, name=policy)
        else:
            weights, policies = zip(*plans, strict=True)
            usual = DEFAULT_EPISODES if loaded.world_spec.is_random else 1
            result = evaluate_mixture(
                loaded, policies, np.array(weights), episodes=episodes or usual, seed=seed,
                name=policy,
            )  # fmt: skip
    if as_json:
        print_json(result.to_json())
    else:
        print_evaluation(loaded, result, console())
    warn(result.warnings())
    if not result.is_satisfied:
        raise typer.Exit(1)


def print_evaluation(problem: Problem, result: Evaluation, out: Console) -> None:
    """Tables of what was received and which rules hold."""
    spec = problem.world_spec
    regions = table("region", ">cells", f">{result.unit} received", ">+-", title="Received")
    for name, cells in zip(spec.regions.names, spec.regions.sizes, strict=True):
        error = result.density_se[name]
        regions.add_row(
            escape(name),
            str(cells),
            f"{result.density[name]:,.2f}",
            f"{error:.2f}" if error else "",
        )
    rules = table("rule", "", f">margin, {result.unit}", "text", title="Rules")
    for rule in result.rules:
        rules.add_row(
            escape(rule.name), verdict(rule.is_satisfied), f"{rule.margin:+,.2f}", escape(rule.text)
        )
    out.print(regions)
    out.print(rules)
    out.print(
        f"return {result.return_:.3f} in {spec.units.duration(result.steps)}; "
        + ("every rule holds" if result.is_satisfied else f"violated by {result.cons_vio:,.2f}")
        + f"; {result.episodes_satisfied} of {result.episodes} single episodes keep all rules"
    )
