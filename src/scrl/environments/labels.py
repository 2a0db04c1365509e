"""What a step of an external environment gives to each region: labels in all their forms.

| form | what a step gives |
|---|---|
| `f(observation)` | a vector, one number per region, or a mapping from names to numbers |
| `f(observation, action, reward, info)` | the same |
| `"key"` | `info["key"]`: a number, a vector, or a mapping |
| `{"name": f, "other": "key"}` | one number per region, each by a predicate or from `info` |

Numbers are amounts: 0 and 1 for "not here" and "here", or whatever a step gives out. The
observation is the one that the step led to. Needs no JAX.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Float

from scrl.errors import ScrlError, check_text, did_you_mean

LabelFunction: TypeAlias = Callable[..., Any]
LabelSource: TypeAlias = LabelFunction | str | Mapping[str, LabelFunction | str]
"""Labels as a person may give them."""


class LabelError(ScrlError):
    """Labels cannot be used: a wrong form, a wrong length, not a number, an error inside."""


class Step(NamedTuple):
    """One step of an environment, as a label function may see it."""

    observation: Any
    """What was seen after the step."""
    action: Any
    reward: float
    info: Mapping[str, Any]


@dataclass(frozen=True)
class Labels:
    """One function for all forms: a step -> what each region receives, checked."""

    names: tuple[str, ...]
    read: Callable[[Step], Any]
    """What the user's source says of a step, unchecked."""
    keys: str | Mapping[str, str] | None = None
    """The keys of `info` that they come from, as they were given; none if some are functions."""

    @classmethod
    def of(
        cls,
        source: LabelSource | Labels,
        regions: Sequence[str] | None = None,
        *,
        sample: Step | None = None,
    ) -> Labels:
        """Labels from any form, with the names of the regions.

        Names come from `regions`, else from a mapping, else from a `sample` step: a function or
        an info key that gives a mapping names its regions, one that gives a vector has the regions
        S1, S2, ..., and an info key that gives a number is a region of that name. A mapping is read
        by its names, in the order of `regions`.
        """
        if isinstance(source, Labels):
            return source
        read, known = _reader(source)
        names = _checked_names(regions) if regions is not None else known
        if names is None:
            if sample is None:
                raise LabelError(
                    "the regions have no names: give `regions`, or labels as a mapping from names"
                )
            names = _names_in(in_first_step(read, sample), source)
        return cls(names, read, _keys_of(source))

    def __call__(self, step: Step) -> Float[np.ndarray, " region"]:
        """What each region receives in a step, in units."""
        given = self.read(step)
        if isinstance(given, Mapping):
            given = [_one(name, given[name]) for name in _same_names(given, self.names)]
        try:
            amounts = np.asarray(given, np.float64)
        except (TypeError, ValueError):
            raise LabelError(f"labels must be numbers, not {_short(given)}") from None
        amounts = amounts.reshape(1) if amounts.ndim == 0 else amounts
        if amounts.shape != (len(self.names),):
            raise LabelError(
                f"labels of shape {amounts.shape}, but there are {len(self.names)} regions "
                f"({', '.join(self.names)}): {_short(given)}"
            )
        if not np.isfinite(amounts).all():
            name = self.names[int(np.argmin(np.isfinite(amounts)))]
            raise LabelError(f"the label of '{name}' is no finite number: {_short(given)}")
        return amounts


def in_first_step(read: Callable[[Step], Any], sample: Step) -> Any:
    """What is read from the first step of an environment; an error says that it is this one."""
    try:
        return read(sample)
    except LabelError as error:
        raise LabelError(f"in the first step: {error}") from error


FARTHEST = 3.0
"""Bandwidths beyond which a kernel is cut off: most steps give nothing, as with other labels."""


