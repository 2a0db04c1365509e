"""Who races in `benchmarks.peers`: each tells of every policy that it measures.

Nothing is imported before it is needed: a contestant's Python may have little but its own package.
"""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Callable
from typing import Any

PROBLEM = "agri-situational"
WORLDS, STRETCH, PASSES, PARTS = 16, 1024, 2, 8
"""Our own PPO settings, for all who have them."""


def tell(return_: float, violation: float, is_whole: bool, steps: int) -> None:
    """One measured policy, to whoever watches."""
    measured = {"return": return_, "violation": violation, "whole": is_whole, "steps": steps}
    print(json.dumps(measured), flush=True)


def by_scrl() -> None:
    """`scrl train` with its defaults."""
    import scrl
    from scrl.training.progress import TrainingProgress

    problem = scrl.load(PROBLEM)
    horizon = problem.world_spec.route.horizon_steps

    def watch(progress: TrainingProgress) -> None:
        seen = progress.metrics
        is_whole = float(seen.steps[0]) < horizon
        tell(float(seen.return_[0]), float(seen.violation[0]), is_whole, progress.env_steps)

    with tempfile.TemporaryDirectory() as folder:
        scrl.train(problem, out=f"{folder}/run", watch=watch)


def by_asking() -> None:
    """`scrl ask`: nothing is trained."""
    import scrl

    problem = scrl.load(PROBLEM)
    found = scrl.planner().ask(problem, problem.rules.rules[0].text).evaluation
    tell(found.return_, found.cons_vio, found.episodes_truncated == 0, 0)


