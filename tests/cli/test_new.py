"""`scrl new` asks for the machine in a terminal, and nowhere else."""

from __future__ import annotations

import os
import pty
import sys
from pathlib import Path

import pytest

from scrl.problems import load


def answered(folder: Path, *keys: bytes) -> tuple[int, str]:
    """Exit code and output of `scrl new` in a terminal, with one answer for each question."""
    child, terminal = pty.fork()
    if child == 0:
        os.execv(sys.executable, [sys.executable, "-m", "scrl", "new", str(folder)])  # noqa: S606
    said, left = b"", list(keys)
    try:
        while True:
            said += os.read(terminal, 4096)
            if left and said.rstrip().endswith(b"]:"):
                os.write(terminal, left.pop(0))
                said += b"\n"
    except OSError:  # the program has ended
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), said.decode()


@pytest.mark.skipif(sys.platform == "win32", reason="needs a terminal of this kind")
def test_a_terminal_is_asked_for_the_machine_and_ctrl_c_writes_nothing(tmp_path: Path) -> None:
    code, said = answered(tmp_path / "left", b"\r", b"\x03")
    assert code == 130
    assert said.rstrip().endswith("scrl: interrupted")
    assert not (tmp_path / "left").exists()
    # Yes, a boom of 12 m, 7.2 km/h, else the defaults: a third of the boom takes 2 s at 2 m/s.
    code, said = answered(tmp_path / "made", b"\r", b"12\r", b"7.2\r", *[b"\r"] * 4)
    assert code == 0, said
    assert "a step is 2 s" in said
    units = load(tmp_path / "made").units
    assert (units.step, units.unit_cost, units.hour_cost, units.currency) == (2.0, 1.5, 40.0, "EUR")
