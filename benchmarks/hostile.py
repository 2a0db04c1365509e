"""Hostile files through whole commands: how each ends, in how many seconds, with how much memory.

`python -m benchmarks.hostile [--files 200] [--seed 0]` prints a table. Every file is drawn from the
seed. A command may refuse a file (exit code 2 and one message) or answer (0 or 1). A traceback, any
other exit code, more than 5 seconds or more than 1 GB is a fault. Compiled code is on disk before
the clock starts. The exit code is 1 if there was a fault.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from PIL import Image

MOST_SECONDS, MOST_BYTES = 5.0, 10**9
GIVE_UP_SECONDS = 60
SQUARE = [[0, 0], [4, 0], [4, 4], [0, 4], [0, 0]]
PROBLEM = """[world]
kind = "sweep"
map = "map.geojson"
grid = [20, 20]
[rules]
first = "a >= 5"
"""
RULE = 'first = "a >= 5"'

Draw: TypeAlias = Callable[[np.random.Generator, Path], list[str]]
"""Writes hostile files into a folder that has a problem, a map and a run; returns the command."""


class Outcome(NamedTuple):
    """How one command ended."""

    code: int
    seconds: float
    memory: int
    said: str

    @property
    def fault(self) -> str | None:
        """What is wrong with it, if anything."""
        if "Traceback" in self.said or self.code not in (0, 1, 2):
            return f"exit code {self.code}: {self.said[-200:]}"
        if self.code == 2 and "scrl:" not in self.said:
            return f"refused without a message: {self.said[-200:]}"
        if self.seconds > MOST_SECONDS:
            return f"{self.seconds:.1f} s"
        return f"{self.memory / 1e6:.0f} MB" if self.memory > MOST_BYTES else None


def write_map(folder: Path, *features: tuple[Any, Any], **members: Any) -> None:
    """A GeoJSON file of (properties, geometry)."""
    listed = [
        {"type": "Feature", "properties": properties, "geometry": geometry}
        for properties, geometry in features
    ]
    document = {"type": "FeatureCollection", "features": listed, **members}
    (folder / "map.geojson").write_text(json.dumps(document), encoding="utf-8")


def polygon(*rings: Any) -> dict[str, Any]:
    return {"type": "Polygon", "coordinates": list(rings)}


def problem(folder: Path, text: str | bytes) -> list[str]:
    data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    (folder / "problem.toml").write_bytes(data)
    return ["check", "problem.toml"]


def ruled(folder: Path, *rules: str) -> list[str]:
    lines = [f"rule{index} = {json.dumps(rule)}" for index, rule in enumerate(rules)]
    return problem(folder, PROBLEM.replace(RULE, "\n".join(lines)))


def pick(rng: np.random.Generator, *choices: Any) -> Any:
    return choices[rng.integers(len(choices))]


# Problem files.


def toml_bytes(rng: np.random.Generator, folder: Path) -> list[str]:
    return problem(folder, with_other_bytes(rng, PROBLEM.encode()))


def with_other_bytes(rng: np.random.Generator, data: bytes) -> bytes:
    changed = bytearray(data)
    for place in rng.integers(len(data), size=rng.integers(1, 6)):
        changed[place] = rng.integers(256)
    return bytes(changed)


def toml_nesting(rng: np.random.Generator, folder: Path) -> list[str]:
    deep = int(rng.integers(200, 50_000))
    opened, closed = pick(rng, ("[", "]"), ("{a=", "}"), ("[[", "]]"))
    return problem(folder, PROBLEM + f"x = {opened * deep}1{closed * deep}\n")


def toml_dots(rng: np.random.Generator, folder: Path) -> list[str]:
    key = ".".join(["a"] * int(rng.integers(500, 40_000)))
    return problem(folder, pick(rng, f"{key} = 1\n", f"[{key}]\n", f"x.{key} = 1\n" * 3))


NUMBERS = ("1e308", "-1e308", "nan", "inf", "1" + "0" * 5000, "0", "-0.0", "1e-320", "true", "[]")


def toml_numbers(rng: np.random.Generator, folder: Path) -> list[str]:
    value = pick(rng, *NUMBERS, "0x7fffffff", '"3"', "1979-05-27")
    key = pick(rng, "max_speed", "rate", "cell", "grid", "horizon_steps", "gust")
    if key in ("max_speed", "rate"):
        return problem(folder, f"{PROBLEM}[vehicle]\n{key} = {value}\n")
    line = f"grid = [{value}, {value}]\n" if key == "grid" else f"grid = [9, 9]\n{key} = {value}\n"
    return problem(folder, PROBLEM.replace("grid = [20, 20]\n", line))


def toml_paths(rng: np.random.Generator, folder: Path) -> list[str]:
    (folder / "loop.geojson").symlink_to("loop.geojson")
    (folder / "folder.npy").mkdir()
    os.mkfifo(folder / "pipe.geojson")
    made = ("loop.geojson", "folder.npy", "pipe.geojson")
    strange = ("~/x", "map\\u0000.geojson", "a" * 5000 + ".geojson", "")
    path = pick(rng, *made, *strange, "../../../etc/passwd", "/dev/zero", "/dev/stdin")
    return problem(folder, PROBLEM.replace("map.geojson", path))


def toml_texts(rng: np.random.Generator, folder: Path) -> list[str]:
    escapes = ("\\u001b]52;c;aGk=\\u0007", "\\u009b31m", "\\u007f", "\\u0000", "\\r")
    character = pick(rng, *escapes, "\\u202e", "\\n" * 40_000, "\\ufeff", "\\ud7ff")
    key = pick(rng, "name", "description", "unit", "rule")
    if key == "rule":
        return problem(folder, PROBLEM.replace("first", f'"r{character}"'))
    return problem(folder, f'{PROBLEM}[problem]\n{key} = "x{character}"\n')


def toml_encodings(rng: np.random.Generator, folder: Path) -> list[str]:
    coding = pick(rng, "utf-16", "utf-32", "utf-8-sig", "utf-7")
    return problem(folder, PROBLEM.encode(coding) + rng.bytes(int(rng.integers(4))))


# Rules.


def rule_sizes(rng: np.random.Generator, folder: Path) -> list[str]:
    many = int(rng.integers(10, 20_000))
    wide = " and ".join(f"(a >= {index} or a <= 1)" for index in range(min(many, 60)))
    rules = (
        "(" * many + "a >= 1" + ")" * many,
        "not " * many + "a >= 1",
        " + ".join(["a"] * many) + " >= 1",
        " or ".join(f"a >= {index}" for index in range(many)),
        f"not ({wide})",
        " -> ".join(["a >= 1"] * many),
        "1 <= " + " <= ".join(["a"] * many),
        f"max({', '.join(['a'] * many)}) <= 3",
    )
    return ruled(folder, pick(rng, *rules))


def rule_sets(rng: np.random.Generator, folder: Path) -> list[str]:
    few = int(rng.integers(6, 18))
    pairs = " or ".join(f"(a >= {index} and a <= {index + 1})" for index in range(few))
    return ruled(folder, *[pairs] * int(rng.integers(5, 40)))


def rule_numbers(rng: np.random.Generator, folder: Path) -> list[str]:
    long = ("9" * 4000, "0." + "0" * 4000 + "1")
    number = pick(rng, *NUMBERS, *long, "1e400", "1e20", "--3", "1/0", "0x10", "1_000", "٣", "²")
    rules = (f"a >= {number}", f"{number} * a <= 1", f"a == 1 within {number}")
    command = ruled(folder, pick(rng, *rules))
    return [pick(rng, "check", "solve"), command[1]]


def rule_noise(rng: np.random.Generator, folder: Path) -> list[str]:
    words = ["a", "3", "(", ")", '"', "and", "or", "not", "if", "then", "->", "within", "max(", ","]
    signs = [">=", "<=", "==", "=", "<", "*", "+", "#", ";", "\t", "\u200b"]
    drawn = rng.choice([*words, *signs], size=rng.integers(1, 400))
    return ruled(folder, " ".join(drawn))


# Maps.


def geojson_numbers(rng: np.random.Generator, folder: Path) -> list[str]:
    size = pick(rng, 1e-300, 1e307, 1e-12, 1e15, 180.0, 1e9)
    ring = (np.array(SQUARE) * size).tolist()
    if rng.random() < 0.5:
        ring[rng.integers(5)] = pick(rng, float("nan"), None, "x", 10**400)
    write_map(folder, ({"name": "a"}, polygon(ring)), ({"name": "b"}, polygon(SQUARE)))
    return ["check", "problem.toml"]


def geojson_rings(rng: np.random.Generator, folder: Path) -> list[str]:
    star = rng.uniform(0, 4, (int(rng.integers(5, 3000)), 2)).tolist()
    bow = [[0, 0], [4, 4], [0, 4], [4, 0], [0, 0]]
    ring = pick(rng, star, bow, [], [[0, 0]], SQUARE[::-1], [SQUARE])
    several = {"type": "MultiPolygon", "coordinates": [[SQUARE], [ring]]}
    collected = {"type": "GeometryCollection", "geometries": [polygon(ring)]}
    shape = pick(rng, polygon(ring), polygon(SQUARE, ring), several, collected)
    write_map(folder, ({"name": "a"}, shape), ({"name": "b"}, polygon(SQUARE)))
    return ["check", "problem.toml"]


def geojson_many(rng: np.random.Generator, folder: Path) -> list[str]:
    corners = rng.uniform(0, 100, (int(rng.integers(500, 20_000)), 2))
    shapes = corners[:, None] + np.array(SQUARE) / 4 * rng.choice([0.001, 0.5, 30.0], 2)
    write_map(folder, *(({"name": f"r{k}"}, polygon(r)) for k, r in enumerate(shapes.tolist())))
    return problem(folder, PROBLEM.replace("20, 20", "500, 500").replace("a >=", "r1 >="))


def geojson_nesting(rng: np.random.Generator, folder: Path) -> list[str]:
    deep = int(rng.integers(100, 100_000))
    nested: Any = polygon(SQUARE)
    for _ in range(min(deep, 300)):
        nested = {"type": "GeometryCollection", "geometries": [nested]}
    write_map(folder, ({"name": "a"}, nested))
    if rng.random() < 0.5:
        (folder / "map.geojson").write_text('{"features": ' + "[" * deep + "]" * deep + "}")
    return ["check", "problem.toml"]


def geojson_names(rng: np.random.Generator, folder: Path) -> list[str]:
    written = ("\x1b[2J", "\u202egnp", "\x00", "a\nb", "<script>alert(1)</script>", "=1+1")
    name = pick(rng, *written, "a" * 10**6, "", "if", '"', "../../x", "time", None, 3, ["a"])
    write_map(folder, ({"name": name}, polygon(SQUARE)), ({"name": "a"}, polygon(SQUARE)))
    return pick(rng, ["check", "problem.toml"], ["ask", "map.geojson", "a >= 3"])


def geojson_places(rng: np.random.Generator, folder: Path) -> list[str]:
    places = ((179.9, 0), (0, 89.9), (0, 95), (500, 500), (4e5, 5e6), (-180, -90))
    crs = {"type": "name", "properties": {"name": pick(rng, "EPSG:27700", "x" * 9999, None)}}
    ring = (np.array(SQUARE) / 20 + np.array(pick(rng, *places))).tolist()
    write_map(folder, ({"name": "a"}, polygon(ring)), crs=crs)
    return ["check", "problem.toml"]


def image_damage(rng: np.random.Generator, folder: Path) -> list[str]:
    buffer = io.BytesIO()
    labels = rng.integers(0, 3, (9, 9)).astype(np.uint8)
    Image.fromarray(labels).save(buffer, pick(rng, "PNG", "GIF", "TIFF", "BMP"))
    data = with_other_bytes(rng, buffer.getvalue())
    (folder / "map.png").write_bytes(data[: rng.integers(8, len(data) + 1)])
    return problem(folder, PROBLEM.replace("map.geojson", "map.png"))


def image_bomb(rng: np.random.Generator, folder: Path) -> list[str]:
    side = int(rng.choice([3000, 12_000, 20_000]))
    Image.new(pick(rng, "1", "L", "P"), (side, side)).save(folder / "map.png")
    text = PROBLEM.replace("map.geojson", "map.png")
    return problem(folder, pick(rng, text, text.replace("grid = [20, 20]\n", "")))


def array_headers(rng: np.random.Generator, folder: Path) -> list[str]:
    shapes = ((10**6, 10**6), (-3, 4), (0, 0), (), (2, 2, 2), (10**30, 1), ("x", 2))
    kinds = ("<i8", "|O", "<f8", "<c16", "|S8", "<U4", "[('a', '<i4')]")
    held = {"descr": pick(rng, *kinds), "fortran_order": False, "shape": pick(rng, *shapes)}
    header = (repr(held).ljust(117) + "\n").encode()
    data = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + b"\1" * 99
    (folder / "map.npy").write_bytes(data)
    return problem(folder, PROBLEM.replace("map.geojson", "map.npy"))


def array_values(rng: np.random.Generator, folder: Path) -> list[str]:
    floats = (np.full((9, 9), np.nan), np.full((9, 9), 1e300))
    large = (np.ones((1, 10**6), int), np.arange(10**6).reshape(1000, 1000))
    labels = (np.arange(81).reshape(9, 9) * 10**12, -np.ones((9, 9), int), np.array([[None, "x"]]))
    np.save(folder / "map.npy", pick(rng, *floats, *large, *labels), allow_pickle=True)
    text = PROBLEM.replace("map.geojson", "map.npy").replace("a >=", "S1 >=")
    return problem(folder, text.replace("grid = [20, 20]\n", ""))


# Run folders.


READS = (
    ["report", "run", "--out", "page.html"],
    ["eval", "problem.toml", "--policy", "run"],
    ["export", "run", "--format", "geojson", "--out", "route.json"],
    ["compare", "run", "run"],
)
"""Commands that read the run."""


def run_bytes(rng: np.random.Generator, folder: Path) -> list[str]:
    path = _some_file(rng, folder)
    data = with_other_bytes(rng, path.read_bytes())
    path.write_bytes(pick(rng, data, data, data[: rng.integers(len(data))]))
    return _reading(rng)


def run_values(rng: np.random.Generator, folder: Path) -> list[str]:
    chosen = pick(rng, *(each for each in _files(folder) if each.suffix == ".json"))
    document = json.loads(chosen.read_text())
    node: Any = document
    while True:
        key = pick(rng, *(node if isinstance(node, dict) else range(len(node))))
        if not isinstance(node[key], dict | list) or not node[key] or rng.random() < 0.2:
            break
        node = node[key]
    numbers = (-1, 1e300, 10**400, float("nan"))
    node[key] = pick(rng, *numbers, None, True, "", "\x1b[2J", "../../x", [], {}, [[]])
    chosen.write_text(json.dumps(document))
    return _reading(rng)


def run_links(rng: np.random.Generator, folder: Path) -> list[str]:
    path = _some_file(rng, folder)
    path.unlink()
    match rng.integers(5):
        case 0:
            path.symlink_to(path.name)
        case 1:
            path.mkdir()
        case 2:
            os.mkfifo(path)
        case 3:
            path.symlink_to("/dev/zero")
        case _:
            path.write_bytes(b"")
    return _reading(rng)


def run_sizes(rng: np.random.Generator, folder: Path) -> list[str]:
    with _some_file(rng, folder).open("r+b") as file:
        file.truncate(int(rng.choice([10**7, 10**9, 10**12])))
    return _reading(rng)


def _reading(rng: np.random.Generator) -> list[str]:
    return pick(rng, *READS, ["train", "--resume", "run"])


def _files(folder: Path) -> list[Path]:
    return sorted(each for each in (folder / "run").rglob("*") if each.is_file())


def _some_file(rng: np.random.Generator, folder: Path) -> Path:
    return pick(rng, *(each for each in _files(folder) if each.stat().st_size))


KINDS: tuple[Draw, ...] = (
    toml_bytes, toml_nesting, toml_dots, toml_numbers, toml_paths, toml_texts, toml_encodings,
    rule_sizes, rule_sets, rule_numbers, rule_noise,
    geojson_numbers, geojson_rings, geojson_many, geojson_nesting, geojson_names, geojson_places,
    image_damage, image_bomb, array_headers, array_values,
    run_bytes, run_values, run_links, run_sizes,
)  # fmt: skip


def run_command(arguments: list[str], folder: Path) -> Outcome:
    """Run `scrl` with these arguments in a folder, and see how it ends."""
    started = time.perf_counter()
    command = [sys.executable, "-m", "scrl", *arguments]
    memory = 0
    with (folder / "said.txt").open("w+b") as said:
        process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=said, stderr=said
        )
        while process.poll() is None:
            memory = max(memory, _peak_memory(process.pid))
            if time.perf_counter() - started > GIVE_UP_SECONDS:
                process.kill()
            time.sleep(0.01)
        seconds = time.perf_counter() - started
        said.seek(0)
        text = said.read().decode(errors="replace")
    return Outcome(process.returncode, seconds, memory, text)


def _peak_memory(pid: int) -> int:
    """Bytes that a process has had in memory at most; 0 once it has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except ProcessLookupError:
        return 0
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    return 1024 * int(found[1]) if found else 0


