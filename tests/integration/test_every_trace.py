"""Every real trace: what is ingested is what the file holds; every metric keeps its promises."""

from __future__ import annotations

import contextlib
import csv
import math
import re
import sqlite3
from collections.abc import Iterator
from decimal import Decimal
from functools import cache
from itertools import groupby, pairwise, takewhile
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest

from corpus import corpus_files
from fast import first_of_each_format
from query_files import MEMORY_METRICS, METRIC_NAMES, NETWORK
from real_traces import Traces
from tbd_trace.errors import CannotAnswerError
from tbd_trace.model.canonical_tables import timed_tables
from tbd_trace.query import Catalogue, Result, connect, execute, prepare
from tbd_trace.query.catalogue import derive_relations

FILES = corpus_files("nsys/*", "nvprof/*", "nvprof_csv/*", "ncu/*")


def file_by_file(then_one_in: int) -> pytest.MarkDecorator:
    files = first_of_each_format(FILES, then_one_in=then_one_in)
    return pytest.mark.parametrize("path", files, scope="module")


KERNEL_TABLES = ("KERNEL", "CONCURRENT_KERNEL", "CDP_KERNEL")
NANOSECONDS = {
    "s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1,
    "second": 10**9, "msecond": 10**6, "usecond": 10**3, "nsecond": 1,
}  # fmt: skip
UNBOUNDED = {
    "profiler_slowdown_pct",
    "cv_pct",
    "gain_pct",
    "replay_error_pct",
}  # percentages that may be negative or beyond 100

Count = tuple[int, int | None]  # kernel executions, and their total duration if the file has it
Answers = dict[str, pl.DataFrame]


# what the file holds, by readers that share nothing with the package's


def count_sqlite(path: Path) -> Count:
    total, duration = 0, 0
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
        there = {row[0] for row in database.execute("SELECT name FROM sqlite_master")}
        for table in KERNEL_TABLES:
            if (name := f"CUPTI_ACTIVITY_KIND_{table}") in there:
                rows = database.execute(f'SELECT count(*), total("end" - start) FROM {name}')
                ((number, length),) = rows.fetchall()
                total, duration = total + number, duration + int(length)
    return total, duration if total else None


def table_rows(path: Path) -> list[list[str]]:
    """Return header, units and rows of a CSV file, without the text that tools print around it."""
    with path.open(newline="") as file:
        return list(csv.reader(line for line in file if not line.startswith("==")))


def nanoseconds(value: str, unit: str) -> int:
    return round(Decimal(value.replace(",", "")) * NANOSECONDS[unit])


def count_nvprof_csv(path: Path) -> Count:
    header, units, *rows = table_rows(path)
    # After the sums over everything, a summary repeats them for every NVTX range.
    rows = list(takewhile(lambda row: row[:1] != ["Range:"], rows))
    if "Metric Name" in header:
        return 0, None  # sums of counters alone
    if "Kernel" in header:
        return sum(len(row) == len(header) for row in rows), None
    if "Grid X" not in header and "Type" not in header:
        return 0, None  # calls and ranges alone
    columns = ("Time", "Calls") if "Type" in header else ("Duration", None)
    time, calls = (header.index(name) if name else None for name in columns)
    kernels = [
        row
        for row in rows
        if len(row) == len(header)  # not the empty lines between parts
        and not row[header.index("Name")].startswith("[")
        and ("Type" not in header or row[header.index("Type")] == "GPU activities")
    ]
    assert time is not None
    total = sum(nanoseconds(row[time], units[time]) for row in kernels)
    return sum(int(row[calls]) if calls else 1 for row in kernels), total


def count_ncu_csv(path: Path) -> Count:
    header, *rows = table_rows(path)
    if "Metric Name" not in header:  # one row per kernel below a row of units
        time = next(i for i, name in enumerate(header) if name == "gpu__time_duration.sum")
        return len(rows) - 1, sum(nanoseconds(row[time], rows[0][time]) for row in rows[1:])
    at = {name: header.index(name) for name in header}
    key = ["ID"] if "ID" in at else ["Kernel Name", "Block Size", "Grid Size"]
    value = "Metric Value" if "ID" in at else "Average"
    kernels: dict[tuple[str, ...], tuple[int, int]] = {}
    for row in rows:
        if row[at["Metric Name"]] in ("Duration", "gpu__time_duration.sum"):
            times = int(row[at["Invocations"]]) if "Invocations" in at else 1
            length = nanoseconds(row[at[value]], row[at["Metric Unit"]])
            kernels[tuple(row[at[name]] for name in key)] = times, times * length
    return sum(n for n, _ in kernels.values()), sum(length for _, length in kernels.values())


