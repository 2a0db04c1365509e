"""No process is left behind, whatever an environment does and whoever is killed."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import scrl
from scrl.environments import EnvironmentFault, processes, sources

from .small import HORIZON, REGIONS, RULES, Make, MakeTrouble, Unclosable, make_walk
from .test_interrupt import processes_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")


def problem(env: Any, **options: Any) -> Any:
    known = {"labels": "amounts", "regions": REGIONS, "rules": RULES, "horizon_steps": HORIZON}
    return scrl.environment(env, **{**known, **options})


def stand(observation: Any) -> np.ndarray:
    return np.zeros(1, np.float32)


def running() -> list[str]:
    """The commands of all that this process and its environments have started."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            command = (path / "cmdline").read_text()
            parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        is_worker = parent == os.getpid() and "spawn_main" in command
        if is_worker or f"time.sleep(600) # {os.getpid()}" in command:
            found.append(command)
    return found


def left_running() -> list[str]:
    """What is still there after a while: a killed process takes a moment to end."""
    until = time.monotonic() + 5.0
    while (found := running()) and time.monotonic() < until:
        time.sleep(0.05)
    return found


DRIVER = """
import sys
sys.path.insert(0, sys.argv[1])
import numpy as np
import scrl
from tests.environments.small import MakeTrouble

def main():
    makes = [MakeTrouble(), MakeTrouble("hangs"), MakeTrouble("holds on")]
    made = scrl.environment(makes, labels="amounts", regions=["west", "east"], horizon_steps=8,
                            processes=True)
    with made.open(3) as lanes:
        lanes.reset([0, 1, 2])
        print("ready", flush=True)
        lanes.step(np.zeros((3, 1), np.float32))

if __name__ == "__main__":
    main()
"""
"""Steps an idle environment, one that hangs, and one that hangs and lets nothing else run."""


@pytest.fixture(scope="module", autouse=True)
def orphans(tmp_path_factory: pytest.TempPathFactory) -> int:
    """The group of processes whose first one is killed while it steps these environments."""
    script = tmp_path_factory.mktemp("orphans") / "driver.py"
    script.write_text(DRIVER)
    root = Path(__file__).parents[2]
    with subprocess.Popen(
        [sys.executable, str(script), str(root)], stdout=subprocess.PIPE, text=True,
        stderr=subprocess.DEVNULL, start_new_session=True,
    ) as started:  # fmt: skip
        assert started.stdout is not None
        assert started.stdout.readline() == "ready\n"
        time.sleep(0.5)
        assert len(processes_of(started.pid)) >= 6  # this one, three, and children of two
        started.kill()
    return started.pid


@pytest.mark.parametrize(
    ("makes", "message"),
    [
        (
            [MakeTrouble("deaf"), Make("raises")],
            "environment 1, episode 1, step 3: step raised RuntimeError: the wheel came off",
        ),
        (
            [MakeTrouble("hangs"), MakeTrouble("hangs", "deaf")],
            "environment 0, episode 1, step 1: step has not returned within 2 s; if it may take "
            "longer, give a larger step_timeout_s",
        ),
        (
            [make_walk, MakeTrouble("never reset")],
            "environment 1, episode 1, at its start: reset has not returned within 2 s",
        ),
        (
            [make_walk, MakeTrouble("dies")],
            "environment 1, episode 1, step 1: its process has ended in step (exit code 3)",
        ),
    ],
)
def test_whatever_a_process_does_it_is_named_and_nothing_is_left(
    makes: Any, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "CLOSING_S", 1.0)
    made = problem(makes, processes=True, step_timeout_s=2.0)
    with pytest.raises(EnvironmentFault) as error:
        made.evaluate(stand, episodes=3)
    assert str(error.value).startswith(message)
    assert not left_running()


def test_environments_that_are_never_made_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "MAKING_S", 1.0)
    made = problem([make_walk, MakeTrouble("never made")], processes=True, step_timeout_s=0.5)
    with pytest.raises(EnvironmentFault, match="environments were not made within 1 s: one of the"):
        made.evaluate(stand)
    assert not left_running()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"step_timeout_s": 5.0},
            "for a step in this process cannot be ended: give processes=True",
        ),
        ({"step_timeout_s": 0, "processes": True}, "step_timeout_s = 0 must be above 0"),
        ({"step_timeout_s": "1 s", "processes": True}, "must be a number of seconds"),
    ],
)
def test_a_time_limit_that_cannot_be_kept_is_refused(options: Any, message: str) -> None:
    with pytest.raises(EnvironmentFault, match=message):
        problem(make_walk, **options)


@pytest.mark.parametrize("options", [{}, {"processes": True, "step_timeout_s": math.inf}])
def test_what_cannot_be_closed_costs_a_warning_and_no_result(options: Any) -> None:
    made = problem([Unclosable, Unclosable], **options)
    with pytest.warns(RuntimeWarning) as caught:
        found = made.evaluate(stand, episodes=2)
    plain = problem([make_walk, make_walk], name="Unclosable")
    assert found == plain.evaluate(stand, episodes=2)
    [text] = [str(each.message) for each in caught]
    assert text == (
        "environment 0: close raised RuntimeError: the door is stuck (and of 1 others); what was "
        "found before is not affected"
    )


def test_processes_end_with_the_one_that_was_killed(orphans: int) -> None:
    """The last here: ten seconds may pass, and other tests run meanwhile."""
    end = time.monotonic() + 40
    while (left := processes_of(orphans)) and time.monotonic() < end:
        time.sleep(0.1)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert not left
