"""Shares of causes and gains in the sample are those worked out from its rows."""

from __future__ import annotations

from typing import Any

import pytest

from tbd_trace.api import Traces
from tbd_trace.store import Database
from worked_causes import cause_times, steps
from worked_whatif import Steps, measured_ns, steps_after_changes
from worked_window import steady


def test_shares_of_causes(sample_database: Database) -> None:
    frame = Traces(sample_database, sample_database.trace_ids()).query("why")
    expected = cause_times()
    assert dict(frame.select("cause", "ns_per_step").rows()) == pytest.approx(expected)
    step_ns = steady().elapsed / steps()
    shares = {cause: 100 * ns / step_ns for cause, ns in expected.items()}
    assert dict(frame.select("cause", "share_pct").rows()) == pytest.approx(shares)
    assert set(frame["steps"]) == {steps()}


CHANGES = {
    "copies": "overlap_copies",
    "gpu_elementwise": "compile",
    "gpu_matmul": "amp",
    "gpu_matmul_no_tensor_core": "amp",
    "gpu_matmul_tensor_core": "amp",
    "gpu_normalization": "compile",
    "gpu_optimizer": "fused_optimizer",
    "gpu_reduction": "compile",
    "host": "graph",
    "input_pipeline": "input",
    "memory_allocation": "no_alloc",
    "synchronization": "no_sync",
}
"""The change that shows what a cause costs."""


def test_steps_after_changes(sample_database: Database) -> None:
    traces, expected = Traces(sample_database, sample_database.trace_ids()), steps_after_changes()
    rows = traces.query("whatif").to_dicts()
    assert {row["change"]: _steps(row) for row in rows} == expected
    for row in rows:
        likely = expected[row["change"]].likely
        assert row["step_ns"] == pytest.approx(likely)
        assert row["gain_pct"] == pytest.approx(100 * (measured_ns() / likely - 1))


def test_gains_of_causes(sample_database: Database) -> None:
    rows = Traces(sample_database, sample_database.trace_ids()).query("why").to_dicts()
    found = {row["cause"]: _steps(row) for row in rows if row["best_step_ns"] is not None}
    expected = steps_after_changes()
    assert found == {cause: expected[CHANGES[cause]] for cause in found}
    assert {"gpu_matmul_no_tensor_core", "host", "input_pipeline"} <= found.keys()


def _steps(row: dict[str, Any]) -> Steps:
    steps = (row[f"{case}_step_ns"] for case in ("best", "likely", "worst"))
    return Steps(*(ns if ns is None else round(ns, 3) for ns in steps))