def count_ncu_console(path: Path) -> Count:
    text = path.read_text()
    durations = re.findall(r"^ +Duration +(\w+) +([\d.,]+)$", text, re.M)
    kernels = re.findall(r"^  \S.*, Context \d+, Stream \d+$", text, re.M)
    assert len(kernels) == len(durations)
    return len(kernels), sum(nanoseconds(value, unit) for unit, value in durations)


def counted(path: Path) -> Count:
    if path.parent.name in ("nsys", "nvprof"):
        return count_sqlite(path)
    if path.suffix == ".txt":
        return count_ncu_console(path)
    return count_ncu_csv(path) if path.parent.name == "ncu" else count_nvprof_csv(path)


@pytest.mark.slow
@file_by_file(8)
def test_holds_what_the_file_holds(traces: Traces, path: Path) -> None:
    (row,) = traces.ask(f"{path.parent.name}/{path.name}", "trace_info").rows(named=True)
    assert (row["kernels"], row["kernel_ns"]) == counted(path)


@file_by_file(8)
def test_begins_and_ends_with_its_events(traces: Traces, path: Path) -> None:
    spans = " UNION ALL ".join(
        f"SELECT min({table.start}) AS s, max({table.end}) AS e FROM {table.name}"
        for table in timed_tables().values()
        if table.bounds_trace
    )
    name = f"{path.parent.name}/{path.name}"
    found = traces.sql(name, "SELECT start_ns, end_ns FROM trace")
    assert found.rows() == traces.sql(name, f"SELECT min(s), max(e) FROM ({spans})").rows()


# what every metric promises


# Columns that say how a trace differs from the others.
RELATIVE = dict.fromkeys(("suite_compare", "batch_sweep"), ("configuration", "differs"))


FEW_ROWS = 500_000  # of traces that are in memory while they are asked
# One with CUDA graphs, and two of the same run.
AMONG_OTHERS = (
    "nsys/zx3xyy_assignment2-systems__result_2_7B_compile_ro.sqlite",
    "nvprof/josiahdavis_profiling-lm__net.sql",
    "nvprof_csv/josiahdavis_profiling-lm__net.gpu_trace.csv",
)


@contextlib.contextmanager
def one_connection(traces: Traces, trace_ids: list[str]) -> Iterator[duckdb.DuckDBPyConnection]:
    """Let all queries about some traces share the derived relations, which are slow to make."""
    with (
        connect(traces.database, trace_ids, few_rows=FEW_ROWS) as connection,
        pytest.MonkeyPatch.context() as patch,
    ):
        prepare(connection, [relation.name for relation in derive_relations()])
        patch.setattr(
            "tbd_trace.query.connection.connect",
            lambda *_, **__: contextlib.nullcontext(connection),
        )
        yield connection


def answers_about(traces: Traces, trace_ids: list[str]) -> dict[str, Result]:
    """Ask everything; a refusal must say in one sentence what is missing and how to get it."""
    found = {}
    with one_connection(traces, trace_ids) as connection:
        for query in Catalogue().metrics():
            try:
                anyway = {query.refuse.unless: "true"} if query.refuse else {}
                result = execute(traces.database, query, trace_ids, anyway)
            except CannotAnswerError as refusal:
                assert re.search(r" (needs|lacks) \S+.{15}", str(refusal)), refusal
                assert "\n" not in str(refusal)
                continue
            assert result.frame.columns == list(query.columns)
            assert not result.frame.is_empty(), query.name
            # Rows about a whole job have no trace id.
            if "trace_id" in query.columns:
                no_trace = {None} if "job" in query.columns else set()
                assert set(result.frame["trace_id"]) <= {*trace_ids, *no_trace}
            # The order is total: the same rows in the same order every time.
            assert connection.sql(query.sql).pl().equals(result.frame), query.name
            found[query.name] = result
    return found