def prepare(folder: Path) -> None:
    """A problem, its map, and a finished run; it also fills the cache of compiled code."""
    write_map(folder, ({"name": "a"}, polygon(SQUARE)), ({"name": "b"}, polygon(SQUARE)))
    problem(folder, PROBLEM)
    training = ["train", "problem.toml", "--steps", "30000", "--out", "run"]
    for arguments in (training, ["ask", "map.geojson", "a >= 3"], *READS):
        run_command(arguments, folder)


def main() -> None:
    """Draw, run and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--files", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    outcomes: dict[str, list[Outcome]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["XDG_CACHE_HOME"] = str(Path(scratch) / "cache")
        model = Path(scratch) / "model"
        model.mkdir()
        prepare(model)
        for index in range(asked.files):
            draw = KINDS[index % len(KINDS)]
            folder = Path(scratch) / str(index)
            shutil.copytree(model, folder)
            arguments = draw(np.random.default_rng([asked.seed, index]), folder)
            outcome = run_command(arguments, folder)
            outcomes.setdefault(draw.__name__, []).append(outcome)
            if outcome.fault:
                command = " ".join(arguments)
                print(f"{draw.__name__} {index}: {command}: {outcome.fault}", file=sys.stderr)
            shutil.rmtree(folder)
    print("| kind | files | refused | answered | worst s | worst MB | faults |")
    print("|---|---|---|---|---|---|---|")
    for name, found in outcomes.items():
        print(_row(name, found))
    everything = [each for found in outcomes.values() for each in found]
    print(_row("all", everything))
    sys.exit(any(each.fault for each in everything))


def _row(name: str, found: list[Outcome]) -> str:
    refused = sum(each.code == 2 for each in found)
    seconds = max(each.seconds for each in found)
    memory = max(each.memory for each in found)
    faults = sum(each.fault is not None for each in found)
    return (
        f"| {name} | {len(found)} | {refused} | {len(found) - refused} | {seconds:.1f} | "
        f"{memory / 1e6:.0f} | {faults} |"
    )


if __name__ == "__main__":
    main()
