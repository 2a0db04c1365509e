"""How a run came to be, so that it can be made again."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from scrl.report.reading import RunView

LONGEST_TEXT = 8_000


@dataclass(frozen=True)
class Origin:
    """What was run, with what, and where."""

    command: str
    again: str
    """The command that goes on with the run, or judges its policy once more."""
    is_finished: bool
    facts: tuple[tuple[str, str], ...]
    settings: tuple[tuple[str, str], ...]
    problem: str
    """The problem file."""


def origin_of(view: RunView) -> Origin:
    """Read from the run's own record."""
    record, path = view.folder.record, view.folder.path
    facts = [
        ("commit", record.commit or f"none (installed, version {record.version})"),
        ("seeds", seeds_text(record.seeds)),
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
    run = shlex.quote(str(path))
    again = f"scrl train --resume {run}"
    if view.result is not None:
        again = f"scrl eval {shlex.quote(str(path / 'problem.toml'))} --policy {run}"
    text = (path / "problem.toml").read_text(encoding="utf-8")
    return Origin(
        _short(record.command), again, view.result is not None, tuple(facts),
        tuple(_flat(record.settings)), _short(text),
    )  # fmt: skip


def seeds_text(seeds: Sequence[int]) -> str:
    """0 to 9, or each by name."""
    if len(seeds) > 2 and list(seeds) == list(range(seeds[0], seeds[0] + len(seeds))):
        return f"{seeds[0]} to {seeds[-1]}"
    shown = ", ".join(map(str, seeds[:40]))
    return shown if len(seeds) <= 40 else f"{shown} and {len(seeds) - 40} more"


def _flat(settings: dict[str, Any]) -> list[tuple[str, str]]:
    """Settings of settings among the others."""
    found: list[tuple[str, str]] = []
    for name, value in settings.items():
        if isinstance(value, dict):
            found.extend(_flat(value))
        else:
            found.append((str(name), json.dumps(value, ensure_ascii=False)[:200]))
    return found[:200]


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else text[:LONGEST_TEXT] + "\n…"
