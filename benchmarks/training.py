"""How good training is: every built-in problem, ten seeds, held against the reference.

`python -m benchmarks.training SUITE [PROBLEM...]` trains and keeps a summary of each run in
docs/results; `python -m benchmarks.training table` writes docs/results.md from the summaries.
Suites: `default` (all problems), `wind` (gusts of 10 % on Agri), `paper` (`--preset paper`).
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_NUM_CPU_DEVICES", str(os.cpu_count() or 1))

import scrl
from benchmarks.machine import matmul_gflops
from scrl.problems import builtin_names
from scrl.runs import RunFolder

SEEDS = 10
GUSTS = 0.1
FOLDER = Path(__file__).parents[1] / "docs" / "results"
PAGE = FOLDER.parent / "results.md"
PAPER_RETURN = {
    "agri-situational": -45.37, "agri-priority": -9.46, "agri-joint": -24.53, "agri-multi": -11.8,
    "med-situational": -13.12, "med-priority": -18.52, "med-joint": -9.62,
}  # fmt: skip
"""The published returns of SCRL (tables 1 and 3), as printed: a tenth of the raw ones."""
PAPER_VIOLATION = {"agri-situational": 0.01, "agri-joint": 4.31, "med-joint": 37.17}
"""The published violations of SCRL, as printed; 0 for the others."""


def problems_of(suite: str) -> list[str]:
    """The problems that a suite trains on."""
    names = list(builtin_names())
    return [name for name in names if name in _WINDY] if suite == "wind" else names


_WINDY = ("agri-situational", "agri-priority", "agri-joint")


def run(suite: str, name: str, load: Any = scrl.load) -> dict[str, Any]:
    """Train ten seeds and keep what came out."""
    problem = load(name)
    if suite == "wind":
        wind = dataclasses.replace(problem.world_spec.wind, strength=GUSTS)
        windy = dataclasses.replace(problem.world_spec, wind=wind)
        problem = dataclasses.replace(problem, world_spec=windy)
    preset = "paper" if suite == "paper" else None
    result = scrl.train(problem, seeds=SEEDS, preset=preset, watch=_tell)
    document = result.to_json()
    record = RunFolder.open(result.run).record
    for seed in document["seeds"]:
        del seed["run"], seed["rules"], seed["density_se"], seed["unit"], seed["policy"]
    return {
        "suite": suite,
        "commit": record.commit,
        "command": f"python -m benchmarks.training {suite} {name}",
        "device": record.device,
        "matmul_gflops": round(matmul_gflops()),
        "settings": record.settings,
        **document,
    }


def _tell(now: Any) -> None:
    if now.rounds % 50 == 0:
        kept = int((now.metrics.best_violation <= now.problem.tolerance).sum())
        print(
            f"{now.problem.name}: round {now.rounds}, {kept} kept, {now.wall_s:.0f} s", flush=True
        )


def keep(summary: dict[str, Any]) -> None:
    """One small file for each run."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / f"{summary['suite']}-{summary['problem']}.json"
    path.write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")


def table(suite: str) -> str:
    """The runs of a suite as a Markdown table."""
    paths = [FOLDER / f"{suite}-{name}.json" for name in problems_of(suite)]
    found = [json.loads(path.read_text(encoding="utf-8")) for path in paths if path.exists()]
    if not found:
        return "Not run yet."
    head = "| problem | satisfied | mean gap | worst gap | return | best possible | Cons.Vio |"
    head += " steps | single episodes | training, s |"
    rows = [head, "|---" * 10 + "|", *(_row(each) for each in found)]
    sources = sorted({(each["commit"], each["device"]) for each in found})
    told = "; ".join(f"commit {commit}, {device}" for commit, device in sources)
    return (
        "\n".join(rows)
        + f"\n\nTen seeds each (0 to 9), `python -m benchmarks.training {suite}`; {told}."
    )


def _row(run: dict[str, Any]) -> str:
    seeds = run["seeds"]
    count = len(seeds)

    def mean(field: str) -> float:
        return sum(seed[field] for seed in seeds) / count

    alone = sum(seed["episodes_satisfied"] for seed in seeds) / sum(
        seed["episodes"] for seed in seeds
    )
    gaps = [run["gap_mean"], run["gap_worst"]]
    shown = ["-" if gap is None else f"{gap:.1%}" for gap in gaps]
    cells = [
        run["problem"], f"{run['satisfied']} of {count}", *shown, f"{mean('return'):.2f}",
        f"{run['reference']:.2f}", f"{mean('cons_vio'):.2f}", f"{mean('steps'):,.0f}",
        f"{alone:.0%}", f"{run['wall_s']:.0f}",
    ]  # fmt: skip
    return "| " + " | ".join(cells) + " |"


def paper_table() -> str:
    """Our run of the paper's settings beside the published figures, in the paper's scale."""
    rows = ["| problem | SCRL as published: vio / return | preset paper: vio / return (satisfied) |"
            " default: vio / return (satisfied) |", "|---|---|---|---|"]  # fmt: skip
    for name in problems_of("paper"):
        cells = [f"{PAPER_VIOLATION.get(name, 0.0):g} / {PAPER_RETURN[name]:g}"]
        for suite in ("paper", "default"):
            path = FOLDER / f"{suite}-{name}.json"
            cells.append(_scaled(json.loads(path.read_text())) if path.exists() else "")
        rows.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(rows)


def _scaled(run: dict[str, Any]) -> str:
    seeds = run["seeds"]
    violation = sum(seed["cons_vio"] for seed in seeds) / len(seeds) / 10
    return_ = sum(seed["return"] for seed in seeds) / len(seeds) / 10
    return f"{violation:.2f} / {return_:.2f} ({run['satisfied']} of {len(seeds)})"


MARKS = {name: (f"<!-- {name} -->", f"<!-- end of {name} -->") for name in
         ("default", "wind", "paper", "beside")}  # fmt: skip


def write_page() -> None:
    """Put the tables between their marks in docs/results.md."""
    page = PAGE.read_text(encoding="utf-8")
    tables = {suite: table(suite) for suite in ("default", "wind", "paper")}
    for name, text in {**tables, "beside": paper_table()}.items():
        begin, end = MARKS[name]
        before, _, rest = page.partition(begin)
        after = rest.partition(end)[2]
        page = f"{before}{begin}\n\n{text}\n\n{end}{after}"
    PAGE.write_text(page, encoding="utf-8")


def main() -> None:
    """Train what was named, or write the page."""
    suite, *names = sys.argv[1:] or ["default"]
    if suite != "table":
        for name in names or problems_of(suite):
            summary = run(suite, name)
            keep(summary)
            print(table(suite), flush=True)
    if PAGE.exists():
        write_page()


if __name__ == "__main__":
    main()
