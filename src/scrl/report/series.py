"""Metrics as curves: one value for each seed and round, thinned out for drawing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float


class Band(NamedTuple):
    """A curve over all seeds: their median, and the range of all of them."""

    rounds: Float[np.ndarray, " point"]
    middle: Float[np.ndarray, " point"]
    low: Float[np.ndarray, " point"]
    high: Float[np.ndarray, " point"]


def by_seed(rows: Sequence[Mapping[str, Any]], key: str) -> Float[np.ndarray, "seed round"]:
    """One metric as a table; a null, or a row that a kill has torn off, is a gap in the curve."""
    seeds = {seed: index for index, seed in enumerate(sorted({row["seed"] for row in rows}))}
    rounds = {each: index for index, each in enumerate(sorted({row["iteration"] for row in rows}))}
    found = np.full((len(seeds), len(rounds)), np.nan)
    for row in rows:
        value = row.get(key)
        if isinstance(value, int | float):
            found[seeds[row["seed"]], rounds[row["iteration"]]] = value
    return found


def band_of(rows: Sequence[Mapping[str, Any]], key: str, *, most: int = 160) -> Band | None:
    """The curve of one metric with at most so many points; none where it was not logged."""
    values = by_seed(rows, key)
    rounds = np.array(sorted({row["iteration"] for row in rows}), float)
    is_seen = np.isfinite(values).any(axis=0)
    if not is_seen.any():
        return None
    values, rounds = values[:, is_seen], rounds[is_seen]
    pieces = np.array_split(np.arange(len(rounds)), min(most, len(rounds)))
    return Band(
        np.array([rounds[piece[-1]] for piece in pieces]),
        np.array([np.nanmedian(values[:, piece]) for piece in pieces]),
        np.array([np.nanmin(values[:, piece]) for piece in pieces]),
        np.array([np.nanmax(values[:, piece]) for piece in pieces]),
    )
