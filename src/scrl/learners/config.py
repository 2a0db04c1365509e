"""The settings of each learner."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, TypeVar

import jax
from jaxtyping import Array, Float

from scrl.errors import MethodError
from scrl.settings import check_settings, setting

Config = TypeVar("Config", bound=type[Any])

COMPILED_IN = frozenset(
    {"discount", "first_mean", "initial_std", "last_std", "least_std", "target_std"}
)
"""Fractional settings that are constants of compiled programs, like those that are whole."""

COUNTS_AS_DATA = frozenset({"iterations", "settle"})
"""Whole settings that are data like fractional ones: a program does one round, however many."""


def numbers_as_data(config: Config) -> Config:
    """Let the fractional settings of a frozen dataclass be traced, and its numbers of rounds.

    Runs that differ in these alone share one compiled program, and can run side by side in it. All
    other settings decide the shapes and the operations of the program.
    """
    names = [field.name for field in dataclasses.fields(config)]
    types = {field.name: str(field.type) for field in dataclasses.fields(config)}
    fractional = {each for each in names if types[each].startswith("float")} - COMPILED_IN
    data = [each for each in names if each in fractional | COUNTS_AS_DATA]
    fixed = [each for each in names if each not in data]

    def flatten(given: Any) -> tuple[list[Any], tuple[Any, ...]]:
        return [getattr(given, name) for name in data], tuple(getattr(given, n) for n in fixed)

    def unflatten(constants: tuple[Any, ...], numbers: Any) -> Any:
        made = object.__new__(config)  # the values were checked when the original was made
        for name, value in zip([*data, *fixed], [*numbers, *constants], strict=True):
            object.__setattr__(made, name, value)
        return made

    jax.tree_util.register_pytree_node(config, flatten, unflatten)
    return config


_POSITIVE = {"low": 0.0, "is_low_open": True}


@numbers_as_data
@dataclass(frozen=True)
class NetworkConfig:
    """Settings of all learners."""

    discount: float | None = setting(
        None, "Discount per step of the learner (none: that of the problem, usually 1).",
        **_POSITIVE, high=1.0,
    )  # fmt: skip
    width: int = setting(64, "Units in each hidden layer of actor and critic.", low=1, high=4096)
    depth: int = setting(2, "Hidden layers of actor and critic.", low=0, high=8)
    learning_rate: float = setting(
        1e-3, "Learning rate of Adam at the start.", **_POSITIVE, high=1.0
    )
    last_rate: float = setting(
        0.1, "Learning rate at the end, as a share of that at the start.", low=0.0, high=1.0
    )
    first_mean: float = setting(0.6, "Throttle of the untrained policy.", low=0.0, high=1.0)

    def __post_init__(self) -> None:
        check_settings(self, error=MethodError)

    @property
    def gamma(self) -> float:
        """The discount, 1 if none is set."""
        return 1.0 if self.discount is None else self.discount

    def rate_at(self, progress: Float[Array, ""]) -> Float[Array, ""]:
        """The learning rate, which decreases linearly from the first to the last."""
        return self.learning_rate * (1.0 - (1.0 - self.last_rate) * progress)

    @property
    def hidden(self) -> tuple[int, ...]:
        """Widths of the hidden layers."""
        return (self.width,) * self.depth


@numbers_as_data
@dataclass(frozen=True)
class OnPolicyConfig(NetworkConfig):
    """Settings of learners that learn from the steps of the present policy."""

    learning_rate: float = setting(
        2e-3, "Learning rate of Adam at the start.", **_POSITIVE, high=1.0
    )
    gae_lambda: float = setting(
        0.97, "Lambda of generalised advantage estimation.", low=0.0, high=1.0
    )
    epochs: int = setting(2, "Epochs over each batch.", low=1, high=100)
    minibatches: int = setting(8, "Minibatches of an epoch, one Adam step each.", low=1, high=4096)
    pull: float = setting(
        3.0, "Weight of the loss of mean throttles outside [0, 1].", low=0.0, high=1e6
    )
    ent_coef: float = setting(
        0.01, "Entropy coefficient at the start (discrete actions); falls as the learning rate.",
        low=0.0, high=1e3,
    )  # fmt: skip
    is_greedy: bool = setting(
        False, "Whether policies take the likeliest of discrete actions, instead of drawing one."
    )
    max_grad_norm: float = setting(
        0.5, "Norm to which gradients are clipped.", **_POSITIVE, high=1e6
    )
    initial_std: float = setting(
        0.25, "Standard deviation of the actions at the start.", **_POSITIVE, high=10.0
    )
    least_std: float = setting(
        0.1, "Smallest standard deviation of the actions.", **_POSITIVE,
        high=10.0,
    )  # fmt: skip
    is_by_world: bool = setting(
        False, "Whether advantages are normalised in each world by itself (any prices)."
    )


@numbers_as_data
@dataclass(frozen=True)
class PpoConfig(OnPolicyConfig):
    """Proximal policy optimisation."""

    actor_share: float = setting(
        1.0, "Learning rate of the actor, as a share of the critic's.", low=0.0, high=1.0
    )
    clip_range: float = setting(
        0.2, "Clip range of the probability ratio in one update.", **_POSITIVE, high=1.0
    )
    last_std: float | None = setting(
        None, "Largest standard deviation of the actions at the end; the limit falls geometrically "
        "from `initial_std` (none: no limit).", **_POSITIVE, high=10.0,
    )  # fmt: skip

    def log_std_limit(self, progress: Float[Array, ""]) -> Float[Array, ""] | float:
        """The largest logarithm of a standard deviation when this share of learning is done."""
        if self.last_std is None:
            return math.inf
        first, last = math.log(self.initial_std), math.log(self.last_std)
        return first + (last - first) * progress


@numbers_as_data
@dataclass(frozen=True)
class CpoConfig(OnPolicyConfig):
    """Constrained policy optimisation, and its variant by projection."""

    trust_region: float = setting(
        0.003, "Delta: the largest mean KL divergence of an update at the start.",
        **_POSITIVE, high=10.0,
    )  # fmt: skip
    damping: float = setting(
        0.1, "Multiple of the identity that is added to the Hessian of the KL divergence.",
        low=0.0, high=1e3,
    )  # fmt: skip
    hessian_steps: int = setting(
        2048, "Steps of a rollout that the Hessian is computed from, at most.", low=1, high=10**8
    )

    def delta_at(self, progress: Float[Array, ""]) -> Float[Array, ""]:
        """Delta; its square root, the length of a step, decreases like the learning rate."""
        return self.trust_region * (self.rate_at(progress) / self.learning_rate) ** 2


@numbers_as_data
@dataclass(frozen=True)
class ReplayConfig(NetworkConfig):
    """Settings of learners with a replay buffer."""

    buffer_size: int = setting(
        100_000, "Capacity of the replay buffer, in transitions.", low=1, high=10_000_000
    )
    batch_size: int = setting(128, "Transitions in each update.", low=1, high=65_536)
    updates: int = setting(1024, "Updates in each iteration.", low=1, high=1_000_000)
    tau: float = setting(
        0.005, "Coefficient tau of the soft update of the target networks.", **_POSITIVE, high=1.0
    )
    pull: float = setting(1.0, "Weight of the loss of throttles outside [0, 1].", low=0.0, high=1e6)


@numbers_as_data
@dataclass(frozen=True)
class DdpgConfig(ReplayConfig):
    """Deep deterministic policy gradient."""

    noise: float = setting(
        0.2, "Standard deviation of the exploration noise on the throttle.", low=0.0, high=10.0
    )
    is_squashed: bool = setting(
        False, "Whether the throttle goes through a sigmoid (the usual form; it saturates)."
    )


@numbers_as_data
@dataclass(frozen=True)
class SacConfig(ReplayConfig):
    """Soft actor-critic."""

    target_std: float = setting(
        0.1, "Target standard deviation of the actions, which sets the temperature.", **_POSITIVE,
        high=10.0,
    )  # fmt: skip


@numbers_as_data
@dataclass(frozen=True)
class CalConfig(SacConfig):
    """Soft actor-critic with cost critics and an augmented Lagrangian."""

    cost_critics: int = setting(4, "Networks that predict the costs.", low=1, high=64)
    confidence: float = setting(
        0.5, "Standard deviations of the cost critics that are added to their mean.",
        low=0.0, high=10.0,
    )  # fmt: skip
    convexity: float = setting(
        10.0, "Weight c of the squared violation in the augmented Lagrangian.", low=0.0, high=1e6
    )
    multiplier_rate: float = setting(
        1e-4, "Learning rate of the logarithms of the multipliers.", **_POSITIVE, high=1.0
    )
    first_multiplier: float = setting(0.7, "The multipliers at the start.", **_POSITIVE, high=1e6)
