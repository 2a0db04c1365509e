"""What ends a cluster of our own whose process was killed: a program of its own, without imports.

It is told the numbers of the processes on its input, and waits until that ends. Ray's agents would
look for their head for another minute, and nobody would remove the cluster's folder.
"""

from __future__ import annotations

import importlib
import shutil
import sys


def main(library: str, folder: str) -> None:
    """Remember processes; when our process is gone, end those that are left and the folder."""
    sys.path.append(library)
    psutil = importlib.import_module("psutil")
    known = []
    for line in sys.stdin:
        try:
            known.append(psutil.Process(int(line)))
        except psutil.NoSuchProcess:
            continue
    for process in known:  # remembered with their start: none that has the number now is meant
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue
    psutil.wait_procs(known, timeout=5)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