@cache
def answers_needed_twice(traces: Traces, name: str) -> dict[str, Result]:
    """Keep the answers about a file of ``AMONG_OTHERS``."""
    return answers_about(traces, [traces.id(name)])


@pytest.mark.slow
@file_by_file(40)
def test_every_metric_answers_or_says_why_not(traces: Traces, path: Path) -> None:
    name = f"{path.parent.name}/{path.name}"
    if name in AMONG_OTHERS:
        results = answers_needed_twice(traces, name)
    else:
        results = answers_about(traces, [traces.id(name)])
    answers = {name: result.frame for name, result in results.items()}
    check_numbers(answers)
    for name, frame in answers.items():
        if check := globals().get(f"check_{name}"):
            check(frame, answers)


def check_numbers(answers: Answers) -> None:
    for name, frame in answers.items():
        for column in frame.columns:
            values = frame[column].drop_nulls().to_list()
            if frame[column].dtype.is_float():
                assert all(map(math.isfinite, values)), (name, column)
            if column.endswith("_pct") and column not in UNBOUNDED:
                assert all(-1e-9 <= v <= 100 + 1e-9 for v in values), (name, column)
            if column.endswith("_ns") and column not in ("start_ns", "gpu_start_ns"):
                assert all(v >= 0 for v in values), (name, column)
    assert "trace_info" in answers


def whole(shares: pl.Series) -> bool:
    """Tell whether shares make up everything: 100 % together, or none of them is known."""
    return shares.null_count() == len(shares) or abs(shares.sum() - 100) < 1e-6


def rows_of(frame: pl.DataFrame) -> list[dict[str, Any]]:
    return frame.rows(named=True)


def by_device(frame: pl.DataFrame, column: str) -> dict[tuple[int | None, int | None], int]:
    grouped = frame.group_by("pid", "device_id").agg(pl.col(column).sum())
    return {(row["pid"], row["device_id"]): row[column] for row in rows_of(grouped)}


def check_trace_info(frame: pl.DataFrame, answers: Answers) -> None:
    (row,) = rows_of(frame)
    assert not set(row["holds"]) & set(row["lacks"])
    counts = ("memcpys", "memsets", "graph_launches", "api_calls", "nvtx_ranges")
    tables = ("memcpy", "memset", "graph_launch", "api_call", "annotation")
    for count, table in zip(counts, tables, strict=True):
        assert (row[count] > 0) == (table in row["holds"])
    assert len(row["sha256"]) == 64


def check_kernel_summary(frame: pl.DataFrame, answers: Answers) -> None:
    (info,) = rows_of(answers["trace_info"])
    assert whole(frame["share_pct"])
    assert frame["instances"].sum() == info["kernels"]
    assert frame["total_ns"].sum() == (info["kernel_ns"] or 0)
    for row in rows_of(frame):
        if row["total_ns"] is not None:
            assert row["min_ns"] <= row["mean_ns"] <= row["max_ns"]
            assert row["median_ns"] is None or row["min_ns"] <= row["median_ns"] <= row["max_ns"]


def check_memory_operations(frame: pl.DataFrame, answers: Answers) -> None:
    (info,) = rows_of(answers["trace_info"])
    assert frame["instances"].sum() == info["memcpys"] + info["memsets"]
    assert whole(frame["share_pct"])


def check_layer_time(frame: pl.DataFrame, answers: Answers) -> None:
    assert whole(frame["share_pct"])
    dominant = answers["dominant_layer"]
    assert frame["gpu_ns"].sum() == dominant["gpu_ns"].sum()
    assert frame["kernels"].sum() == dominant["kernels"].sum()
    assert all((row["layer"] is None) == (row["evidence"] is None) for row in rows_of(frame))
    assert "" not in frame["layer"]


def check_dominant_layer(frame: pl.DataFrame, answers: Answers) -> None:
    assert whole(frame["share_pct"])
    owned = frame.filter(pl.col("rank").is_not_null())
    assert owned["rank"].to_list() == list(range(1, len(owned) + 1))
    for clock, rows in owned.group_by("clock"):
        times = rows[f"{clock[0]}_ns"].to_list()
        assert times == sorted(times, reverse=True)
    rest = frame.filter(pl.col("rank").is_null())["share_pct"].sum()
    assert all(share == pytest.approx(rest) for share in frame["unattributed_pct"])


