"""A trained policy as StableHLO: a file that JAX runs without this package."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import jax
import jax.numpy as jnp

from scrl.export.portable import Portable, sidecar
from scrl.export.segments import ExportError

PLATFORMS = ("cpu", "cuda")


def write_stablehlo(policy: Portable, warnings: Sequence[str] = ()) -> tuple[bytes, bytes]:
    """The serialised function for any number of states, and its description."""
    try:
        import flatbuffers  # noqa: F401  (JAX needs it to serialise, and does not ask for it)
    except ImportError:
        raise ExportError(
            "StableHLO files need the package flatbuffers: pip install 'scrl[export]'"
        ) from None
    from jax import export

    (states,) = export.symbolic_shape("n")
    given = [
        jax.ShapeDtypeStruct((states, *port.shape), jnp.dtype(port.dtype)) for port in policy.inputs
    ]
    with _without_places_in_our_code():
        exported = export.export(jax.jit(policy.function()), platforms=PLATFORMS)(*given)
    names = ", ".join(port.name for port in policy.inputs)
    how_to_run = f"jax.export.deserialize(open('policy.stablehlo', 'rb').read()).call({names})"
    return bytes(exported.serialize()), sidecar(policy, "StableHLO", how_to_run, warnings)


@contextmanager
def _without_places_in_our_code() -> Iterator[None]:
    """Keep the paths of source files on this machine out of the exported file."""
    name = "jax_traceback_in_locations_limit"
    before = getattr(jax.config, name)
    jax.config.update(name, 0)
    try:
        yield
    finally:
        jax.config.update(name, before)
