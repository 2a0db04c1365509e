"""Replay buffers that remember raw rewards and labels, and price them when they are sampled.

A buffer of punished rewards would go on teaching the punishments of long ago: kappa moves, what is
stored does not. So what is stored is what happened, and kappa comes last, as in our own learners.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from stable_baselines3.common.buffers import (
    BaseBuffer,
    DictReplayBuffer,
    NStepReplayBuffer,
    ReplayBuffer,
)
from stable_baselines3.common.vec_env import VecNormalize

from scrl.errors import ScrlError
from scrl.sb3.charges import Charges

STEP = "scrl.step"
"""The key of `info` under which a `Ruled` world leaves the raw reward and the labels of a step."""


class PricedRewards:
    """Looks like an array of rewards: written raw, with labels; read at the present prices."""

    def __init__(self, slots: int, worlds: int) -> None:
        self.raw = np.zeros((slots, worlds), np.float32)
        self.labels: np.ndarray | None = None
        self.kappas: np.ndarray | None = None
        """Those of the batch that is being read."""
        self.charges: Charges | None = None

    def remember(self, slot: int, steps: list[tuple[float, np.ndarray]]) -> None:
        """What happened in every world."""
        if self.labels is None:
            self.labels = np.zeros((*self.raw.shape, len(steps[0][1])), np.float32)
        self.raw[slot] = [reward for reward, _ in steps]
        self.labels[slot] = [labels for _, labels in steps]

    def __setitem__(self, place: Any, rewards: Any) -> None:
        """The punished rewards that SB3 writes are let go: `remember` has the raw ones."""

    def __getitem__(self, place: Any) -> np.ndarray:
        raw = self.raw[place]
        if self.charges is None or self.labels is None or self.kappas is None:
            return raw
        labels = self.labels[place]
        each = np.repeat(self.kappas, raw[0].size, axis=0)  # n-step returns read several a sample
        sigma = self.charges.of(labels.reshape(-1, labels.shape[-1]), each)
        return raw - sigma.reshape(raw.shape)

    def __getstate__(self) -> dict[str, Any]:
        """Everything but the charges, which belong to the world."""
        return {**self.__dict__, "charges": None, "kappas": None}


class _Repricing(ReplayBuffer):
    """What the three buffers below add to those of SB3."""

    rewards: Any
    sees_prices: bool = False

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.rewards = PricedRewards(self.buffer_size, self.n_envs)
        self._normalize_obs = self._as_seen_today

    def attach(self, charges: Charges, *, sees_prices: bool) -> None:
        """Price by these from now on; the callback `KeepRules` calls it."""
        self.rewards.charges = charges
        self.sees_prices = sees_prices

    def add(self, *args: Any, **named: Any) -> None:
        """Remember a step of every world."""
        infos = named["infos"] if "infos" in named else args[5]
        if any(STEP not in info for info in infos):
            raise ScrlError(
                "a step without labels came to the replay buffer: the model must learn in a "
                "scrl.sb3.Ruled environment"
            )
        self.rewards.remember(self.pos, [info[STEP] for info in infos])
        super().add(*args, **named)

    def _get_samples(self, batch_inds: np.ndarray, env: VecNormalize | None = None) -> Any:
        if self.rewards.charges is not None:
            self.rewards.kappas = self.rewards.charges.kappas_of_worlds(len(batch_inds))
        return super()._get_samples(batch_inds, env)

    def _as_seen_today(self, obs: Any, env: VecNormalize | None = None) -> Any:
        """Observations with the prices of this batch."""
        charges, kappas = self.rewards.charges, self.rewards.kappas
        if self.sees_prices and charges is not None and kappas is not None:
            prices = charges.prices(kappas)
            obs[..., -prices.shape[-1] :] = prices
        return BaseBuffer._normalize_obs(obs, env)


class RuledReplayBuffer(_Repricing):
    """SB3's `ReplayBuffer`, priced when sampled."""


class RuledDictReplayBuffer(_Repricing, DictReplayBuffer):
    """SB3's `DictReplayBuffer`, priced when sampled."""


class RuledNStepReplayBuffer(_Repricing, NStepReplayBuffer):
    """SB3's `NStepReplayBuffer`, priced when sampled."""


_RULED = {
    ReplayBuffer: RuledReplayBuffer,
    DictReplayBuffer: RuledDictReplayBuffer,
    NStepReplayBuffer: RuledNStepReplayBuffer,
}


def repricing(old: ReplayBuffer) -> _Repricing:
    """The same buffer, still empty, but priced when sampled."""
    if isinstance(old, _Repricing):
        return old
    if type(old) not in _RULED:
        raise ScrlError(
            f"rules cannot price a {type(old).__name__}: use ReplayBuffer, DictReplayBuffer or "
            "NStepReplayBuffer of Stable-Baselines3, or leave replay_buffer_class out"
        )
    if old.size():
        raise ScrlError(
            f"the replay buffer holds {old.size():,} steps without labels, which cannot be priced: "
            "start with a new model, or with replay_buffer_class=scrl.sb3.RuledReplayBuffer from "
            "the beginning"
        )
    options: dict[str, Any] = {
        "device": old.device,
        "n_envs": old.n_envs,
        "optimize_memory_usage": old.optimize_memory_usage,
        "handle_timeout_termination": old.handle_timeout_termination,
    }
    if isinstance(old, NStepReplayBuffer):
        options |= {"n_steps": old.n_steps, "gamma": old.gamma}
    # SB3 shares the size out among the worlds; here it is shared out already.
    size = old.buffer_size * old.n_envs
    return _RULED[type(old)](size, old.observation_space, old.action_space, **options)
