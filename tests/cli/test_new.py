"""`scrl new` asks for the machine in a terminal, and nowhere else."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from scrl.problems import load


def answered(folder: Path, *answers: str | signal.Signals) -> tuple[int, str]:
    """Exit code and output of `scrl new` in a terminal, with an answer or signal a question."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "scrl", "new", str(folder)]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        said, left = b"", list(answers)
        try:
            while True:
                said += os.read(ours, 4096)
                if left and said.rstrip().endswith(b"]:"):
                    answer = left.pop(0)
                    said += b"\n"
                    if isinstance(answer, signal.Signals):
                        process.send_signal(answer)
                    else:
                        os.write(ours, f"{answer}\n".encode())
        except OSError:  # the program has ended
            pass
        finally:
            os.close(ours)
    return process.returncode, said.decode()


@pytest.mark.skipif(sys.platform == "win32", reason="needs a terminal of this kind")
def test_a_terminal_is_asked_for_the_machine_and_ctrl_c_writes_nothing(tmp_path: Path) -> None:
    code, said = answered(tmp_path / "left", "", signal.SIGINT)
    assert code == 130
    assert said.rstrip().endswith("scrl: interrupted")
    assert not (tmp_path / "left").exists()
    # Yes, a boom of 12 m, 7.2 km/h, else the defaults: a third of the boom takes 2 s at 2 m/s.
    code, said = answered(tmp_path / "made", "", "12", "7.2", "", "", "", "")
    assert code == 0, said
    assert "a step is 2 s" in said
    units = load(tmp_path / "made").units
    assert (units.step, units.unit_cost, units.hour_cost, units.currency) == (2.0, 1.5, 40.0, "EUR")
