"""Sequential resource allocation with situational rules.

import scrl
problem = scrl.load("agri-joint")
print(scrl.evaluate(problem, "full-speed"))
"""

from __future__ import annotations

from importlib import import_module

from scrl._registration import register_now_or_later
from scrl._version import __version__

TYPE_CHECKING = False
"""As in `typing`, which is not imported: until the command runs, Ctrl-C shows a traceback."""

if TYPE_CHECKING:
    from typing import Any

    from scrl import gym as gym
    from scrl import reference as reference
    from scrl import sb3 as sb3
    from scrl.api import evaluate_run as evaluate_run
    from scrl.api import learn as learn
    from scrl.api import learned as learned
    from scrl.api import load_policy as load_policy
    from scrl.api import resume as resume
    from scrl.api import train as train
    from scrl.environments import JaxEnvironment as JaxEnvironment
    from scrl.environments import environment as environment
    from scrl.environments.labels import near as near
    from scrl.errors import ScrlError as ScrlError
    from scrl.evaluation import Evaluation as Evaluation
    from scrl.evaluation import evaluate as evaluate
    from scrl.planning import planner
    from scrl.planning.solve import solve as solve
    from scrl.problems import Problem as Problem
    from scrl.problems import load as load
    from scrl.problems import save
    from scrl.report.figures import plot as plot
    from scrl.rules import d as d
    from scrl.rules import dose as dose
    from scrl.rules import implies as implies

_HOMES = {
    "Evaluation": "scrl.evaluation",
    "JaxEnvironment": "scrl.environments",
    "Problem": "scrl.problems",
    "ScrlError": "scrl.errors",
    "d": "scrl.rules",
    "environment": "scrl.environments",
    "evaluate": "scrl.evaluation",
    "evaluate_run": "scrl.api",
    "dose": "scrl.rules",
    "implies": "scrl.rules",
    "learn": "scrl.api",
    "learned": "scrl.api",
    "planner": "scrl.planning",
    "load": "scrl.problems",
    "save": "scrl.problems",
    "solve": "scrl.planning.solve",
    "train": "scrl.api",
    "resume": "scrl.api",
    "load_policy": "scrl.api",
    "near": "scrl.environments.labels",
    "plot": "scrl.report.figures",
}
_ROOMS = ("gym", "reference", "sb3")

_MOVED = {
    "anew": "scrl.api",
    "driver": "scrl.opening",
    "labels": "scrl.environments.labels",
    "outside": "scrl.environments",
    "prices": "scrl.planning",
    "punish": "scrl.penalty",
}
"""Modules that had another name in older versions."""

__all__ = [
    "Evaluation",
    "JaxEnvironment",
    "Problem",
    "ScrlError",
    "__version__",
    "d",
    "dose",
    "environment",
    "evaluate",
    "evaluate_run",
    "gym",
    "implies",
    "learn",
    "learned",
    "load",
    "load_policy",
    "near",
    "planner",
    "plot",
    "reference",
    "resume",
    "save",
    "sb3",
    "solve",
    "train",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: `import scrl` and `scrl --help` stay quick."""
    if name in _ROOMS:
        return import_module(f"scrl.{name}")
    if name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
        globals()[name] = value  # a module of the same name must not shadow the function
        return value
    hint = f"; it is now {_MOVED[name]}" if name in _MOVED else ""
    raise AttributeError(f"module 'scrl' has no attribute '{name}'{hint}")


def __dir__() -> list[str]:
    return sorted(__all__)


register_now_or_later()
