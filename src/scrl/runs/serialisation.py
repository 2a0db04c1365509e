"""Pytrees <-> files, in the format of `equinox.tree_serialise_leaves`.

Leaf after leaf as .npy data, never pickled. What is no number (a function, a text) is not
written; the tree read into has it.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as npy

from scrl.runs.files import RunError

_OTHER = "it belongs to other settings or to another version of scrl"


def write_tree(file: BinaryIO, tree: Any) -> None:
    """Write the leaves of a pytree, typed random keys as their numbers."""
    import jax

    for leaf in jax.tree.leaves(tree):
        if _is_number(leaf):
            numbers = jax.random.key_data(leaf) if _is_key(leaf) else leaf
            np.save(file, np.asarray(numbers), allow_pickle=False)


def read_tree(path: Path, like: Any, *, is_finite: bool = False) -> Any:
    """The pytree in a file; `like` gives structure, shapes and types, as arrays or abstract.

    `is_finite`: a number that is infinite or none at all is refused.
    """
    import jax

    leaves, structure = jax.tree_util.tree_flatten_with_path(like)
    found = []
    with path.open("rb") as file:
        for place, leaf in leaves:
            try:
                found.append(_read_leaf(file, leaf) if _is_number(leaf) else leaf)
                if is_finite and _is_number(leaf) and not _is_key(leaf):
                    _check_finite(found[-1])
            except ValueError as error:
                where = jax.tree_util.keystr(place) or "the only leaf"
                raise RunError(f"{path}: {where}: {error}") from None
        if file.read(1):
            raise RunError(f"{path}: holds more than is asked for; {_OTHER}")
    return jax.tree.unflatten(structure, found)


def _check_finite(leaf: Any) -> None:
    numbers = np.asarray(leaf)  # by NumPy: JAX would compile a program for every shape
    if not np.isfinite(numbers if numbers.dtype.kind in "biufc" else numbers.astype(float)).all():
        raise ValueError("damaged: holds a number that is infinite or not a number (NaN)")


def _is_number(leaf: Any) -> bool:
    import jax

    arrays = (jax.Array, jax.ShapeDtypeStruct, np.ndarray, np.generic)
    return isinstance(leaf, (*arrays, bool, int, float, complex))


def _is_key(leaf: Any) -> bool:
    import jax

    return hasattr(leaf, "dtype") and jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _read_leaf(file: BinaryIO, like: Any) -> Any:
    import jax

    if _is_key(like):
        numbers = _read_array(file, jax.eval_shape(jax.random.key_data, like))
        kind = jax.random.key_impl(jax.numpy.empty((), like.dtype))
        return jax.random.wrap_key_data(jax.numpy.array(numbers), impl=kind)
    found = _read_array(file, like)
    if isinstance(like, jax.Array | jax.ShapeDtypeStruct):
        return jax.device_put(found, may_alias=False)
    return found if isinstance(like, np.ndarray) else type(like)(found.item())


def _read_array(file: BinaryIO, like: Any) -> np.ndarray:
    """The next array, whose header must agree with `like` before any of its data is read."""
    shape = np.shape(like)
    dtype = np.dtype(like.dtype if hasattr(like, "dtype") else type(like))
    try:
        version = npy.read_magic(file)
        found_shape, is_fortran, found = npy.read_array_header_1_0(file)
    except Exception:  # damaged headers make NumPy raise errors of many kinds
        raise ValueError("damaged, or the file ends here") from None
    if found.kind == dtype.kind == "V" and found.itemsize == dtype.itemsize:
        found = dtype  # NumPy has no names for bfloat16 and its kin
    if version != (1, 0) or (found_shape, found) != (shape, dtype):
        raise ValueError(
            f"the file holds {found} of shape {found_shape}, asked for is {dtype} of shape {shape};"
            f" {_OTHER}"
        )
    values = np.fromfile(file, found, count=math.prod(shape))
    if values.size != math.prod(shape):
        raise ValueError("damaged: the file ends here")
    return values.reshape(shape, order="F" if is_fortran else "C")
