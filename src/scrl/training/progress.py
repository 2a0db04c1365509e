"""Training as it happens: a bar, the return, and every atom's density against its bound."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from scrl.problems import BaseProblem
from scrl.rules import reading_of
from scrl.terminal import LINE_EVERY_S, STOPPING, table
from scrl.training.algorithm import Metrics
from scrl.training.config import TrainingConfig

MOST_ATOMS = 16


@dataclass(frozen=True)
class TrainingProgress:
    """Where a run is after a round, for whoever watches it."""

    problem: BaseProblem
    config: TrainingConfig
    run: Path
    rounds: int
    """Rounds done."""
    rounds_in_all: int
    env_steps: int
    """Steps of all seeds so far."""
    wall_s: float
    metrics: Metrics
    """What the last round saw, for every seed."""


Watcher = Callable[[TrainingProgress], None]


class TrainingProgressBar:
    """Shows the rounds of a run on a terminal, or a line now and then elsewhere."""

    def __init__(self, out: Console) -> None:
        self.out = out
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[done]}"),
            TextColumn("{task.fields[speed]}"),
            TimeRemainingColumn(),
            console=out,
        )
        self.row = self.bar.add_task("compiling", total=None, done="", speed="")
        self.live = Live(self.bar, console=out, refresh_per_second=4, transient=True)
        self.first: tuple[float, int] | None = None
        self.last_line_s = -math.inf

    def __enter__(self) -> TrainingProgressBar:
        if self.out.is_terminal:
            self.live.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        if self.out.is_terminal:
            self.live.__exit__(None, None, None)

    def __call__(self, now: TrainingProgress) -> None:
        speed = self._speed(now)
        share = f"round {now.rounds} of {now.rounds_in_all}{speed and f', {speed}'}"
        self.bar.update(
            self.row,
            total=now.rounds_in_all,
            completed=now.rounds,
            description="learning" if now.rounds < now.config.loop.iterations else "settling",
            done=f"{now.rounds} of {now.rounds_in_all} rounds",
            speed=speed,
        )
        if self.out.is_terminal:
            self.live.update(Group(self.bar, summary(now), atom_table(now)))
        elif time.monotonic() - self.last_line_s > LINE_EVERY_S:
            self.last_line_s = time.monotonic()
            self.out.print(f"{share}: {summary(now)}", soft_wrap=True)

    def starting(self) -> None:
        """Say, where no bar does, what takes long before the first round."""
        if not self.out.is_terminal:
            self.out.print("compiling the training ...")

    def stopping(self) -> None:
        """Say that Ctrl-C was heard: a round may take a while."""
        self.out.print(STOPPING)

    def say(self, text: str) -> None:
        """A line of its own."""
        self.out.print(text, markup=False, soft_wrap=True)

    def _speed(self, now: TrainingProgress) -> str:
        """Steps per second since the first round, which was compiled."""
        if self.first is None:
            self.first = (now.wall_s, now.env_steps)
            return ""
        seconds = max(now.wall_s - self.first[0], 1e-9)
        return f"{(now.env_steps - self.first[1]) / seconds:,.0f} steps/s"


def summary(now: TrainingProgress) -> str:
    """The return, and how many seeds have found a policy that keeps every rule."""
    metrics, tolerance = now.metrics, now.problem.tolerance
    if not now.problem.rules.rules:
        return f"return {np.mean(metrics.return_):.2f}"
    kept = np.asarray(metrics.best_violation) <= tolerance
    text = f"return {np.mean(metrics.return_):.2f}, violated by {np.mean(metrics.violation):,.1f}"
    text += f"; {kept.sum()} of {len(kept)} seeds have kept every rule"
    if kept.any():
        text += f", at best with {np.max(np.asarray(metrics.best_return)[kept]):.2f}"
    return text


def atom_table(now: TrainingProgress) -> Table:
    """What each atom compares now, with its bound and kappa; means over the seeds.

    The atoms of the rules come first, then those that only the method's reading of the rules has.
    An atom without a kappa is not part of that reading.
    """
    rules, reading = now.problem.atoms, reading_of(now.problem.rules, now.config.reading)
    kappa_of = dict(zip(reading.atoms, np.asarray(now.metrics.kappa).mean(axis=0), strict=True))
    shown = table("rule", "asks for", ">now", ">bound", ">kappa", ">seeds inside")
    rows = [*zip(rules.atoms, rules.coefficients, rules.bounds, strict=True)]
    rows += [
        row
        for row in zip(reading.atoms, reading.coefficients, reading.bounds, strict=True)
        if row[0] not in rules.atoms
    ]
    for atom, coefficients, bound in rows[:MOST_ATOMS]:
        sign = -1.0 if atom.is_at_least else 1.0
        side = np.asarray(now.metrics.density, float) @ coefficients
        inside = side <= bound + now.problem.tolerance
        shown.add_row(
            escape(atom.origin.rule or "(reading)"),
            escape(atom.show()),
            f"{sign * side.mean():,.1f}",
            f"{sign * bound:,.1f}",
            f"{kappa_of[atom]:.4f}" if atom in kappa_of else "",
            f"{inside.sum()} of {len(inside)}",
        )
    if len(rows) > MOST_ATOMS:
        shown.add_row("", f"... and {len(rows) - MOST_ATOMS} more", "", "", "", "")
    return shown
