"""What the machine can do today, read beside every timing."""

from __future__ import annotations

import os
import platform
import subprocess
import time

import numpy as np


def matmul_gflops(size: int = 1024, repeats: int = 5) -> float:
    """GFLOP/s of a plain float32 matrix product in numpy, the best of a few."""
    left = np.random.default_rng(0).standard_normal((size, size)).astype(np.float32)
    best = float("inf")
    for _ in range(repeats):
        started = time.perf_counter()
        _ = left @ left
        best = min(best, time.perf_counter() - started)
    return 2 * size**3 / best / 1e9


def described() -> str:
    """Commit, cores and Python, in one sentence."""
    return (
        f"Commit `{_commit()}`, {os.cpu_count()} cores ({platform.machine()}), "
        f"Python {platform.python_version()}."
    )


def _commit() -> str:
    """The commit, and whether code was changed since; what a benchmark writes into docs is none."""
    name = _git("describe", "--always")
    changed = _git("status", "--porcelain", "--", ".", ":!docs")
    return f"{name}{' with changes' if changed else ''}" if name else "unknown"


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], capture_output=True, text=True, check=False)
    return done.stdout.strip()