def check_step_breakdown(frame: pl.DataFrame, answers: Answers) -> None:
    parts = ["compute", "exposed_communication", "exposed_copy", "idle"]
    for row in rows_of(frame):
        assert sum(row[f"{part}_ns"] for part in parts) == row["elapsed_ns"]
        assert sum(row[f"{part}_pct"] for part in parts) == pytest.approx(100, abs=1e-6)
        assert row["exposed_communication_ns"] <= row["communication_ns"]


def check_idle_causes(frame: pl.DataFrame, answers: Answers) -> None:
    idle = by_device(answers["step_breakdown"], "idle_ns")
    causes = by_device(frame, "idle_ns")
    assert causes == {device: length for device, length in idle.items() if length}
    for _, share in by_device(frame, "share_pct").items():
        assert share == pytest.approx(100, abs=1e-6)
    assert all(row["longest_ns"] <= row["idle_ns"] for row in rows_of(frame))


def check_compute_util(frame: pl.DataFrame, answers: Answers) -> None:
    for row in rows_of(frame):
        assert row["kernel_busy_ns"] <= row["gpu_busy_ns"] <= row["elapsed_ns"]
        assert row["kernel_busy_pct"] <= row["gpu_busy_pct"] <= 100
    steps = answers["step_breakdown"]
    busy, elapsed, idle = (
        by_device(source, column)
        for source, column in ((frame, "gpu_busy_ns"), (frame, "elapsed_ns"), (steps, "idle_ns"))
    )
    assert elapsed == by_device(steps, "elapsed_ns")
    assert {device: elapsed[device] - idle[device] for device in idle} == busy


def check_occupancy(frame: pl.DataFrame, answers: Answers) -> None:
    (info,) = rows_of(answers["trace_info"])
    assert frame["instances"].sum() == info["kernels"]
    for row in rows_of(frame):
        if row["theoretical_pct"] is not None and row["estimated_achieved_pct"] is not None:
            assert row["estimated_achieved_pct"] <= row["theoretical_pct"] + 1e-9
        assert (row["evidence"] == "counter") == (row["achieved_pct"] is not None)


def check_iteration_timing(frame: pl.DataFrame, answers: Answers) -> None:
    for _, group in groupby(rows_of(frame), key=lambda row: row["pid"]):
        rows = list(group)
        assert [row["iteration"] for row in rows] == list(range(len(rows)))
        assert len({(row["method"], row["confidence"]) for row in rows}) == 1
        assert all(a["start_ns"] < b["start_ns"] for a, b in pairwise(rows))
        assert all(row["in_window"] == (row["dropped"] is None) for row in rows)
        assert 0.5 <= rows[0]["confidence"] <= 1
        window = [row["iteration"] for row in rows if row["in_window"]]
        assert window == list(range(window[0], window[-1] + 1)) if window else True
        assert len(window) >= 1  # where there are iterations, some are counted
        # those that nothing was recorded of are never measured
        assert all(row["kernels"] for row in rows if row["in_window"])


def check_iteration_summary(frame: pl.DataFrame, answers: Answers) -> None:
    timing = answers["iteration_timing"]
    for row in rows_of(frame):
        mine = timing.filter(pl.col("pid").eq_missing(row["pid"]))
        if mine["in_window"].any():
            mine = mine.filter("in_window")
        assert row["n"] == mine[row["measure"]].drop_nulls().len()
        assert (row["median_ns"] is None) == (row["n"] < 3)
        if row["median_ns"] is not None:
            assert row["p5_ns"] <= row["median_ns"] <= row["p95_ns"]


def check_throughput(frame: pl.DataFrame, answers: Answers) -> None:
    assert frame["iterations"].min() >= 1  # type: ignore[operator]
    assert (frame["iterations_per_s"].drop_nulls() > 0).all()


def check_nvtx_projection(frame: pl.DataFrame, answers: Answers) -> None:
    (info,) = rows_of(answers["trace_info"])
    assert len(frame) <= info["nvtx_ranges"]
    depths = dict(zip(frame["nvtx_range_id"], frame["depth"], strict=True))
    for row in rows_of(frame):
        assert 1 <= row["launches"] <= row["operations"]
        assert row["gpu_ns"] > 0
        parent = row["parent_id"]
        assert row["depth"] == (0 if parent is None else depths[parent] + 1)


