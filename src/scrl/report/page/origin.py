"""How to reproduce a run: commands or Python calls."""

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


def train_call(environment: EnvironmentRecord, record: RunRecord) -> str:
    """The call of `scrl.train` that repeats the training, with a placeholder for the labels."""
    settings = record.settings
    given = {
        "regions": list(environment.regions),
        "rules": {rule.name: rule.text for rule in environment.rules.rules},
        "horizon_steps": environment.horizon_steps,
        **_other_options(environment),
        **{name: settings[name] for name in ("method", "learner", "penalty") if name in settings},
        "seeds": list(record.seeds),
        "settings": settings.get("settings", {}),
    }
    lines = [
        f"{_made_by(environment)},{_remark(environment)}",
        f"labels=...,  # {_remember(environment)}",
    ]
    lines += [f"{name}={_written(value)}," for name, value in given.items()]
    return f"scrl.train(\n{indent(chr(10).join(lines), '    ')}\n)"


def resume_call(environment: EnvironmentRecord, run: Path) -> str:
    """The call that resumes a run."""
    return f"scrl.resume({str(run)!r}, {_made_by(environment)}, labels=...)"


def evaluate_call(environment: EnvironmentRecord, run: Path) -> str:
    """The call that evaluates the policy of a run again."""
    return f"scrl.evaluate_run({str(run)!r}, {_made_by(environment)}, labels=...)"


def _made_by(environment: EnvironmentRecord) -> str:
    """The id of an environment, or the name of the function that makes it."""
    name = environment.environment
    return repr(name) if environment.is_id else name if name.isidentifier() else "env"


def _remark(environment: EnvironmentRecord) -> str:
    """A comment with the environment where it has no id."""
    return (
        ""
        if _made_by(environment) != "env"
        else f"  # {environment.environment!r:.80} when this run began"
    )


def _remember(environment: EnvironmentRecord) -> str:
    """A placeholder for the labels, which a run folder does not hold."""
    return f"what a step gives to {', '.join(map(repr, environment.regions))[:200]}"


def _other_options(environment: EnvironmentRecord) -> dict[str, Any]:
    """The options that differ from their defaults."""
    defaults = ProblemOptions(name=environment.environment)
    names = [each.name for each in fields(ProblemOptions)]
    found = {name: getattr(environment.options, name) for name in names}
    found = {name: value for name, value in found.items() if value != getattr(defaults, name)}
    return {**({} if environment.counts == NEUTRAL else {"unit": environment.counts}), **found}


def _written(value: Any) -> str:
    """A call on one line if it fits, otherwise wrapped."""
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


class Ways(NamedTuple):
    """The commands or Python calls that reproduce a run."""

    command: str
    resume: str
    evaluate: str
    file: str
    """The file of the run folder that holds the problem."""
    kept_as: str
    note: str = ""
    facts: tuple[tuple[str, str], ...] = ()


def origin_of(view: RunView) -> Provenance:
    """The provenance of a run, from its record."""
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
        environment = view.problem
        return Ways(
            command=train_call(environment, record),
            resume=resume_call(environment, path),
            evaluate=evaluate_call(environment, path),
            file="environment.json",
            kept_as="What the run folder stores of the environment",
            note="A run folder cannot hold an environment. With the environment and its "
            "labels, this call repeats the training:",
            facts=(
                ("environment", environment.environment[:200]),
                ("horizon", environment.units.duration(environment.horizon_steps)),
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
