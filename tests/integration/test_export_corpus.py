"""export perfetto on real traces: nothing is lost, and a reader sees the times of the tables."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

import tbd_trace
from corpus import corpus_file
from fast import one_in
from perfetto_file import File, read
from tbd_trace.errors import CannotAnswerError
from tbd_trace.export.perfetto import export
from tbd_trace.query import connect
from tbd_trace.query.statements import execute_reading
from trace_processor import ask

pytestmark = pytest.mark.needs("corpus")
# Together, the first two hold events of every category but cudnn.
TRACES = [
    "nsys/zx3xyy_assignment2-systems__result_2_7B_compile_ro.sqlite",
    "nvprof/josiahdavis_profiling-lm__net.sql",
    "nvprof/minitu_activity_trace_async__trace.nvvp",
    "nvprof_csv/josiahdavis_profiling-lm__net.gpu_trace.csv",
    "nsys/GindaChen_nsys-ai__tests__fixtures__mfu_2gpu_before.sqlite",
    "nsys/gartangh_Master-s-Dissertation__Keras_Darknet-19_without_head.qdrep.exp2022.4.sqlite",
]
SOURCES = {
    "kernel": "SELECT start_ns, end_ns FROM kernel",
    "memcpy": "SELECT start_ns, end_ns FROM memcpy",
    "memset": "SELECT start_ns, end_ns FROM memset",
    "graph": "SELECT start_ns, end_ns FROM graph_launch",
    "cuda": "SELECT start_ns, end_ns FROM api_call WHERE api = 'cuda'",
    "cudnn": "SELECT start_ns, end_ns FROM api_call WHERE api = 'cudnn'",
    "osrt": "SELECT start_ns, end_ns FROM api_call WHERE api = 'osrt'",
    "nvtx": "SELECT start_ns, end_ns FROM nvtx_range",
}
PROBLEMS = "SELECT name, value FROM stats WHERE value > 0 AND severity IN ('error', 'data_loss')"


def spans(file: File, category: str) -> Counter[tuple[int, int]]:
    return Counter((found.start, found.end) for found in file.of(category))


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    one_in(len(TRACES), TRACES, then_one_in=len(TRACES) - 1),
    ids=lambda name: re.sub(r"\W+", "_", name)[-40:],
)
def test_every_event_is_there_with_its_times(tmp_path: Path, name: str) -> None:
    traces = tbd_trace.open(corpus_file(name))
    path = tmp_path / "out.pftrace"
    export(traces, path)
    file = read(path)
    with connect(traces.database, traces.trace_ids) as connection:
        for category, source in SOURCES.items():
            rows = execute_reading(connection, source).rows()
            assert spans(file, category) == Counter(rows), category
        marks = execute_reading(connection, "SELECT 1 FROM nvtx_mark")
        scopes = execute_reading(connection, "SELECT 1 FROM op_scope WHERE api_call_id IS NOT NULL")
    assert len(file.instants) == marks.height
    caused = scopes.height
    assert sum(len(found.ends) for found in file.slices) == caused
    assert sum(len(found.starts) for found in file.slices) == caused
    (problems,) = ask(path, PROBLEMS)
    assert problems == []


def test_a_run_that_counted_has_no_timeline(tmp_path: Path) -> None:
    source = corpus_file("nvprof/esarmstrong_ece408__forward1_analysis.nvprof")
    with pytest.raises(CannotAnswerError, match="no timeline"):
        export(tbd_trace.open(source), tmp_path / "out.pftrace")
