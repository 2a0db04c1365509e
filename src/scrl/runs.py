"""Run folders: write, checkpoint, resume, read. Nothing that is read is ever executed."""

from __future__ import annotations

import dataclasses
import itertools
import os
import re
import secrets
import shlex
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from scrl.errors import writing
from scrl.problems import Problem, load_file, save
from scrl.runfiles.environment import KeptEnvironment
from scrl.runfiles.events import EventFiles
from scrl.runfiles.files import (
    SCHEMA,
    RunError,
    checked_size,
    json_line,
    parse_json,
    plain,
    read_json,
    replacing,
    rounded,
    sha256,
    write_json,
)
from scrl.runfiles.record import RunRecord, git_commit
from scrl.runfiles.trees import read_tree, write_tree

__all__ = [
    "Checkpoint",
    "KeptEnvironment",
    "RunError",
    "RunFolder",
    "RunRecord",
    "git_commit",
    "new_run_path",
]

LARGEST_METRICS_BYTES = 2**30
"""A metrics file above this size is refused unread."""

_MAP_NAMES_TAKEN = ("run.json", "result.json", "environment.json", "plan.json", "prices.json")
"""Files of runs; a map can be a .json file too."""
_STATE_NAME = re.compile(r"state-[0-9]+-[0-9a-f]+\.eqx")


@dataclass(frozen=True)
class Checkpoint:
    """Where a run goes on."""

    state: Any
    """The whole state of training, a pytree."""
    iteration: int
    """The iteration that it was saved with."""
    wall_s: float
    """Seconds spent up to here, over all attempts."""


