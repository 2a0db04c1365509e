"""Where an opened problem lies on disk, and that only one studio writes there."""

from __future__ import annotations

import errno
import hashlib
import re
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from scrl.problems import Problem, builtin_names, builtin_worlds, load
from scrl.runs.lock import only_writer
from scrl.studio.errors import StudioError
from scrl.worlds.sweep.maps import is_map_name

PROBLEM = "problem.toml"
LOCK = "studio.lock"
TRAINING = "training"
"""The name of run folders in the opened folder; the second one is `training-2`."""
FIRST = "agri-situational"
"""What is opened where nothing is named and the current folder holds no problem."""
_PLAIN_NAME = re.compile(r"[\w][\w .+-]{0,99}")


@dataclass
class ProblemPlace:
    """The folder and the files of an opened problem."""

    root: Path
    """New folders are made in here, and nothing outside of it is read or written."""
    folder: Path | None
    """Of the problem; None while it is a built-in one."""
    file: Path | None
    """The problem file; None for a map or a built-in problem."""
    copy_name: str
    """The folder that a built-in problem is copied into."""
    trouble: str | None = None
    """Why nothing can be kept in the folder."""
    _held: ExitStack = field(default_factory=ExitStack)

    @classmethod
    def of(cls, target: str | None) -> tuple[ProblemPlace, Problem]:
        """The place of what is named, and the problem there."""
        here = Path.cwd()
        if target is None:
            target = str(here) if (here / PROBLEM).is_file() else FIRST
        if target in builtin_names() or target in builtin_worlds():
            copied = here / target
            if not journal_path(copied / PROBLEM).is_file() and not (copied / TRAINING).is_dir():
                return cls(here, None, None, target), load(target)
            target = str(copied)  # its unsaved changes or its training are shown again
        problem, path = load(target), Path(target).resolve()
        file = None if is_map_name(path) else path / PROBLEM if path.is_dir() else path
        folder = path if path.is_dir() else path.parent
        place = cls(folder, folder, file, problem.name)
        place.hold()
        return place, problem

    def hold(self) -> None:
        """Become the only studio of the folder; say so where nothing can be written there."""
        if self.folder is None:
            return
        try:
            self._held.enter_context(only_writer(self.folder, LOCK, "problem folder"))
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
                raise
            self.trouble = (
                f"{self.folder} cannot be written to: changes last only while this studio runs. "
                "Export the plan, or copy the problem to a folder of your own and open that"
            )

    def release(self) -> None:
        """Let others have the folder."""
        self._held.close()

    @property
    def journal(self) -> Path | None:
        """The file of unsaved edits; None for a built-in problem or where nothing can be kept."""
        if self.folder is None or self.trouble is not None:
            return None
        return journal_path(self.file or self.folder / PROBLEM)

    def inside(self, name: str, folder: Path | None = None) -> Path:
        """A file or folder of this name in the opened folder, or in another one of its own."""
        if _PLAIN_NAME.fullmatch(name) is None or name.strip() != name or name.endswith("."):
            raise StudioError(
                f"{name!r:.120} is not a plain name: use letters, digits, spaces, . + - and _, "
                "and no folder"
            )
        return (folder or self.root) / name

    def free(self, name: str, folder: Path | None = None) -> Path:
        """A path of this name, with a number where it is taken."""
        stem, suffix = Path(name).stem, Path(name).suffix
        number, found = 1, self.inside(name, folder)
        while found.exists() or found.is_symlink():
            number += 1
            found = self.inside(f"{stem}-{number}{suffix}", folder)
        return found

    def digest(self) -> str | None:
        """Of the problem file as it is now; None where there is none."""
        try:
            return None if self.file is None else digest_of(self.file.read_bytes())
        except OSError:
            return None


def journal_path(file: Path) -> Path:
    """Where unsaved edits of a problem file are kept."""
    return file.with_name(f"{file.stem}.studio.jsonl")


def digest_of(data: bytes) -> str:
    """A digest that tells one content from another."""
    return hashlib.sha256(data).hexdigest()
