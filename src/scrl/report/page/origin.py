"""How a run was made, so that it can be made again: commands, or Python calls."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from textwrap import indent
from typing import Any, NamedTuple

from scrl.problems import ProblemOptions
from scrl.report.reading import RunView
from scrl.runs.environment import NEUTRAL
from scrl.runs.folder import EnvironmentRecord, RunRecord

WIDTH = 88


def train_call(kept: EnvironmentRecord, record: RunRecord) -> str:
    """The call of `scrl.train` that trains the same again; only the labels must be put in."""
    settings = record.settings
    given = {
        "regions": list(kept.regions),
        "rules": {rule.name: rule.text for rule in kept.rules.rules},
        "horizon_steps": kept.horizon_steps,
        **_other_options(kept),
        **{name: settings[name] for name in ("method", "learner", "penalty") if name in settings},
        "seeds": list(record.seeds),
        "settings": settings.get("settings", {}),
    }
    lines = [f"{_made_by(kept)},{_remark(kept)}", f"labels=...,  # {_remember(kept)}"]
    lines += [f"{name}={_written(value)}," for name, value in given.items()]
    return f"scrl.train(\n{indent(chr(10).join(lines), '    ')}\n)"


def resume_call(kept: EnvironmentRecord, run: Path) -> str:
    """Goes on with a run."""
    return f"scrl.resume({str(run)!r}, {_made_by(kept)}, labels=...)"


def evaluate_call(kept: EnvironmentRecord, run: Path) -> str:
    """Judges the policy of a run anew."""
    return f"scrl.evaluate_run({str(run)!r}, {_made_by(kept)}, labels=...)"


def _made_by(kept: EnvironmentRecord) -> str:
    """An id, or the name of what made it."""
    name = kept.environment
    return repr(name) if kept.is_id else name if name.isidentifier() else "env"


def _remark(kept: EnvironmentRecord) -> str:
    """What is no name that one could type."""
    return "" if _made_by(kept) != "env" else f"  # {kept.environment!r:.80} when this run began"


def _remember(kept: EnvironmentRecord) -> str:
    """A folder knows which regions there are, and not what gives them something."""
    return f"what a step gives to {', '.join(map(repr, kept.regions))[:200]}"


def _other_options(kept: EnvironmentRecord) -> dict[str, Any]:
    """Those that are not as usual."""
    usual = ProblemOptions(name=kept.environment)
    names = [each.name for each in fields(ProblemOptions)]
    found = {name: getattr(kept.options, name) for name in names}
    found = {name: value for name, value in found.items() if value != getattr(usual, name)}
    return {**({} if kept.counts == NEUTRAL else {"unit": kept.counts}), **found}


def _written(value: Any) -> str:
    """On one line where it fits, else in lines that are filled with what it holds."""
    text = repr(value)
    if len(text) <= WIDTH or not isinstance(value, dict | list):
        return text
    pieces = (
        [f"{key!r}: {each!r}" for key, each in value.items()]
        if isinstance(value, dict)
        else [repr(each) for each in value]
    )
    lines = [""]
    for piece in pieces:
        if lines[-1] and len(lines[-1]) + len(piece) > WIDTH:
            lines.append("")
        lines[-1] += f"{' ' if lines[-1] else ''}{piece},"
    return f"{text[0]}\n{indent(chr(10).join(lines), '    ')}\n{text[-1]}"


LONGEST_TEXT = 8_000


@dataclass(frozen=True)
class Provenance:
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


def origin_of(view: RunView) -> Provenance:
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
    return Provenance(
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
    if isinstance(view.problem, EnvironmentRecord):
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
