"""One regression test per known defect of the scripts that this tool replaces.

The scripts read nvprof's CSV and averaged what they found. Defects of memory profiling (recycled
pointers, allocations without frees, gradients kept until the epoch ends) have their tests where
memory is analysed.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from all_answers import answers
from made_trace import MadeTrace, Row, metric, relation
from tbd_trace.errors import CannotAnswerError
from tbd_trace.query import Catalogue, Result, execute
from tbd_trace.store import Database

LEVEL = "single_precision_fu_utilization"
METRIC_TRACE = (
    "==7== NVPROF is profiling process 7, command: ./train\n"
    "==7== Profiling result:\n"
    f'"Device","Context","Stream","Kernel","Correlation_ID","{LEVEL}","flop_count_sp"\n'
)


def ingested(directory: Path, text: str, name: str = "nvprof.csv") -> Database:
    """Return a database with one made file in it."""
    (directory / name).write_text(text)
    database = Database(directory / "made.duckdb")
    database.ingest([directory / name])
    return database


def answer(database: Database, name: str, **parameters: str) -> list[Row]:
    return execute(database, Catalogue().get(name), parameters=parameters).frame.to_dicts()


def answered(found: Result | CannotAnswerError) -> Result:
    assert isinstance(found, Result)
    return found


def metric_rows(directory: Path, *rows: str) -> Database:
    lines = [f'"V100 (0)","1","7",{row}\n' for row in rows]
    return ingested(directory, METRIC_TRACE + "".join(lines))


@pytest.mark.slow
def test_the_highest_level_is_ten_not_zero(tmp_path: Path) -> None:
    """The text Max (10) was read as 0, as its number has two digits."""
    database = metric_rows(tmp_path, '"a(int)",1,"Max (10)",5', '"b(int)",2,"Idle (0)",0')
    rows = answer(database, "fp32_util", by="kernel")
    assert {row["kernel_name"]: row["pipe_level"] for row in rows} == {
        "a(int)": 10.0,
        "b(int)": 0.0,
    }


@pytest.mark.slow
def test_a_blank_metric_is_unknown_not_zero(tmp_path: Path) -> None:
    database = metric_rows(tmp_path, '"a(int)",1,"High (8)",', '"b(int)",2,,')
    rows = answer(database, "fp32_util", by="kernel")
    assert [(row["kernel_name"], row["pipe_level"], row["flop"]) for row in rows] == [
        ("a(int)", 8.0, None)
    ]


@pytest.mark.slow
def test_levels_stay_levels() -> None:
    """Levels 0 to 10 were averaged as tenths of the peak, and mixed with percentages.

    Weighted by duration they stay a level of their own; no percentage comes from them.
    """
    made = MadeTrace()
    made.add_device()
    for name, duration, level, pipe in (("a", 100, 7.0, None), ("b", 300, 1.0, 90.0)):
        kernel = made.add_kernel(0, duration, name, stream_id=made.next_id())
        made.add_metric(kernel, LEVEL, level, unit="level")
        if pipe:
            made.add_metric(
                kernel, "sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_active", pipe
            )
    [row] = metric(made, "fp32_util")
    assert row["pipe_level"] == pytest.approx((100 * 7 + 300 * 1) / 400)
    assert (row["busy_pct"], row["elapsed_pct"], row["flop"]) == (None, None, None)
    assert row["pipe_pct"] == 90.0


@pytest.mark.slow
def test_the_last_kernel_counts(tmp_path: Path) -> None:
    """It was dropped with the line behind it."""
    rows = [f'"V100 (0)","1","7","k{i}(int)",{i},"Low (1)",1' for i in range(5)]
    database = ingested(tmp_path, METRIC_TRACE + "\n".join(rows))
    names = {row["kernel_name"] for row in answer(database, "kernel_summary")}
    assert names == {f"k{i}(int)" for i in range(5)}


@pytest.mark.slow
def test_the_last_kernel_of_the_last_iteration_counts() -> None:
    made = MadeTrace()
    for number in range(5):  # the last one is of unknown length, and does not count
        at = 100 * number
        made.add_range(at, at + 90, f"step {number}")
        made.launch(at, at + 10, at + 20, "first")
        made.launch(at + 80, at + 85, at + 95, "last")
    rows = [
        row for row in relation(made, "window_op", window="iterations") if row["name"] == "last"
    ]
    assert [row["iteration"] for row in rows] == [0, 1, 2, 3]


@pytest.mark.slow
def test_numbers_with_thousands_separators(tmp_path: Path) -> None:
    """int("1,234") failed: Nsight Compute prints its numbers so."""
    header = ["ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream"]
    header += ["Block Size", "Grid Size", "Device", "CC"]
    operations = ["fadd", "fmul", "ffma"]
    header += [f"smsp__sass_thread_inst_executed_op_{op}_pred_on.sum" for op in operations]
    units = [""] * 11 + ["inst"] * 3
    cells = ["0", "42", "app", "host", "k(int)", "1", "7", "(64, 1, 1)", "(9, 1, 1)", "0", "8.0"]
    cells += ["1,234", "1,000,000", "2,000"]
    lines = [",".join(f'"{cell}"' for cell in line) for line in (header, units, cells)]
    database = ingested(tmp_path, "\n".join(lines) + "\n", "ncu.csv")
    [row] = answer(database, "fp32_util")
    assert row["flop"] == 1234 + 1_000_000 + 2 * 2000


@pytest.mark.slow
def test_throughput_is_total_over_total_not_the_mean_of_rates() -> None:
    """1, 1 and 4 ms after the warm-up: 500 iterations a second; the mean of the rates says 750."""
    made = MadeTrace()
    made.add_trace(batch_size=10)
    start = 0
    for number, period in enumerate([7, 1, 1, 4, 1]):
        made.add_range(start, start + 500_000, f"step {number}")
        made.launch(start, start + 1000, start + 2000)
        start += period * 1_000_000
    [row] = metric(made, "throughput")
    assert (row["iterations_per_s"], row["samples_per_s"]) == (
        pytest.approx(500),
        pytest.approx(5000),
    )


@pytest.mark.slow
@pytest.mark.parametrize("warm_up", [1, 2, 5])
def test_warm_up_is_not_off_by_one(warm_up: int) -> None:
    made = MadeTrace()
    start = 0
    for number in range(warm_up + 8):
        made.add_range(start, start + 500, f"step {number}")
        made.launch(start, start + 10, start + 20)
        start += 9000 if number < warm_up else 1000
    rows = relation(made, "iteration")
    assert [row["iteration"] for row in rows if row["in_window"]] == list(
        range(warm_up, warm_up + 7)
    )


def asynchronous(iterations: int, startup: int = 0) -> MadeTrace:
    """Return iterations that the host leaves after 10 ns, and the GPU works on for 100 more."""
    made = MadeTrace()
    if startup:
        made.launch(0, 10, startup - 1000, "compile and autotune")
    for number in range(iterations):
        at = startup + 100 * number
        made.add_range(at, at + 10, f"step {number}")
        made.launch(at, at + 50, at + 150, "work")
    return made


@pytest.mark.slow
def test_the_window_holds_the_work_that_the_host_did_not_wait_for() -> None:
    """Without a device synchronisation the host's window ended before its last work."""
    [row] = metric(asynchronous(6), "compute_util", window="iterations")
    assert row["kernel_busy_ns"] == row["elapsed_ns"] == 500
    ops = relation(asynchronous(6), "window_op", window="iterations")
    assert [op["iteration"] for op in ops] == [0, 1, 2, 3, 4]


