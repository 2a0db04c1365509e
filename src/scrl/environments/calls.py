"""Python calls for runs in external environments, which no command can make again."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from textwrap import indent
from typing import Any

from scrl.problems import ProblemOptions
from scrl.runs.environment import NEUTRAL, EnvironmentRecord
from scrl.runs.record import RunRecord

WIDTH = 88


def train_call(record: EnvironmentRecord, run: RunRecord) -> str:
    """The call of `scrl.train` that trains the same again; only the labels must be put in."""
    settings = run.settings
    given = {
        "regions": list(record.regions),
        "rules": {rule.name: rule.text for rule in record.rules.rules},
        "horizon_steps": record.horizon_steps,
        **_other_options(record),
        **{name: settings[name] for name in ("method", "learner", "penalty") if name in settings},
        "seeds": list(run.seeds),
        "settings": settings.get("settings", {}),
    }
    return _call("scrl.train", record, given)


def learn_call(record: EnvironmentRecord, run: RunRecord) -> str:
    """The call of `scrl.learn` that trains the same again."""
    given = {
        "regions": list(record.regions),
        "horizon_steps": record.horizon_steps,
        **_other_options(record),
        "seed": run.seeds[0],
        "settings": run.settings.get("settings", {}),
    }
    return _call("scrl.learn", record, given)


def ask_call(record: EnvironmentRecord, run: RunRecord, folder: Path) -> str:
    """Asks the policy of an answer for the same rules again."""
    opened = f"scrl.learned({str(folder)!r}, {_made_by(record)}, labels=...)"
    rules = {rule.name: rule.text for rule in record.rules.rules}
    return f"learned = {opened}\nlearned.ask({_written(rules)}, seed={run.seeds[0]})"


def resume_call(record: EnvironmentRecord, run: Path) -> str:
    """Resumes a run."""
    return f"scrl.resume({str(run)!r}, {_made_by(record)}, labels=...)"


def evaluate_call(record: EnvironmentRecord, run: Path) -> str:
    """Judges the policy of a run again."""
    return f"scrl.evaluate_run({str(run)!r}, {_made_by(record)}, labels=...)"


def _call(function: str, record: EnvironmentRecord, given: dict[str, Any]) -> str:
    """A call with an argument in each line; only the labels must be put in."""
    lines = [f"{_made_by(record)},{_remark(record)}", f"labels=...,  # {_remember(record)}"]
    lines += [f"{name}={_written(value)}," for name, value in given.items()]
    return f"{function}(\n{indent(chr(10).join(lines), '    ')}\n)"


def _made_by(record: EnvironmentRecord) -> str:
    """An id, or the name of what made it."""
    name = record.environment
    return repr(name) if record.is_id else name if name.isidentifier() else "env"


def _remark(record: EnvironmentRecord) -> str:
    """What is no name that one could type."""
    return (
        "" if _made_by(record) != "env" else f"  # {record.environment!r:.80} when this run began"
    )


def _remember(record: EnvironmentRecord) -> str:
    """A folder knows which regions there are, and not what gives them something."""
    return f"what a step gives to {', '.join(map(repr, record.regions))[:200]}"


def _other_options(record: EnvironmentRecord) -> dict[str, Any]:
    """Those that are not as usual."""
    usual = ProblemOptions(name=record.environment)
    names = [each.name for each in fields(ProblemOptions)]
    found = {name: getattr(record.options, name) for name in names}
    found = {name: value for name, value in found.items() if value != getattr(usual, name)}
    return {**({} if record.counts == NEUTRAL else {"unit": record.counts}), **found}


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
