"""`scrl eval` of a run in somebody's environment: what was measured when it ended."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from scrl.cli.output import console, explain_return, print_json

if TYPE_CHECKING:
    from scrl.evaluation import Evaluation

MEASURED = "when the run ended"


def show_kept(run: Path, seed: int | None, *, as_json: bool) -> Evaluation:
    """Print what the result says of a seed, or of the best one, and how to judge it anew."""
    from scrl.cli.evaluate import print_evaluation
    from scrl.report.calls import evaluate_call
    from scrl.runs import RunFolder
    from scrl.trained import read_seed

    folder = RunFolder.open(run)
    kept = folder.environment()
    assert kept is not None  # noqa: S101 (for the type checker; the command has looked)
    found = read_seed(folder, seed)
    anew = evaluate_call(kept, run)
    if as_json:
        more = {"run": str(run), "seed": found.seed, "measured": MEASURED, "anew": anew}
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
    print_evaluation(kept, found.evaluation, out)
    explain_return(kept, out)
    out.print(f"anew, in Python: {anew}", markup=False, soft_wrap=True)
    return found.evaluation
