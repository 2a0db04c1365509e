"""A route as straight segments: consecutive steps of nearly equal speed are merged.

Steps are cut where the route turns and where a transit begins, and their time is split by length.
So are their amounts where service is poured; where it is counted at the landing, the amount of a
step belongs to the segment that crosses the cell in which the step ends. So time, amounts, and what
each region receives add up to those of the route.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from jaxtyping import Bool, Float, Int

from scrl.errors import ScrlError, did_you_mean
from scrl.route import Route
from scrl.worlds.sweep.path import SweepPath
from scrl.worlds.sweep.places import ends_of_stretches, places_at, stretch_at, turns_of
from scrl.worlds.sweep.transits import Transit

DEFAULT_TOLERANCE = 0.02
"""Steps are merged while their speeds differ by at most this share of the top speed."""
MOST_OFF = 5.0
"""Times the tolerance: by how many steps a segment may be early or late anywhere on its way."""


AUTOPILOTS = ("px4", "ardupilot")


class ExportError(ScrlError):
    """A route or a policy cannot be written in that format."""


@dataclass(frozen=True, eq=False)
class Segment:
    """A straight line at one speed, or a straight part of a transit."""

    ends: Float[np.ndarray, "2 2"]
    """Row and column of its two ends; the first cell's centre is (0.5, 0.5)."""
    first_step: int
    """The step in which it begins, from 0."""
    length: float
    """Cells along the sweep."""
    steps: float
    """Duration in steps; the last segment includes the rest of the last step."""
    speed: float
    """Cells per step while it moves; in transits, the transfer speed."""
    amount: float
    """Units given out on it; for landing service, by the steps that end in its cells."""
    received: Float[np.ndarray, " region"]
    """Units that each region receives."""
    is_transit: bool = False
    """Whether it is part of a transit, on which nothing is given out."""

    @property
    def flow(self) -> float:
        """Units given out per step."""
        return self.amount / self.steps if self.steps > 0.0 else 0.0


def segments(route: Route, tolerance: float = DEFAULT_TOLERANCE) -> list[Segment]:
    """The whole route, in the order of travel."""
    if not 0.0 <= tolerance <= 1.0:
        raise ExportError(f"tolerance = {tolerance:g} must lie between 0 and 1 of the top speed")
    spec = route.problem.world_spec
    pieces = _pieces(route, spec.path)
    heads = _heads(pieces, tolerance * spec.vehicle.max_speed, MOST_OFF * tolerance)
    if spec.vehicle.has_flow:
        heads = np.union1d(heads, _other_flow(pieces, heads, tolerance * spec.vehicle.rate))
    tails = np.append(heads[1:], len(pieces.speed))
    amount, received = _given(route, pieces, heads)
    found = [] if spec.stand is None else _way(route, spec.ways[0], 0)
    ends = ends_of_stretches(spec.path)
    for index, (head, tail) in enumerate(zip(heads.tolist(), tails.tolist(), strict=True)):
        stretch = int(pieces.stretch[head])
        if head and pieces.stretch[head - 1] != stretch:
            step = found[-1].first_step
            found += _way(route, spec.transits[stretch - 1], step, spec.turn_steps)
        is_end = tail == len(pieces.speed) or pieces.stretch[tail] != stretch
        end = _end(route, pieces, tail, ends[stretch]) if is_end else pieces.places[tail]
        line = np.stack([pieces.places[head], end])
        found.append(_segment(pieces, slice(head, tail), line, (amount[index], received[index])))
    if spec.stand is not None and route.is_whole:
        found += _way(route, spec.ways[-1], route.steps - 1)
    return found


@dataclass(frozen=True, eq=False)
class _Pieces:
    """The parts of steps between all cuts."""

    begin: Float[np.ndarray, " piece"]
    """Distance along the path where each begins."""
    places: Float[np.ndarray, "piece 2"]
    """Row and column where each piece begins."""
    stretch: Int[np.ndarray, " piece"]
    step: Int[np.ndarray, " piece"]
    length: Float[np.ndarray, " piece"]
    speed: Float[np.ndarray, " piece"]
    flow: Float[np.ndarray, " piece"]
    """Units per step."""
    share: Float[np.ndarray, " piece"]
    """Share of the step's time."""
    is_straight_on: Bool[np.ndarray, " piece"]
    """Whether it has the direction and the stretch of the previous piece."""


def _pieces(route: Route, path: SweepPath) -> _Pieces:
    turns = turns_of(path)
    inside = turns[(turns > route.along[0]) & (turns < route.along[-1])]
    extra = inside[~np.isin(inside, route.along)]
    if route.along[-1] in path.stretches:  # truncated after a transit: an empty piece
        extra = np.append(extra, route.along[-1])
    order = np.argsort(np.concatenate([route.along, extra]), kind="stable")
    cuts = np.concatenate([route.along, extra])[order]
    begin, length = cuts[:-1], np.diff(cuts)
    step = np.minimum(np.cumsum(order < len(route.along))[:-1], route.steps) - 1
    whole = np.diff(route.along)[step]
    is_first = np.diff(step, prepend=-1) > 0
    return _Pieces(
        begin=begin,
        places=places_at(path, begin),
        stretch=stretch_at(path, begin),
        step=step,
        length=length,
        speed=route.speed[step],
        flow=route.flow[step],
        # A step of almost no length still takes its time.
        share=np.divide(length, whole, out=is_first.astype(float), where=whole > 0),
        is_straight_on=~np.isin(begin, turns),
    )