def check_nvtx_kernels(frame: pl.DataFrame, answers: Answers) -> None:
    (info,) = rows_of(answers["trace_info"])
    outside = frame.filter(pl.col("range_path").is_null())
    assert (outside["range_instances"] == 0).all()
    inside = frame.filter(pl.col("range_path").is_not_null())
    assert (inside["range_instances"] > 0).all()
    assert (inside["range_path"].str.len_chars() < 16_000).all()  # nested however deep
    # Every kernel is outside all ranges, or inside at least one.
    assert outside["instances"].sum() <= info["kernels"] <= frame["instances"].sum()


def check_nvtx_gpu_time(frame: pl.DataFrame, answers: Answers) -> None:
    (info,) = rows_of(answers["trace_info"])
    assert (frame["kernels"].sum(), frame["gpu_ns"].sum()) == (info["kernels"], info["kernel_ns"])
    assert frame["memory_operations"].sum() == info["memcpys"] + info["memsets"]
    assert frame["instances"].sum() <= info["nvtx_ranges"]
    assert frame.filter(pl.col("range_name").is_null())["instances"].null_count() <= 1


def check_nvtx_summary(frame: pl.DataFrame, answers: Answers) -> None:
    (info,) = rows_of(answers["trace_info"])
    assert frame["instances"].sum() == info["nvtx_ranges"]
    assert (frame["open_instances"] <= frame["instances"]).all()
    assert (frame["min_ns"] <= frame["median_ns"]).all()
    assert (frame["median_ns"] <= frame["max_ns"]).all()


def check_low_util_kernels(frame: pl.DataFrame, answers: Answers) -> None:
    for side, group in groupby(rows_of(frame), key=lambda row: row["side"]):
        rows = list(group)
        assert [row["rank"] for row in rows] == list(range(1, len(rows) + 1))
        for row in rows:
            assert (row["utilization"] < row["mean_utilization"]) == (side == "below")


def check_utilization(frame: pl.DataFrame, answers: Answers) -> None:
    for row in rows_of(frame):
        assert (row["busy_pct"] is None) <= (row["reason"] is not None)
        if row["elapsed_pct"] is not None:
            assert row["elapsed_pct"] <= row["busy_pct"] + 1e-9


check_fp32_util = check_fp16_util = check_tensor_util = check_utilization


def check_kernel_durations(frame: pl.DataFrame, answers: Answers) -> None:
    (info,) = rows_of(answers["trace_info"])
    assert 0 < frame["kernels"].sum() <= info["kernels"]
    assert whole(frame["kernels_pct"])
    assert whole(frame["time_pct"])
    rows = rows_of(frame)
    assert all(a["bin_end_ns"] == pytest.approx(b["bin_start_ns"]) for a, b in pairwise(rows))
    for row in rows:  # an approximate limit lies 1 ns outside
        assert row["kernels"] * row["bin_start_ns"] <= row["total_ns"] + 1
        assert row["total_ns"] <= row["kernels"] * row["bin_end_ns"] + 1


def check_occupancy_histogram(frame: pl.DataFrame, answers: Answers) -> None:
    (info,) = rows_of(answers["trace_info"])
    for measure, rows in frame.group_by("measure"):
        assert rows["kernels"].sum() == info["kernels"], measure
        assert whole(rows["share_pct"]), measure


def check_layer_occupancy(frame: pl.DataFrame, answers: Answers) -> None:
    for row in rows_of(frame):
        assert row["kernels"] > 0
        if row["theoretical_pct"] is not None and row["estimated_achieved_pct"] is not None:
            assert row["estimated_achieved_pct"] <= row["theoretical_pct"] + 1e-9
        assert (row["achieved_pct"] is None) or row["counted_pct"] > 0


def check_gpu_activity(frame: pl.DataFrame, answers: Answers) -> None:
    for row in rows_of(frame):
        parts = (row["kernel_ns"], row["copy_ns"], row["idle_ns"])
        assert sum(parts) == row["elapsed_ns"] == row["offset_end_ns"] - row["offset_ns"]
    for _, rows in frame.group_by("pid", "device_id", maintain_order=True):
        assert rows["bin"].to_list() == list(range(len(rows)))
        assert rows["offset_end_ns"][:-1].equals(rows["offset_ns"][1:], check_names=False)


