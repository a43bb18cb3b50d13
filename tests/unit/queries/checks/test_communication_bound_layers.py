"""NET04 on the sample, whose last layer has nearly all weights."""

from __future__ import annotations

from typing import Any

import pytest

from tbd_trace.analysis.checks import evaluate
from tbd_trace.api import Traces
from tbd_trace.store import Database


def judged(database: Database, **parameters: str) -> dict[str, Any]:
    traces = Traces(database, database.trace_ids())
    (row,) = evaluate(traces, ["NET04"], parameters).to_dicts()
    return row


def test_a_layer_that_communicates_longer_is_found(sample_database: Database) -> None:
    row = judged(sample_database)
    # 16,386,000 bytes of fc: 13.1088 ms at 10 Gbit/s and two latencies, for 50 us of kernels
    assert row["value"] == pytest.approx((13.1088e-3 + 1e-5) / 50e-6)
    assert (row["verdict"], row["evidence"]) == ("finding", "modelled")
    assert row["reason"].startswith("1 of 5 layers, with 98.2 % of the gradient bytes")
    assert "fc (262.38)" in row["reason"]


def test_a_fast_link_passes(sample_database: Database) -> None:
    assert judged(sample_database, link_gbit="100000")["verdict"] == "pass"
    assert judged(sample_database, max_layer_ratio="300")["verdict"] == "pass"
    assert judged(sample_database, link_gbit="100000", latency_s="0.01")["verdict"] == "finding"
