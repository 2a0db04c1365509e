"""Python calls for runs in somebody's environment, which no command can make again."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from textwrap import indent
from typing import Any

from scrl.problems import ProblemOptions
from scrl.runfiles.environment import NEUTRAL
from scrl.runs import KeptEnvironment, RunRecord

WIDTH = 88


def train_call(kept: KeptEnvironment, record: RunRecord) -> str:
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


def resume_call(kept: KeptEnvironment, run: Path) -> str:
    """Goes on with a run."""
    return f"scrl.resume({str(run)!r}, {_made_by(kept)}, labels=...)"


def evaluate_call(kept: KeptEnvironment, run: Path) -> str:
    """Judges the policy of a run anew."""
    return f"scrl.evaluate_run({str(run)!r}, {_made_by(kept)}, labels=...)"


def _made_by(kept: KeptEnvironment) -> str:
    """An id, or the name of what made it."""
    name = kept.environment
    return repr(name) if kept.is_id else name if name.isidentifier() else "env"


def _remark(kept: KeptEnvironment) -> str:
    """What is no name that one could type."""
    return "" if _made_by(kept) != "env" else f"  # {kept.environment!r:.80} when this run began"


def _remember(kept: KeptEnvironment) -> str:
    """A folder knows which regions there are, and not what gives them something."""
    return f"what a step gives to {', '.join(map(repr, kept.regions))[:200]}"


def _other_options(kept: KeptEnvironment) -> dict[str, Any]:
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
