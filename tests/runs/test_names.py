"""Names of new runs, and the commit that stands in them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from scrl.runs.folder import git_commit, new_run_path


def test_new_runs_get_paths_of_their_own(tmp_path: Path) -> None:
    names = []
    for _ in range(3):
        path = new_run_path(tmp_path, "agri-joint", "scrl")
        path.mkdir()
        names.append(path.name)
    assert len(set(names)) == 3
    assert all(name.startswith("agri-joint-scrl-2") for name in names)


@pytest.mark.parametrize("name", ["../../etc", "", "田", "Äcker: Nord/Süd", "\0", ".", "x" * 500])
def test_problem_names_never_lead_out_of_the_root(tmp_path: Path, name: str) -> None:
    path = new_run_path(tmp_path, name, "scrl")
    assert path.parent == tmp_path
    path.mkdir()
    assert path.name.isascii()
    assert not path.name.startswith((".", "-"))


def git(folder: Path, *arguments: str) -> str:
    author = ["-c", "user.name=nobody", "-c", "user.email=nobody@example.org"]
    command = ["git", *author, "-C", str(folder), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_the_commit_is_that_of_the_packages_own_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    package, stranger = tmp_path / "src" / "scrl", tmp_path / ".venv" / "scrl"
    package.mkdir(parents=True)
    stranger.mkdir(parents=True)
    assert git_commit(package) is None
    git(tmp_path, "init", "-q")
    assert git_commit(package) is None
    (package / "a.py").write_text("1")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "one")
    assert git_commit(package) == git(tmp_path, "rev-parse", "HEAD")
    (tmp_path / "notes.txt").write_text("not part of the package")
    assert git_commit(package) == git(tmp_path, "rev-parse", "HEAD")
    (package / "a.py").write_text("2")
    assert git_commit(package) == git(tmp_path, "rev-parse", "HEAD") + "+changes"
    assert git_commit(stranger) is None
    assert git_commit(tmp_path / "nowhere") is None
    monkeypatch.setenv("PATH", "")
    assert git_commit(package) is None
