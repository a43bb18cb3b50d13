"""Logs of nccl-tests: tables of several versions, several tests in a log, bad logs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import tbd_trace
from made_nccl_tests import END, LOG, ONE, RESULTS, TITLES, TWO, result, start
from tbd_trace.cli.main import app
from tbd_trace.errors import InputError
from tbd_trace.sources.nccl_tests.log import is_log, read_log


def written(folder: Path, text: str, name: str = "link.log") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def read(folder: Path, text: str, name: str = "link.log") -> list[dict[str, Any]]:
    return read_log(written(folder, text, name))[1]


def test_results_of_both_placements(tmp_path: Path) -> None:
    version, rows = read_log(written(tmp_path, LOG))
    assert version == "2.17.6"
    common = {
        "kind": "all_reduce", "kind_evidence": "columns and bus bandwidth", "ranks": 4, "nodes": 2,
        "device_name": "NVIDIA H100 80GB HBM3", "bytes": 10**9, "elements": 10**9 // 4,
        "dtype": "float", "operation": "sum", "root": None, "errors": 0,
    }  # fmt: skip
    assert rows == [
        common | {"sample_id": 1, "placement": "out-of-place", "time_ns": 10_000_000,
                  "algbw_bytes_per_s": 100e9, "busbw_bytes_per_s": 150e9},
        common | {"sample_id": 2, "placement": "in-place", "time_ns": 20_000_000,
                  "algbw_bytes_per_s": 50e9, "busbw_bytes_per_s": 75e9},
    ]  # fmt: skip


@pytest.mark.parametrize("tag", ["[1,0]<stdout>:", "0: ", "    "])
def test_tags_of_launchers(tmp_path: Path, tag: str) -> None:
    text = "".join(f"{tag}{line}\n" for line in LOG.splitlines())
    assert is_log(text.encode())
    assert read(tmp_path, text) == read(tmp_path, LOG)


def test_other_output_between_the_lines(tmp_path: Path) -> None:
    noise = "node-0:12:15 [0] NCCL INFO Channel 00 : 0 1 2 3\nmpirun warns\n"
    text = noise + LOG.replace("\n", f"\n{noise}")
    assert read(tmp_path, text) == read(tmp_path, LOG)


@pytest.mark.parametrize(
    ("program", "kind"),
    [
        ("all_reduce_perf", "all_reduce"), ("reduce_scatter_perf", "reduce_scatter"),
        ("alltoall_perf", "all_to_all"), ("sendrecv_perf", "send_recv"),
        ("all_gather_perf_mpi", "all_gather"), ("hypercube_perf", None),
        ("broadcast_perf", "broadcast"), ("gather_perf", "gather"), ("reduce_perf", "reduce"),
    ],
)  # fmt: skip
def test_the_program_names_the_collective(tmp_path: Path, program: str, kind: str | None) -> None:
    extra = "none -1"
    rows = read(tmp_path, start(name=program) + result(8, ONE, TWO, extra=extra) + END)
    assert {row["kind"] for row in rows} == {kind}


@pytest.mark.parametrize(
    ("busbw", "extra", "name", "found"),
    [
        (150.0, "sum -1", "all_gather.log", ("all_reduce", "columns and bus bandwidth")),
        (75.0, "sum -1", "x.log", ("reduce_scatter", "columns and bus bandwidth")),
        (100.0, "max 0", "x.log", ("reduce", "columns and bus bandwidth")),
        (75.0, "none -1", "4node-all-gather.log", ("all_gather", "file name")),
        (75.0, "none -1", "x.log", (None, None)),
    ],
)
def test_collective_of_a_log_that_does_not_name_it(
    tmp_path: Path, busbw: float, extra: str, name: str, found: tuple[str | None, ...]
) -> None:
    fields = (10_000.0, 100.0, busbw, "0")
    rows = read(tmp_path, start() + result(10**9, fields, fields, extra=extra) + END, name)
    assert {(row["kind"], row["kind_evidence"]) for row in rows} == {found}


def test_one_rank_alone_shows_no_collective(tmp_path: Path) -> None:
    """The factor of the bus bandwidth is ranks - 1 over ranks."""
    (row, _) = read(tmp_path, start(ranks=1, hosts=1) + result(10**9, ONE, ONE) + END, "x.log")
    assert (row["ranks"], row["kind"], row["kind_evidence"]) == (1, None, None)


def test_columns_of_other_versions(tmp_path: Path) -> None:
    # Before 2.0 there was no `redop`; newer ones can measure one placement.
    text = start(columns=f"{TITLES.replace('redop', '')}{RESULTS.replace('#wrong', 'error')}")
    text = text.replace("                       in-place", "")
    rows = read(tmp_path, text + result(10**9, (*ONE[:3], "0e+00"), extra="2") + END)
    [row] = rows
    assert (row["placement"], row["root"], row["operation"]) == ("out-of-place", 2, None)
    assert (row["errors"], row["time_ns"]) == (None, 10_000_000)


def test_without_validation_or_devices(tmp_path: Path) -> None:
    row = (*ONE[:3], "N/A")
    text = start(ranks=0, name="all_reduce_perf") + result(8, row, row) + END
    rows = read(tmp_path, text)
    assert [(one["errors"], one["ranks"], one["device_name"]) for one in rows] == [
        (None, None, None)
    ] * 2
    # An operation that has no in-place form.
    absent = result(8, ONE).rstrip() + "  N/A N/A N/A N/A\n"
    assert [one["placement"] for one in read(tmp_path, start() + absent + END)] == ["out-of-place"]


def test_several_tests_in_a_log(tmp_path: Path) -> None:
    text = start(name="all_reduce_perf") + result(8, ONE, TWO) + END
    text += start(ranks=2, hosts=1, name="all_gather_perf") + result(8, ONE, TWO) + END
    rows = read(tmp_path, text)
    assert [(row["sample_id"], row["kind"], row["ranks"], row["nodes"]) for row in rows] == [
        (1, "all_reduce", 4, 2), (2, "all_reduce", 4, 2), (3, "all_gather", 2, 1),
        (4, "all_gather", 2, 1),
    ]  # fmt: skip


BAD = {
    "values out of bounds": (
        LOG.replace("values : 0 OK", "values : 3 FAILED"), "3 values out of bounds",
    ),
    "wrong values": (
        start() + result(64, ONE, (*TWO[:3], "12")) + END, "12 wrong values at 64 bytes",
    ),
    "no end": (LOG.removesuffix(END), "ends before the end of a test"),
    "cut in a result": (
        start() + result(64, ONE, TWO) + "  128  32  float  sum  -1  10.0  1.", "line 14",
    ),
    "no result": (start() + END, "without a result"),
    "no number": (LOG.replace("20000.0", "2x"), "line 13"),
    "not finite": (LOG.replace("100.0", "nan"), "line 13"),
    "too large": (LOG.replace(" 1000000000 ", f" {2**63} "), "line 13"),
    "a column without a name": (LOG.replace("busbw", "busb", 1), "line 13"),
    "only the first line": (start().splitlines()[1], "ends before the end of a test"),
    "a second test cut": (LOG + start(), "ends before the end of a test"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_logs(tmp_path: Path, case: str) -> None:
    text, message = BAD[case]
    path = written(tmp_path, text)
    assert is_log(text.encode())
    with pytest.raises(InputError) as raised:
        read_log(path)
    assert message in str(raised.value)
    assert str(raised.value).startswith(f"{path}: ")
    result = CliRunner().invoke(app, ["ingest", "--db", str(tmp_path / "x.duckdb"), str(path)])
    assert result.exit_code == InputError.exit_code
    assert len(result.output.splitlines()) == 1


def test_each_cut_of_a_log_is_refused(tmp_path: Path) -> None:
    needed = LOG.index("Avg")  # what follows is a mean
    for length in range(LOG.index("# nThread") + 60, needed - 3, 7):
        with pytest.raises(InputError):
            read(tmp_path, LOG[:length])


def test_other_text_is_no_log() -> None:
    assert not is_log(b"nThread 1 nGpus 1 minBytes 8")
    assert not is_log(b"# all_reduce_perf -b 8 -e 8G")


@pytest.mark.slow
def test_a_log_beside_the_ranks_of_a_job(tmp_path: Path) -> None:
    database = tmp_path / "x.duckdb"
    path = written(tmp_path, LOG)
    result = CliRunner().invoke(app, ["ingest", "--job", "run", "--db", str(database), str(path)])
    assert (result.exit_code, "rank" in result.output) == (0, False)
    traces = tbd_trace.open(db=database)
    assert traces.sql("SELECT job, rank FROM job_rank").rows() == [("run", None)]
    assert traces.query("trace_info")["tool"].to_list() == ["nccl-tests"]
    assert traces.query("link_summary")["peak_busbw_bytes_per_s"].to_list() == [150e9, 75e9]
