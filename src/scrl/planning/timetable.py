"""Several drives as one, drives by the fluid's times, and drives with shorter stops.

A drive passes each place of the path at some time. What a region receives is the time spent in it,
so a drive whose timetable is the weighted mean of some timetables gives what the drives give on
average, and costs at most as much, since the cost of a cell is convex in the time spent there
(docs/bound.md). A vehicle comes near to it: within a step it moves evenly, so that it passes an
edge up to a step off, and where the mean asks for more than its inertia allows, it does what it can
and catches up. For landing service all this holds up to the edges of regions.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from scrl.worlds.sweep import dynamics
from scrl.worlds.sweep.dynamics import Scalars
from scrl.worlds.sweep.vehicle import Vehicle


def averaged(
    vehicle: Vehicle,
    length: int,
    drives: Sequence[Float[np.ndarray, " step"]],
    weights: Float[np.ndarray, " drive"],
) -> Float[np.ndarray, " step"]:
    """The throttles of a drive whose timetable is the mean of those of some drives to the end."""
    places = [places_of(vehicle, throttles) for throttles in drives]
    stops = np.unique(np.concatenate([np.minimum(each, length) for each in places]))
    times = weights @ np.array([np.interp(stops, each, np.arange(len(each))) for each in places])
    return _by_timetable(vehicle, stops, times)


def with_times(
    vehicle: Vehicle, paces: Float[np.ndarray, " part"], parts: int = 1
) -> Float[np.ndarray, " step"]:
    """The throttles of a drive with so many steps per cell in each part of the path's cells."""
    edges = np.arange(len(paces) + 1) / parts
    return _by_timetable(vehicle, edges, np.concatenate([[0.0], np.cumsum(paces / parts)]))


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
    vehicle: Vehicle, throttles: Float[np.ndarray, " step"]
) -> Float[np.ndarray, " place"]:
    """Where a drive is before its first step and after each one."""
    speed, places = 0.0, [0.0]
    for throttle in throttles.tolist():
        speed = dynamics.next_speed(vehicle, speed, throttle, Scalars)
        places.append(places[-1] + speed)
    return np.array(places)


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
    vehicle: Vehicle, throttles: Float[np.ndarray, " step"]
) -> list[Float[np.ndarray, " step"]]:
    """The same drive with some steps of one of its longest stops left out.

    No prices lead to a stop of just the length that a rule asks for: at a price at which it pays to
    stop, it pays to stay.
    """
    speeds = np.diff(places_of(vehicle, throttles))
    is_slow = np.concatenate([[False], speeds <= SLOW * speeds.min(), [False]])
    edges = np.flatnonzero(np.diff(is_slow.astype(int)))
    stops = sorted(edges.reshape(-1, 2).tolist(), key=lambda stop: stop[0] - stop[1])
    return [
        np.delete(throttles, slice((begin + end - fewer) // 2, (begin + end + fewer) // 2))
        for begin, end in stops[:MOST_STOPS]
        for fewer in SHORTER
        if fewer < end - begin
    ]
