"""A route as straight segments: neighbouring steps of nearly one speed become one line.

Steps are cut where the way turns and where a leg ends; what a step gives out is shared by length.
So amounts, and what each region receives, add up to the same as before.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from scrl.errors import ScrlError
from scrl.route import Route
from scrl.worlds.path import SweepPath
from scrl.worlds.places import ends_of_legs, leg_at, places_at, turns_of

DEFAULT_TOLERANCE = 0.02
"""Steps go into one segment while their speeds differ by at most this share of the top speed."""


class ExportError(ScrlError):
    """A route or a policy cannot be written in that format."""


@dataclass(frozen=True, eq=False)
class Segment:
    """A straight line at one speed, or the way from one leg to the next."""

    ends: Float[np.ndarray, "2 2"]
    """Row and column of its two ends; the first cell's centre is (0.5, 0.5)."""
    first_step: int
    """The step in which it begins, from 0."""
    length: float
    """Path cells driven; 0 between legs, which the world does not count."""
    steps: float
    """How long it takes, in steps."""
    speed: float
    """Cells per step: length / steps; between legs, the speed of the segment before."""
    amount: float
    """Units given out."""
    received: Float[np.ndarray, " region"]
    """Units that each region receives."""
    is_transit: bool = False
    """Whether it leads from one leg to the next; nothing is given out."""


def segments(route: Route, tolerance: float = DEFAULT_TOLERANCE) -> list[Segment]:
    """The whole route, in the order of travel."""
    if not 0.0 <= tolerance <= 1.0:
        raise ExportError(f"tolerance = {tolerance:g} must lie between 0 and 1 of the top speed")
    path = route.problem.world_spec.path
    pieces = _pieces(route, path)
    band = tolerance * route.problem.world_spec.vehicle.max_speed
    heads = _heads(pieces.speed, pieces.is_straight_on, band)
    tails = np.append(heads[1:], len(pieces.speed))
    found: list[Segment] = []
    leg_ends = ends_of_legs(path)
    for head, tail in zip(heads.tolist(), tails.tolist(), strict=True):
        leg = int(pieces.leg[head])
        begin = pieces.places[head]
        is_last_of_leg = tail == len(pieces.speed) or pieces.leg[tail] != leg
        if found and pieces.leg[head - 1] != leg:
            found.append(_transit(found[-1], begin))
        end = _end(route, pieces, tail, leg_ends[leg]) if is_last_of_leg else pieces.places[tail]
        found.append(_segment(pieces, route, slice(head, tail), np.stack([begin, end])))
    return found


@dataclass(frozen=True, eq=False)
class _Pieces:
    """The parts of steps between all cuts."""

    places: Float[np.ndarray, "piece 2"]
    """Where each begins."""
    leg: Int[np.ndarray, " piece"]
    step: Int[np.ndarray, " piece"]
    length: Float[np.ndarray, " piece"]
    speed: Float[np.ndarray, " piece"]
    share: Float[np.ndarray, " piece"]
    """Of the step's length."""
    is_straight_on: Bool[np.ndarray, " piece"]
    """Whether it goes on in the direction of the piece before, in the same leg."""


def _pieces(route: Route, path: SweepPath) -> _Pieces:
    turns = turns_of(path)
    inside = turns[(turns > route.along[0]) & (turns < route.along[-1])]
    extra = inside[~np.isin(inside, route.along)]
    order = np.argsort(np.concatenate([route.along, extra]), kind="stable")
    cuts = np.concatenate([route.along, extra])[order]
    begin, length = cuts[:-1], np.diff(cuts)
    step = np.cumsum(order < len(route.along))[:-1] - 1
    whole = np.diff(route.along)[step]
    return _Pieces(
        places=places_at(path, begin),
        leg=leg_at(path, begin),
        step=step,
        length=length,
        speed=route.speed[step],
        # A step too short to be seen still gives out.
        share=np.divide(length, whole, out=np.ones_like(length), where=whole > 0),
        is_straight_on=~np.isin(begin, turns),
    )


def _heads(
    speed: Float[np.ndarray, " piece"], is_straight_on: Bool[np.ndarray, " piece"], band: float
) -> Int[np.ndarray, " segment"]:
    """Where segments begin: at turns, and where speeds would differ by more than the band."""
    heads, low, high = [], np.inf, -np.inf
    for index, (value, goes_on) in enumerate(
        zip(speed.tolist(), is_straight_on.tolist(), strict=True)
    ):
        low, high = min(low, value), max(high, value)
        if index == 0 or not goes_on or high - low > band:
            heads.append(index)
            low = high = value
    return np.array(heads)


def _end(
    route: Route, pieces: _Pieces, tail: int, leg_end: Float[np.ndarray, " 2"]
) -> Float[np.ndarray, " 2"]:
    """Where the last segment of a leg ends: the leg's end, or where the horizon cut it off."""
    is_cut_off = tail == len(pieces.speed) and not route.is_whole
    return route.cells[-1] if is_cut_off else leg_end


def _segment(pieces: _Pieces, route: Route, part: slice, ends: Float[np.ndarray, "2 2"]) -> Segment:
    step, share = pieces.step[part], pieces.share[part]
    length = float(pieces.length[part].sum())
    steps = float((pieces.length[part] / pieces.speed[part]).sum())
    return Segment(
        ends=ends,
        first_step=int(step[0]),
        length=length,
        steps=steps,
        speed=length / steps if steps else float(pieces.speed[part].mean()),
        amount=float(share @ route.amount[step]),
        received=share @ route.received[step],
    )


def _transit(before: Segment, begin: Float[np.ndarray, " 2"]) -> Segment:
    return Segment(
        ends=np.stack([before.ends[1], begin]),
        first_step=before.first_step,
        length=0.0,
        steps=0.0,
        speed=before.speed,
        amount=0.0,
        received=np.zeros_like(before.received),
        is_transit=True,
    )
