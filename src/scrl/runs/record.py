"""What was run, with what, and where."""

from __future__ import annotations

import dataclasses
import os
import platform
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from scrl._version import __version__
from scrl.errors import visible
from scrl.runs.files import Range, RunError, conform, plain

PACKAGE_FOLDER = Path(__file__).resolve().parents[1]
GIT_TIMEOUT_S = 5.0


@dataclass(frozen=True)
class RunRecord:
    """What was run, with what, and where: the content of run.json."""

    problem: str
    """Name of the problem; the problem itself lies beside the record."""
    method: str
    """Name of the method."""
    settings: dict[str, Any]
    """Every setting of the method, as plain values."""
    seeds: tuple[int, ...]
    """The seeds that are trained side by side."""
    version: str
    """Version of scrl."""
    commit: str | None
    """Commit of scrl's own checkout, with `+changes` if there are any; none where installed."""
    command: str
    """The command line."""
    python: str
    """Version of Python."""
    jax: str
    """Version of JAX."""
    device: str
    """Kind of the device that trains."""
    created: str
    """When the run was begun, in UTC."""

    @property
    def reading(self) -> str:
        """What the method is told of the rules; `told` was its name in older folders."""
        return self.settings.get("reading", self.settings.get("told", "all"))

    @classmethod
    def now(
        cls, problem: str, method: str, settings: Mapping[str, Any], seeds: Sequence[int]
    ) -> RunRecord:
        """The record of a run that begins here and now."""
        import jax

        return cls(
            problem=problem,
            method=method,
            settings=plain(settings),
            seeds=tuple(int(seed) for seed in seeds),
            version=__version__,
            commit=git_commit(),
            command=_command(),
            python=platform.python_version(),
            jax=jax.__version__,
            device=jax.devices()[0].device_kind,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
        )

    @classmethod
    def of(cls, document: Mapping[str, Any], path: Path) -> RunRecord:
        """The record in a document, checked; `path` is where it was read."""
        conform(document, RECORD, str(path))
        values: dict[str, Any] = {name: document[name] for name in RECORD}
        values["seeds"] = tuple(values["seeds"])
        if not values["seeds"] or len(set(values["seeds"])) < len(values["seeds"]):
            raise RunError(f"{path}: 'seeds' must hold one or more different whole numbers")
        return cls(**values)


RECORD: Mapping[str, Any] = {
    **{field.name: str for field in dataclasses.fields(RunRecord)},
    "settings": {
        "method?": str, "learner?": str, "penalty?": str, "reading?": str, "told?": str,
        "settings?": dict,
        "worlds?": [str], "confidence?": int | float | None,
    },
    "seeds": [Range(int, 0, 2**32)],
    "commit": str | None,
}  # fmt: skip
"""What run.json holds; which settings there are depends on the method."""


def git_commit(package: Path = PACKAGE_FOLDER) -> str | None:
    """The commit of the checkout that the package lies in, if that is its own.

    `+changes` follows if the package's files are not those of the commit.
    """
    top = _git(package, "rev-parse", "--show-toplevel")
    if not top or Path(top).resolve() / "src" / "scrl" != package.resolve():
        return None
    # The package's own files decide what a run does; notes and results beside it do not.
    changes = _git(package, "status", "--porcelain", "--", ".")
    commit = _git(package, "rev-parse", "HEAD")
    if not commit or changes is None:
        return None
    return f"{commit}+changes" if changes else commit


def _git(folder: Path, *arguments: str) -> str | None:
    """What git says, or none where it is missing, fails, or takes too long."""
    program = shutil.which("git")
    if program is None:
        return None
    # Variables of an outer git (hooks set them) would make it look elsewhere.
    outside = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(  # noqa: S603
            [program, *arguments],
            cwd=folder,
            env=outside | {"GIT_OPTIONAL_LOCKS": "0"},
            capture_output=True,
            timeout=GIT_TIMEOUT_S,
            check=True,
            text=True,
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _command() -> str:
    """The command line, without the folders in which the program lies."""
    script = Path(sys.argv[0])
    program = script.parent.name if script.name == "__main__.py" else script.name
    return visible(shlex.join([program, *sys.argv[1:]]))
