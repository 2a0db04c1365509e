"""A trained policy as StableHLO: a file that JAX runs without this package."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp

from scrl.export.portable import checked, sidecar, throttle_function
from scrl.export.segments import ExportError
from scrl.problems import Problem

PLATFORMS = ("cpu", "cuda")
HOW_TO_RUN = (
    "jax.export.deserialize(open('policy.stablehlo', 'rb').read()).call(cell, offset, speed, gust)"
)


def write_stablehlo(problem: Problem, policy: Any) -> tuple[bytes, bytes]:
    """The serialised function for any number of states, and its description."""
    try:
        import flatbuffers  # noqa: F401  (JAX needs it to serialise, and does not ask for it)
    except ImportError:
        raise ExportError(
            "StableHLO files need the package flatbuffers: pip install 'scrl[export]'"
        ) from None
    from jax import export

    function = throttle_function(problem, checked(problem, policy))
    (states,) = export.symbolic_shape("n")
    number = jax.ShapeDtypeStruct((states,), jnp.float32)
    cell = jax.ShapeDtypeStruct((states,), jnp.int32)
    with _without_places_in_our_code():
        exported = export.export(jax.jit(function), platforms=PLATFORMS)(
            cell, number, number, number
        )
    return bytes(exported.serialize()), sidecar(problem, "StableHLO", HOW_TO_RUN)


@contextmanager
def _without_places_in_our_code() -> Iterator[None]:
    """JAX would write the paths of source files on this machine into the file."""
    name = "jax_traceback_in_locations_limit"
    before = getattr(jax.config, name)
    jax.config.update(name, 0)
    try:
        yield
    finally:
        jax.config.update(name, before)
