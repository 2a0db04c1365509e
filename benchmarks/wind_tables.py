"""The tables and the picture of `benchmarks.wind`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

Row = dict[str, Any]
NAMES = {"ask": "`ask`", "controller": "controller", "open": "calm plan", "train": "`train`"}
KEPT = 1e-6
"""Cons.Vio of means that counts as none."""


def interval(share: float, runs: int, z: float = 1.96) -> tuple[float, float]:
    """The 95 % interval of a share, by Wilson."""
    middle, width = share + z**2 / (2 * runs), share * (1 - share) / runs + (z / (2 * runs)) ** 2
    low, high = ((middle + sign * z * width**0.5) / (1 + z**2 / runs) for sign in (-1.0, 1.0))
    return low, high


def gap(row: Row) -> float | None:
    """(calm fluid - mean return) / |calm fluid|."""
    best = row.get("calm_fluid")
    return None if best is None else (best - row["return"]) / abs(best)


def is_reached(row: Row) -> bool:
    """Whether what was asked holds in the fresh runs, as they are."""
    if "kept" not in row:
        return False
    share = row["share"]
    return row["mean_violation"] <= KEPT if share is None else row["kept"] >= share


def print_tables(rows: Sequence[Row]) -> None:
    """One table for each part that was measured."""
    of_part = {part: [row for row in rows if row["part"] == part] for part in PARTS}
    for part, told in PARTS.items():
        if of_part[part]:
            print(f"\n{part}\n")
            told(of_part[part])
    trained = [row for row in rows if row["part"] == "train"]
    if trained:
        print("\ntrain\n")
        _of_training(trained, rows)


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> None:
    titles = list(head)
    print("| " + " | ".join(titles) + " |\n" + "|---" * len(titles) + "|")
    for row in rows:
        print("| " + " | ".join(row) + " |")


def _asked(share: float | None) -> str:
    return "on average" if share is None else f"{share:.0%} of runs"


def _percent(value: float | None) -> str:
    return "" if value is None else f"{value:.2%}"


def _single(rows: Sequence[Row]) -> None:
    """A line for each problem and method."""
    head = (
        "problem", "gusts", "asked", "method", "runs kept", "95 % interval", "return",
        "below calm fluid", "violation of means", "seconds", "CPU",
    )  # fmt: skip
    lines = []
    for row in sorted(rows, key=_order):
        name = row["problem"], f"{row['wind']:.0%}", _asked(row["share"]), NAMES[row["method"]]
        if "kept" not in row:
            lines.append((*name, "none", *[""] * 6))
            continue
        low, high = interval(row["kept"], row["runs"])
        times = [f"{row[each]:.2f}" if each in row else "" for each in ("seconds", "cpu_seconds")]
        lines.append((
            *name, f"{row['kept']:.2%}", f"{low:.2%} to {high:.2%}", f"{row['return']:.3f}",
            _percent(gap(row)), f"{row['mean_violation']:.2f}", *times,
        ))  # fmt: skip
    _table(head, lines)


def _order(row: Row) -> tuple[str, float, float, str]:
    return row["problem"], row["wind"], row["share"] or 2.0, row["method"]


def _of_sets(rows: Sequence[Row]) -> None:
    """What is reached of the random rule sets, and how long answers take."""
    for share in sorted({row["share"] for row in rows}, key=lambda each: each or 2.0):
        asked = {
            row["problem"]: row for row in rows if (row["method"], row["share"]) == ("ask", share)
        }
        rival = {row["problem"]: row for row in rows
                 if (row["method"], row["share"]) == ("controller", share)}  # fmt: skip
        ours = {name for name, row in asked.items() if is_reached(row)}
        theirs = {name for name, row in rival.items() if is_reached(row)}
        both = ours & theirs
        print(
            f"{_asked(share)}: of {len(asked)} sets `ask` reaches it in {len(ours)}, "
            f"{_mean_gap(asked, ours)} below the calm fluid on average; the controller in "
            f"{len(theirs)} of {len(rival)} that it was driven on; any in {len(ours | theirs)}. "
            f"Where both do, `ask` is {_mean_gap(asked, both)} and the controller "
            f"{_mean_gap(rival, both)} below."
        )
        print(f"Statuses of `ask`: {_counts(row['status'] for row in asked.values())}.")
        for each in ("seconds", "first_seconds", "cpu_seconds"):
            taken = [row[each] for row in asked.values()]
            print(f"{each}: median {np.median(taken):.2f}, 95 % {np.quantile(taken, 0.95):.2f}, "
                  f"worst {max(taken):.2f}")  # fmt: skip
        for name in sorted(asked):
            row, other = asked[name], rival.get(name, {}).get("kept")
            if name in theirs - ours or (row["status"] == "satisfied" and name not in ours):
                print(
                    f"look: {name}, {row['status']}, kept {row['kept']:.2%} (controller {other}), "
                    f"violation of means {row['mean_violation']:.3f}: {row['rules']}"
                )
        print()


def _mean_gap(rows: dict[str, Row], names: set[str]) -> str:
    gaps = [each for name in names if (each := gap(rows[name])) is not None]
    return _percent(float(np.mean(gaps))) if gaps else "-"


def _counts(names: Iterable[str]) -> str:
    found = list(names)
    return ", ".join(f"{found.count(each)} {each}" for each in sorted(set(found)))


def _of_training(rows: Sequence[Row], others: Sequence[Row]) -> None:
    """How many seeds keep the share, by the lower end of the interval, and at what return."""
    lines = []
    for name in sorted({row["problem"] for row in rows}):
        seeds = [row for row in rows if row["problem"] == name]
        kept = [row["kept"] for row in seeds]
        enough = [row for row in seeds if interval(row["kept"], row["runs"])[0] >= row["share"]]
        returns = [row["return"] for row in enough]
        gaps = [each for row in enough if (each := gap(row)) is not None]
        alike = {"problem": name, "method": "controller", "share": seeds[0]["share"]}
        rival = [row for row in others if row.items() >= alike.items() and row["part"] == "builtin"]
        better = [each for each in returns if rival and each >= rival[0]["return"]]
        lines.append((
            name, f"{len(enough)} of {len(seeds)}", f"{min(kept):.2%}", f"{np.median(kept):.2%}",
            f"{np.mean(returns):.2f}" if returns else "",
            f"{_percent(float(np.mean(gaps)))} ({_percent(max(gaps))})" if gaps else "",
            f"{rival[0]['return']:.2f}" if rival else "",
            f"{len(better)} of {len(seeds)}" if rival else "",
            f"{seeds[0]['env_steps']:,}", f"{seeds[0].get('cpu_seconds', float('nan')):.0f}",
        ))  # fmt: skip
    _table(
        ("problem", "seeds that keep it", "least runs kept", "median", "return of these",
         "below calm fluid (worst)", "controller", "not below it", "steps of a seed",
         "CPU seconds of a seed"), lines,
    )  # fmt: skip


PARTS = {"builtin": _single, "sets": _of_sets, "curve": _single}


def draw_curves(rows: Sequence[Row], path: Path) -> None:
    """What it costs to keep all rules in a share of single runs; hollow where that is missed."""
    # Not every machine that measures can draw.
    from matplotlib.figure import Figure

    from scrl.report.figures import save_figure

    rows = [row for row in rows if row["part"] == "curve" and "kept" in row]
    names, winds = sorted({row["problem"] for row in rows}), sorted({row["wind"] for row in rows})
    shares = sorted({row["share"] for row in rows})
    figure = Figure(figsize=(3.0 * len(names), 2.7 * len(winds)), layout="constrained")
    panes = figure.subplots(len(winds), len(names), sharex=True, squeeze=False)
    styles = {"ask": ("o-", "#4477aa"), "controller": ("s--", "#ee9944"), "open": ("^:", "#777777")}
    for place in np.ndindex(panes.shape):
        axes: Any = panes[place]
        wind, name = winds[place[0]], names[place[1]]
        for method, (style, colour) in styles.items():
            wanted = {"problem": name, "wind": wind, "method": method}
            found = sorted((row for row in rows if row.items() >= wanted.items()), key=_order)
            across = [shares.index(row["share"]) for row in found]
            cost = [100 * (gap(row) or 0.0) for row in found]
            label = NAMES[method].strip("`")
            axes.plot(across, cost, style, color=colour, markerfacecolor="white", label=label)
            kept = [index for index, row in enumerate(found) if is_reached(row)]
            axes.plot(
                [across[index] for index in kept], [cost[index] for index in kept], style[0],
                color=colour,
            )  # fmt: skip
        axes.set_xticks(range(len(shares)), [f"{share:.0%}" for share in shares])
        axes.set_title(f"{name}, gusts of {wind:.0%}", fontsize=9)
    for axes in panes[-1]:
        axes.set_xlabel("single runs that must keep all rules")
    for axes in panes[:, 0]:
        axes.set_ylabel("below calm fluid, %")
    panes[0, 0].legend(fontsize=8)
    save_figure(figure, path)
