"""Rows of tables that are as long as a path, looked up in every step."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Shaped

MOST_SLICES = 8
"""A batch of look-ups up to this size is made one by one."""


def rows_from(table: Shaped[Array, "row ..."], start: Int[Array, ""], count: int) -> Array:
    """So many rows of a table from one on; all of them must lie inside.

    A batch of slices would become a gather, which XLA takes for a reader of the whole table: it
    shares a gather from a large table out among threads, and that costs more than the look-up. So
    small batches are unrolled.
    """
    places = [start, *[jnp.zeros((), start.dtype)] * (table.ndim - 1)]
    return _slicing((count, *table.shape[1:]))(table, *places)


def _slicing(sizes: tuple[int, ...]) -> Any:
    """A slice of these sizes as a function of a table and a place for each of its axes."""

    @jax.custom_batching.custom_vmap
    def one(table: Array, *places: Int[Array | np.ndarray, ""]) -> Array:
        return jax.lax.dynamic_slice(table, places, sizes, allow_negative_indices=False)

    @one.def_vmap
    def many(count: int, is_batched: Any, table: Array, *places: Any) -> tuple[Array, bool]:
        if count > MOST_SLICES:
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
