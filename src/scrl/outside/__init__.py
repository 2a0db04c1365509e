"""Anybody's Gymnasium environment with rules of your own."""

import jax

from scrl.outside.contract import EnvironmentFault
from scrl.outside.policy import OutsidePolicy
from scrl.outside.problem import EnvironmentProblem, environment

# Lanes wait for every action: handing it to a thread and back would only take time, and on a busy
# machine most of the time there is. (Of no effect once JAX has begun.)
jax.config.update("jax_cpu_enable_async_dispatch", False)

__all__ = ["EnvironmentFault", "EnvironmentProblem", "OutsidePolicy", "environment"]
