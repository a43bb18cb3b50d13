"""Small inputs that public bug reports suggested, each with its right answer.

They lie beside the corpus, one folder each; the situations are made again in the unit tests.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import tbd_trace
from corpus import case_file
from fast import one_in
from tbd_trace.errors import CannotAnswerError, InputError

Row = dict[str, Any]
HOSTILE = ["dupstrings", "zeros", "ts_max", "ts_min", "grids"]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TBD_TRACE_CACHE", str(tmp_path / "cache"))


def ask(name: str, query: str, parameters: Mapping[str, str] | None = None) -> list[Row]:
    return tbd_trace.open(case_file(name)).query(query, **dict(parameters or {})).to_dicts()


def info(name: str) -> Row:
    (row,) = ask(name, "trace_info")
    return row


@pytest.mark.slow
def test_a_stall_at_every_fifth_iteration() -> None:
    (row,) = (
        r
        for r in ask("01-stable-window-thinned/input.sqlite", "iteration_summary")
        if r["measure"] == "period_ns"
    )
    assert (row["measured_over"], row["stalls"], row["stall_spacing"]) == ("steady state", 200, 5)
    # 200 of 50 ms and 800 of 10 ms; the last one ends with its range, after 9.9 ms. The first one,
    # of 10 ms, is the first to use each kernel, but no slower than the others.
    assert row["mean_ns"] == pytest.approx((200 * 50e6 + 799 * 10e6 + 9.9e6) / 1000)
    assert row["cv_pct"] == pytest.approx(88.9, abs=0.1)
    assert (row["n"], row["dropped"]) == (1000, None)


@pytest.mark.slow
def test_a_gpu_clock_ahead_of_the_host_s() -> None:
    name = "02-clock-skew/input.sqlite"
    assert info(name)["duration_ns"] == pytest.approx(1.2e9, rel=0.02)
    assert any("GPU clock was 300.000 s ahead" in note for note in info(name)["notes"])
    share = {row["cause"]: row["share_pct"] for row in ask(name, "idle_causes")}
    assert share["host"] > 80
    assert share.get("launch_latency", 0) < 5


@pytest.mark.slow
def test_a_kernel_without_a_launch() -> None:
    name = "03-pyprof98-orphan-corr/input.nvprof"
    assert (info(name)["kernels"], info(name)["kernel_ns"]) == (20, 10_000_000)
    (unknown,) = (row for row in ask(name, "idle_causes") if row["cause"] == "unknown")
    assert unknown["reason"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "iterations"),
    [("05-nvtx-null-end/input.sqlite", 6), ("06-nvtx-start-end-only/input.sqlite", 10)],
)
def test_iterations_of_odd_ranges(name: str, iterations: int) -> None:
    rows = ask(name, "iteration_timing")
    assert len(rows) == iterations
    assert {row["period_ns"] for row in rows[:-1]} == {10_000_000}


@pytest.mark.slow
def test_library_ranges_are_no_iterations() -> None:
    with pytest.raises(CannotAnswerError):
        ask("07-phantom-iterations-library-nvtx/input.sqlite", "iteration_timing")


@pytest.mark.slow
def test_one_stream_idles_while_another_works() -> None:
    (row,) = ask("09-overlapping-streams-idle/input.sqlite", "compute_util")
    assert row["gpu_busy_pct"] == 100


@pytest.mark.slow
def test_kernels_that_end_before_they_start() -> None:
    row = info("10-negative-and-subus-kernels/input.sqlite")
    assert row["kernel_ns"] == 50_000
    assert any("end before they start: 3;" in note for note in row["notes"])


@pytest.mark.slow
def test_work_that_overlaps_on_one_stream() -> None:
    notes = info("11-corrupt-huge-duration/input.sqlite")["notes"]
    said = "overlap an earlier one on the same stream"
    assert any(said in note and ": 499," in note for note in notes)


@pytest.mark.slow
def test_decimal_commas_of_nvprof() -> None:
    quoted, separated = (
        ask(f"13-nvprof-csv-comma-locale/input-{kind}.csv", "kernel_summary")
        for kind in ("quoted", "semicolon")
    )
    assert [(r["kernel_name"], r["total_ns"]) for r in quoted] == [
        (r["kernel_name"], r["total_ns"]) for r in separated
    ]
    assert all(row["total_ns"] > 0 for row in quoted)


@pytest.mark.slow
def test_decimal_commas_of_nsight_compute() -> None:
    raw, details = (
        ask(f"14-ncu-csv-comma-locale/input-{kind}.csv", "kernel_summary")
        for kind in ("raw", "details")
    )
    shortest, longest = min(row["min_ns"] for row in raw), max(row["max_ns"] for row in raw)
    assert (shortest, longest) == (1_824, 217_860_640)
    # the page of details prints four digits or fewer
    assert min(row["min_ns"] for row in details) == pytest.approx(shortest, rel=0.01)
    assert max(row["max_ns"] for row in details) == pytest.approx(longest, rel=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["b", "c"])
def test_a_log_that_holds_nothing_more(tmp_path: Path, folder: str) -> None:
    """All rows are in the database file, or no log lies beside it."""
    copy = shutil.copytree(case_file(f"15-wal-readonly/{folder}"), tmp_path / folder)
    assert tbd_trace.open(copy / "input.sqlite").query("trace_info")["kernels"][0] > 0


def test_a_log_that_holds_the_rows(tmp_path: Path) -> None:
    """Either all rows are read, or a line says what to do."""
    for name in ("input.sqlite", "input.sqlite-wal"):
        shutil.copy(case_file(f"15-wal-readonly/{name}"), tmp_path)
    try:
        assert tbd_trace.open(tmp_path / "input.sqlite").query("trace_info")["kernels"][0] > 0
    except InputError as error:
        assert "wal" in str(error).lower()


@pytest.mark.parametrize("kind", ["empty", "partial", "truncated", "zeroheader"])
def test_an_interrupted_export(kind: str) -> None:
    path = case_file(f"17-interrupted-export/input-{kind}.sqlite")
    with pytest.raises(InputError, match=r"empty|incomplete|truncated|damaged|cut") as error:
        tbd_trace.open(path).query("trace_info")
    assert "\n" not in str(error.value)


@pytest.mark.slow
def test_kernels_that_kernels_launched() -> None:
    name = "18-nvprof-cdp-kernels/input.nvprof"
    assert info(name)["kernels"] == 26
    (row,) = ask(name, "compute_util", {"window": "trace"})
    assert row["kernel_busy_pct"] == pytest.approx(51.28, abs=0.01)


@pytest.mark.slow
def test_a_correlation_id_that_is_used_again() -> None:
    name = "22-correlation-id-reuse/input.sqlite"
    rows = ask(name, "dominant_layer")
    assert {row["layer"]: row["share_pct"] for row in rows} == {"conv": 80, "linear": 20}
    assert any("used for several launches: 20;" in note for note in info(name)["notes"])


@pytest.mark.slow
def test_a_kernel_name_that_is_missing() -> None:
    rows = ask("24-missing-strings/input.sqlite", "kernel_summary")
    (unknown,) = (row for row in rows if "unknown" in row["kernel_name"])
    assert (unknown["instances"], unknown["total_ns"]) == (10, 3_000_000)


@pytest.mark.slow
@pytest.mark.parametrize("file", ["input.csv", "concat.csv"])
def test_ids_of_two_processes(file: str) -> None:
    row = info(f"27-ncu-multi-process-ids/{file}")
    assert (row["kernels"], row["kernel_ns"]) == (6, 6_153_000)


@pytest.mark.slow
@pytest.mark.parametrize("name", one_in(5, HOSTILE, then_one_in=4))
def test_hostile_files_keep_their_kernels(name: str) -> None:
    row = info(f"hostile/{name}.sqlite")
    assert row["kernels"] == 59
    assert row["notes"]
    answers = ask(f"hostile/{name}.sqlite", "compute_util")
    assert all(0 <= row["gpu_busy_pct"] <= 100 for row in answers)
    if name in ("zeros", "grids"):
        occupancy = ask(f"hostile/{name}.sqlite", "occupancy")
        assert all(row["theoretical_pct"] is None for row in occupancy)


@pytest.mark.slow
def test_a_duration_that_cannot_be() -> None:
    notes = info("hostile/duration_1e26.csv")["notes"]
    assert any("implausible times or sizes: 1" in note for note in notes)
