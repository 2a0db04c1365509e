"""Methods and learners by name. This module is light: listing them needs no JAX."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple


class Method(NamedTuple):
    """A learner and a penalty, what they are told of the rules, and settings of their own."""

    learner: str
    penalty: str
    sentence: str
    reading: str = "all"
    """What it is told of the rules, see `scrl.rules.reading_of`."""
    settings: Mapping[str, Any] = MappingProxyType({})
    """What differs from the learner's and the loop's defaults."""


_BLIND: Mapping[str, Any] = MappingProxyType({"sees_prices": False, "wobble": 0.0})
"""One critic on the punished reward, as these methods have it."""

METHODS: dict[str, Method] = {
    "scrl": Method("ppo", "scrl", "situational rules by drawn penalties (the paper's method)"),
    "scrl-min": Method("ppo", "scrl-min", "the paper's ablation: the smallest penalty"),
    "ppo-lagrangian": Method("ppo", "lagrangian", "a multiplier for every atom, all charged"),
    "sac-lagrangian": Method("sac", "lagrangian", "the same with soft actor-critic"),
    "ddpg": Method("ddpg", "none", "no rules at all", "nothing", _BLIND),
    "rcpo": Method(
        "ppo", "lagrangian", "one cost for all rules, with one multiplier", "cost",
        MappingProxyType({**_BLIND, "actor_share": 0.5}),
    ),
    "cal": Method(
        "cal", "none", "one cost for all rules, in cost critics and an augmented Lagrangian",
        "cost", _BLIND,
    ),
    "dcrl-1": Method("ppo", "lagrangian", "the first disjunct of every rule", "disjunct-1"),
    "dcrl-2": Method("ppo", "lagrangian", "the second one; and so on", "disjunct-2"),
}  # fmt: skip

_DCRL = re.compile(r"dcrl-([1-9][0-9]{0,5})")


def find_method(name: str) -> Method | None:
    """The method of that name; there is a `dcrl-K` for every K."""
    if name in METHODS:
        return METHODS[name]
    found = _DCRL.fullmatch(name)
    if found is None:
        return None
    return METHODS["dcrl-1"]._replace(
        sentence=f"disjunct {found[1]} of every rule", reading=f"disjunct-{found[1]}"
    )


LEARNERS: dict[str, str] = {
    "ppo": "proximal policy optimisation",
    "ddpg": "deep deterministic policy gradient, the paper's learner",
    "sac": "soft actor-critic",
    "cal": "soft actor-critic with cost critics and multipliers of its own",
}
