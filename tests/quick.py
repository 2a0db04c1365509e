"""How small things are compiled here: most of their time would go into optimising their code."""

from __future__ import annotations

XLA_FLAGS = "--xla_cpu_use_fusion_emitters=false"
"""Code that runs a quarter slower, and is there in half the time."""

COMPILING = {"JAX_DISABLE_MOST_OPTIMIZATIONS": "1", "XLA_FLAGS": XLA_FLAGS}
"""For the environment of commands."""
