"""`scrl train`: trains a policy and prints its result."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from scrl.cli.interrupts import EXIT_INTERRUPTED, leave
from scrl.cli.output import (
    JsonFlag,
    below_bound,
    console,
    explain_return,
    messages,
    print_json,
    verdict,
    warn,
)
from scrl.errors import ScrlError
from scrl.terminal import table

if TYPE_CHECKING:
    from rich.console import Console

    from scrl.runs.result import RunResult


def train(
    problem: Annotated[
        str | None,
        typer.Argument(
            help="A built-in problem (see `scrl list`), a problem file or folder, or a map."
        ),
    ] = None,
    method: Annotated[str | None, typer.Option(help="A method (see `scrl list`).")] = None,
    learner: Annotated[
        str | None, typer.Option(help="Another learner: ppo, ddpg, sac, cal, cpo, pcpo.")
    ] = None,
    penalty: Annotated[
        str | None, typer.Option(help="Another penalty: scrl, scrl-min, lagrangian, none.")
    ] = None,
    preset: Annotated[
        str | None, typer.Option(help="Settings that go together: default, paper.")
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Environment steps of each seed, all counted: learning, measuring, settling.",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="A setting, key=value; may be repeated.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, max=10_000, help="Seeds, trained together.")] = 1,
    seed: Annotated[int, typer.Option(min=0, help="The first seed.")] = 0,
    out: Annotated[Path | None, typer.Option(help="The run folder (default: a new one).")] = None,
    resume: Annotated[Path | None, typer.Option(help="Resume the run in this folder.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Train a policy that keeps the rules.

    Exit code 1: some seed does not keep every rule.
    """
    if (problem is None) == (resume is None):
        raise ScrlError("say which problem to train, or which run to `--resume`, and not both")
    if resume is not None and (method or learner or penalty or preset or steps or settings or out):
        raise ScrlError("a run that is resumed keeps its method, settings and folder")
    from scrl import api
    from scrl.opening import open_run
    from scrl.problems import load
    from scrl.training.config import parse_settings
    from scrl.training.progress import TrainingProgressBar

    loaded = None if problem is None else load(problem)
    if loaded is not None:
        warn(loaded.warnings())
    with ending_well(), TrainingProgressBar(messages()) as watching:
        if loaded is None:
            result = api.resume(resume or "", watch=watching)
        else:
            result = api.train(
                loaded, method=method, learner=learner, penalty=penalty, preset=preset,
                steps=steps, settings=parse_settings(settings or []), seeds=seeds, seed=seed,
                out=out, watch=watching,
            )  # fmt: skip
    warn(result.warnings)
    if as_json:
        print_json(result.to_json())
    else:
        print_result(result, console())
        explain_return(open_run(result.run).problem, console())
    if not result.is_satisfied:
        raise typer.Exit(1)


@contextmanager
def ending_well(how: str = "scrl train --resume {run}") -> Iterator[None]:
    """On an interrupt, print what was saved and how to resume."""
    from scrl.training.loop import InterruptedTrainingError, StoppedTrainingError

    def resuming(run: Path) -> str:
        return f"Resume with: {how.format(run=shlex.quote(str(run)))}"

    try:
        yield
    except InterruptedTrainingError as stopped:
        messages().print(
            f"interrupted; everything is saved. {resuming(stopped.run)}",
            soft_wrap=True,
            markup=False,
        )
        raise typer.Exit(EXIT_INTERRUPTED) from None
    except StoppedTrainingError as stopped:
        way = "" if stopped.run is None else f". {resuming(stopped.run)}"
        leave(f"interrupted; {stopped.saved}{way}")
    except KeyboardInterrupt:
        is_known = "{run}" not in how
        leave("interrupted" + (f"; what was saved is kept. Resume with: {how}" if is_known else ""))


def print_result(result: RunResult, out: Console) -> None:
    """Print a row per seed and a summary."""
    seeds = table(">seed", ">return", ">gap", "rules", ">violated by", ">steps", title="Result")
    for each in result.seeds:
        found = each.evaluation
        seeds.add_row(
            str(each.seed),
            f"{found.return_:.2f}",
            "" if each.gap is None else f"{each.gap:+.1%}",
            verdict(found.is_satisfied),
            f"{found.cons_vio:,.2f}" if not found.is_satisfied else "",
            f"{found.steps:,.0f}",
        )
    out.print(seeds)
    out.print(
        f"{result.satisfied} of {len(result.seeds)} seeds keep every rule" + _gap_text(result)
    )
    if not result.satisfied:
        out.print("no policy kept every rule: those shown are the least violating ones")
    if any(each.evaluation.episodes > 1 for each in result.seeds):
        kept = [each.evaluation.share for each in result.seeds]
        first = result.seeds[0].evaluation
        asked = "" if first.confidence is None else f" ({100.0 * first.confidence:.10g}% asked)"
        out.print(
            f"rules are judged {first.how}; of single episodes {min(kept):.1%} to {max(kept):.1%} "
            f"keep every rule{asked}"
        )
    out.print(result.effort)
    out.print(f"run folder: {escape(str(result.run))}", soft_wrap=True)


def _gap_text(result: RunResult) -> str:
    if result.bound is None:
        return "; there is no proven bound to compare with"
    if result.gap_mean is None or result.gap_worst is None:
        return f"; the proven bound is {result.bound:.2f}"
    return (
        f"; {below_bound(result.gap_mean, 1)} ({result.bound:.2f}) on average, "
        f"{result.gap_worst:.1%} at worst"
    )
