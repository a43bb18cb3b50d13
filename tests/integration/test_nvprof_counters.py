"""Counters of an nvprof metric run in a capture with a timeline: matched, and never its times."""

from __future__ import annotations

import json
import shutil
import sqlite3
import struct
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import made_nsys
import made_nvprof
import tbd_trace
from corpus import corpus_file
from tbd_trace.sources.nvprof.tables import ACTIVITY_PREFIX
from tbd_trace.store import Database

OCCUPANCY = 20971638  # achieved_occupancy on Volta, in data/nvprof_metrics.csv
WIDE = {"gridX": 8}
TIMELINE = [{}, WIDE, {}, {}, WIDE, {}]  # launch configurations, in order of execution
COUNTED = [{}, WIDE, {}]
OCCUPANCIES = [0.25, 0.5, 0.75]
REPLAYED_NS = 1_000_000


def metric_run(path: Path) -> Path:
    """Write what nvprof writes when it counts: serialised kernels, each replayed many times."""
    usual = {"gridX": 4, "gridY": 2, "gridZ": 1, "blockX": 128, "blockY": 1, "blockZ": 1}
    kernels = [
        made_nvprof.kernel(
            start=REPLAYED_NS * (2 * n + 1), end=REPLAYED_NS * (2 * n + 2), correlation=n,
            **usual | configuration,
        )
        for n, configuration in enumerate(COUNTED)
    ]  # fmt: skip
    values = [
        {"id": OCCUPANCY, "correlationId": n, "flags": 0, "value": struct.pack("<d", value)}
        for n, value in enumerate(OCCUPANCIES)
    ]
    names = [made_nsys.STRINGS[3]]  # mangled
    return made_nvprof.make(path, names, {"KERNEL": kernels, "METRIC": values})


@pytest.fixture
def traces(tmp_path: Path) -> tbd_trace.api.Traces:
    """Return a capture as `tbd-trace collect` makes it on a GPU that only nvprof counts on."""
    kernels = [
        made_nsys.kernel(start=1000 + 100 * n, end=1010 + 101 * n, correlationId=n, **configuration)
        for n, configuration in enumerate(TIMELINE)
    ]
    other = made_nsys.kernel(start=2000, end=2040, demangledName=9, mangledName=None)
    tables = {"StringIds": made_nsys.strings(), made_nsys.KERNEL: [*kernels, other]}
    made_nsys.write(tmp_path / "timeline.sqlite", tables)
    metric_run(tmp_path / "counters.nvvp")
    files = [
        {"file": "timeline.sqlite", "role": "timeline", "tool": "nsys"},
        {"file": "counters.nvvp", "role": "metrics", "tool": "nvprof"},
    ]
    document = {"format_version": 1, "capture_id": "one", "files": files}
    (tmp_path / "capture.json").write_text(json.dumps(document), encoding="utf-8")
    return ingested(tmp_path)


def ingested(capture: Path) -> tbd_trace.api.Traces:
    database = Database(capture / "store" / "x.duckdb")
    database.ingest([capture])
    return tbd_trace.open(db=database.path)


def lent(traces: tbd_trace.api.Traces) -> list[dict[str, Any]]:
    """Return the occupancies of the timeline's kernels, in order of execution."""
    found = traces.sql(
        "SELECT k.short_name, k.grid_x, k.grid_y, k.block_x, c.value, c.tool FROM kernel k "
        "JOIN kernel_counter c USING (trace_id, kernel_id) "
        "JOIN trace t USING (trace_id) WHERE t.kind = 'timeline' "
        "AND c.metric = 'achieved_occupancy' ORDER BY k.start_ns"
    )
    return found.to_dicts()


def test_counters_are_lent_by_name_configuration_and_ordinal(traces: tbd_trace.api.Traces) -> None:
    found = lent(traces)
    assert [(row["grid_x"], row["value"]) for row in found] == [
        (4, 0.25),
        (8, 0.5),
        (4, 0.75),
        (4, 0.25),  # the two executions that were counted, in turn
        (8, 0.5),
        (4, 0.75),
    ]
    assert {(row["short_name"], row["tool"]) for row in found} == {("gemm", "nvprof")}


def test_times_are_those_of_the_timeline_alone(traces: tbd_trace.api.Traces) -> None:
    durations = [10 + n for n in range(len(TIMELINE))]
    (gemm, other) = traces.query("kernel_summary").sort("total_ns", descending=True).to_dicts()
    assert (gemm["total_ns"], gemm["instances"]) == (sum(durations), len(durations))
    assert (other["total_ns"], other["instances"]) == (40, 1)
    ops = traces.sql("SELECT max(end_ns) AS last_ns, count(*) AS number FROM gpu_op")
    assert ops.row(0) == (2040, len(TIMELINE) + 1)
    # Weighted by the times of the timeline, not by those of the replays.
    (row,) = traces.query("occupancy", by="trace").to_dicts()
    values = [0.25, 0.5, 0.75, 0.25, 0.5, 0.75]
    mean = sum(d * v for d, v in zip(durations, values, strict=True)) / sum(durations)
    assert row["achieved_pct"] == pytest.approx(100 * mean)


def stored(profile: Path) -> float:
    """Return the occupancy in the profile of one kernel."""
    with closing(sqlite3.connect(profile)) as opened:
        (row,) = opened.execute(
            f"SELECT value FROM {ACTIVITY_PREFIX}METRIC WHERE id = ?", [OCCUPANCY]
        )
    (value,) = struct.unpack("<d", row[0])
    return float(value)


@pytest.mark.slow
def test_real_counters_of_one_kernel_in_two_configurations(tmp_path: Path) -> None:
    """Two layers run one kernel on different grids; each was counted in a run of its own."""
    names = [
        f"esarmstrong_ece408__{part}.nvprof"
        for part in ("timeline", "forward1_analysis", "forward2_analysis")
    ]
    for name in names:
        shutil.copy(corpus_file(f"nvprof/{name}"), tmp_path)
    roles = ("timeline", "metrics", "metrics")
    files = [{"file": name, "role": role} for name, role in zip(names, roles, strict=True)]
    (tmp_path / "capture.json").write_text(json.dumps({"files": files}), encoding="utf-8")
    found = lent(ingested(tmp_path))
    assert [row["grid_y"] for row in found] == [12, 24]
    assert [row["value"] for row in found] == [stored(tmp_path / name) for name in names[1:]]
    assert {row["short_name"] for row in found} == {"forward_kernel"}
