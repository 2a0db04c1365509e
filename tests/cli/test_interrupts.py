"""Ctrl-C, wherever it finds the program."""

from __future__ import annotations

import subprocess
import sys

import pytest

IN_A_CALLBACK = """
import gc, os, signal, time
from scrl.cli.interrupts import hear_every_interrupt

def press(phase, info):
    gc.callbacks.remove(press)
    os.kill(os.getpid(), signal.SIGINT)

hear_every_interrupt()
gc.callbacks.append(press)
gc.collect()
print("swallowed", flush=True)
try:
    time.sleep(30)
except KeyboardInterrupt:
    print("heard")
"""

IN_A_DESTRUCTOR = """
from scrl.cli.interrupts import hear_every_interrupt

class Faulty:
    def __del__(self):
        raise ValueError("told as ever")

hear_every_interrupt()
Faulty()
"""


WHILE_IMPORTING = """
import os, signal, sys

def press(event, details):
    if event == "import" and details[0] == sys.argv[1]:
        os.kill(os.getpid(), signal.SIGINT)

sys.addaudithook(press)
from scrl.cli import main
sys.argv[1:] = ["check", "agri-joint"]
main()
"""


def python(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program.replace("sys.argv[1]", repr("".join(arguments)))],
        capture_output=True, text=True, timeout=15,
    )  # fmt: skip


@pytest.mark.parametrize("module", ["scrl.cli.app", "typer", "rich.console", "numpy"])
def test_an_interrupt_while_modules_are_imported_is_one_line(module: str) -> None:
    done = python(WHILE_IMPORTING, module)
    assert done.returncode == 130
    assert done.stderr.strip() == "scrl: interrupted"


def test_next_to_nothing_is_imported_before_interrupts_are_heard() -> None:
    program = "import sys; old = {*sys.modules}; import scrl.cli; print(*{*sys.modules} - old)"
    found = {name.partition(".")[0] for name in python(program).stdout.split()}
    assert found <= {"scrl", "__future__", "importlib", "warnings"}


def test_an_interrupt_that_a_callback_swallows_comes_again() -> None:
    done = python(IN_A_CALLBACK)
    assert done.stdout.split() == ["swallowed", "heard"]
    assert done.stderr == ""


def test_other_errors_that_nobody_can_catch_are_told() -> None:
    done = python(IN_A_DESTRUCTOR)
    assert "told as ever" in done.stderr
