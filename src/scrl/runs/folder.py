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
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from scrl.files import make_folder, open_in_place, replacing
from scrl.problems import Problem, load_file, save
from scrl.runs.environment import EnvironmentRecord
from scrl.runs.events import EventFiles
from scrl.runs.files import (
    Each,
    Growing,
    NewerRunError,
    Range,
    RunError,
    check_files,
    check_schema,
    checked_size,
    checksums_of,
    json_line,
    parse_table,
    plain,
    read_json,
    rounded,
    sha256,
    write_json,
)
from scrl.runs.lock import LOCK, only_writer
from scrl.runs.record import RunRecord, git_commit
from scrl.runs.serialisation import read_tree, write_tree

__all__ = [
    "Checkpoint",
    "EnvironmentRecord",
    "RunError",
    "RunFolder",
    "RunRecord",
    "git_commit",
    "new_run_path",
]

LARGEST_METRICS_BYTES = 2**30
"""A metrics file above this size is refused unread."""

_MAP_NAMES_TAKEN = ("run.json", "result.json", "environment.json", "plan.json")
"""Files of runs; a map can be a .json file too."""
_DRIVES = ("policy.eqx", "plan.json")
"""What drives: result.json, which says how well, has their checksums."""
_METRICS = "metrics.jsonl"
_HEADER = json_line({"schema": 1})
"""Its rows are the same in version 2."""
_STATE_NAME = re.compile(r"state-[0-9]+-[0-9a-f]+\.eqx")
_CHECKPOINT = {
    "iteration": Range(int, 0, 2**53),
    "wall_s": Range(int | float, 0.0),
    "state": str,
    "sha256": str,
    "metrics_bytes": Range(int, 1),
    "metrics_sha256?": str,
}


@dataclass(frozen=True)
class Checkpoint:
    """Where a run goes on."""

    state: Any
    """The whole state of training, a pytree."""
    iteration: int
    """The iteration that it was saved with."""
    wall_s: float
    """Seconds spent up to here, over all attempts."""
    warning: str | None = None
    """What was wrong with the last checkpoint, where this is the one before it."""


