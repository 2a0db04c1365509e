"""External environments, of Gymnasium or of JAX functions, under rules."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scrl.environments.contract import EnvironmentFault as EnvironmentFault
    from scrl.environments.policy import EnvironmentPolicy as EnvironmentPolicy
    from scrl.environments.problem import EnvironmentProblem as EnvironmentProblem
    from scrl.environments.problem import environment as environment
    from scrl.environments.sources import JaxEnvironment as JaxEnvironment

_HOMES = {
    "EnvironmentFault": "contract",
    "EnvironmentProblem": "problem",
    "EnvironmentPolicy": "policy",
    "JaxEnvironment": "sources",
    "environment": "problem",
}

__all__ = [
    "EnvironmentFault",
    "EnvironmentPolicy",
    "EnvironmentProblem",
    "JaxEnvironment",
    "environment",
]


def __getattr__(name: str) -> Any:
    """Import a name when it is first used: processes that only step environments need no JAX."""
    if name in _HOMES:
        return getattr(import_module(f"scrl.environments.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'scrl.environments' has no attribute '{name}'")
