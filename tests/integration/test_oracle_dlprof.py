"""The same layer for every kernel as NVIDIA's DLProf, on the trace that DLProf itself made.

A PyTorch CNN, one forward pass under `nvidia_dlprof_pytorch_nvtx` and `emit_nvtx`. DLProf's
iteration report has one row per kernel. The two exports of the recording hold the same events.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from real_traces import Traces, oracle_rows

REPORT = "MohanadOdema_DLProf__w_Relu__dlprof_{}.csv"
EXPORTS = [
    "nsys/MohanadOdema_DLProf__w_Relu__nsys_profile.sqlite",
    "nsys/MohanadOdema_DLProf__w_Relu__nsys_profile.nsys-rep.exp2022.4.sqlite",
]
KERNELS = """
    SELECT k.short_name, k.start_ns, k.duration_ns, k.device_id, k.grid_x, k.grid_y, k.grid_z,
        k.block_x, k.block_y, k.block_z, s.* EXCLUDE (trace_id)
    FROM kernel k JOIN kernel_scope s USING (trace_id, kernel_id)
"""

each_export = pytest.mark.parametrize(
    "export", EXPORTS, ids=["exported 2022.1", "exported 2022.4"], scope="module"
)


def report(name: str) -> list[dict[str, str]]:
    return oracle_rows(REPORT.format(name), skip_lines=1)  # a title stands above the columns


def kernels(traces: Traces, export: str) -> dict[tuple[int, int], dict[str, Any]]:
    """Return our kernels by start and duration, which no two share."""
    rows = list(traces.sql(export, KERNELS).iter_rows(named=True))
    found = {(row["start_ns"], row["duration_ns"]): row for row in rows}
    assert len(found) == len(rows)
    return found


@pytest.mark.slow
@each_export
def test_layer_of_every_kernel(traces: Traces, export: str) -> None:
    ours = kernels(traces, export)
    theirs = report("iteration")
    assert len(theirs) == len(ours) == 59
    for row in theirs:
        mine = ours[int(row["GPU Start Time (ns)"]), int(row["GPU Duration (ns)"])]
        assert (mine["short_name"], mine["layer"]) == (row["Kernel Name"], row["Op Name"])
        shape = [mine[f"{part}_{axis}"] for part in ("grid", "block") for axis in "xyz"]
        assert shape == [int(row[f"{part} {axis}"]) for part in ("Grid", "Block") for axis in "XYZ"]
        assert mine["device_id"] == int(row["Device ID"])
        assert mine["launch_start_ns"] == int(row["API Call Start (ns)"])
        assert mine["launch_end_ns"] - mine["launch_start_ns"] == int(row["API Call Time (ns)"])
        assert mine["layer_evidence"] == "nvtx"
        # One pass, no backward: DLProf calls all of it forward and one iteration, we neither.
        assert (row["Direction"], row["Iteration"]) == ("fprop", "0")
        assert (mine["phase"], mine["iteration"]) == (None, None)


def union(intervals: list[tuple[int, int]]) -> int:
    total, reached = 0, 0
    for start, end in sorted(intervals):
        total += max(0, end - max(start, reached))
        reached = max(reached, end)
    return total


@pytest.mark.slow
@each_export
def test_gpu_time_of_every_layer(traces: Traces, export: str) -> None:
    """DLProf's GPU time of an operation is the union of its kernels, copies and fills."""
    ours: dict[str, list[tuple[int, int]]] = {}
    operations = traces.sql(export, "SELECT layer, start_ns, end_ns FROM op_scope")
    for layer, start, end in operations.iter_rows():
        ours.setdefault(layer, []).append((start, end))
    theirs = Counter[str]()  # operations of one name are one layer
    for row in report("detailed"):
        theirs[row["Op Name"]] += int(row["Total GPU Time (ns)"])
    assert {layer: union(intervals) for layer, intervals in ours.items()} == +theirs


@pytest.mark.slow
@each_export
def test_kernels_of_every_layer(traces: Traces, export: str) -> None:
    ours: dict[tuple[str, str], list[int]] = {}
    for row in kernels(traces, export).values():
        ours.setdefault((row["layer"], row["short_name"]), []).append(row["duration_ns"])
    theirs = {(row["Op Name"], row["Kernel Name"]): row for row in report("kernel")}
    assert set(ours) == set(theirs)
    for key, durations in ours.items():
        total, least, most = (
            int(theirs[key][f"{what} GPU Time (ns)"]) for what in ("Total", "Min", "Max")
        )
        assert (sum(durations), min(durations), max(durations)) == (total, least, most)
