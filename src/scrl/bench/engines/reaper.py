"""A separate program that ends a local cluster whose parent process was killed.

It reads process ids from its input and waits until that is closed. Without it, Ray's agents would
run for another minute, and the cluster's folder would remain.
"""

from __future__ import annotations

import importlib
import shutil
import sys


def main(library: str, folder: str) -> None:
    """Record processes; when the input is closed, end them and remove the folder."""
    sys.path.append(library)
    psutil = importlib.import_module("psutil")
    known = []
    for line in sys.stdin:
        try:
            known.append(psutil.Process(int(line)))
        except psutil.NoSuchProcess:
            continue
    for process in known:  # recorded with their start times, since process ids are reused
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue
    psutil.wait_procs(known, timeout=5)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