class RunFolder:
    """The files of one problem, one method and its seeds; written by one process at a time."""

    def __init__(self, path: Path, record: RunRecord) -> None:
        self.path = path
        self.record = record
        self._metrics = path / "metrics.jsonl"
        self._mark = path / "checkpoint" / "checkpoint.json"
        self._events = EventFiles(path / "tensorboard")

    @classmethod
    def create(
        cls,
        path: Path | str,
        problem: Problem | None,
        record: RunRecord,
        *,
        environment: KeptEnvironment | None = None,
    ) -> RunFolder:
        """A new folder with the problem (if there is one) or the environment, and the record.

        What is there is never overwritten.
        """
        path = Path(path)
        check_free(path)
        source = None if problem is None else problem.source
        if source and source.path.name.lower() in _MAP_NAMES_TAKEN:
            raise RunError(f"{source.path}: runs have files of that name; rename the map")
        path.mkdir(parents=True, exist_ok=True)
        if problem is not None:
            save(problem, path / "problem.toml")
        if environment is not None:
            write_json(path / "environment.json", environment.to_json())
        folder = cls(path, record)
        with replacing(folder._metrics) as file:
            file.write(json_line({"schema": SCHEMA}))
        # Last, because it is what makes the folder a run folder.
        write_json(path / "run.json", dataclasses.asdict(record))
        return folder

    @classmethod
    def open(cls, path: Path | str) -> RunFolder:
        """The run folder at that path."""
        path = Path(path)
        if not (path / "run.json").is_file():
            found = "this folder holds no run.json" if path.is_dir() else "there is no such folder"
            raise RunError(
                f"{path}: {found}; name a folder that `scrl train` or `scrl ask --out` has written"
            )
        return cls(path, RunRecord.read(path / "run.json"))

    def trained_on(self, device: str) -> None:
        """Correct the record: who made the folder need not be who trains."""
        self.record = dataclasses.replace(self.record, device=device)
        write_json(self.path / "run.json", dataclasses.asdict(self.record))

    def problem(self) -> Problem:
        """The problem that is trained on, where it has a map."""
        if (kept := self.environment()) is not None:
            raise RunError(
                f"{self.path}: this run is not on a map but in an environment of somebody's "
                f"({kept.environment}), which only its owner's Python can make; see "
                "scrl.resume, scrl.load_policy and scrl.evaluate_run"
            )
        return load_file(self.path / "problem.toml")

    def environment(self) -> KeptEnvironment | None:
        """What is known of the environment that is trained in; none where it is a map."""
        path = self.path / "environment.json"
        return KeptEnvironment.read(path) if path.is_file() else None

    def terms(self) -> Problem | KeptEnvironment:
        """What is trained for, on a map or in an environment."""
        kept = self.environment()
        return self.problem() if kept is None else kept

    def log(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Append a line per row; a row has `iteration`, `seed`, and numbers."""
        lines = [plain(row) for row in rows]
        with writing(self._metrics), self._metrics.open("ab") as file:
            file.write(b"".join(map(json_line, lines)))
        self._events.add(lines)

    def metrics(self) -> list[dict[str, Any]]:
        """All rows that were logged; a last line that a kill has torn is left out."""
        checked_size(self._metrics, LARGEST_METRICS_BYTES)
        with self._metrics.open("rb") as file:
            lines = [line for line in file if line.endswith(b"\n")]
        if not lines:
            raise RunError(f"{self._metrics}: damaged: the header is missing")
        parse_json(lines[0], f"{self._metrics} line 1", {"schema": int})
        fields = {"iteration": int, "seed": int}
        return [
            parse_json(line, f"{self._metrics} line {number}", fields)
            for number, line in enumerate(lines[1:], start=2)
        ]

    def save_checkpoint(self, state: Any, *, iteration: int, wall_s: float) -> None:
        """Keep the state; at whatever moment the process is killed, a whole checkpoint is there."""
        self._mark.parent.mkdir(exist_ok=True)
        with writing(self._metrics), self._metrics.open("rb+") as file:
            os.fsync(file.fileno())
            metrics_bytes = file.seek(0, os.SEEK_END)
        # A new name each time, even for the same iteration: the old pair stays whole until the
        # new checkpoint.json, written last, takes its place.
        kept = self._mark.with_name(f"state-{iteration}-{secrets.token_hex(4)}.eqx")
        with replacing(kept) as file:
            write_tree(file, state)
        document = {
            "iteration": iteration,
            "wall_s": float(wall_s),
            "state": kept.name,
            "sha256": sha256(kept),
            "metrics_bytes": metrics_bytes,
        }
        write_json(self._mark, document)
        for old in self._mark.parent.glob("state-*"):
            if old != kept:
                old.unlink()

    def load_checkpoint(self, like: Any) -> Checkpoint | None:
        """Where to go on, or none: then from the start. What was logged after it is dropped.

        `like` has the structure, shapes and types of the state; its numbers do not matter.
        """
        if not self._mark.exists():
            self._cut_metrics(len(json_line({"schema": SCHEMA})))
            return None
        fields = {"iteration": int, "wall_s": int | float, "metrics_bytes": int}
        document = read_json(self._mark, fields | {"state": str, "sha256": str})
        if not _STATE_NAME.fullmatch(document["state"]):
            raise RunError(f"{self._mark}: 'state' names no state file: {document['state']!r:.60}")
        kept = self._mark.with_name(document["state"])
        if not kept.is_file():
            raise RunError(f"{kept}: missing, but {self._mark.name} names it")
        if sha256(kept) != document["sha256"]:
            raise RunError(f"{kept}: damaged: its checksum is not the one in {self._mark.name}")
        state = read_tree(kept, like)
        self._cut_metrics(document["metrics_bytes"])
        return Checkpoint(state, document["iteration"], float(document["wall_s"]))

    def _cut_metrics(self, size: int) -> None:
        """Drop what was logged after a checkpoint, here and in TensorBoard."""
        if not 0 < size <= checked_size(self._metrics, LARGEST_METRICS_BYTES):
            raise RunError(f"{self._metrics}: damaged: shorter than at the last checkpoint")
        with self._metrics.open("rb+") as file:
            file.seek(size - 1)
            if file.read(1) != b"\n":
                raise RunError(f"{self._metrics}: damaged: no line ends at the last checkpoint")
            file.truncate(size)
        last = max((row["iteration"] for row in self.metrics()), default=-1)
        self._events = EventFiles(self.path / "tensorboard", purge_step=last + 1)

    def save_policy(self, policies: Any) -> None:
        """Keep the chosen policies of all seeds, a pytree."""
        with replacing(self.path / "policy.eqx") as file:
            write_tree(file, policies)

    def load_policy(self, like: Any) -> Any:
        """The chosen policies, in the structure of `like`."""
        path = self.path / "policy.eqx"
        if not path.is_file():
            raise RunError(f"{self.path}: there is no policy yet; go on with {self.going_on}")
        return read_tree(path, like)

    def save_result(self, result: Mapping[str, Any]) -> None:
        """Keep the result, which ends the run."""
        write_json(self.path / "result.json", {"result": rounded(plain(result))})

    def result(self) -> dict[str, Any] | None:
        """The result, or none while the run is not finished."""
        if not self.is_finished:
            return None
        return read_json(self.path / "result.json", {"result": dict})["result"]

    @property
    def has_metrics(self) -> bool:
        """Whether anything was logged: what was not trained, or kept only in part, has none."""
        return self._metrics.is_file()

    @property
    def has_problem(self) -> bool:
        """Whether there is a problem, on a map or not: a run of `scrl learn` has none."""
        return any((self.path / name).is_file() for name in ("problem.toml", "environment.json"))

    @property
    def going_on(self) -> str:
        """What to type to go on with the run."""
        if (self.path / "environment.json").is_file():
            return f"scrl.resume({str(self.path)!r}, env, labels=...) in Python"
        command = "train" if self.has_problem else "learn"
        return f"`scrl {command} --resume {shlex.quote(str(self.path))}`"

    @property
    def saved_iteration(self) -> int | None:
        """The iteration of the last checkpoint; none where there is no checkpoint."""
        if not self._mark.is_file():
            return None
        return read_json(self._mark, {"iteration": int})["iteration"]

    @property
    def is_finished(self) -> bool:
        return (self.path / "result.json").is_file()


def check_free(path: Path, *, can_resume: bool = True) -> None:
    """Raise where a new run folder would have to overwrite something."""
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        is_run = can_resume and (path / "run.json").exists()
        hint = f", or go on with --resume {shlex.quote(str(path))}" if is_run else ""
        raise RunError(f"{path} exists already and is not empty; choose another --out{hint}")


def new_run_path(root: Path, problem: str, method: str) -> Path:
    """A folder under `root` that is not there yet: problem, method and UTC time in its name."""
    moment = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    name = f"{_safe_name(problem) or 'problem'}-{_safe_name(method) or 'method'}-{moment}"
    later = (f"{name}-{number}" for number in itertools.count(2))
    return next(root / one for one in itertools.chain([name], later) if not (root / one).exists())


def _safe_name(text: str) -> str:
    """The text as part of a file name on every system."""
    ascii_text = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    return re.sub(r"[^A-Za-z0-9]+", "-", ascii_text)[:60].strip("-")
