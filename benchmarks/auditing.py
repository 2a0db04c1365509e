"""Seconds of `scrl audit` for a log of a million points, as CSV and as GeoJSON.

`python -m benchmarks.auditing [--points 1000000]` draws seven fields with outlines of 200 corners,
writes both logs, and times whole commands. It ends with an error if CSV takes more than 5 s or
GeoJSON more than 20 s of processor time.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

LIMITS_S = {"log.csv": 5.0, "log.geojson": 20.0}
SIDE, COLUMNS = 0.012, 1000


def write_farm(folder: Path) -> None:
    """A map of seven fields and a problem with two rules."""
    draw = np.random.default_rng(0)
    features = []
    for number in range(7):
        angle = np.sort(draw.uniform(0.0, 2.0 * np.pi, 200))
        radius = 0.002 * draw.uniform(0.8, 1.0, 200)
        x = 10.002 + 0.004 * (number % 3) + radius * np.cos(angle)
        y = 50.002 + 0.004 * (number // 3) + radius * np.sin(angle)
        ring = np.column_stack([x, y]).tolist()
        features.append({
            "type": "Feature", "properties": {"name": f"F{number}"},
            "geometry": {"type": "Polygon", "coordinates": [[*ring, ring[0]]]},
        })  # fmt: skip
    document = {"type": "FeatureCollection", "features": features}
    (folder / "farm.geojson").write_text(json.dumps(document))
    (folder / "problem.toml").write_text(
        '[world]\nmap = "farm.geojson"\nstep = 1.0\nunit = "litres"\n'
        '[rules]\nleast = "F0 >= 100"\nmost = "F1 <= 1000000"\n'
    )


def write_logs(folder: Path, points: int) -> None:
    """To and fro over the whole map, five points a second."""
    index = np.arange(points)
    row, column = np.divmod(index, COLUMNS)
    column = np.where(row % 2, COLUMNS - 1 - column, column)
    x, y = 10.0 + SIDE * column / COLUMNS, 50.0 + SIDE * row * COLUMNS / points
    start = np.datetime64("2026-05-01T06:00:00", "ms")
    times = (start + index * np.timedelta64(200, "ms")).astype(str)
    flow = 1.0 + 0.5 * np.sin(index / 5000.0)
    rows = list(zip(times.tolist(), x.tolist(), y.tolist(), flow.tolist(), strict=True))
    with (folder / "log.csv").open("w") as file:
        file.write("time,longitude,latitude,flow,hdop\n")
        file.writelines(f"{t}Z,{a:.7f},{b:.7f},{q:.3f},0.9\n" for t, a, b, q in rows)
    features = (
        '{"type":"Feature","geometry":{"type":"Point","coordinates":'
        f'[{a:.7f},{b:.7f}]}},"properties":{{"time":"{t}Z","flow":{q:.3f}}}}}'
        for t, a, b, q in rows
    )
    text = '{"type":"FeatureCollection","features":[' + ",\n".join(features) + "]}"
    (folder / "log.geojson").write_text(text)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--points", type=int, default=1_000_000)
    points = parser.parse_args().points
    print(f"| log of {points:,} points | s | processor, s |\n|---|---|---|")
    over = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_farm(folder)
        write_logs(folder, points)
        for log, limit in LIMITS_S.items():
            command = [sys.executable, "-m", "scrl", "audit", name, str(folder / log), "--json"]
            started, before = time.perf_counter(), os.times()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            wall, after = time.perf_counter() - started, os.times()
            used = after.children_user + after.children_system - before.children_user
            used -= before.children_system
            print(f"| {log} | {wall:.1f} | {used:.1f} |", flush=True)
            over += [log] if used > limit else []
    if over:
        raise SystemExit(f"too slow: {', '.join(over)}")


if __name__ == "__main__":
    main()
