"""What the local engine finds, and a cluster of two cores that serves all tests of a file."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from scrl.bench import Workers

from .small import bench, environment

# Before Ray is imported: clusters of tests are for nobody else, and write into nobody's home.
os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=secrets.token_hex(16))


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the local engine finds."""
    out = tmp_path_factory.mktemp("local")
    bench(out, engine="local", workers=None)
    return out


CLUSTER = """
import sys, ray
ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False,
         logging_level="ERROR", _temp_dir=sys.argv[1])
print(ray.get_runtime_context().gcs_address, flush=True)
sys.stdin.read()
"""
"""A process with a cluster of two cores, until its input ends."""


@pytest.fixture(scope="module")
def cluster(local: Path) -> Iterator[str]:
    """The address of a cluster whose workers find compiled code."""
    with (
        tempfile.TemporaryDirectory(dir="/tmp", ignore_cleanup_errors=True) as folder,
        subprocess.Popen(
            [sys.executable, "-c", CLUSTER, folder], env=environment() | {"TMPDIR": folder},
            text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        ) as started,
    ):  # fmt: skip
        assert started.stdout is not None
        yield started.stdout.readline().strip()
        started.communicate("")


@pytest.fixture
def two(cluster: str) -> Workers:
    """Two workers there."""
    return Workers(count=2, address=cluster)
