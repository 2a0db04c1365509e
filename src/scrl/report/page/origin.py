"""How a run was made, so that it can be made again: commands, or Python calls."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from scrl.report.reading import RunView

LONGEST_TEXT = 8_000


@dataclass(frozen=True)
class Provenance:
    """What was run, with what, and where."""

    command: str
    """A command line, or a call in Python."""
    note: str
    """What must be said of it."""
    again: str
    """What resumes the run, or judges its policy again."""
    is_finished: bool
    facts: tuple[tuple[str, str], ...]
    settings: tuple[tuple[str, str], ...]
    kept_as: str
    """What the folder holds of the problem."""
    kept: str


def origin_of(view: RunView) -> Provenance:
    """Read from the run's own record."""
    record, path = view.folder.record, view.folder.path
    how = view.run.recreation
    facts = [
        *how.facts,
        ("commit", record.commit or f"none (installed, version {record.version})"),
        ("seed" if len(record.seeds) == 1 else "seeds", seeds_text(record.seeds)),
        ("scrl", record.version),
        ("Python", record.python),
        ("JAX", record.jax),
        ("device", record.device),
        ("begun", record.created),
    ]
    if view.result is not None:
        facts.append(("took", view.result.effort))
    return Provenance(
        command=_short(how.train),
        note=how.note,
        again=how.resume if view.result is None else how.evaluate,
        is_finished=view.result is not None,
        facts=tuple(facts),
        settings=tuple(_flat(record.settings)),
        kept_as=how.problem_title,
        kept=_short((path / how.problem_file).read_text(encoding="utf-8")),
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
