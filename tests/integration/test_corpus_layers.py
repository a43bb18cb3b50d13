"""Layers of real traces: the same ranges own the GPU time and the host time."""

from __future__ import annotations

from pathlib import Path

import pytest

from corpus import corpus_files, relative
from fast import first_of_each_format
from real_traces import Traces

REFUSED = ("908_results.json.gz", "grof__gpu_trace.json", "linear_et.json.gz")  # of other tools
FILES = corpus_files(
    "nsys/*",
    "kineto/*",
    where=lambda path: path.stat().st_size < 20_000_000 and not path.name.endswith(REFUSED),
)
LAUNCHED = """
SELECT DISTINCT l.layer, l.layer_evidence
FROM _launch_scope l
JOIN host_window w
    ON  w.trace_id = l.trace_id AND w.process_id IS NOT DISTINCT FROM l.process_id
    AND l.start_ns >= w.start_ns AND l.end_ns <= w.end_ns
WHERE l.layer IS NOT NULL
"""
HOST_TIME = "SELECT DISTINCT layer, layer_evidence FROM layer_host_time WHERE layer IS NOT NULL"


@pytest.mark.slow
@pytest.mark.parametrize("path", first_of_each_format(FILES, then_one_in=10))
def test_layers_of_launches_are_layers_of_the_host(traces: Traces, path: Path) -> None:
    """Layers of the host that launch nothing in the window have no GPU time there."""
    name = relative(path)
    launched = set(traces.sql(name, LAUNCHED).rows())
    assert launched <= set(traces.sql(name, HOST_TIME).rows())