def by_sb3(learner: Any, **options: Any) -> None:
    """An algorithm with the interface of SB3, and our wrapper and callback."""
    import gymnasium
    import numpy as np
    from stable_baselines3.common.callbacks import BaseCallback

    import scrl

    problem = scrl.load(PROBLEM)
    low, high = np.float32(-1.0), np.float32(1.0)

    def make() -> Any:
        return gymnasium.wrappers.RescaleAction(scrl.gym.make(problem), low, high)

    class Telling(BaseCallback):
        told = 0

        def _on_step(self) -> bool:
            for each in keep.history[self.told :]:
                tell(each.return_, each.violation, each.is_whole, each.timesteps)
            self.told = len(keep.history)
            return True

    env = scrl.sb3.Ruled(make, problem.rules, worlds=WORLDS)
    keep = scrl.sb3.KeepRules(env, every=WORLDS * STRETCH // 2)
    model = learner("MlpPolicy", env, gamma=1.0, seed=0, device="cpu", **options)
    model.learn(10_000_000, callback=[keep, Telling()])


def ppo_options() -> dict[str, Any]:
    """Our own settings, and half of our stretch: SB3's rounds are slower."""
    stretch = STRETCH // 2
    size = WORLDS * stretch // PARTS
    return {
        "n_steps": stretch, "batch_size": size, "n_epochs": PASSES, "gae_lambda": 0.97,
        "learning_rate": 2e-3,
    }  # fmt: skip


def by_sb3_ppo() -> None:
    import torch
    from stable_baselines3 import PPO

    torch.set_num_threads(1)
    nets = {"net_arch": [64, 64], "activation_fn": torch.nn.Tanh}
    by_sb3(PPO, policy_kwargs=nets, **ppo_options())


def by_sbx_ppo() -> None:
    from sbx import PPO  # pyright: ignore[reportMissingImports]

    by_sb3(PPO, policy_kwargs={"net_arch": [64, 64]}, **ppo_options())


class OneCost:
    """The world as libraries with one cost want it. They know no `or`: they are told S3 >= 800.

    A step in S3 costs -1, and the limit is -800 / 2.25 steps.
    """

    def __init__(self, *, is_rescaled: bool = False) -> None:
        import scrl

        self.is_rescaled = is_rescaled
        """Whether actions go from -1 to 1: else an untrained policy around 0 stands still."""
        self.problem = scrl.load(PROBLEM)
        self.rate = self.problem.world_spec.vehicle.rate
        self.limit = -800.0 / self.rate
        self.steps = 0

    def make(self) -> Any:
        import gymnasium
        import numpy as np

        import scrl

        third = self.problem.rules.regions.index("S3")
        world = self

        class Costly(gymnasium.Wrapper):  # pyright: ignore[reportMissingTypeArgument]
            def step(self, action: Any) -> Any:
                world.steps += 1
                seen, reward, terminated, truncated, info = self.env.step(action)
                info["cost"] = -float(info["labels"][third])
                return seen, reward, terminated, truncated, info

        env = Costly(scrl.gym.make(self.problem))
        if not self.is_rescaled:
            return env
        return gymnasium.wrappers.RescaleAction(env, np.float32(-1.0), np.float32(1.0))

    def measure(self, choose: Callable[[Any], Any]) -> None:
        """One whole episode without noise; its steps do not count."""
        import numpy as np

        before, env, return_ = self.steps, self.make(), 0.0
        amounts = np.zeros(len(self.problem.rules.regions))
        seen, _ = env.reset()
        is_over = is_whole = False
        while not is_over:
            seen, reward, is_whole, is_cut, info = env.step(choose(seen))
            return_, amounts = return_ + reward, amounts + self.rate * info["labels"]
            is_over = is_whole or is_cut
        rules = self.problem.rules
        density = dict(zip(rules.regions, map(float, amounts), strict=True))
        self.steps = before
        tell(return_, 0.0 if rules.holds(density) else math.inf, is_whole, before)


def by_fsrl() -> None:
    """PPO-Lagrangian of FSRL (fast-safe-rl)."""
    import torch
    from fsrl.agent import PPOLagAgent  # pyright: ignore[reportMissingImports]
    from tianshou.env import DummyVectorEnv  # pyright: ignore[reportMissingImports]

    world = OneCost()
    agent = PPOLagAgent(
        world.make(), cost_limit=world.limit, gamma=1.0, gae_lambda=0.97, hidden_sizes=(64, 64),
        lr=2e-3, thread=1, seed=0,
    )  # fmt: skip

    def choose(seen: Any) -> Any:
        with torch.no_grad():
            mean = agent.policy.actor(seen[None])[0][0]
        return agent.policy.map_action(mean.numpy()[0])

    worlds = DummyVectorEnv([world.make for _ in range(WORLDS)])
    while True:
        agent.policy.eval()
        world.measure(choose)
        agent.learn(
            worlds, epoch=1, episode_per_collect=WORLDS, step_per_epoch=WORLDS * STRETCH // 2,
            repeat_per_collect=PASSES, batch_size=1024, verbose=False, show_progress=False,
            save_ckpt=False, reward_threshold=math.inf,
        )  # fmt: skip


def by_masa() -> None:
    """PPO-Lagrangian of MASA (masa-safe-rl); it drives one world at a time."""
    import jax
    from masa.algorithms.on_policy.ppo_lag import PPOLag  # pyright: ignore[reportMissingImports]
    from masa.common.constraints.cmdp import (  # pyright: ignore[reportMissingImports]
        CumulativeCostEnv,
    )
    from masa.common.labelled_env import LabelledEnv  # pyright: ignore[reportMissingImports]
    from masa.common.wrappers import (  # pyright: ignore[reportMissingImports]
        ConstraintMonitor,
        RewardMonitor,
    )

    from scrl.worlds.sweep.observation import OBSERVED_SCALARS

    world = OneCost(is_rescaled=True)
    third = OBSERVED_SCALARS + world.problem.rules.regions.index("S3")

    class Told(PPOLag):
        def eval(self, *_: Any, **__: Any) -> list[float]:
            key = jax.random.key(0)
            world.measure(lambda seen: self.act(key, seen, deterministic=True))
            return []

    env = CumulativeCostEnv(
        LabelledEnv(world.make(), lambda seen: {"S3"} if seen[third] > 0 else set()),
        cost_fn=lambda labels: -float("S3" in labels), budget=world.limit,
    )  # fmt: skip
    env = RewardMonitor(ConstraintMonitor(env))
    agent = Told(
        env, cost_limit=world.limit, cost_gamma=1.0, cost_gae_lambda=0.97, gamma=1.0,
        gae_lambda=0.97, n_steps=WORLDS * STRETCH // 2, batch_size=1024, n_epochs=PASSES,
        learning_rate=2e-3, seed=0,
    )  # fmt: skip
    agent.eval()
    agent.train(10_000_000, num_eval_episodes=1, eval_freq=WORLDS * STRETCH // 2, log_freq=0)


CONTESTANTS: dict[str, tuple[str, Callable[[], None]]] = {
    "ask": ("`scrl ask` (no training)", by_asking),
    "scrl": ("`scrl train`", by_scrl),
    "again": ("`scrl train`, compiled code on disk", by_scrl),
    "sb3": ("SB3 PPO + `scrl.sb3`", by_sb3_ppo),
    "sbx": ("SBX PPO + `scrl.sb3`", by_sbx_ppo),
    "fsrl": ("FSRL PPO-Lagrangian, told S3 >= 800", by_fsrl),
    "masa": ("MASA PPO-Lagrangian, told S3 >= 800", by_masa),
}
