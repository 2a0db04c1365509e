"""Methods by name: a learner, a penalty, and their settings."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from scrl.errors import ScrlError, did_you_mean
from scrl.learners import LEARNERS, NetworkConfig
from scrl.plan import LearningPlan, LoopConfig
from scrl.punish import MECHANISMS, Mechanism, netting, scrl
from scrl.roster import METHODS, Method, find_method
from scrl.worlds.settings import check_settings, setting


class MethodError(ScrlError):
    """A method cannot be used: unknown name, unknown setting, value out of range."""


PRESETS: Mapping[str, Mapping[str, Any]] = types.MappingProxyType(
    {
        "default": {},
        "paper": {
            "learner": "ddpg",
            "sharpness": 1.0,
            "is_netted": False,
            "sees_prices": False,
            "wobble": 0.0,
            "inset": 0.0,
            "settle": 0,
            "worlds": 1,
            "last_kappa_rate": 1.0,
            "discount": 0.99,
            "is_squashed": True,
            "last_rate": 1.0,
        },
    }
)
"""Settings that go together: what works best, and the paper's as closely as it can be told."""


@dataclass(frozen=True)
class PenaltyConfig:
    """How charges are drawn."""

    sharpness: float = setting(
        2.0, "A disjunct is drawn with odds kappa^-sharpness (1: the paper's draw).",
        low=0.0, high=100.0,
    )  # fmt: skip
    is_netted: bool = setting(
        True, "Whether the two kappas of an equality are netted: at most one stays above 0."
    )

    def __post_init__(self) -> None:
        check_settings(self)


@dataclass(frozen=True)
class TrainingConfig:
    """All that decides a run beside the problem and the seeds."""

    method: str
    learner: str
    penalty: str
    told: str
    penalty_settings: PenaltyConfig
    loop: LoopConfig
    learner_settings: NetworkConfig

    @property
    def plan(self) -> LearningPlan:
        return LearningPlan(self.loop, self.learner, self.learner_settings)

    @property
    def mechanism(self) -> Mechanism:
        return _mechanism(self.penalty, self.penalty_settings)

    def to_json(self) -> dict[str, Any]:
        """Names and every setting, flat."""
        tables = (self.penalty_settings, self.loop, self.learner_settings)
        settings = {
            key: value for each in tables for key, value in dataclasses.asdict(each).items()
        }
        return {
            "method": self.method,
            "learner": self.learner,
            "penalty": self.penalty,
            "told": self.told,
            "settings": settings,
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> TrainingConfig:
        """The same again from what `to_json` wrote."""
        parts = ("method", "learner", "penalty", "told")
        names: dict[str, Any] = {key: document.get(key) for key in parts}
        return configure(**names, settings=document.get("settings", {}))


@cache
def _mechanism(penalty: str, settings: PenaltyConfig) -> Mechanism:
    """The same object for the same settings: compiled code is found again by it."""
    found = scrl(settings.sharpness) if penalty == "scrl" else MECHANISMS[penalty]()
    return netting(found) if settings.is_netted else found


def configure(  # noqa: PLR0913 (one for each thing that a user may want to say)
    method: str | None = None,
    *,
    learner: str | None = None,
    penalty: str | None = None,
    told: str | None = None,
    preset: str | None = None,
    steps: int | None = None,
    settings: Mapping[str, Any] | None = None,
    episode_steps: float = 0.0,
    is_random: bool = False,
) -> TrainingConfig:
    """A method with some of its parts and settings changed; unknown names raise.

    What is named directly wins over the preset, the preset over the method's own choice. `steps`
    is the whole budget of environment steps for each seed: learning, measuring and settling. How
    many rounds that allows hangs on about how long an episode is (`episode_steps`), and on whether
    chance plays a part.
    """
    method = method or "scrl"
    chosen = _method(method)
    given = {**chosen.settings, **PRESETS[_known(preset or "default", PRESETS, "preset")]}
    preferred = given.pop("learner", chosen.learner)
    learner = _known(learner or preferred, LEARNERS, "learner")
    penalty = _known(penalty or chosen.penalty, MECHANISMS, "penalty")
    told = told or _told(chosen, penalty)
    config = LEARNERS[learner].config
    known = _fields(PenaltyConfig) | _fields(LoopConfig) | _fields(config)
    # A preset speaks to all learners: what this one does not know is left out.
    given = {key: value for key, value in given.items() if key in known} | dict(settings or {})
    for key in given:
        if key not in known:
            raise MethodError(f"unknown setting '{key}'{did_you_mean(key, sorted(known))}")
    loop = LoopConfig(**_of(LoopConfig, given))
    if steps is not None:
        loop = loop.within(steps, episode_steps=episode_steps, is_random=is_random)
    learner_settings = config(**_of(config, given))
    smallest = getattr(learner_settings, "minibatches", 1)
    if loop.worlds * loop.steps < smallest:
        raise MethodError(
            f"worlds x steps = {loop.worlds * loop.steps} is less than minibatches = {smallest}: "
            "there would be nothing to learn from"
        )
    return TrainingConfig(
        method, learner, penalty, told, PenaltyConfig(**_of(PenaltyConfig, given)), loop,
        learner_settings,
    )  # fmt: skip


def parse_settings(texts: list[str]) -> dict[str, Any]:
    """`key=value` texts as settings: numbers, true and false, or empty for none."""
    found = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise MethodError(f"'{text}' is not a setting: write key=value")
        found[key.strip()] = _value(value.strip())
    return found


def parse_sweep(texts: list[str]) -> dict[str, tuple[Any, ...]]:
    """`key=value,value,...` texts as settings with the values that they are to take."""
    found: dict[str, tuple[Any, ...]] = {}
    for text in texts:
        key, equals, values = (part.strip() for part in text.partition("="))
        given = tuple(_value(value.strip()) for value in values.split(","))
        if not equals or not key or not values:
            raise MethodError(f"'{text}' is nothing to sweep: write key=value,value,...")
        if len(set(map(repr, given))) < len(given):
            raise MethodError(f"'{text}': {key} would take the same value twice")
        if key in found:
            raise MethodError(f"'{text}': {key} is swept already; name all its values at once")
        found[key] = given
    return found


def _value(text: str) -> Any:
    if text in {"true", "false"}:
        return text == "true"
    if text in {"", "none"}:
        return None
    kinds: tuple[Callable[[str], Any], ...] = (int, float)
    for kind in kinds:
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _method(name: str) -> Method:
    found = find_method(name)
    if found is None:
        raise MethodError(f"unknown method '{name}'{did_you_mean(name, list(METHODS))}")
    return found


def _told(method: Method, penalty: str) -> str:
    """What the method is told; one that was given a penalty it does not have by itself: all."""
    return "all" if method.told == "nothing" and penalty != method.penalty else method.told


def _known(name: str, table: Mapping[str, Any], what: str) -> str:
    if name not in table:
        raise MethodError(f"unknown {what} '{name}'{did_you_mean(name, list(table))}")
    return name


def _fields(table: Any) -> set[str]:
    return {field.name for field in dataclasses.fields(table)}


def _of(table: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in given.items() if key in _fields(table)}
