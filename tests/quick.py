"""How small things are compiled here: most of their time would go into optimising their code."""

from __future__ import annotations

import os
from pathlib import Path

import jax

QUICK = "jax_disable_most_optimizations"


def compile_quickly(cache: Path) -> None:
    """This process, before it computes, and the processes it starts; they share compiled code."""
    os.environ.update(
        JAX_COMPILATION_CACHE_DIR=str(cache),
        JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS="0",
        JAX_NUM_CPU_DEVICES="1",  # as here: code for more devices is other code
        # Code does not say which line of Python it stems from: 5 % less CPU time for compiling.
        JAX_TRACEBACK_IN_LOCATIONS_LIMIT="0",
        # Code that runs a quarter slower, and is there in half the time. In one part: splitting it
        # among threads takes a fifth more CPU time, and the cores are busy with other tests.
        XLA_FLAGS="--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1",
    )
    set_quick(True)
    jax.config.update("jax_compilation_cache_dir", str(cache))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_traceback_in_locations_limit", 0)


def set_quick(is_quick: bool) -> None:
    """Compile quickly from now on, or as users do; here and in the processes started here."""
    os.environ[QUICK.upper()] = str(int(is_quick))
    jax.config.update(QUICK, is_quick)
