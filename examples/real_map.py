"""From a map that nobody here drew to plans: the electoral districts of Montreal.

The package `plotly` carries them as GeoJSON (58 districts, some in several parts, longitude and
latitude). It is not among our dependencies:

    pip install plotly
    python examples/real_map.py [FOLDER]

Every command is printed before it runs; the same walk is in docs/export.md.
"""

from __future__ import annotations

import gzip
import importlib.util
import shlex
import subprocess
import sys
from pathlib import Path

RULES = """\
[rules]
north = '"13-Ahuntsic" >= 40'
fair = 'if "21-Ouest" > 50 then "43-Fort-Rolland" >= 70'
"""
ASKED = '"13-Ahuntsic" >= 45 and (if "21-Ouest" > 50 then "43-Fort-Rolland" >= 70)'
FORMATS = ("geojson", "csv", "regions", "kml", "plan", "onnx", "stablehlo")


def districts() -> bytes:
    """The GeoJSON that plotly carries, without importing all of plotly."""
    found = importlib.util.find_spec("plotly")
    if found is None or found.origin is None:
        raise SystemExit("skipped: this walk needs a map of plotly's (pip install plotly)")
    path = Path(found.origin).parent / "package_data" / "datasets" / "election.geojson.gz"
    if not path.is_file():
        raise SystemExit(f"skipped: this version of plotly has no {path.name}")
    return gzip.decompress(path.read_bytes())


def scrl(*arguments: str) -> None:
    """Run a command as a shell would; `ask`, `train` and `solve` may honestly answer no."""
    print(f"\n$ scrl {shlex.join(arguments)}", flush=True)
    done = subprocess.run([sys.executable, "-m", "scrl", *arguments])  # noqa: S603
    if done.returncode not in (0, 1):
        raise SystemExit(f"scrl {arguments[0]} ended with {done.returncode}")


def walk(folder: Path) -> None:
    """Map, problem, bound, plan, policy, files."""
    drawn = districts()
    if folder.exists():
        raise SystemExit(f"{folder} exists already; name a new folder")
    folder.mkdir(parents=True)
    map_path, town, run = folder / "montreal.geojson", folder / "montreal", folder / "run"
    map_path.write_bytes(drawn)
    scrl("new", str(town), "--map", str(map_path), "--region-property", "district",
         "--field", "*", "--grid", "100", "114")  # fmt: skip
    write_rules(town / "problem.toml")
    scrl("check", str(town))
    scrl("solve", str(town))
    scrl("ask", str(town), ASKED)
    scrl("train", str(town), "--steps", "200000", "--seeds", "1", "--out", str(run))
    for name in FORMATS:
        scrl("export", str(run), "--format", name)


def write_rules(path: Path) -> None:
    """What a person would do in an editor: how long a step is, the unit, and the rules."""
    text = path.read_text(encoding="utf-8").split("[rules]")[0]
    text = text.replace("# step = 1.0", "step = 60.0").replace(
        '# unit = "units"', 'unit = "litres"'
    )
    path.write_text(text + RULES, encoding="utf-8")


if __name__ == "__main__":
    walk(Path(sys.argv[1] if len(sys.argv) > 1 else "montreal-walk"))