def _heads(pieces: _Pieces, band: float, most_off: float) -> Int[np.ndarray, " segment"]:
    """Where segments begin: at turns, and where speeds would differ by more than the band.

    At low speeds that is little, and yet much of the time. A segment that goes the first half at
    one speed and the second half at another is off by L/4 (1/low - 1/high) steps in its middle,
    and others by less.
    """
    heads, low, high, length = [], np.inf, -np.inf, 0.0
    columns = (pieces.speed, pieces.length, pieces.is_straight_on)
    for index, (speed, more, goes_on) in enumerate(
        zip(*(each.tolist() for each in columns), strict=True)
    ):
        low, high, length = min(low, speed), max(high, speed), length + more
        is_off = length * (high - low) > 4.0 * most_off * high * low
        if index == 0 or not goes_on or high - low > band or is_off:
            heads.append(index)
            low, high, length = speed, speed, more
    return np.array(heads)


def _other_flow(
    pieces: _Pieces, heads: Int[np.ndarray, " segment"], band: float
) -> Int[np.ndarray, " more"]:
    """Where the flow differs by more than the band from that since a head, or is on or off."""
    found, is_head = [], np.isin(np.arange(len(pieces.flow)), heads).tolist()
    low = high = 0.0
    for index, flow in enumerate(pieces.flow.tolist()):
        is_switched = (flow > 0.0) != (high > 0.0)
        low, high = min(low, flow), max(high, flow)
        if is_head[index] or is_switched or high - low > band:
            found.append(index)
            low = high = flow
    return np.array(found)


def _given(
    route: Route, pieces: _Pieces, heads: Int[np.ndarray, " segment"]
) -> tuple[Float[np.ndarray, " segment"], Float[np.ndarray, "segment region"]]:
    """What each segment gives out, in all and to each region."""
    if not route.problem.world_spec.is_poured:
        return _given_at_landing(route, pieces, heads)
    amount, received = route.poured_on(pieces.step, pieces.begin, pieces.length, pieces.share)
    return np.add.reduceat(amount, heads), np.add.reduceat(received, heads, axis=0)


def _given_at_landing(
    route: Route, pieces: _Pieces, heads: Int[np.ndarray, " segment"]
) -> tuple[Float[np.ndarray, " segment"], Float[np.ndarray, "segment region"]]:
    """What the steps that end in each segment give out, in all and to each region.

    A step gives to the cell in which it ends. If its segment does not reach the centre of that
    cell, the amount belongs to the one that does, which touches the regions of the cell.
    """
    begin = pieces.begin[heads]
    end = np.append(begin[1:], pieces.begin[-1] + pieces.length[-1])
    last_piece = np.searchsorted(pieces.step, np.arange(route.steps), side="right") - 1
    own = np.searchsorted(heads, last_piece, side="right") - 1
    landing = route.along[1:]
    centre = np.floor(landing) + 0.5
    at_centre = np.searchsorted(begin, centre, side="right") - 1
    there = np.searchsorted(begin, landing, side="right") - 1  # if the route has no such centre
    segment = np.select(
        [(begin[each] <= centre) & (centre <= end[each]) for each in (own, at_centre)],
        [own, at_centre],
        there,
    )
    amount, received = np.zeros(len(heads)), np.zeros((len(heads), len(route.regions)))
    np.add.at(amount, segment, route.amount)
    np.add.at(received, segment, route.received)
    return amount, received


def _end(
    route: Route, pieces: _Pieces, tail: int, stretch_end: Float[np.ndarray, " 2"]
) -> Float[np.ndarray, " 2"]:
    """Where the last segment of a stretch ends: at its end, or where it was truncated."""
    is_cut_off = tail == len(pieces.speed) and not route.is_whole
    return route.cells[-1] if is_cut_off else stretch_end


def _segment(
    pieces: _Pieces,
    part: slice,
    ends: Float[np.ndarray, "2 2"],
    given: tuple[float, Float[np.ndarray, " region"]],
) -> Segment:
    length = float(pieces.length[part].sum())
    moving_steps = float((pieces.length[part] / pieces.speed[part]).sum())
    return Segment(
        ends=ends,
        first_step=int(pieces.step[part][0]),
        length=length,
        steps=float(pieces.share[part].sum()),
        speed=length / moving_steps if moving_steps else float(pieces.speed[part].mean()),
        amount=float(given[0]),
        received=given[1],
    )


def _way(route: Route, way: Transit, step: int, turn_steps: float = 0.0) -> list[Segment]:
    """The straight parts of a way on which nothing is given out; the last one has the turn."""
    spec, nothing = route.problem.world_spec, np.zeros(len(route.regions))
    return [
        Segment(np.stack(ends), step, length, steps, spec.transfer_speed, 0.0, nothing, True)
        for ends, length, steps in zip(
            pairwise(way.places), way.lengths, way.steps(spec.transfer_speed, turn_steps),
            strict=True,
        )
    ]  # fmt: skip


@dataclass(frozen=True)
class ExportOptions:
    """Settings of the formats; each uses those that apply to it."""

    tolerance: float = DEFAULT_TOLERANCE
    """Share of the top speed by which speeds in one segment may differ; of the largest dose, in
    one zone."""
    autopilot: str = "px4"
    """Whose commands a plan has for the pump: px4 or ardupilot."""
    altitude: float = 30.0
    """Metres: above the start for a plan's flight, above the ground for a KML line."""

    def __post_init__(self) -> None:
        if not 0.0 <= self.tolerance <= 1.0:
            raise ExportError(f"tolerance = {self.tolerance:g} must lie between 0 and 1")
        if self.autopilot not in AUTOPILOTS:
            known = did_you_mean(self.autopilot, AUTOPILOTS)
            raise ExportError(f"unknown autopilot '{self.autopilot}'{known}")
        if not 0.0 < self.altitude <= 10_000.0:
            raise ExportError(f"altitude = {self.altitude:g} must be above 0 and at most 10,000 m")