class RunFolder:
    """The files of one problem, one method and its seeds; written by one process at a time."""

    def __init__(self, path: Path, record: RunRecord, files: Mapping[str, str]) -> None:
        self.path = path
        self.record = record
        self._files = files
        """Checksums of the problem's files, by name."""
        self._metrics = path / _METRICS
        self._logged = Growing(self._metrics)
        self._mark = path / "checkpoint" / "checkpoint.json"
        self._mark_before = path / "checkpoint" / "previous.json"
        self._last: dict[str, Any] | None = None
        """What checkpoint.json says, once it was read or written."""
        self._events = EventFiles(path / "tensorboard")
        self._problem: Problem | None = None

    @classmethod
    def create(
        cls,
        path: Path | str,
        problem: Problem | None,
        record: RunRecord,
        *,
        environment: EnvironmentRecord | None = None,
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
        with only_writer(path):
            if (path / "run.json").exists():
                raise RunError(f"{path}: another process has just begun a run here")
            if problem is not None:
                save(problem, path / "problem.toml")
            if environment is not None:
                write_json(path / "environment.json", environment.to_json())
            names = [each.name for each in path.iterdir() if each.name != LOCK]
            folder = cls(path, record, checksums_of(path, *sorted(names)))
            with replacing(folder._metrics) as file:
                file.write(_HEADER)
            # Last, because it is what makes the folder a run folder.
            folder._write_record()
        return folder

    @classmethod
    def open(cls, path: Path | str) -> RunFolder:
        """The run folder at that path; a file in it that is not as it was written is refused."""
        path = Path(path)
        if not (path / "run.json").is_file():
            found = "this folder holds no run.json" if path.is_dir() else "there is no such folder"
            raise RunError(
                f"{path}: {found}; name a folder that `scrl train` or `scrl ask --out` has written"
            )
        document = read_json(path / "run.json", {"files?": Each(str)})
        record = RunRecord.of(document, path / "run.json")
        folder = cls(path, record, document.get("files", {}))
        check_files(path, folder._files, "restore it from a copy, or begin a new run")
        folder._check_result_files()
        return folder

    def writing(self) -> AbstractContextManager[None]:
        """Be the only writer; raise, naming the other, where there is one."""
        return only_writer(self.path)

    def _write_record(self) -> None:
        document = {**dataclasses.asdict(self.record), "files": self._files}
        write_json(self.path / "run.json", document)

    def trained_on(self, device: str) -> None:
        """Correct the record: who made the folder need not be who trains."""
        self.record = dataclasses.replace(self.record, device=device)
        self._write_record()

    def problem(self) -> Problem:
        """The problem that is trained on, where it has a map."""
        if (kept := self.environment()) is not None:
            raise RunError(
                f"{self.path}: this run is not on a map but in an external environment "
                f"({kept.environment}), which only its owner's Python can make; see "
                "scrl.resume, scrl.load_policy and scrl.evaluate_run"
            )
        if self._problem is None:
            self._problem = load_file(self.path / "problem.toml")
        return self._problem

    def environment(self) -> EnvironmentRecord | None:
        """What is known of the environment that is trained in; none where it is a map."""
        path = self.path / "environment.json"
        return EnvironmentRecord.read(path) if path.is_file() else None

    def log(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Append a line per row; a row has `iteration`, `seed`, and numbers."""
        lines = [plain(row) for row in rows]
        with open_in_place(self._metrics, "ab") as file:
            file.write(b"".join(map(json_line, lines)))
        self._events.add(lines)

    def metrics(self) -> list[dict[str, Any]]:
        """All rows that were logged; a last line that a kill has torn is left out."""
        if (finished := self._result_document()) is not None:
            checksum = finished.get("files", {}).get(_METRICS)
            self._logged.check(None, checksum, "at the end of the run")
        elif (mark := self._last or self._read_mark()) is not None:
            checksum = mark.get("metrics_sha256")
            self._logged.check(mark["metrics_bytes"], checksum, "at the last checkpoint")
        return self._rows()

    def _rows(self) -> list[dict[str, Any]]:
        checked_size(self._metrics, LARGEST_METRICS_BYTES)
        with self._metrics.open("rb") as file:
            lines = [line for line in file if line.endswith(b"\n")]
        if not lines:
            raise RunError(f"{self._metrics}: damaged: the header is missing")
        header = parse_table(lines[0], f"{self._metrics} line 1", {"schema": int})
        check_schema(header["schema"], f"{self._metrics} line 1")
        fields = {"iteration": Range(int, 0), "seed": Range(int, 0)}
        return [
            parse_table(line, f"{self._metrics} line {number}", fields)
            for number, line in enumerate(lines[1:], start=2)
        ]

    def save_checkpoint(self, state: Any, *, iteration: int, wall_s: float) -> None:
        """Keep the state; at whatever moment the process is killed, a whole checkpoint is there.

        The checkpoint before it is kept as well.
        """
        folder = make_folder(self._mark.parent)
        with open_in_place(self._metrics, "rb+") as file:
            os.fsync(file.fileno())
            metrics_bytes = file.seek(0, os.SEEK_END)
        # A new name each time, even for the same iteration: the old pair stays whole until the
        # new checkpoint.json, written last, takes its place.
        kept = folder / f"state-{iteration}-{secrets.token_hex(4)}.eqx"
        with replacing(kept) as file:
            write_tree(file, state)
        document = {
            "iteration": iteration,
            "wall_s": float(wall_s),
            "state": kept.name,
            "sha256": sha256(kept),
            "metrics_bytes": metrics_bytes,
            "metrics_sha256": self._logged.sha256(metrics_bytes),
        }
        before = self._last or self._read_mark()
        if before is not None:
            write_json(self._mark_before, before)
        write_json(self._mark, document)
        self._last = document
        needed = {kept.name, *([] if before is None else [before["state"]])}
        for old in {*folder.glob("state-*"), *folder.glob("*.tmp")}:
            if old.name not in needed:
                old.unlink()

    def _read_mark(self) -> dict[str, Any] | None:
        """What checkpoint.json says, if it can be read."""
        try:
            return _without_schema(read_json(self._mark, _CHECKPOINT))
        except RunError:
            return None

    def load_checkpoint(self, like: Any) -> Checkpoint | None:
        """Where to go on, or none: then from the start. What was logged after it is dropped.

        Where the last checkpoint is damaged, the one before it takes its place. `like` has the
        structure, shapes and types of the state; its numbers do not matter.
        """
        if not (self._mark.exists() or self._mark_before.exists()):
            self._cut_metrics(len(_HEADER))
            return None
        try:
            return self._load(self._mark, like)
        except NewerRunError:
            raise
        except RunError as error:
            if not self._mark_before.exists():
                raise
            return self._load_before(like, error)

    def _load_before(self, like: Any, damage: RunError) -> Checkpoint:
        """The checkpoint before the last one, which from now on is the last."""
        try:
            found = self._load(self._mark_before, like)
        except RunError:
            raise damage from None
        with replacing(self._mark) as file:
            file.write(self._mark_before.read_bytes())
        warning = (
            f"{damage}. The run goes on from the checkpoint before it (round {found.iteration})"
        )
        return dataclasses.replace(found, warning=warning)

    def _load(self, mark: Path, like: Any) -> Checkpoint:
        document = _without_schema(read_json(mark, _CHECKPOINT))
        if not _STATE_NAME.fullmatch(document["state"]):
            raise RunError(f"{mark}: 'state' names no state file: {document['state']!r:.60}")
        kept = mark.with_name(document["state"])
        if not kept.is_file():
            raise RunError(f"{kept}: missing, but {mark.name} names it")
        if sha256(kept) != document["sha256"]:
            raise RunError(f"{kept}: damaged: its checksum is not the one in {mark.name}")
        state = read_tree(kept, like)
        size, checksum = document["metrics_bytes"], document.get("metrics_sha256")
        self._logged.check(size, checksum, "at the last checkpoint")
        self._cut_metrics(size)
        self._last = document
        return Checkpoint(state, document["iteration"], float(document["wall_s"]))

    def _cut_metrics(self, size: int) -> None:
        """Drop what was logged after a checkpoint, here and in TensorBoard."""
        if not 0 < size <= checked_size(self._metrics, LARGEST_METRICS_BYTES):
            raise RunError(f"{self._metrics}: damaged: shorter than at the last checkpoint")
        with open_in_place(self._metrics, "rb+") as file:
            file.seek(size - 1)
            if file.read(1) != b"\n":
                raise RunError(f"{self._metrics}: damaged: no line ends at the last checkpoint")
            file.truncate(size)
        last = max((row["iteration"] for row in self._rows()), default=-1)
        self._events = EventFiles(self.path / "tensorboard", purge_step=last + 1)

    def save_policy(self, policies: Any) -> None:
        """Keep the chosen policies of all seeds, a pytree."""
        with replacing(self.path / "policy.eqx") as file:
            write_tree(file, policies)

    def load_policy(self, like: Any) -> Any:
        """The chosen policies, in the structure of `like`."""
        path = self.path / "policy.eqx"
        if not path.is_file():
            raise RunError(
                f"{self.path}: there is no policy yet; resume with {self.resume_command}"
            )
        return read_tree(path, like, is_finite=True)

    def save_result(self, result: Mapping[str, Any]) -> None:
        """Keep the result, which ends the run, with the checksums of what it is the result of."""
        files = checksums_of(self.path, *_DRIVES, _METRICS)
        document = {"result": rounded(plain(result)), "files": files}
        write_json(self.path / "result.json", document)

    def result(self) -> dict[str, Any] | None:
        """The result, or none while the run is not finished."""
        found = self._result_document()
        return None if found is None else found["result"]

    def _result_document(self) -> dict[str, Any] | None:
        """What result.json says."""
        if not self.is_finished:
            return None
        return read_json(self.path / "result.json", {"result": dict, "files?": Each(str)})

    def _check_result_files(self) -> None:
        """Raise where what drives is not what the result is of; metrics are checked when read."""
        finished = self._result_document()
        if finished is None:
            return
        files = {
            name: checksum
            for name, checksum in finished.get("files", {}).items()
            if name != _METRICS
        }
        remedy = "restore it from a copy, or ask again"
        if self.has_checkpoint:
            remedy = f"remove it and result.json, and {self.resume_command} writes both again"
        check_files(self.path, files, remedy)

    @property
    def has_checkpoint(self) -> bool:
        return self._mark.is_file()

    @property
    def saved_so_far(self) -> str:
        """What there is to go on from, for messages."""
        if not self.has_checkpoint:
            return f"No checkpoint had been written yet to {self.path}, so a new run loses nothing"
        mark = self._last or self._read_mark()
        when = "" if mark is None else f", of round {mark['iteration']:,},"
        return f"The last good checkpoint{when} is kept in {self.path}"

    @property
    def has_metrics(self) -> bool:
        """Whether anything was logged: what was not trained, or kept only in part, has none."""
        return self._metrics.is_file()

    @property
    def has_problem(self) -> bool:
        """Whether there is a problem, on a map or not."""
        return any((self.path / name).is_file() for name in ("problem.toml", "environment.json"))

    @property
    def resume_command(self) -> str:
        """What to type to go on with the run."""
        if (self.path / "environment.json").is_file():
            return f"scrl.resume({str(self.path)!r}, env, labels=...) in Python"
        return f"`scrl train --resume {shlex.quote(str(self.path))}`"

    @property
    def saved_iteration(self) -> int | None:
        """The iteration of the last checkpoint; none where there is no checkpoint."""
        if not self._mark.is_file():
            return None
        return read_json(self._mark, {"iteration": int})["iteration"]

    @property
    def is_finished(self) -> bool:
        return (self.path / "result.json").is_file()


def _without_schema(document: Mapping[str, Any]) -> dict[str, Any]:
    """A document as it may be written again: in today's version."""
    return {name: value for name, value in document.items() if name != "schema"}


def check_free(path: Path, *, can_resume: bool = True) -> None:
    """Raise where a new run folder would have to overwrite something."""
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        is_run = can_resume and (path / "run.json").exists()
        hint = f", or resume it with --resume {shlex.quote(str(path))}" if is_run else ""
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
