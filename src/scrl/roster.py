"""Who there is: methods and learners by name. Light, so that listing them needs no JAX."""

from __future__ import annotations

from typing import NamedTuple


class Method(NamedTuple):
    """A named pair of learner and penalty."""

    learner: str
    penalty: str
    sentence: str


METHODS: dict[str, Method] = {
    "scrl": Method("ppo", "scrl", "situational rules by drawn penalties (the paper's method)"),
    "scrl-min": Method("ppo", "scrl-min", "the paper's ablation: the smallest penalty"),
    "ppo-lagrangian": Method("ppo", "lagrangian", "a multiplier for every atom, all charged"),
    "sac-lagrangian": Method("sac", "lagrangian", "the same with soft actor-critic"),
    "ddpg": Method("ddpg", "none", "no rules at all (the paper's first baseline)"),
}

LEARNERS: dict[str, str] = {
    "ppo": "proximal policy optimisation",
    "ddpg": "deep deterministic policy gradient, the paper's learner",
    "sac": "soft actor-critic",
}
