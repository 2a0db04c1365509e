"""Nothing is written through a link, and no name that is written to can be foreseen."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from typer.testing import CliRunner

import scrl
from scrl.cli.app import app
from scrl.files import LinkError, replacing
from scrl.problems import Problem, save
from scrl.report.figures import save_figure
from scrl.runs.folder import RunFolder

from .small import OLD, rows

SECRET = b"somebody's"


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    path = tmp_path / "victim"
    path.write_bytes(SECRET)
    return path


def test_neither_pages_nor_exports_are_written_through_a_link(tmp_path: Path, victim: Path) -> None:
    run = shutil.copytree(OLD / "environment", tmp_path / "run")
    for name in ("report.html", "policy.onnx", "policy.onnx.json"):
        (run / name).symlink_to(victim)
        (run / f"{name}.tmp").symlink_to(victim)
    for command in (["report", run], ["export", run, "--format", "onnx"]):
        done = CliRunner().invoke(app, [str(each) for each in command])
        assert done.exit_code == 0, done.output
    assert victim.read_bytes() == SECRET
    assert not (run / "report.html").is_symlink()
    assert (run / "report.html").read_bytes().startswith(b"<!")


def test_metrics_behind_a_link_are_neither_cut_nor_longer(run: RunFolder, tmp_path: Path) -> None:
    run.log(rows(1))
    shutil.move(run.path / "metrics.jsonl", tmp_path / "elsewhere")
    (run.path / "metrics.jsonl").symlink_to(tmp_path / "elsewhere")
    before = (tmp_path / "elsewhere").read_bytes()
    for act in (
        lambda: run.log(rows(2)),
        lambda: run.save_checkpoint(np.ones(3), iteration=1, wall_s=0),
        lambda: RunFolder.open(run.path).load_checkpoint(np.ones(3)),
    ):
        with pytest.raises(LinkError, match=r"metrics.jsonl: a symbolic link"):
            act()
    assert (tmp_path / "elsewhere").read_bytes() == before


@pytest.mark.parametrize("name", ["checkpoint", "tensorboard", "tensorboard/seed-0", "run.lock"])
def test_no_file_of_a_run_lands_or_is_removed_behind_a_link(
    run: RunFolder, tmp_path: Path, name: str
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "state-1-aa.eqx").write_bytes(SECRET)
    (run.path / name).parent.mkdir(exist_ok=True)
    (run.path / name).symlink_to(tmp_path / "elsewhere")

    def write() -> None:
        with run.writing():
            run.log(rows(1))
            run.save_checkpoint(np.ones(3), iteration=1, wall_s=0)

    with pytest.raises(LinkError, match=f"{name}: a symbolic link"):
        write()
    assert [each.name for each in (tmp_path / "elsewhere").iterdir()] == ["state-1-aa.eqx"]


def test_problems_and_pictures_replace_a_link(
    problem: Problem, tmp_path: Path, victim: Path
) -> None:
    (tmp_path / "problem.npy").symlink_to(tmp_path / "nowhere")
    (tmp_path / "problem.toml").symlink_to(tmp_path / "nowhere")
    (tmp_path / "picture.png").symlink_to(victim)
    save(problem, tmp_path / "problem.toml")
    save_figure(Figure(), tmp_path / "picture.png")
    assert victim.read_bytes() == SECRET
    assert not (tmp_path / "nowhere").exists()
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


def test_what_could_not_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"old")

    def write() -> None:
        with replacing(tmp_path / "file") as file:
            file.write(b"half")
            raise OSError("the disk is full")

    with pytest.raises(OSError, match="full"):
        write()
    assert [each.name for each in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_bytes() == b"old"


def test_files_are_as_open_to_others_as_any(tmp_path: Path) -> None:
    (tmp_path / "usual").write_bytes(b"")
    with replacing(tmp_path / "file") as file:
        file.write(b"")
    assert (tmp_path / "file").stat().st_mode == (tmp_path / "usual").stat().st_mode


WRITES = re.compile(
    r"""write_text\(|write_bytes\(|copyfile\(|shutil\.copy2?\(|(?<!in_place)\([^()\n]*["'][wax]b?\+?["']\)"""
    r"""|\.open\(["'](?:[wax]|r\+|rb\+)|savefig\((?!file)|np\.save\((?!file)"""
)


def test_there_is_one_way_to_write_a_file() -> None:
    """Whoever writes uses `scrl.files`, which follows no links."""
    package = Path(scrl.__file__).parent
    found = [
        f"{path.relative_to(package)}: {line.strip()}"
        for path in sorted(package.rglob("*.py"))
        if path != package / "files.py"
        for line in path.read_text(encoding="utf-8").splitlines()
        if WRITES.search(line) and "open_in_place(" not in line
    ]
    assert not found
