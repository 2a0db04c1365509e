"""What a policy gives out: to each region, in all and to none, and what that costs."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from scrl import density as densities
from scrl.problems import Problem

DIGITS = 40
"""Binary digits of the largest amount that are kept, so that 4,096 of them add up exactly."""


class GivenOut(NamedTuple):
    """Densities, and the fields of an evaluation that say what was given out in all."""

    density: densities.Density
    fields: dict[str, Any]


def given_out(
    problem: Problem,
    amounts: Float[np.ndarray, "episode region"],
    given: Float[np.ndarray, " given"],
    steps: float,
) -> GivenOut:
    """What was given out in so many steps, from amounts and from service in all and to no region.

    Cells whose dose is beyond its limits come third, where there may be any.

    All are whole multiples of a small power of two, so that they add up to the last digit, in
    whatever order. Where no two regions overlap, what was given out is the sum of what all
    regions and none received; the sums of single steps would differ from it by their rounding.
    """
    spec, found = problem.world_spec, densities.from_episodes(amounts)
    total, outside = (spec.vehicle.rate * given[:2]).tolist()
    largest = max(total, float(np.abs(found.mean).max(initial=0.0)), 1e-300)
    unit = 2.0 ** (math.ceil(math.log2(largest)) - DIGITS)
    mean = np.round(found.mean / unit) * unit
    total, outside = (round(each / unit) * unit for each in (total, outside))
    parts = float(mean[: len(spec.regions.names)].sum()) + outside
    total = total if spec.has_overlaps else parts
    fields = {
        "given_out": total, "outside": outside, "overlap": parts - total, "steps": steps,
        "off_dose": float(given[2]) if spec.may_miss_dose else None,
        "cost": spec.units.cost(steps + problem.transit_steps, total),
    }  # fmt: skip
    return GivenOut(replace(found, mean=mean), fields)
