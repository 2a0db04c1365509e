"""Metrics are read back as they were written, torn last lines aside."""

from __future__ import annotations

import json

import jax.numpy as jnp
import numpy as np
import pytest

from scrl.runs.folder import RunError, RunFolder

from .small import rows


def test_rows_are_read_back_and_json_stays_json(run: RunFolder) -> None:
    run.log(rows(1, gain=jnp.float32(0.5), loss=float("nan"), note=np.inf))
    run.log(rows(2, gain=np.float64(2.0), count=np.int32(3)))
    text = (run.path / "metrics.jsonl").read_text()
    assert "NaN" not in text
    assert "Infinity" not in text
    assert json.loads(text.splitlines()[0]) == {"schema": 1}
    assert RunFolder.open(run.path).metrics() == [
        *rows(1, gain=0.5, loss=None, note=None),
        *rows(2, gain=2.0, count=3),
    ]


def test_a_torn_last_line_is_left_out_and_a_torn_middle_one_is_an_error(run: RunFolder) -> None:
    run.log(rows(1, gain=0.5))
    path = run.path / "metrics.jsonl"
    whole = path.read_bytes()
    for size in range(len(whole) - 20, len(whole)):
        path.write_bytes(whole[:size])
        assert run.metrics() == rows(1, gain=0.5)[:1]
    path.write_bytes(whole[:-20] + b"\n" + whole)
    with pytest.raises(RunError, match=r"metrics.jsonl line 3: damaged, not JSON"):
        run.metrics()
