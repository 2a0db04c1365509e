"""The shapes that annotations promise are checked while the tests run.

jaxtyping's import hook puts `checked` around the functions, dataclasses and Equinox modules of all
modules that import jaxtyping. Axis names are bound per call: two arguments that both say `region`
must agree. What a check says depends on types, shapes and dtypes alone, so a call whose arguments
and result have those of an earlier call is not checked again: that took a fifth of Python's time.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from types import FunctionType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import jaxtyping
import numpy as np
from beartype import BeartypeConf, beartype
from beartype.door import is_bearable
from beartype.vale import Is
from jax import ShapeDtypeStruct
from jaxtyping import AbstractArray, Array, install_import_hook, jaxtyped

LEFT_OUT = {"scrl.environments.labels"}
"""Functions in these travel to other processes, which wrapped ones cannot."""

CONF = BeartypeConf(is_pep484_tower=True)
"""An int may stand where a float is asked for, as the static type checker has it."""


def check_shapes() -> None:
    """Check all modules with annotated arrays that are imported from now on."""
    spec = find_spec("scrl")
    assert spec is not None
    assert spec.origin is not None
    root = Path(spec.origin).parent
    paths = [path for path in root.rglob("*.py") if "from jaxtyping import" in path.read_text()]
    modules = {".".join(path.relative_to(root.parent).with_suffix("").parts) for path in paths}
    install_import_hook(sorted(modules - LEFT_OUT), f"{__name__}.checked")
    jaxtyping.jaxtyped = _jaxtyped_once  # what the hook puts around functions and classes


def _jaxtyped_once(**options: Any) -> Callable[[Any], Any]:
    """`jaxtyped`, with each kind of call of a function checked the first time."""

    def around(function: Any) -> Any:
        decorate = jaxtyped(**options)
        return once(function, decorate) if type(function) is FunctionType else decorate(function)

    return around


def once(function: FunctionType, decorate: Callable[[Any], Any]) -> Callable[..., Any]:
    """The function, checked when its arguments or its result are of kinds not seen together."""
    # An inner function is defined anew in every call: its code is what stays.
    of_code = _SEEN[function.__module__, function.__code__]
    checking = functools.cache(lambda: decorate(function))

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if jaxtyping.config.jaxtyping_disable:
            return function(*args, **kwargs)
        given = tuple(kwargs), kind_of((*args, *kwargs.values()))
        if given in of_code:
            out = function(*args, **kwargs)
            if kind_of(out) in of_code[given]:
                return out
            decorate(_giving(out, function))(*args, **kwargs)
        else:
            out = checking()(*args, **kwargs)
        of_code.setdefault(given, set()).add(kind_of(out))
        return out

    return call


_SEEN: defaultdict[Any, dict[Any, set[Any]]] = defaultdict(dict)
"""For the code of each function the kinds of its arguments, and of its results with them."""


def kind_of(value: Any) -> Any:
    """All that annotations of arrays can tell of a value: its type, shape and dtype."""
    kind = type(value)
    if issubclass(kind, tuple | list):
        return (kind, *map(kind_of, value))
    if issubclass(kind, dict):
        return (kind, *map(kind_of, value.values()))
    return (kind, value.shape, value.dtype) if _has_shape(kind) else kind


@functools.cache
def _has_shape(kind: type) -> bool:
    return hasattr(kind, "shape") and hasattr(kind, "dtype")


def _giving(out: Any, function: FunctionType) -> Callable[..., Any]:
    """A function with this signature that gives what the function has given."""

    def give(*_: Any, **__: Any) -> Any:
        return out

    made = FunctionType(
        give.__code__, function.__globals__, function.__name__, None, give.__closure__
    )
    return functools.update_wrapper(made, function)


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, with the arrays that it takes and returns checked, and those in named tuples.

    The hook leaves out named tuples, because JAX makes them too, of whatever it maps over. So they
    are checked where functions take them and return them.
    """
    hints = function.__annotations__
    hints.update({name: _arrays_alone(hint) for name, hint in hints.items()})
    code = function.__code__
    signature = (
        function.__module__, function.__qualname__, code.co_varnames, code.co_argcount,
        code.co_kwonlyargcount, code.co_flags, len(function.__defaults__ or ()),
        *(function.__kwdefaults__ or ()), *hints.items(),
    )  # fmt: skip
    # jaxtyping passes functions without a body: those of one signature can stand in for each other.
    # An inner function is defined anew in every call of the outer one.
    if signature not in _CHECKED:
        _CHECKED[signature] = beartype(conf=CONF)(function)
    return _CHECKED[signature]


_CHECKED: dict[tuple[Any, ...], Callable[..., Any]] = {}


def check_record(record: Any) -> bool:
    """The fields of a named tuple are as annotated, and they agree on the sizes of axes."""
    if not _is_record(type(record)):  # a stand-in, or none
        return True
    with jaxtyped("context"):
        for field, hint in _hints(type(record)).items():
            value = getattr(record, field)
            if not is_bearable(value, hint, conf=CONF):
                raise TypeError(f"{type(record).__name__}.{field} is {value!r}, not {hint}")
    return True


@functools.cache
def _hints(record: type) -> dict[str, Any]:
    hints = get_type_hints(record, localns={"ArrayTree": Any})  # a name inside of optax.OptState
    return {name: _of_any_kind(_arrays_alone(hint)) for name, hint in hints.items()}


def _arrays_alone(hint: Any) -> Any:
    """What a hint says of arrays; all else is checked before the tests, by the type checker.

    In lists, beartype would look at one item by chance, and Hypothesis wants no chance but its own.
    """
    parts = get_args(hint)
    if get_origin(hint) is tuple and parts and parts[-1] is not Ellipsis:
        return tuple[tuple(_arrays_alone(part) for part in parts)]
    options = _options(hint)
    if any(map(_is_record, options)):
        return Annotated[object, Is[check_record]]
    is_of_types = all(isinstance(option, type) for option in options)
    return hint if is_of_types and any(map(_is_array, options)) else Any


def _of_any_kind(hint: Any) -> Any:
    """JAX takes arrays of NumPy, and a shape for an array: in records either may stand."""
    kinds = Array | np.ndarray | ShapeDtypeStruct
    options = [
        option.dtype[kinds, option.dim_str] if _is_array(option) else option
        for option in _options(hint)
    ]
    return functools.reduce(lambda first, second: first | second, options)


def _options(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def _is_array(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, AbstractArray)


def _is_record(hint: Any) -> bool:
    is_tuple = isinstance(hint, type) and issubclass(hint, tuple)
    return is_tuple and hasattr(hint, "_fields") and hint.__module__.startswith("scrl.")