@dataclass(frozen=True)
class Near:
    """A label by a Gaussian kernel around a point: exp(-|x - point|^2 / (2 bandwidth^2)).

    A step at the point counts 1, and one beyond three bandwidths 0. Its sum over an episode,
    divided by (2 pi bandwidth^2)^(d / 2), is the kernel estimate of the density at the point.
    """

    point: tuple[float, ...]
    bandwidth: tuple[float, ...]
    """One number for each entry of the point."""
    entries: tuple[int, ...]
    """The entries of the observation that are compared."""
    part: tuple[str | int, ...] = ()
    """Where they are in observations of several parts: a key or a place for each level."""

    def __call__(self, observation: Any) -> Any:
        numbers = self._numbers(observation)
        xp = numbers.__array_namespace__()
        away = numbers[np.array(self.entries)] - np.array(self.point)
        away = away / np.array(self.bandwidth)
        squared = (away**2).sum()
        return xp.where(squared <= FARTHEST**2, xp.exp(-0.5 * squared), 0.0)

    def _numbers(self, seen: Any) -> Any:
        """The numbers of the part that is compared, in a row."""
        for key in self.part:
            try:
                seen = seen[key]
            except (KeyError, IndexError, TypeError):
                raise LabelError(
                    f"near: there is no part {key!r} in {_short(_parts(seen) or seen)}"
                ) from None
        if parts := _parts(seen):
            raise LabelError(
                f"near: the observation has the parts {', '.join(map(repr, parts))}; say which one "
                f"the point is in, such as part={parts[0]!r}"
            )
        seen = seen if hasattr(seen, "__array_namespace__") else np.array(seen)
        if max(self.entries) >= seen.size:
            raise LabelError(
                f"near: the point has the entry {max(self.entries)} (counted from 0), but there "
                f"are {seen.size} numbers"
            )
        return seen.ravel()


def _parts(seen: Any) -> list[Any]:
    """The keys or the places of an observation of several parts; none of one of numbers."""
    if isinstance(seen, Mapping):
        return list(seen)
    is_several = isinstance(seen, tuple) and any(not np.isscalar(each) for each in seen)
    return list(range(len(seen))) if is_several else []


def near(
    point: Sequence[float] | float,
    bandwidth: Sequence[float] | float,
    *,
    entries: Sequence[int] | None = None,
    part: str | int | Sequence[str | int] = (),
) -> Near:
    """A label for the density near a point, for `scrl.environment(labels={"top": near(...)})`.

    `entries` are the entries of the observation that the point has; without them it has all, from
    the first on. The bandwidth is one number, or one for each of them. In a `Dict` or `Tuple`
    `part` is the key or the place of the part that the point is in, or several from the outside in.
    """
    try:
        found = np.atleast_1d(np.asarray(point, float))
        wide = np.broadcast_to(np.asarray(bandwidth, float), found.shape)
        chosen = np.arange(found.size) if entries is None else np.asarray(entries)
        is_good = found.ndim == 1 and chosen.shape == found.shape and chosen.dtype.kind in "iu"
    except (TypeError, ValueError):
        raise LabelError(
            f"near({_short(point)}, {_short(bandwidth)}): numbers are needed"
        ) from None
    if not is_good or (chosen < 0).any():
        raise LabelError(
            f"near: entries = {_short(entries)} must be as many whole numbers of at least 0 as the "
            f"point has: {found.size}"
        )
    if not np.isfinite(found).all() or not np.isfinite(wide).all() or not (wide > 0).all():
        raise LabelError(
            f"near({_short(point)}, {_short(bandwidth)}): the point must be finite, and the "
            "bandwidth above 0"
        )
    within = (part,) if isinstance(part, str | int) else tuple(part)
    return Near(tuple(found.tolist()), tuple(wide.tolist()), tuple(chosen.tolist()), within)


def _keys_of(source: LabelSource) -> str | dict[str, str] | None:
    if isinstance(source, str):
        return source
    if not isinstance(source, Mapping):
        return None
    keys = {name: each for name, each in source.items() if isinstance(each, str)}
    return keys if len(keys) == len(source) else None


