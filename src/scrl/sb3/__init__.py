"""Rules for Stable-Baselines3: `Ruled` around an environment, `KeepRules` beside an algorithm.

env = scrl.sb3.Ruled("Pendulum-v1", rules="if left > 80 then right >= 60", labels={...})
model = PPO("MlpPolicy", env)
model.learn(100_000, callback=scrl.sb3.KeepRules(env))
"""

from importlib.util import find_spec

from scrl.errors import ScrlError

if find_spec("stable_baselines3") is None:
    raise ScrlError(
        "scrl.sb3 needs Stable-Baselines3, which is not installed: pip install 'scrl[sb3]'"
    )

from scrl.sb3.callback import KeepingConfig, KeepRules, MeasuredPolicy
from scrl.sb3.measuring import evaluate
from scrl.sb3.replay import RuledDictReplayBuffer, RuledNStepReplayBuffer, RuledReplayBuffer
from scrl.sb3.wrapper import Ruled

__all__ = [
    "KeepRules",
    "KeepingConfig",
    "MeasuredPolicy",
    "Ruled",
    "RuledDictReplayBuffer",
    "RuledNStepReplayBuffer",
    "RuledReplayBuffer",
    "evaluate",
]
