"""What `jax.jit` makes of a function, as far as its annotations leave it out."""

from __future__ import annotations

from typing import Protocol, runtime_checkable


@runtime_checkable
class CompiledFunction(Protocol):
    """Counts what was compiled of it, and can forget it."""

    def _cache_size(self) -> int: ...

    def clear_cache(self) -> None: ...