def _reader(source: Any) -> tuple[Callable[[Step], Any], tuple[str, ...] | None]:
    """How a step is read, and the names of the regions where the form tells them."""
    if isinstance(source, str):
        return _from_info(source), None
    if isinstance(source, Mapping):
        names = _checked_names(tuple(source))
        parts = {name: _reader_of_one(name, source[name]) for name in names}
        return lambda step: {name: part(step) for name, part in parts.items()}, names
    if callable(source):
        return _calling(source, "labels"), None
    raise LabelError(
        "labels are a function of the observation, the key of a vector in `info`, or a mapping "
        f"from region names to functions, not {_short(source)}"
    )


def _reader_of_one(name: str, source: Any) -> Callable[[Step], Any]:
    """The amount of one region."""
    if isinstance(source, str):
        return _from_info(source)
    if callable(source):
        return _calling(source, f"the label of '{name}'")
    raise LabelError(
        f"the label of '{name}' must be a function or a key of `info`, not {_short(source)}"
    )


def _one(name: str, given: Any) -> Any:
    """The amount of one region, if it is one number."""
    if np.size(given) != 1:
        given = given.tolist() if isinstance(given, np.ndarray) else given
        raise LabelError(
            f"the label of '{name}' must be one number (or true or false), not {_short(given)}"
        )
    return np.reshape(given, ()).item()


def _from_info(key: str) -> Callable[[Step], Any]:
    def read(step: Step) -> Any:
        if key not in step.info:
            hint = did_you_mean(key, [str(name) for name in step.info])
            raise LabelError(f"there is no '{key}' in `info`{hint}")
        return step.info[key]

    return read


def _calling(function: LabelFunction, what: str) -> Callable[[Step], Any]:
    """Call a function with the observation, or with all of a step if it takes four arguments."""
    arguments = _argument_count(function)
    if arguments not in (1, 4):
        raise LabelError(
            f"{what}: the function must take (observation) or (observation, action, reward, info), "
            f"and this one takes {arguments} arguments"
        )

    def read(step: Step) -> Any:
        try:
            return function(*step) if arguments == 4 else function(step.observation)
        except LabelError:
            raise
        except Exception as error:
            raise LabelError(f"{what}: {type(error).__name__}: {error}") from error

    return read


def _argument_count(function: LabelFunction) -> int:
    """How many positional arguments a function must be given; 1 where nobody can tell."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # some functions written in C say nothing of themselves
        return 1
    positional = [each for each in parameters if each.kind in kinds]
    needed = sum(each.default is inspect.Parameter.empty for each in positional)
    has_rest = any(each.kind is inspect.Parameter.VAR_POSITIONAL for each in parameters)
    if needed <= 1 and (positional or has_rest):
        return 1
    return 4 if needed < 4 and (has_rest or len(positional) >= 4) else needed


def _checked_names(names: Sequence[str]) -> tuple[str, ...]:
    found = tuple(names) if not isinstance(names, str) else (names,)
    if not found or not all(isinstance(name, str) and name for name in found):
        raise LabelError(f"regions must be one or more names, not {_short(names)}")
    for name in found:
        check_text(name, f"the region's name {name!a}", error=LabelError)
    if len(set(found)) < len(found):
        raise LabelError(f"a region is named twice: {', '.join(found)}")
    return found


def _names_in(given: Any, source: LabelSource) -> tuple[str, ...]:
    """The names that a sample of the labels tells, or S1, S2, ..."""
    if isinstance(given, Mapping):
        return _checked_names(tuple(given))
    size = np.size(given)
    if isinstance(source, str) and np.ndim(given) == 0:
        return (source,)
    return _checked_names(tuple(f"S{number}" for number in range(1, size + 1)))


def _same_names(given: Mapping[str, Any], names: tuple[str, ...]) -> tuple[str, ...]:
    """The names, if they are just the keys of what is given."""
    for name in names:
        if name not in given:
            raise LabelError(
                f"labels lack the region '{name}'{did_you_mean(name, map(str, given))}"
            )
    for name in given:
        if name not in names:
            raise LabelError(
                f"labels name an unknown region '{name}'{did_you_mean(str(name), names)}"
            )
    return names


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
