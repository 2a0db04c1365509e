"""Registers the built-in problems with `gymnasium.make`, in either order of import.

Gymnasium has no plug-in hook, and importing it would slow every command by a third of a second;
so the problems are registered when Gymnasium is imported.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
"""As in `typing`, which is not imported to keep `import scrl` fast."""

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any


def register_now_or_later() -> None:
    """Register now if Gymnasium is imported, else when it will be."""
    if "gymnasium" in sys.modules:
        register()
    else:
        sys.meta_path.insert(0, _WhenGymnasiumComes())


def register() -> None:
    """`scrl/NAME-v0` for every built-in problem; calling it twice does no harm."""
    from pathlib import Path

    import gymnasium

    for path in sorted((Path(__file__).parent / "problems" / "builtin").glob("*.toml")):
        name = f"scrl/{path.stem}-v0"
        if name not in gymnasium.registry:
            gymnasium.register(name, "scrl.gym:make", kwargs={"problem": path.stem})


class _WhenGymnasiumComes:
    """An import hook that registers the problems after Gymnasium was imported."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        del path, target
        if fullname != "gymnasium":
            return None
        from importlib.util import find_spec

        sys.meta_path.remove(self)
        spec = find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _ThenRegister(spec.loader)  # pyright: ignore[reportAttributeAccessIssue]
        return spec


class _ThenRegister:
    """A loader that executes the module and then registers the problems."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._inner.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._inner
        module.__loader__ = self._inner
        self._inner.exec_module(module)
        register()
