"""Searches the settings of each method on maps and rules that no table uses.

`python -m benchmarks.tuning [METHOD...] [--trials 16] [--seeds 2] [--steps N] [--seed 1] [--out
FILE]` draws settings for each method from ranges around its own, trains each of them on the tuning
problems, and prints the mean gap to the best plan known. The settings as they are take part. All
trials of a method run side by side in one program, so each method gets the same effort.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

from benchmarks.asking import random_map
from scrl.problems import Problem, ProblemOptions

MAPS = (9001, 9098)
"""Random maps with five regions that do not overlap."""


def tuning_problems(maps: tuple[int, ...] = MAPS) -> list[Problem]:
    """A situational, a priority and a joint task on each of the maps, like those of the paper."""
    return [problem for seed in maps for problem in _tasks(seed)]


def _tasks(seed: int) -> list[Problem]:
    spec = random_map(seed).world_spec
    spec = replace(spec, route=replace(spec.route, service="landing"))
    names, sizes = spec.regions.names, spec.regions.sizes
    full = dict(zip(names, sizes / spec.vehicle.max_speed * spec.vehicle.rate, strict=True))
    small, low, middle, _, large = sorted(names, key=full.__getitem__)
    left, right = _unequal([name for name in names if name != small], full)
    equity = f"{' + '.join(left)} == {' + '.join(right)} within 6"
    adequate = [f"{name} >= {2.4 * full[name]:.0f}" for name in (small, low)]
    rules = {
        "situational": (
            f"if {large} > {0.9 * full[large]:.0f} then {middle} >= {1.8 * full[middle]:.0f}"
        ),
        "priority": f"if not ({' and '.join(adequate)}) then {equity}",
        "joint": " and ".join([equity, *adequate]),
    }
    return [
        Problem.create(spec, (text,), ProblemOptions(name=f"map-{seed}-{name}"))
        for name, text in rules.items()
    ]


def _unequal(names: list[str], full: dict[str, float]) -> tuple[list[str], list[str]]:
    """Two sides of which one gets about 1.3 times as much as the other at full speed."""
    splits = [
        ([name for name in names if name in side], [name for name in names if name not in side])
        for count in range(1, len(names))
        for side in combinations(names, count)
    ]

    def unlike(split: tuple[list[str], list[str]]) -> float:
        one, other = (sum(full[name] for name in side) for side in split)
        return abs(one / other - 1.3)

    return min(splits, key=unlike)
