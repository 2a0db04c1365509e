"""How a run came to be, so that it can be made again."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from scrl.report.calls import evaluate_call, resume_call, train_call
from scrl.report.reading import RunView
from scrl.runs import KeptEnvironment

LONGEST_TEXT = 8_000


@dataclass(frozen=True)
class Origin:
    """What was run, with what, and where."""

    command: str
    """A command line, or a call in Python."""
    note: str
    """What must be said of it."""
    again: str
    """What goes on with the run, or judges its policy once more."""
    is_finished: bool
    facts: tuple[tuple[str, str], ...]
    settings: tuple[tuple[str, str], ...]
    kept_as: str
    """What the folder holds of the problem."""
    kept: str


class Ways(NamedTuple):
    """How to make a run again: by commands, or in Python."""

    command: str
    resume: str
    evaluate: str
    file: str
    """What holds the problem, in the run folder."""
    kept_as: str
    note: str = ""
    facts: tuple[tuple[str, str], ...] = ()


def origin_of(view: RunView) -> Origin:
    """Read from the run's own record."""
    record, path = view.folder.record, view.folder.path
    ways = _ways(view)
    facts = [
        *ways.facts,
        ("commit", record.commit or f"none (installed, version {record.version})"),
        ("seed" if len(record.seeds) == 1 else "seeds", seeds_text(record.seeds)),
        ("scrl", record.version),
        ("Python", record.python),
        ("JAX", record.jax),
        ("device", record.device),
        ("begun", record.created),
    ]
    if view.result is not None:
        took = f"{view.result.wall_s:,.0f} s"
        steps = view.result.env_steps
        facts.append(("driven", f"{steps:,} steps in {took}") if steps else ("found in", took))
    return Origin(
        command=_short(ways.command),
        note=ways.note,
        again=ways.resume if view.result is None else ways.evaluate,
        is_finished=view.result is not None,
        facts=tuple(facts),
        settings=tuple(_flat(record.settings)),
        kept_as=ways.kept_as,
        kept=_short((path / ways.file).read_text(encoding="utf-8")),
    )


def _ways(view: RunView) -> Ways:
    record, path = view.folder.record, view.folder.path
    if isinstance(view.problem, KeptEnvironment):
        kept = view.problem
        return Ways(
            command=train_call(kept, record),
            resume=resume_call(kept, path),
            evaluate=evaluate_call(kept, path),
            file="environment.json",
            kept_as="What the run folder knows of the environment",
            note="A run folder cannot hold an environment. Whoever has it, and knows what its "
            "steps give to which regions, trains the same again in Python:",
            facts=(
                ("environment", kept.environment[:200]),
                ("horizon", kept.units.duration(kept.horizon_steps)),
                ("begun by", _short(record.command)),
            ),
        )
    run, problem = shlex.quote(str(path)), shlex.quote(str(path / "problem.toml"))
    return Ways(
        command=record.command,
        resume=f"scrl train --resume {run}",
        evaluate=f"scrl eval {problem} --policy {run}",
        file="problem.toml",
        kept_as="The problem file",
    )


def seeds_text(seeds: Sequence[int]) -> str:
    """0 to 9, or each by name."""
    if len(seeds) > 2 and list(seeds) == list(range(seeds[0], seeds[0] + len(seeds))):
        return f"{seeds[0]} to {seeds[-1]}"
    shown = ", ".join(map(str, seeds[:40]))
    return shown if len(seeds) <= 40 else f"{shown} and {len(seeds) - 40} more"


OWNERS = {"settings": "", "policy": "price policy: "}
"""Whose the settings in a table are; what a method is set to needs no such word."""


def _flat(settings: dict[str, Any], owner: str = "") -> list[tuple[str, str]]:
    """Settings of settings among the others, each with the name of whose it is."""
    found: list[tuple[str, str]] = []
    for name, value in settings.items():
        if isinstance(value, dict):
            found.extend(_flat(value, owner + OWNERS.get(name, f"{name}: ")))
        else:
            found.append((f"{owner}{name}", json.dumps(value, ensure_ascii=False)[:200]))
    return found[:200]


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else text[:LONGEST_TEXT] + "\n…"
