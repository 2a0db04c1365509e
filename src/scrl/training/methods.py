"""Methods and learners by name. This module is light: listing them needs no JAX."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple


class Method(NamedTuple):
    """A learner and a penalty, what they are told of the rules, and settings of their own."""

    learner: str | None
    """None: that of the preset, else PPO."""
    penalty: str
    sentence: str
    reading: str = "all"
    """What it is told of the rules, see `scrl.rules.reading_of`."""
    settings: Mapping[str, Any] = MappingProxyType({})
    """What differs from the learner's and the loop's defaults."""


_NO_PRICES = {"sees_prices": False, "settle": 0}
"""There are no multipliers."""

METHODS: dict[str, Method] = {
    "scrl": Method(None, "scrl", "situational rules by drawn penalties (the paper's method)"),
    "scrl-min": Method(None, "scrl-min", "the paper's ablation: the smallest penalty"),
    "ppo-lagrangian": Method(
        "ppo", "lagrangian", "a multiplier for every atom, all charged", "every-atom"
    ),
    "pid-lagrangian": Method(
        "ppo", "lagrangian", "the same with a PID controller for the multipliers", "every-atom",
        MappingProxyType({"proportional": 2.0, "derivative": 2.0}),
    ),
    "sac-lagrangian": Method(
        "sac", "lagrangian", "the same with soft actor-critic", "every-atom"
    ),
    "ddpg": Method(
        "ddpg", "none", "no rules at all", "nothing",
        MappingProxyType(_NO_PRICES),
    ),
    "rcpo": Method(
        "ppo", "lagrangian", "one cost for all inequalities, and two for each equality", "cost",
        MappingProxyType({"actor_share": 0.5}),
    ),
    "cal": Method(
        "cal", "own", "the same costs, in cost critics and an augmented Lagrangian", "cost",
        MappingProxyType({"settle": 0}),
    ),
    "cpo": Method(
        "cpo", "none", "the same costs, kept in each step of a trust region", "cost",
        MappingProxyType(_NO_PRICES),
    ),
    "pcpo": Method(
        "pcpo", "none", "the same, by projection onto the costs after each step", "cost",
        MappingProxyType(_NO_PRICES),
    ),
    "dcrl-1": Method(None, "lagrangian", "the first disjunct of every rule", "disjunct-1"),
    "dcrl-2": Method(None, "lagrangian", "the second one; and so on", "disjunct-2"),
}  # fmt: skip

LEARN = "any-rules"
"""The method of `scrl.learn`; it keeps no rules by itself, so it is not one of the others."""
_LEARN = Method(
    "ppo", "any-prices", "one policy for any prices, and no rules", "nothing",
    MappingProxyType({"settle": 0, "is_by_world": True, "is_decomposed": True}),
)  # fmt: skip

_DCRL = re.compile(r"dcrl-([1-9][0-9]{0,5})")


def find_method(name: str) -> Method | None:
    """The method of that name; there is a `dcrl-K` for every K."""
    if name in METHODS:
        return METHODS[name]
    if name == LEARN:
        return _LEARN
    found = _DCRL.fullmatch(name)
    if found is None:
        return None
    return METHODS["dcrl-1"]._replace(
        sentence=f"disjunct {found[1]} of every rule", reading=f"disjunct-{found[1]}"
    )


LEARNER_SENTENCES: dict[str, str] = {
    "ppo": "proximal policy optimisation",
    "ddpg": "deep deterministic policy gradient, the paper's learner",
    "sac": "soft actor-critic",
    "cal": "soft actor-critic with cost critics and multipliers of its own",
    "cpo": "constrained policy optimisation: steps that keep linearised costs",
    "pcpo": "the same by a projection after each step",
}
