"""Gymnasium's spaces as the networks want them: rows of numbers in, numbers or a choice out."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import iterate
from jaxtyping import Float, Shaped

from scrl.environments.contract import EnvironmentFault
from scrl.learners.actions import ActionKind, Continuous, Discrete

FARTHEST_BOUND = 2.0**53
"""Bounds beyond this are none: whole numbers as large have no exact floating-point number."""
LONGEST_TEXT = 120
LARGEST_GRID = 4096
"""A grid of more bytes than this is an image; smaller ones are often symbols."""
CHANNELS = (1, 3, 4)
"""Colours of an image, which is one too where its bytes were scaled to other numbers."""


@dataclass(frozen=True)
class Actions:
    """What an environment takes: a box of numbers, or one or several choices."""

    kind: ActionKind
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    dtype: str = "float32"
    first: tuple[int, ...] = ()
    """The number of the first choice, for each entry."""

    @classmethod
    def of(cls, space: Any) -> Actions:
        """Those of an action space."""
        if isinstance(space, spaces.Discrete):
            return cls._choices([space.n], (), [space.start], space)
        if isinstance(space, spaces.MultiDiscrete):
            return cls._choices(space.nvec.ravel(), space.shape, space.start.ravel(), space)
        if isinstance(space, spaces.MultiBinary):
            entries = math.prod(space.shape)
            return cls._choices([2] * entries, space.shape, [0] * entries, space)
        if not isinstance(space, spaces.Box):
            raise EnvironmentFault(
                f"actions from {_short(space)} cannot be learned, only those from Box, Discrete, "
                "MultiDiscrete and MultiBinary can; wrap the environment in "
                "gymnasium.wrappers.TransformAction, with a function that makes its action from "
                "one of those"
            )
        low, high = (tuple(map(float, each.ravel())) for each in (space.low, space.high))
        if not low:
            raise EnvironmentFault(f"actions from {_short(space)} hold no number to be chosen")
        if not space.is_bounded() or max(map(abs, low + high)) > FARTHEST_BOUND:
            raise EnvironmentFault(
                f"actions from {_short(space)} have no bounds to learn between: give them some "
                "with gymnasium.wrappers.TransformAction"
            )
        return cls(Continuous(tuple(space.shape)), low, high, str(space.dtype))

    @classmethod
    def _choices(cls, counts: Any, shape: Any, first: Any, space: Any) -> Actions:
        """One choice or several, with the numbers of the first ones."""
        found = Discrete(tuple(map(int, counts)), tuple(map(int, shape)))
        if not found.counts:
            raise EnvironmentFault(f"actions from {_short(space)} hold no number to be chosen")
        return cls(found, dtype=str(space.dtype), first=tuple(map(int, first)))

    def to_environment(self, chosen: Any) -> Any:
        """Numbers from [0, 1], or choices from 0 on, as the environment wants them.

        NumPy's arrays and JAX's are taken, of one lane or of several.
        """
        if isinstance(self.kind, Discrete):
            return (chosen + np.reshape(self.first, self.kind.shape)).astype(self.dtype)
        xp = chosen.__array_namespace__()
        shape = self.kind.shape
        low, high = np.reshape(self.low, shape), np.reshape(self.high, shape)
        numbers = low + xp.clip(chosen, 0.0, 1.0) * (high - low)
        # Whole numbers are rounded, not cut off: the highest would hardly ever be taken.
        return (numbers if self.dtype.startswith("float") else xp.rint(numbers)).astype(self.dtype)

    def random(self, lanes: int, chance: np.random.Generator) -> Shaped[np.ndarray, "lane ..."]:
        """Chosen evenly, before `to_environment`."""
        if isinstance(self.kind, Discrete):
            counts = np.reshape(self.kind.counts, self.kind.shape)
            return chance.integers(counts, size=(lanes, *self.kind.shape))
        return chance.uniform(size=(lanes, *self.kind.shape))

    def to_json(self) -> dict[str, Any]:
        if isinstance(self.kind, Discrete):
            if not self.kind.shape:
                return {"choices": self.kind.size, "first": self.first[0], "dtype": self.dtype}
            several = {"choices": self.kind.counts, "first": self.first, "dtype": self.dtype}
            return {**several, "shape": list(self.kind.shape)}
        shape = list(self.kind.shape)
        return {"shape": shape, "low": self.low, "high": self.high, "dtype": self.dtype}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Actions:
        """The same again from what `to_json` wrote."""
        if "choices" in document:
            counts, first = (np.ravel(document[name]) for name in ("choices", "first"))
            kind = Discrete(tuple(map(int, counts)), tuple(document.get("shape", ())))
            return cls(kind, dtype=str(document["dtype"]), first=tuple(map(int, first)))
        shape = tuple(map(int, document["shape"]))
        low, high = (tuple(map(float, document[name])) for name in ("low", "high"))
        return cls(Continuous(shape), low, high, str(document["dtype"]))


@dataclass(frozen=True)
class Observations:
    """How observations become rows of numbers."""

    space: gymnasium.Space[Any]

    @classmethod
    def of(cls, space: Any) -> Observations:
        for name, part in _leaves(space):
            where = f" (at {name})" if name else ""
            if _is_image(part):
                raise EnvironmentFault(
                    f"observations from {_short(part)}{where} are images, which cannot be learned "
                    "from here; wrap the environment in gymnasium.wrappers.TransformObservation to "
                    "make a row of numbers of what matters in them"
                )
            try:
                spaces.flatdim(part)
            except (NotImplementedError, ValueError):
                leave = "gymnasium.wrappers.FilterObservation to leave it out, or " if name else ""
                raise EnvironmentFault(
                    f"observations from {_short(part)}{where} are no fixed number of numbers; wrap "
                    f"the environment in {leave}gymnasium.wrappers.TransformObservation to make it "
                    "a Box"
                ) from None
        if not spaces.flatdim(space):
            raise EnvironmentFault(f"observations from {_short(space)} hold nothing to see")
        return cls(space)

    @property
    def features(self) -> int:
        """Numbers in an observation."""
        return spaces.flatdim(self.space)

    def rows(self, batch: Any, lanes: int) -> Float[np.ndarray, "lane feature"]:
        """The observations of all lanes as rows: copies, for lanes may write over theirs."""
        if isinstance(self.space, spaces.Box):
            with np.errstate(over="ignore"):  # too large for a number: that is found and said
                return np.array(batch, np.float32).reshape(lanes, -1)
        return np.stack([self.row(each) for each in self.single(batch, lanes)])

    def row(self, observation: Any) -> Float[np.ndarray, " feature"]:
        """A single observation as a row."""
        with np.errstate(over="ignore"):
            if isinstance(self.space, spaces.Box):
                return np.asarray(observation, np.float32).ravel()
            return np.asarray(spaces.flatten(self.space, observation), np.float32)

    def single(self, batch: Any, lanes: int) -> list[Any]:
        """The observations of all lanes, one by one, as the environment gave them."""
        if isinstance(self.space, spaces.Box | spaces.Discrete):
            return list(batch)
        return list(iterate(gymnasium.vector.utils.batch_space(self.space, lanes), batch))


def _is_image(space: Any) -> bool:
    """Whether a space is large, and one of bytes in two or three dimensions or one of colours."""
    if not isinstance(space, spaces.Box) or math.prod(space.shape) <= LARGEST_GRID:
        return False
    is_coloured = len(space.shape) == 3 and bool({space.shape[0], space.shape[-1]} & {*CHANNELS})
    return is_coloured or (len(space.shape) in (2, 3) and space.dtype == np.uint8)


def _leaves(space: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """The spaces that a space is made of, with their places in it."""
    if not isinstance(space, spaces.Dict | spaces.Tuple | spaces.OneOf):
        yield name, space
        return
    inner: Any = space.spaces
    for key, part in inner.items() if isinstance(inner, Mapping) else enumerate(inner):
        yield from _leaves(part, f"{name}[{key!r}]")


def _short(space: Any) -> str:
    """A space for messages; one without a text of its own by the name of its kind."""
    text = " ".join(str(space).split())
    text = type(space).__name__ if " at 0x" in text else text
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}..."