def check_step_timeline(frame: pl.DataFrame, answers: Answers) -> None:
    ends = frame["time_in_step_ns"] + frame["duration_ns"]
    assert (ends <= frame["step_ns"]).all()
    assert (frame["duration_ns"] > 0).all()


def check_roofline(frame: pl.DataFrame, answers: Answers) -> None:
    for row in rows_of(frame):
        assert (row["arithmetic_intensity"] is None) <= (row["reason"] is not None)
        if row["bound"] is not None:
            slope = row["arithmetic_intensity"] * row["memory_bandwidth_bytes_per_s"]
            assert row["bound"] == ("memory" if slope < row["peak_flops"] else "compute")
            assert row["attainable_flops"] == pytest.approx(min(slope, row["peak_flops"]))


def check_why(frame: pl.DataFrame, answers: Answers) -> None:
    for _, rows in frame.group_by("pid"):
        assert rows["rank"].to_list() == list(range(1, len(rows) + 1))
        assert rows["share_pct"].to_list() == sorted(rows["share_pct"], reverse=True)
        assert whole(rows["share_pct"])
        assert rows["is_change"].sum() <= 1


def check_whatif(frame: pl.DataFrame, answers: Answers) -> None:
    for row in rows_of(frame):
        assert (row["step_ns"] is None) == (row["reason"] is not None)
        if row["step_ns"] is not None:
            gain = 100 * (row["now_step_ns"] / row["step_ns"] - 1)
            assert row["gain_pct"] == pytest.approx(gain, abs=1e-6)


def check_suite_compare(frame: pl.DataFrame, answers: Answers) -> None:
    (info,) = rows_of(answers["trace_info"])
    assert frame["trace_id"].to_list() == [info["trace_id"]]
    assert frame["differs"].null_count() == 1  # a trace alone differs from none


check_batch_sweep = check_suite_compare

UNCHECKED = {
    **dict.fromkeys(
        MEMORY_METRICS, "few of these files record memory; test_memory_corpus.py has those"
    ),
    **dict.fromkeys(
        NETWORK, "these files are of one process; test_corpus_network.py and test_corpus_jobs.py"
    ),
    "memory_untracked": "needs the memory of a framework; queries/checks/test_untracked_memory.py",
    "mfu": "needs operators with shapes; queries/metrics/utilization/test_mfu.py",
    "module_summary": "needs torch.profiler; sources/kineto/test_reader_python_frames.py",
    "op_summary": "needs operators; queries/metrics/operators/test_op_summary.py",
    "step_work": "needs operators with shapes; integration/test_same_work.py",
    "sampled_util": "needs samples of the GPU; queries/metrics/utilization/test_sampled_util.py",
}  # metrics without a check here: reason, and tests of their numbers on real or made traces


def test_each_check_is_of_a_metric_or_of_several() -> None:
    """The checks are found by name: a misspelt one would never run."""
    checked = {name.removeprefix("check_") for name in globals() if name.startswith("check_")}
    assert checked - set(METRIC_NAMES) == {"numbers", "utilization"}
    assert set(METRIC_NAMES) - checked == UNCHECKED.keys()


@pytest.mark.nightly(covered_by="tests/unit/query/test_divided.py::test_answer_one_at_a_time")
def test_a_trace_is_answered_alike_among_others(traces: Traces) -> None:
    """Answers about several traces at once are those about each of them."""
    ids = [traces.id(name) for name in AMONG_OTHERS]
    together = answers_about(traces, ids)
    for name, trace_id in zip(AMONG_OTHERS, ids, strict=True):
        alone = answers_needed_twice(traces, name)
        for query, result in together.items():
            relative = RELATIVE.get(query, ())
            mine = result.frame.filter(pl.col("trace_id") == trace_id).drop(relative)
            if query in alone:
                assert mine.equals(alone[query].frame.drop(relative)), (query, name)
            elif query in RELATIVE:  # beside others it shows what is known, and not the iterations
                assert mine["iteration_ns"].null_count() == len(mine), name
            elif not mine.is_empty():  # part of an answer, and a note says so
                assert any(Path(name).name in note for note in result.notes), (query, name)
