"""How to reproduce a run: commands or Python calls."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from scrl.report.reading import RunView

LONGEST_TEXT = 8_000


@dataclass(frozen=True)
class Provenance:
    """How a run was made: command, settings, versions, machine."""

    command: str
    """A command line, or a call in Python."""
    note: str
    """A note on the command."""
    again: str
    """The command that resumes the run or evaluates its policy again."""
    is_finished: bool
    facts: tuple[tuple[str, str], ...]
    settings: tuple[tuple[str, str], ...]
    kept_as: str
    """The heading for the problem stored in the folder."""
    kept: str


def origin_of(view: RunView) -> Provenance:
    """The provenance of a run, from its record."""
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
    """Seeds as text: 0 to 9, or a list."""
    if len(seeds) > 2 and list(seeds) == list(range(seeds[0], seeds[0] + len(seeds))):
        return f"{seeds[0]} to {seeds[-1]}"
    shown = ", ".join(map(str, seeds[:40]))
    return shown if len(seeds) <= 40 else f"{shown} and {len(seeds) - 40} more"


OWNERS = {"settings": "", "policy": "price policy: "}
"""Prefixes of nested settings by table; those of the method have none."""


def _flat(settings: dict[str, Any], owner: str = "") -> list[tuple[str, str]]:
    """Nested settings flattened, each with the prefix of its table."""
    found: list[tuple[str, str]] = []
    for name, value in settings.items():
        if isinstance(value, dict):
            found.extend(_flat(value, owner + OWNERS.get(name, f"{name}: ")))
        else:
            found.append((f"{owner}{name}", json.dumps(value, ensure_ascii=False)[:200]))
    return found[:200]


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else text[:LONGEST_TEXT] + "\n…"
