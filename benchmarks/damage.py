"""Damaged run folders through whole commands: refused, harmless, wrong, or a traceback.

`python -m benchmarks.damage [--flips 50] [--mutations 1000] [--seed 0]` prints two tables for each
kind of run. A flip turns one bit of one file; it is harmless where every command answers as before.
A mutation changes the meaning or the bytes of one document, with a checksum that fits, with none
(as in folders of old), or with a wrong one. The exit code is 1 if an answer was wrong after a flip,
or if a command has ended in a traceback.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import random
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from tests.environments.small import HORIZON, REGIONS, RULES, make_walk
from tests.runs.mutations import mutated, scrambled, text_of
from typer.testing import CliRunner

import scrl
from scrl.cli.app import app
from scrl.problems import Problem, ProblemOptions
from scrl.worlds.sweep.regions import from_labels
from scrl.worlds.sweep.spec import SweepSpec

LOOP = {
    "worlds": 2, "rollout_steps": 32, "iterations": 2, "settle": 1, "width": 4, "depth": 1,
    "epochs": 1, "minibatches": 2,
}  # fmt: skip
DOCUMENTS = (".json", ".jsonl", ".toml")
FORMATS = {"trained": "csv", "asked": "csv", "environment": "onnx"}
CHANGING = re.compile(r'"wall_s": [^,]*|\d{4}-\d\d-\d\d \d\d:\d\d UTC')
"""What differs from answer to answer."""

Outcomes = Counter[tuple[str, str]]
"""How often a file came to an end."""


def made(root: Path) -> dict[str, Path]:
    """A trained run, a plan in wind, and a run in an environment."""
    spec = SweepSpec(from_labels(np.repeat([[1] * 4 + [2] * 4], 4, axis=0)))
    problem = Problem.create(spec, ("if S2 > 10 then S1 >= 18",), ProblemOptions(name="small"))
    scrl.train(problem, settings=LOOP, out=root / "trained")
    wind = dataclasses.replace(spec.wind, strength=0.1)
    windy = dataclasses.replace(problem, world_spec=dataclasses.replace(spec, wind=wind))
    planner = scrl.planner()
    planner.keep(planner.ask(windy), root / "asked")
    scrl.train(
        make_walk, labels="amounts", regions=REGIONS, rules=RULES, horizon_steps=HORIZON,
        settings=LOOP | {"steps": HORIZON, "episodes": 4, "settle_episodes": 4},
        out=root / "environment",
    )  # fmt: skip
    return {kind: root / kind for kind in FORMATS}


def answers(kind: str, run: Path, good: Path) -> Iterator[tuple[int, str]]:
    """The exit code of every command and all that it says, or writes."""
    out = run.parent / "out"
    for command in (
        ["eval", run, "--json"],
        ["report", run, "--out", out / "page.html"],
        ["export", run, "--format", FORMATS[kind], "--out", out / "exported"],
        ["compare", run, good, "--json"],
        ["train", "--resume", run, "--json"],
    ):
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        done = CliRunner().invoke(app, [str(each) for each in command])
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            yield -1, repr(done.exception)
            continue
        files = "".join(path.read_bytes().hex() for path in out.glob("exported*"))
        page = (out / "page.html").read_text("utf-8") if (out / "page.html").exists() else ""
        yield done.exit_code, CHANGING.sub("", done.stdout + page) + files


def outcome_of(found: list[tuple[int, str]], whole: list[tuple[int, str]]) -> str:
    if any(code == -1 for code, _ in found):
        return "traceback"
    if any(each not in (other, (2, "")) for each, other in zip(found, whole, strict=True)):
        return "wrong"
    return "refused" if found != whole else "harmless"


def flipped(kind: str, run: Path, good: Path, times: int, chance: random.Random) -> Outcomes:
    """Bits turned in every file, one at a time."""
    whole, outcomes = list(answers(kind, run, good)), Outcomes()
    for path in sorted(each for each in run.rglob("*") if each.is_file()):
        data = path.read_bytes()
        name = re.sub(r"\d[\w.]*", "*", str(path.relative_to(run)))
        for place in chance.sample(range(8 * len(data)), min(times, 8 * len(data))):
            damaged = bytearray(data)
            damaged[place // 8] ^= 1 << place % 8
            path.write_bytes(damaged)
            outcomes[f"{kind}/{name}", outcome_of(list(answers(kind, run, good)), whole)] += 1
        path.write_bytes(data)
    return outcomes


def changed(kind: str, run: Path, good: Path, times: int, chance: random.Random) -> Outcomes:
    """Documents that say something else."""
    outcomes = Outcomes()
    paths = sorted(path for path in run.rglob("*") if path.suffix in DOCUMENTS)
    for _ in range(times):
        path = chance.choice(paths)
        data = path.read_bytes()
        if path.suffix == ".json" and chance.random() < 0.75:
            document: Any = mutated(json.loads(data), chance)
            path.write_bytes(text_of(document, is_signed=chance.random() < 0.6))
        else:
            path.write_bytes(scrambled(data, chance))
        found = list(answers(kind, run, good))
        codes = [code for code, _ in found]
        how = "traceback" if -1 in codes else "refused" if 2 in codes else "used"
        outcomes[f"{kind}/{path.relative_to(run)}", how] += 1
        for code, text in found:
            if code == -1:
                print(f"{kind} {path.name}: {text}")
        path.write_bytes(data)
    return outcomes


def show(outcomes: Outcomes, ends: tuple[str, ...]) -> None:
    print(f"| file | {' | '.join(ends)} |\n|---|{'---|' * len(ends)}")
    for file in sorted({file for file, _ in outcomes}):
        print(f"| `{file}` | {' | '.join(str(outcomes[file, end]) for end in ends)} |")
    print(flush=True)


def main() -> None:
    """Make the folders, damage them, and print how it ended."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--flips", type=int, default=50)
    parser.add_argument("--mutations", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    chance = random.Random(asked.seed)  # noqa: S311 (nothing here is a secret)
    with tempfile.TemporaryDirectory() as folder:
        faults = 0
        for kind, good in made(Path(folder)).items():
            run = Path(shutil.copytree(good, good.parent / "damaged" / kind))
            flips = flipped(kind, run, good, asked.flips, chance)
            show(flips, ("refused", "harmless", "wrong", "traceback"))
            mutations = changed(kind, run, good, asked.mutations // len(FORMATS), chance)
            show(mutations, ("refused", "used", "traceback"))
            faults += sum(end in ("wrong", "traceback") for _, end in [*flips, *mutations])
    raise SystemExit(bool(faults))


if __name__ == "__main__":
    main()
