"""Ctrl-C, wherever it finds the program."""

from __future__ import annotations

import subprocess
import sys

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


def python(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=15
    )


def test_an_interrupt_that_a_callback_swallows_comes_again() -> None:
    done = python(IN_A_CALLBACK)
    assert done.stdout.split() == ["swallowed", "heard"]
    assert done.stderr == ""


def test_other_errors_that_nobody_can_catch_are_told() -> None:
    done = python(IN_A_DESTRUCTOR)
    assert "told as ever" in done.stderr
