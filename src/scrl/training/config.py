"""The settings of training: how much is collected, how kappa moves, which learner and penalty."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax

from scrl.errors import MethodError, did_you_mean
from scrl.learners import LEARNERS, Encoder, Learner, NetworkConfig
from scrl.learners.config import numbers_as_data
from scrl.penalty import PENALTIES, Drawn, Penalty
from scrl.rules import AtomTable, RuleSet, reading_of
from scrl.settings import check_settings, setting
from scrl.training.methods import METHODS, Method, find_method

SETTLE_FROM, SETTLE_TO = 0.5, 0.02
"""Beta while kappa settles falls from the first to the second share of the initial beta."""


@numbers_as_data
@dataclass(frozen=True)
class KappaConfig:
    """How kappa moves; the same for our learners and for those of Stable-Baselines3."""

    kappa_rate: float | None = setting(
        None, "Beta: how far kappa moves per unit of violation (none: by the world's scale).",
        low=0.0, high=1e9,
    )  # fmt: skip
    kappa_pace: float = setting(
        1.0, "Multiple of beta, where it is set by the world's scale.", low=0.0, high=1e6
    )
    proportional: float = setting(
        0.0, "Proportional term of kappa, as a multiple of beta (PID-Lagrangian).",
        low=0.0, high=1e6,
    )  # fmt: skip
    derivative: float = setting(
        0.0, "Derivative term of kappa, as a multiple of beta (PID-Lagrangian).",
        low=0.0, high=1e6,
    )  # fmt: skip
    windup: float = setting(
        1e9, "The largest violation that the integral term of kappa follows, in multiples of |b|.",
        low=0.0, high=1e9,
    )  # fmt: skip
    inset: float = setting(
        0.5, "How far inside each bound kappa aims, in steps of service.", low=0.0, high=1e6
    )
    run_inset: float = setting(
        2.5, "How far inside its bound each run first aims, in steps (rules on single runs).",
        low=0.0, high=1e6,
    )  # fmt: skip
    run_kappa_rate: float = setting(
        12.0, "Multiple of beta for a small excess at the end of learning (rules on single runs).",
        low=0.0, high=1e6,
    )  # fmt: skip
    episodes: int = setting(
        16, "Episodes behind each measurement, if the world is random.", low=1, high=100_000
    )
    deviations: float = setting(
        4.0, "Standard errors that a measured density must lie inside its bounds.",
        low=0.0, high=10.0,
    )  # fmt: skip
    settle: int = setting(
        200, "Rounds after learning in which kappa alone moves, with shrinking steps.",
        low=0, high=100_000,
    )  # fmt: skip

    def __post_init__(self) -> None:
        check_settings(self, error=MethodError)

    @staticmethod
    def settling_share(progress: Any) -> Any:
        """Beta as a share of the initial one, when this share of the settling is done."""
        return SETTLE_FROM + (SETTLE_TO - SETTLE_FROM) * progress


@numbers_as_data
@dataclass(frozen=True)
class LoopConfig(KappaConfig):
    """How much is collected in one round, and how kappa moves."""

    iterations: int = setting(200, "Rounds of collecting and learning.", low=1, high=10_000_000)
    worlds: int = setting(16, "Worlds side by side.", low=1, high=65_536)
    rollout_steps: int = setting(1024, "Steps in each world and rollout.", low=1, high=1_000_000)
    rollouts: int = setting(
        1, "Rollouts in each round, between two measurements.", low=1, high=10_000
    )
    kappa_spread: float = setting(
        0.0, "Spread of the kappas of worlds around the present one, as a natural logarithm.",
        low=0.0, high=10.0,
    )  # fmt: skip
    kappa_decay: float = setting(
        0.0, "Share of beta that is lost in the course of learning.", low=0.0, high=1.0
    )
    sees_prices: bool = setting(
        True, "Whether the policy sees what steps earn under the present kappa."
    )
    is_decomposed: bool = setting(
        False, "Whether the critic predicts the return and what each region receives separately."
    )
    settle_episodes: int = setting(
        256, "Episodes behind each measurement while kappa settles.", low=1, high=100_000
    )
    settle_share: float = setting(
        0.25, "The largest share of a budget that goes into settling.", low=0.0, high=1.0
    )
    budget: int | None = setting(
        None, "Steps of each seed in training, all counted, at most (none: no limit).",
        unit="steps", low=1, high=10**15,
    )  # fmt: skip

    def measured(self, *, is_random: bool, is_learning: bool) -> int:
        """Episodes behind one measurement: where chance plays no part, one tells everything."""
        if not is_random:
            return 1
        return self.episodes if is_learning else self.settle_episodes

    def within(self, budget: int, *, episode_steps: float, is_random: bool) -> LoopConfig:
        """As many rounds as a budget of steps for each seed allows, all that is driven counted.

        A share of it goes into settling. What an episode takes is only known once it is driven, so
        training also ends before a round that would not fit any more. A budget of less than one
        round makes that round shorter.
        """
        learn, settle = (
            episode_steps * self.measured(is_random=is_random, is_learning=is_learning)
            for is_learning in (True, False)
        )
        lanes = self.rollouts * self.worlds
        steps = min(self.rollout_steps, max(1, int((budget - learn) // lanes)))
        learn += lanes * steps
        rounds = (
            min(self.settle, int(self.settle_share * budget // settle)) if settle else self.settle
        )
        left = budget - rounds * settle
        return replace(
            self,
            rollout_steps=steps,
            iterations=max(1, int(left // learn)),
            settle=rounds,
            budget=budget,
        )


RENAMED: Mapping[str, str] = types.MappingProxyType(
    {
        "steps": "rollout_steps", "trace": "gae_lambda", "clip": "clip_range",
        "largest_gradient": "max_grad_norm", "entropy": "ent_coef", "memory": "buffer_size",
        "batch": "batch_size", "target_rate": "tau", "first_spread": "initial_std",
        "least_spread": "least_std", "target_spread": "target_std",
    }
)  # fmt: skip
"""Settings that had another name in older versions, whose run folders are still read."""
REMOVED = frozenset({"wobble", "last_kappa_rate", "warm_up"})
"""Settings of older versions that were of no use (docs/training.md, docs/environments.md)."""


@partial(
    jax.tree_util.register_dataclass, data_fields=["loop", "settings"], meta_fields=["learner"]
)
@dataclass(frozen=True)
class LearningPlan:
    """How it is learned: the loop, and a learner with its settings."""

    loop: LoopConfig
    learner: str
    settings: NetworkConfig

    @property
    def is_decomposed(self) -> bool:
        """Whether the critic predicts the return and what each region receives separately."""
        return self.loop.is_decomposed or LEARNERS[self.learner].needs_labels

    def discount(self, of_task: float) -> float:
        """What the learner discounts by: its own setting, else the discount of the task."""
        return of_task if self.settings.discount is None else self.settings.discount

    def for_task(self, discount: float) -> LearningPlan:
        """The plan for a task with that discount; only who counts the rounds asks for a budget."""
        settings = replace(self.settings, discount=self.discount(discount))
        return replace(self, loop=replace(self.loop, budget=None), settings=settings)

    def build(self, encoder: Encoder) -> Learner:
        """The learner for inputs of these sizes."""
        return LEARNERS[self.learner].make(self.settings, encoder)


PRESETS: Mapping[str, Mapping[str, Any]] = types.MappingProxyType(
    {
        "default": {},
        "paper": {
            "learner": "ddpg",
            "sharpness": 1.0,
            "run_sharpness": 1.0,
            "is_netted": False,
            "sees_prices": False,
            "inset": 0.0,
            "settle": 0,
            "worlds": 1,
            "updates": 256,
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
    run_sharpness: float = setting(
        6.0, "The same where rules must hold in single runs.", low=0.0, high=100.0
    )
    is_netted: bool = setting(
        True, "Whether the two kappas of an equality are netted: at most one stays above 0."
    )

    def __post_init__(self) -> None:
        check_settings(self, error=MethodError)


@dataclass(frozen=True)
class TrainingConfig:
    """All that decides a run beside the problem and the seeds."""

    method: str
    learner: str
    penalty: str
    reading: str
    penalty_settings: PenaltyConfig
    loop: LoopConfig
    learner_settings: NetworkConfig

    @property
    def plan(self) -> LearningPlan:
        return LearningPlan(self.loop, self.learner, self.learner_settings)

    def penalty_rule(self, *, is_in_runs: bool = False) -> Penalty:
        """The penalty with its settings, for rules on average or some on single runs."""
        given = self.penalty_settings
        kind = PENALTIES[self.penalty]
        sharpness = given.run_sharpness if is_in_runs else given.sharpness
        own = {"sharpness": sharpness} if issubclass(kind, Drawn) else {}
        return kind(**own, is_netted=given.is_netted)

    def read(self, rules: RuleSet) -> AtomTable:
        """What the method is told of the rules; more than its learner can take is refused."""
        reading = reading_of(rules, self.reading)
        told, most = len(reading.atoms), LEARNERS[self.learner].most_atoms
        if told > most:
            raise MethodError(
                f"the learner '{self.learner}' can be told at most {most} atoms, and the reading "
                f"'{self.reading}' of these rules has {told}"
            )
        return reading

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
            "reading": self.reading,
            "settings": settings,
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> TrainingConfig:
        """The same again from what `to_json` wrote."""
        method, learner, penalty = (document.get(key) for key in ("method", "learner", "penalty"))
        reading = document.get("reading", document.get("told"))  # the name in older folders
        settings = {
            RENAMED.get(name, name): value
            for name, value in document.get("settings", {}).items()
            if name not in REMOVED
        }
        if "ent_coef" in settings:  # older policies took the likeliest choice
            settings.setdefault("is_greedy", True)
        if "sees_prices" in settings:  # in older folders one setting stood for both
            settings.setdefault("is_decomposed", settings["sees_prices"])
        return configure(
            method, learner=learner, penalty=penalty, reading=reading, settings=settings
        )


def configure(  # noqa: PLR0913 (one for each thing that a user may want to say)
    method: str | None = None,
    *,
    learner: str | None = None,
    penalty: str | None = None,
    reading: str | None = None,
    preset: str | None = None,
    steps: int | None = None,
    settings: Mapping[str, Any] | None = None,
    usual: Mapping[str, Any] | None = None,
    episode_steps: float = 0.0,
    is_random: bool = False,
) -> TrainingConfig:
    """A method with some of its parts and settings changed; unknown names raise.

    What is named directly wins over the preset, the preset over the method's settings, and these
    over what is `usual` in a world; a method that is built on one learner keeps it. `steps` is the
    whole budget of environment steps for each seed: learning, measuring and settling. How
    many rounds that allows hangs on about how long an episode is (`episode_steps`), and on whether
    chance plays a part.
    """
    method = method or "scrl"
    chosen = _method(method)
    of_preset = dict(PRESETS[_known(preset or "default", PRESETS, "preset")])
    default = of_preset.pop("learner", "ppo")
    learner = _known(learner or chosen.learner or default, LEARNERS, "learner")
    given = {**(usual or {}), **chosen.settings, **of_preset}
    penalty = _known(penalty or chosen.penalty, PENALTIES, "penalty")
    reading = reading or _reading(chosen, penalty)
    config = LEARNERS[learner].config
    known = _fields(PenaltyConfig) | _fields(LoopConfig) | _fields(config)
    # A preset and a world speak to all learners: what this one does not know is left out.
    given = {key: value for key, value in given.items() if key in known} | dict(settings or {})
    for key in given:
        if key in REMOVED:
            raise MethodError(f"there is no setting '{key}' any more: it made no difference")
        if key in RENAMED:
            raise MethodError(f"the setting '{key}' is now called '{RENAMED[key]}'")
        if key not in known:
            raise MethodError(f"unknown setting '{key}'{did_you_mean(key, sorted(known))}")
    loop = LoopConfig(**_of(LoopConfig, given))
    if steps is not None:
        loop = loop.within(steps, episode_steps=episode_steps, is_random=is_random)
    learner_settings = config(**_of(config, given))
    smallest = getattr(learner_settings, "minibatches", 1)
    if (collected := loop.worlds * loop.rollout_steps) < smallest:
        raise MethodError(
            f"worlds x rollout_steps = {collected} is less than minibatches = {smallest}: there "
            "would be nothing to learn from"
        )
    return TrainingConfig(
        method, learner, penalty, reading, PenaltyConfig(**_of(PenaltyConfig, given)), loop,
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


def _reading(method: Method, penalty: str) -> str:
    """What the method is told; one that was given a penalty it does not have by itself: all."""
    return "all" if method.reading == "nothing" and penalty != method.penalty else method.reading


def _known(name: str, table: Mapping[str, Any], what: str) -> str:
    if name not in table:
        raise MethodError(f"unknown {what} '{name}'{did_you_mean(name, list(table))}")
    return name


def _fields(table: Any) -> set[str]:
    return {field.name for field in dataclasses.fields(table)}


def _of(table: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in given.items() if key in _fields(table)}
