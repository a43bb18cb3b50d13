"""Bandwidths of real collectives and links against reference tables."""

from __future__ import annotations

import statistics
from collections import defaultdict
from pathlib import Path

import pytest
from typer.testing import CliRunner

import tbd_trace
from corpus import corpus_folder, reference_rows
from real_traces import Traces
from tbd_trace.cli.main import app

LOGS = ["a100_2x8_all_reduce.log", "h100_2x8_all_reduce.log"]


def rows(name: str) -> list[dict[str, str]]:
    return reference_rows(f"network/oracle/{name}")


@pytest.mark.slow
def test_bandwidths_of_nccl_kernels(traces: Traces) -> None:
    wanted: defaultdict[tuple[str, int, int], list[tuple[float, float]]] = defaultdict(list)
    for row in rows("kineto_collectives.csv"):
        if row["set"] == "hta_nccl_data":
            key = (row["collective"], int(row["bytes"]), int(row["group_size"]))
            wanted[key].append((float(row["dur_us"]), float(row["busbw_GBs"])))
    frame = traces.ask("jobs/hta_nccl_parser_config__nccl_data.json.gz", "collective_bandwidth")
    assert frame.height == len(wanted) == 7
    for row in frame.to_dicts():
        samples = wanted[row["kind"].replace("_", ""), row["bytes"], row["group_size"]]
        assert (row["basis"], row["collectives"]) == ("duration", len(samples))
        time, busbw = sorted(samples)[len(samples) // 2]  # three of each size
        assert row["median_ns"] == 1000 * time
        assert row["busbw_bytes_per_s"] == pytest.approx(1e9 * busbw, rel=1e-3)


def test_transfers_of_two_ranks(traces: Traces) -> None:
    name = "GindaChen_nsys-ai__tests__fixtures__mfu_2gpu_before.sqlite"
    labelled = {
        int(row["seq"])
        for row in rows("nsys_collective_calls.csv")
        if row["file"] == name and row["device"] == "0" and "all_to_all" in row["nvtx"]
    }
    transfers = [
        int(row["transfer_ns"])
        for row in rows("nsys_matched_2rank.csv")
        if row["file"] == name and int(row["seq"]) in labelled
    ]
    frame = traces.ask(f"nsys/{name}", "collective_bandwidth")
    columns = ["kind", "basis", "collectives", "group_size", "median_ns", "busbw_bytes_per_s"]
    # One kernel has no label: it is point to point, on each of two ranks. All bytes are unknown.
    assert frame[columns].rows()[0] == (
        "all_to_all", "transfer", len(transfers), 2, statistics.median(transfers), None
    )  # fmt: skip
    assert (frame["kind"][1], frame["basis"][1]) == ("send_recv", "duration")
    assert len(transfers) + frame["collectives"][1] // 2 == 33


@pytest.mark.slow
@pytest.mark.parametrize(
    ("folder", "table"),
    [("gloo_ddp_2rank", "gloo_2rank"), ("gloo_ddp_4rank_straggler", "gloo_4rank")],
)
def test_all_reduces_over_a_link_of_a_gigabit(tmp_path: Path, folder: str, table: str) -> None:
    wanted = reference_rows(f"network/straggler/{table}.csv")
    job = corpus_folder(f"jobs/{folder}")
    database = tmp_path / "job.duckdb"
    CliRunner().invoke(app, ["ingest", "--job", "job", str(job), "--db", str(database)])
    frame = tbd_trace.open(db=database).query("collective_bandwidth", link_gbit=1.0)
    [row] = frame.to_dicts()
    time = statistics.median(1000 * float(one["transfer_us"]) for one in wanted)
    assert row["median_ns"] == pytest.approx(time, abs=60)
    ranks = row["group_size"]
    busbw = 1e9 * int(wanted[0]["bytes"]) / time * 2 * (ranks - 1) / ranks
    assert row["busbw_bytes_per_s"] == pytest.approx(busbw, rel=1e-5)
    assert 90 < row["link_pct"] < 100


@pytest.mark.parametrize("log", LOGS)
def test_results_of_nccl_tests(traces: Traces, log: str) -> None:
    wanted = [row for row in rows("nccl_tests.csv") if row["file"] == log]
    # Bus bandwidth from bytes, time and ranks, as the log prints it to 0.01 GB/s.
    found = traces.sql(
        f"jobs/nccl_tests/{log}",
        "SELECT ranks, bytes, replace(placement, '-', '_'), time_ns / 1000, algbw_bytes_per_s, "
        "busbw_bytes_per_s, bytes / time_ns * 2 * (ranks - 1) / ranks "
        "FROM link_sample ORDER BY sample_id",
    ).rows()
    assert len(found) == len(wanted)
    for row, one in zip(found, wanted, strict=True):
        assert row[:3] == (int(one["ranks"]), int(one["bytes"]), one["placement"])
        assert row[3] == float(one["time_us"])
        assert row[4] == pytest.approx(1e9 * float(one["algbw_GBs"]))
        assert row[5] == pytest.approx(1e9 * float(one["busbw_GBs"]))
        assert row[6] == pytest.approx(float(one["busbw_GBs"]), abs=0.02)
        assert row[6] == pytest.approx(float(one["calc_busbw"]), abs=0.001)


@pytest.mark.parametrize("log", LOGS)
def test_links(traces: Traces, log: str) -> None:
    wanted = [row for row in rows("nccl_tests.csv") if row["file"] == log]
    for row in traces.ask(f"jobs/nccl_tests/{log}", "link_summary").to_dicts():
        own = [one for one in wanted if one["placement"].replace("_", "-") == row["placement"]]
        curve = [(int(one["bytes"]), float(one["busbw_GBs"])) for one in own]
        size, peak = max(curve, key=lambda point: point[1])
        assert (row["kind"], row["ranks"], row["nodes"]) == ("all_reduce", 16, 2)
        assert (row["peak_bytes"], row["sizes"]) == (size, len(own))
        assert row["peak_busbw_bytes_per_s"] == pytest.approx(1e9 * peak, rel=1e-3)
        above = next(point for point in curve if point[1] >= peak / 2)
        if curve[0] == above:
            assert (row["half_bandwidth_bytes"], row["latency_ns"]) == (None, None)
        else:
            below = curve[curve.index(above) - 1]
            assert below[0] < row["half_bandwidth_bytes"] <= above[0]
            assert row["latency_ns"] == 1000 * float(own[0]["time_us"])
