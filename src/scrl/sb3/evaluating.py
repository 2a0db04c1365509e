"""A model -> an `Evaluation`, the same as for our own policies."""

from __future__ import annotations

from stable_baselines3.common.base_class import BaseAlgorithm

from scrl.evaluation import DEFAULT_EPISODES, Evaluation, checked_episodes, verdict
from scrl.sb3.measuring import MeasuringLanes, together
from scrl.sb3.ruled import Ruled
from scrl.trained import REPORT_SEED

SIDE_BY_SIDE = 16
"""Episodes driven at once."""


def evaluate(
    model: BaseAlgorithm,
    env: Ruled,
    *,
    episodes: int | None = None,
    seed: int = REPORT_SEED,
    tolerance: float = 1e-6,
) -> Evaluation:
    """Drive whole episodes without noise and hold their densities against the rules.

    Without `episodes`: 100, or one where chance plays no part.
    """
    usual = DEFAULT_EPISODES if env.room.is_random else 1
    wanted = checked_episodes(usual if episodes is None else episodes)
    lanes = MeasuringLanes(env, min(wanted, SIDE_BY_SIDE), seed)
    rounds = -(-wanted // SIDE_BY_SIDE)
    # Every round is driven to its end, so which are left out does not hang on their length.
    ran = together([lanes.run(model) for _ in range(rounds)]).first(wanted)
    lanes.close()
    return Evaluation(
        problem=env.room.name,
        policy=type(model).__name__,
        unit=env.room.unit,
        return_=float(ran.return_.mean()),
        episodes=len(ran.return_),
        episodes_truncated=int(ran.is_truncated.sum()),
        steps=float(ran.steps.mean()),
        is_horizon_an_end=not env.room.must_end,
        **verdict(env.rules, ran.density, ran.amounts, tolerance),
    )
