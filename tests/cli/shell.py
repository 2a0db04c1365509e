"""Commands as a user's shell sees them: in a process of their own or, sooner, in this one."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

from typer.testing import CliRunner

from scrl.cli.app import app

SCRL = [sys.executable, "-m", "scrl"]

Done = subprocess.CompletedProcess[str]


def run(*arguments: str, cwd: Path | None = None, **variables: str) -> Done:
    """A command in a process of its own."""
    return subprocess.run(
        [*SCRL, *arguments], capture_output=True, text=True, cwd=cwd, timeout=300,
        env={**os.environ, **variables},
    )  # fmt: skip


def call(*arguments: str, cwd: Path) -> Done:
    """A command in this process, which has imported and compiled what it needs."""
    with contextlib.chdir(cwd):
        done = CliRunner().invoke(app, arguments)
    return subprocess.CompletedProcess(arguments, done.exit_code, done.stdout, done.stderr)
