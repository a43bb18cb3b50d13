"""A large PyTorch trace is read in bounded memory, and its numbers are those it was made with."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from benchmarks.measure import measure
from benchmarks.torch_trace import generate

import tbd_trace

MOST_BYTES = 400 << 20


@pytest.mark.slow
@pytest.mark.parametrize("megabytes", [30, pytest.param(1024, marks=pytest.mark.nightly)])
def test_a_large_trace(tmp_path: Path, megabytes: int) -> None:
    path = tmp_path / "large.json.gz"
    truth = generate(path, megabytes)
    database = tmp_path / "large.duckdb"
    command = (sys.executable, "-m", "tbd_trace", "ingest", str(path), "--db", str(database))
    cost = measure(command, {}, tmp_path / "log", 600)
    assert cost.usable, cost.message
    assert cost.peak_bytes < MOST_BYTES
    traces = tbd_trace.open(db=database)
    assert traces.sql("SELECT count(*), sum(duration_ns)::BIGINT FROM kernel").row(0) == (
        truth.kernels,
        truth.kernel_ns,
    )
    operators, modules, names = traces.sql(
        """
        SELECT count(*) FILTER (source = 'operator'), count(*) FILTER (source = 'module'),
            count(DISTINCT text) FILTER (source = 'module')
        FROM annotation
        """
    ).row(0)
    assert (operators, modules, names) == (truth.operators, truth.kernels, 50)
    assert traces.sql("SELECT count(*) FROM memory_event").item() == truth.kernels
