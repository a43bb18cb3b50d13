"""Shares of causes in the sample are those worked out from its rows."""

from __future__ import annotations

import pytest
from worked_causes import cause_times, step_begins

from tbd_trace.api import Traces
from tbd_trace.store import Database


def test_shares_of_causes(sample_database: Database) -> None:
    frame = Traces(sample_database, sample_database.trace_ids()).query("why")
    expected = cause_times()
    assert dict(frame.select("cause", "ns_per_step").rows()) == pytest.approx(expected)
    begins = step_begins()
    step_ns = (begins[-1] - begins[0]) / (len(begins) - 1)
    shares = {cause: 100 * ns / step_ns for cause, ns in expected.items()}
    assert dict(frame.select("cause", "share_pct").rows()) == pytest.approx(shares)
    assert set(frame["steps"]) == {len(begins) - 1}
