"""Run folders as bytes: what travels, what is refused, and in which order it lands."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import BinaryIO

import pytest

from scrl.bench.engines import parcels
from scrl.bench.engines.parcels import MARK, pack, stamps_of, unpack
from scrl.runs.folder import RunError


def test_a_folder_that_was_packed_is_unpacked_as_it_was(tmp_path: Path) -> None:
    files = {"run.json": b"{}", "checkpoint/state-1-ab.eqx": bytes(range(256)), "map Ü.npy": b""}
    unpack(files, tmp_path / "one")
    assert pack(tmp_path / "one") == files


def test_only_what_has_changed_is_packed_again_and_nothing_that_is_half_written(
    tmp_path: Path,
) -> None:
    unpack({"run.json": b"{}", "metrics.jsonl": b"1\n"}, tmp_path)
    before = stamps_of(tmp_path)
    (tmp_path / "metrics.jsonl").write_bytes(b"1\n2\n")
    (tmp_path / "policy.eqx.tmp").write_bytes(b"half")
    (tmp_path / "link").symlink_to("/etc/hostname")
    assert pack(tmp_path, before) == {"metrics.jsonl": b"1\n2\n"}


@pytest.mark.parametrize(
    "name",
    ["../out", "/etc/out", "a/../../out", "a//b", "", ".", "a/./b", "a\0b", "1/2/3/4/5", "n" * 256],
)
def test_no_file_lands_outside_its_folder(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "run"
    with pytest.raises(RunError, match="no file of a run has the name"):
        unpack({"run.json": b"{}", name: b"bad"}, folder)
    assert not folder.exists()


def test_a_link_does_not_lead_a_file_out_of_its_folder(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "checkpoint").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RunError, match="a link leads out of the run folder"):
        unpack({"checkpoint/state-1-ab.eqx": b"bad"}, tmp_path / "run")
    assert not any((tmp_path / "elsewhere").iterdir())


def test_a_parcel_has_its_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parcels, "LARGEST_PARCEL_BYTES", 3)
    unpack({"a": b"123"}, tmp_path)
    with pytest.raises(RunError, match="2 files with 4 bytes cannot be sent"):
        unpack({"a": b"123", "b": b"4"}, tmp_path)
    (tmp_path / "b").write_bytes(b"4")
    with pytest.raises(RunError, match="2 files with 4 bytes cannot be sent"):
        pack(tmp_path)
    monkeypatch.setattr(parcels, "MOST_FILES", 0)
    with pytest.raises(RunError, match="at most 0 files"):
        unpack({"a": b""}, tmp_path)


def test_a_checkpoint_counts_once_all_of_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At whatever file a kill comes, the mark and the state that it names are a pair."""
    old = {MARK: b"state-1-aa.eqx", "checkpoint/state-1-aa.eqx": b"1", "metrics.jsonl": b"1\n"}
    new = {MARK: b"state-2-bb.eqx", "checkpoint/state-2-bb.eqx": b"2", "metrics.jsonl": b"1\n2\n"}
    unpack(old, tmp_path)
    written: list[str] = []
    replacing = parcels.replacing

    def noting(path: Path) -> AbstractContextManager[BinaryIO]:
        named = (tmp_path / MARK).read_text()
        assert (tmp_path / "checkpoint" / named).exists()
        written.append(path.name)
        return replacing(path)

    monkeypatch.setattr(parcels, "replacing", noting)
    unpack({"result.json": b"{}", **new}, tmp_path)
    assert written[-2:] == ["checkpoint.json", "result.json"]
    assert pack(tmp_path) == {"result.json": b"{}", **new}