@pytest.mark.slow
def test_the_process_s_start_is_not_profiled() -> None:
    """Compilation and autotuning before the first iteration counted as training.

    Of seven iterations of 100 ns the last does not count, as its end is unknown. The first is as
    fast as the others.
    """
    [row] = metric(asynchronous(7, startup=1_000_000), "compute_util")
    assert (row["measured_over"], row["elapsed_ns"]) == ("steady state", 600)
    [kernel] = metric(asynchronous(7, startup=1_000_000), "dominant_layer")
    assert (kernel["gpu_ns"], kernel["kernels"]) == (600, 6)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ncclDevKernel_AllReduce_Sum_f16_softmax", "communication"),
        ("void at::native::batch_norm_backward_kernel<conv>(int)", "batchnorm"),
        ("triton_poi_fused_convolution_relu_3", "elementwise"),
    ],
)
def test_a_class_is_a_matter_of_priority_not_of_the_first_match(name: str, expected: str) -> None:
    made = MadeTrace()
    made.add_kernel(0, 10, name)
    [row] = relation(made, "kernel_class")
    assert row["class"] == expected


@pytest.mark.slow
def test_layer_names_may_hold_double_underscores() -> None:
    """`__` separated layer and parameters, so that such a layer lost half of its name."""
    made = MadeTrace()
    names = ["stage1__conv__0", "stage1__conv", "__init__"]
    for position, name in enumerate(names):
        for kind, at in (("layer", 0), ("layer_backward", 1000)):
            start = at + 20 * position
            made.add_range(start, start + 10, f"{kind}:{name}")
            made.launch(start + 1, start + 5000, start + 5000 + position + 1)
        made.add_layer(name, position, layer_type="Conv2d")
    rows = metric(made, "dominant_layer", window="trace")
    assert {row["layer"]: (row["gpu_ns"], row["layer_type"]) for row in rows} == {
        name: (2 * (position + 1), "Conv2d") for position, name in enumerate(names)
    }


@pytest.mark.slow
def test_a_database_whose_tables_are_all_empty(tmp_path: Path) -> None:
    """Such a file was shipped; it was summed up as zero."""
    path = tmp_path / "empty.nvvp"
    with sqlite3.connect(path) as file:
        file.execute("CREATE TABLE Version (version INTEGER)")
        file.execute("INSERT INTO Version VALUES (18)")
        file.execute("CREATE TABLE StringTable (_id_ INTEGER PRIMARY KEY, value TEXT)")
        for kind in ("CONCURRENT_KERNEL", "MEMCPY", "RUNTIME", "DEVICE"):
            file.execute(
                f"CREATE TABLE CUPTI_ACTIVITY_KIND_{kind} (_id_ INTEGER PRIMARY KEY, start)"
            )
    file.close()
    database = Database(tmp_path / "made.duckdb")
    [report] = database.ingest([path])
    assert report.kernels == 0
    assert "recorded nothing" in report.notes[0]
    found = answers(database, [query.name for query in Catalogue().metrics()])
    [row] = answered(found.pop("trace_info")).frame.to_dicts()
    unanswered = {name for name, one in found.items() if isinstance(one, CannotAnswerError)}
    assert all(answered(found[name]).frame.is_empty() for name in found.keys() - unanswered)
    assert {"fp32_util", "compute_util", "iteration_timing", "dominant_layer"} <= unanswered
    assert (row["kernels"], row["kernel_ns"], row["holds"]) == (0, None, [])
