"""Tables that are as long as the path: on the device, and fast look-up of their rows."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Int, Shaped

MOST_SLICES = 8
"""Batches of look-ups up to this size are unrolled into slices."""


def on_device(values: ArrayLike, kind: type[float] | type[int] | None = None) -> Array:
    """Values as an array on the device, `jnp.asarray` that compiles nothing.

    `jnp.asarray` compiles a copy for every shape, some 10 ms each in a new process.
    """
    return jax.device_put(np.asarray(values, kind), may_alias=False)


def rows_from(
    table: Shaped[Array, "row ..."],
    start: Int[Array, ""],
    count: int,
    column: Int[Array, ""] | None = None,
) -> Array:
    """A block of consecutive rows of a table, or of one column; all of them must exist.

    Columns are along the last axis.

    XLA would turn a batch of slices into a gather, estimate that it reads the whole table and
    split it over threads, which costs more than the look-up. So small batches are unrolled.
    """
    places = [start, *[jnp.zeros((), start.dtype)] * (table.ndim - 1)]
    if column is None:
        return _slicing((count, *table.shape[1:]))(table, *places)
    return _slicing((count, *table.shape[1:-1], 1))(table, *places[:-1], column)[..., 0]


def _slicing(sizes: tuple[int, ...]) -> Any:
    """A function that slices these sizes from a table at given start indices."""

    @jax.custom_batching.custom_vmap
    def one(table: Array, *places: Int[Array | np.ndarray, ""]) -> Array:
        return jax.lax.dynamic_slice(table, places, sizes, allow_negative_indices=False)

    @one.def_vmap
    def many(count: int, is_batched: Any, table: Array, *places: Any) -> tuple[Array, bool]:
        if not isinstance(count, int) or count > MOST_SLICES:  # or symbolic, for an export
            axes = [0 if each else None for each in is_batched]
            return jax.vmap(one.fun, axes)(table, *places), True
        has_tables, *has_places = is_batched
        found = []
        for index in range(count):
            at = [
                place[index] if is_many else place
                for place, is_many in zip(places, has_places, strict=True)
            ]
            if has_tables:
                number = jnp.asarray(index, at[0].dtype)
                found.append(_slicing((1, *sizes))(table, number, *at)[0])
            else:
                found.append(one(table, *at))
        return jnp.stack(found), True

    return one
