"""Several drives as one, drives by the fluid's times, and drives with shorter stops.

A drive passes each place of the path at some time. What a region receives is the time spent in it,
so a drive whose timetable is the weighted mean of some timetables gives what the drives give on
average, and costs at most as much, since the cost of a cell is convex in the time spent there
(docs/bound.md). A vehicle comes near to it: within a step it moves evenly, so that it passes an
edge up to a step off, and where the mean asks for more than its inertia allows, it does what it can
and catches up. For landing service all this holds up to the edges of regions.

With a flow a drive also gives out so much up to each place, and the mean of that is taken as well:
what the pump may give is convex in time and amount. Actions are throttles then, with the openings
of the pump beside them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
from jaxtyping import Float

from scrl.worlds.sweep import dynamics
from scrl.worlds.sweep.dynamics import Scalars
from scrl.worlds.sweep.vehicle import Vehicle


def averaged(
    vehicle: Vehicle,
    length: int,
    drives: Sequence[Float[np.ndarray, "step ..."]],
    weights: Float[np.ndarray, " drive"],
) -> Float[np.ndarray, "step ..."]:
    """The actions of a drive whose timetable is the mean of those of some drives to the end."""
    places = [places_of(vehicle, actions) for actions in drives]
    stops = np.unique(np.concatenate([np.minimum(each, length) for each in places]))
    times = weights @ np.array([np.interp(stops, each, np.arange(len(each))) for each in places])
    throttles = _by_timetable(vehicle, stops, times)
    if not vehicle.has_flow:
        return throttles
    upto = [
        np.interp(stops, each, np.append(0.0, np.cumsum(flows_of(vehicle, each, actions))))
        for each, actions in zip(places, drives, strict=True)
    ]
    return _opened(vehicle, throttles, stops, weights @ np.array(upto))


def with_times(
    vehicle: Vehicle,
    paces: Float[np.ndarray, " part"],
    parts: int = 1,
    services: Float[np.ndarray, " part"] | None = None,
) -> Float[np.ndarray, "step ..."]:
    """The actions of a drive with so many steps per cell in each part of the path's cells.

    With a flow, a cell is served as by so many steps at full flow, or else by its time.
    """
    edges = np.arange(len(paces) + 1) / parts
    throttles = _by_timetable(vehicle, edges, np.append(0.0, np.cumsum(paces / parts)))
    if not vehicle.has_flow:
        return throttles
    served = paces if services is None else services
    return _opened(vehicle, throttles, edges, np.append(0.0, np.cumsum(served / parts)))


def flows_of(
    vehicle: Vehicle, places: Float[np.ndarray, " place"], actions: Float[np.ndarray, "step 2"]
) -> Float[np.ndarray, " step"]:
    """The flow of each step, as a share of the full flow."""
    return dynamics.flow_of(vehicle, np.diff(places), actions[:, 1], np)


def _opened(
    vehicle: Vehicle,
    throttles: Float[np.ndarray, " step"],
    stops: Float[np.ndarray, " stop"],
    upto: Float[np.ndarray, " stop"],
) -> Float[np.ndarray, "step 2"]:
    """The throttles, with openings that give as much up to each stop as the pump allows."""
    places = places_of(vehicle, throttles)
    inside = np.minimum(places, stops[-1])  # the last step goes on past the end
    lengths = np.diff(places)
    doses = np.diff(np.interp(inside, stops, upto)) / np.maximum(np.diff(inside), 1e-12)
    return np.column_stack([throttles, openings_of(vehicle, lengths, doses * lengths)])


def openings_of(
    vehicle: Vehicle, lengths: Float[np.ndarray, " step"], flows: Float[np.ndarray, " step"]
) -> Float[np.ndarray, " step"]:
    """The openings that give these flows, as shares of the full flow, in steps of some lengths."""
    low, high = dynamics.flow_limits(vehicle, lengths, np)
    span = high - low
    return np.clip(np.divide(flows - low, span, out=np.zeros_like(span), where=span > 0), 0.0, 1.0)


def _by_timetable(
    vehicle: Vehicle, stops: Float[np.ndarray, " stop"], times: Float[np.ndarray, " stop"]
) -> Float[np.ndarray, " step"]:
    """The throttles of a drive that passes some places at given times, the last one the end."""
    length = stops[-1]
    wanted = np.interp(np.arange(1, int(np.ceil(times[-1]))), times, stops).tolist()
    # The last step covers the rest of the path in the rest of the time, and goes on past the end.
    begin = wanted[-1] if wanted else 0.0
    wanted.append(begin + (length - begin) / max(times[-1] - len(wanted), 1e-3))
    return np.array(_followed(vehicle, wanted, length))


def places_of(
    vehicle: Vehicle, actions: Float[np.ndarray, "step ..."]
) -> Float[np.ndarray, " place"]:
    """Where a drive is before its first step and after each one."""
    throttles = actions if actions.ndim == 1 else actions[:, 0]
    # The next speed is linear in the last one: what a throttle adds is known for all steps at once.
    from_rest = dynamics.next_speed(vehicle, 0.0, np.asarray(throttles, float), np)
    speeds = accumulate(from_rest.tolist(), lambda last, added: vehicle.inertia * last + added)
    return np.array([0.0, *accumulate(speeds)])


def _followed(vehicle: Vehicle, wanted: Sequence[float], length: float) -> list[float]:
    """Throttles that come as near to these places as the vehicle can, to the end of the path."""
    place, speed, throttles = 0.0, 0.0, []
    gain = (1.0 - vehicle.inertia) * vehicle.max_speed
    for target in [*wanted, *[np.inf] * len(wanted)]:
        throttle = min(max((target - place - vehicle.inertia * speed) / gain, 0.0), 1.0)
        speed = dynamics.next_speed(vehicle, speed, throttle, Scalars)
        place += speed
        throttles.append(throttle)
        if place >= length:
            break
    return throttles


SHORTER = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48)
"""By how many steps a stop is shortened."""
SLOW = 1.2
"""A stop is where the speed is at most this many times the least one."""
MOST_STOPS = 3


def with_shorter_stops(
    vehicle: Vehicle, actions: Float[np.ndarray, "step ..."]
) -> list[Float[np.ndarray, "step ..."]]:
    """The same drive with some steps of one of its longest stops left out.

    No prices lead to a stop of just the length that a rule asks for: at a price at which it pays to
    stop, it pays to stay.
    """
    speeds = np.diff(places_of(vehicle, actions))
    is_slow = np.concatenate([[False], speeds <= SLOW * speeds.min(), [False]])
    edges = np.flatnonzero(np.diff(is_slow.astype(int)))
    stops = sorted(edges.reshape(-1, 2).tolist(), key=lambda stop: stop[0] - stop[1])
    return [
        np.delete(actions, slice((begin + end - fewer) // 2, (begin + end + fewer) // 2), axis=0)
        for begin, end in stops[:MOST_STOPS]
        for fewer in SHORTER
        if fewer < end - begin
    ]
