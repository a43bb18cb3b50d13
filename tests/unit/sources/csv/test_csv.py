"""The CSV readers on made output: every oddity that the real tools print."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fast import examples
from nvtx_views import nvtx_rows
from tbd_trace.errors import InputError
from tbd_trace.model.canonical_tables import canonical_tables
from tbd_trace.sources.base import Source
from tbd_trace.sources.csv.values import NVPROF_UNITS, ncu_unit
from tbd_trace.sources.ncu.reader import NSIGHT_COMPUTE_CSV
from tbd_trace.sources.ncu.tables import metric_columns
from tbd_trace.sources.nvprof.csv_reader import NVPROF_CSV

Rows = list[dict[str, Any]]

TRACE_HEADER = (
    '"Start","Duration","Grid X","Grid Y","Grid Z","Block X","Block Y","Block Z",'
    '"Registers Per Thread","Static SMem","Dynamic SMem","Size","Throughput","SrcMemType",'
    '"DstMemType","Device","Context","Stream","Name","Correlation_ID"\n'
    "ms,us,,,,,,,,KB,B,MB,GB/s,,,,,,,\n"
)
DETAILS_HEADER = (
    '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size",'
    '"Grid Size","Device","CC","Section Name","Metric Name","Metric Unit","Metric Value",'
    '"Rule Name","Rule Type","Rule Description","Estimated Speedup Type","Estimated Speedup"\n'
)
RAW_HEADER = (
    '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size",'
    '"Grid Size","Device","CC"'
)


class Trace:
    """The rows of every canonical table of one file."""

    def __init__(self, source: Source, path: Path) -> None:
        assert source.detect(path, path.read_bytes()[:65_536])
        tables: dict[str, Rows] = {}
        with source.open(path) as reader, duckdb.connect() as connection:
            for name in canonical_tables():
                select = reader.relation(connection, name)
                tables[name] = connection.sql(select).pl().to_dicts() if select else []
            self.description = reader.describe()
        self.tables = tables | nvtx_rows(tables["annotation"])

    def __getitem__(self, table: str) -> Rows:
        return self.tables[table]

    @property
    def notes(self) -> str:
        return "; ".join(self.description.notes)

    def metric(self, name: str) -> dict[str, Any]:
        (row,) = [row for row in self["kernel_metric"] if row["metric"] == name]
        return row


@pytest.fixture
def nvprof(tmp_path: Path) -> Callable[..., Trace]:
    return lambda text, **options: Trace(NVPROF_CSV, _write(tmp_path / "out", text, **options))


@pytest.fixture
def ncu(tmp_path: Path) -> Callable[..., Trace]:
    return lambda text, **options: Trace(
        NSIGHT_COMPUTE_CSV, _write(tmp_path / "out", text, **options)
    )


def _write(path: Path, text: str, encoding: str = "utf-8", newline: str = "\n") -> Path:
    path.write_bytes(text.replace("\n", newline).encode(encoding))
    return path


def _kernel(start: str, duration: str, name: str, correlation: int = 7) -> str:
    return (
        f'{start},{duration},4,2,1,32,8,1,24,0.5,1024,,,,,"TITAN X (Pascal) (1)","1","7",'
        f'"{name}",{correlation}\n'
    )


def _details(metric: str, unit: str, value: str, identity: int = 0, name: str = "k(int)") -> str:
    return (
        f'"{identity}","42","app","127.0.0.1","{name}","1","7","(128, 2, 1)","(16, 4, 2)","0",'
        f'"8.6","Section","{metric}","{unit}","{value}",\n'
    )


def _spreadsheet(text: str, separator: str, *, changed: Callable[[int], bool] = bool) -> str:
    """Return CSV as a machine writes it whose decimal sign is the comma.

    Args:
        text: CSV with decimal points.
        separator: of the fields; those that hold it are quoted.
        changed: returns True for the numbers of lines with decimal commas; the header is line 0.
    """
    out = io.StringIO()
    writer = csv.writer(out, delimiter=separator, lineterminator="\n")
    for number, row in enumerate(csv.reader(io.StringIO(text))):
        commas = [re.sub(r"^(-?\d+)\.(\d+)([%A-Za-z/]*)$", r"\1,\2\3", field) for field in row]
        writer.writerow(commas if changed(number) else row)
    return out.getvalue()


class TestDecimalComma:
    TEXT = TRACE_HEADER + "".join(
        [
            _kernel("1.500000", "2.250000", "void f<int, 3>(int*, bool)"),
            _kernel("12.345678", "1234.567", "k(float)"),
            '20.0,3.0,,,,,,,,,,12.319336,5.0,"Pageable","Device","V (0)","1","7",'
            '"[CUDA memcpy HtoD]",9\n',
        ]
    )
    SUMMARY = (
        '"Type","Time(%)","Time","Calls","Avg","Min","Max","Name"\n,%,ms,,ms,ms,ms,\n'
        '"GPU activities",75.00,1.500000,2,0.750000,0.500000,1.000000,"k(int)"\n'
    )
    METRICS = (
        '"Device","Kernel","Invocations","Metric Name","Metric Description","Min","Max","Avg"\n'
        '"V (0)","k(int)",2,"sm_efficiency","x",83.97%,85.01%,84.49%\n'
        '"V (0)","k(int)",2,"achieved_occupancy","x",0.250000,0.750000,0.500000\n'
        '"V (0)","k(int)",2,"l2_utilization","x",Low (2),Low (3),Low (2)\n'
    )

    @pytest.mark.parametrize("text", [TEXT, SUMMARY, METRICS], ids=["trace", "summary", "metrics"])
    @pytest.mark.parametrize("separator", [",", ";"])
    def test_numbers_are_those_of_the_original(
        self, nvprof: Callable[..., Trace], text: str, separator: str
    ) -> None:
        assert nvprof(_spreadsheet(text, separator)).tables == nvprof(text).tables

    def test_semicolons_with_decimal_points(self, nvprof: Callable[..., Trace]) -> None:
        pointed = _spreadsheet(self.TEXT, ";", changed=lambda _: False)
        assert nvprof(pointed).tables == nvprof(self.TEXT).tables

    @pytest.mark.parametrize("line", [2, 3, 4])
    def test_one_line_of_many(self, nvprof: Callable[..., Trace], line: int) -> None:
        text = _spreadsheet(self.TEXT, ",", changed=lambda number: number == line)
        trace, original = nvprof(text), nvprof(self.TEXT)
        if line == 3:  # its 1234,567 could be a thousand times as long
            text = text.replace('"1234,567"', '"1234,5670"')
            trace = nvprof(text)
        assert trace.tables == original.tables
        assert "were not rows" not in trace.notes

    def test_thousands_stay_thousands(self, nvprof: Callable[..., Trace]) -> None:
        (kernel,) = nvprof(TRACE_HEADER + _kernel('"1,234.500000"', '"1,234"', "k"))["kernel"]
        assert (kernel["start_ns"], kernel["duration_ns"]) == (1_234_500_000, 1_234_000)

    def test_unquoted_commas_are_refused_by_name(self, nvprof: Callable[..., Trace]) -> None:
        text = re.sub(r"(\d)\.(\d)", r"\1,\2", self.TEXT)
        with pytest.raises(InputError, match=r"decimal commas; .* LC_ALL=C nvprof --csv"):
            nvprof(text)

    @pytest.mark.slow
    def test_nsight_compute_separated_by_semicolons(self, ncu: Callable[..., Trace]) -> None:
        text = DETAILS_HEADER + _details("Duration", "usecond", "2,001.25")
        rows = list(csv.reader(io.StringIO(text)))
        out = io.StringIO()
        csv.writer(out, delimiter=";", lineterminator="\n").writerows(rows)
        assert ncu(out.getvalue()).tables == ncu(text).tables


class TestNvprofTrace:
    def test_values_beyond_all_times(self, nvprof: Callable[..., Trace]) -> None:
        rows = [("1.0", "1e26"), ("9e18", "1.0"), ("2.0", "3.0")]
        trace = nvprof(TRACE_HEADER + "".join(_kernel(s, d, "k") for s, d in rows))
        found = [(k["start_ns"], k["duration_ns"]) for k in trace["kernel"]]
        assert found == [(1_000_000, None), (None, 1000), (2_000_000, 3000)]
        assert "implausible times or sizes: 2; left out" in trace.notes

    def test_kernel_row(self, nvprof: Callable[..., Trace]) -> None:
        trace = nvprof(TRACE_HEADER + _kernel("1.500000", "2.250000", "void f<int>(int*, bool)"))
        (kernel,) = trace["kernel"]
        assert trace.description.kind == "timeline"
        expected = {
            "start_ns": 1_500_000, "duration_ns": 2250, "end_ns": 1_502_250,
            "grid_x": 4, "grid_y": 2, "grid_z": 1, "block_x": 32, "block_y": 8, "block_z": 1,
            "registers_per_thread": 24, "static_shared_bytes": 512, "dynamic_shared_bytes": 1024,
            "device_id": 1, "context_id": 1, "stream_id": 7, "correlation_id": 7,
            "name": "void f<int>(int*, bool)", "short_name": "f", "mangled_name": None,
            "process_id": None,
        }  # fmt: skip
        assert expected.items() <= kernel.items()
        assert [(d["device_id"], d["name"]) for d in trace["device"]] == [(1, "TITAN X (Pascal)")]

    def test_the_last_kernel_is_kept(self, nvprof: Callable[..., Trace]) -> None:
        rows = [_kernel(f"{i}.000000", "1.000000", f"k{i}") for i in range(5)]
        whole = nvprof(TRACE_HEADER + "".join(rows))
        assert [k["name"] for k in whole["kernel"]] == ["k0", "k1", "k2", "k3", "k4"]
        no_line_break = nvprof((TRACE_HEADER + "".join(rows)).rstrip("\n"))
        assert [k["name"] for k in no_line_break["kernel"]] == ["k0", "k1", "k2", "k3", "k4"]
        assert "may be cut off" in no_line_break.notes

    @pytest.mark.slow
    def test_torn_last_line_is_dropped_with_a_note(self, nvprof: Callable[..., Trace]) -> None:
        text = TRACE_HEADER + _kernel("0.0", "1.0", "a") + _kernel("1.0", "1.0", "b")
        for cut in range(10, len(_kernel("1.0", "1.0", "b")) - 3, 3):
            trace = nvprof(text[:-cut])
            assert [k["name"] for k in trace["kernel"]] == ["a"]
            assert "ends inside a row" in trace.notes

    def test_a_last_row_without_one_of_its_values_is_noted(
        self, nvprof: Callable[..., Trace]
    ) -> None:
        last = _kernel("1.0", "1.0", "b").replace(",1.0,", ",", 1)
        trace = nvprof(TRACE_HEADER + _kernel("0.0", "1.0", "a") + last)
        assert [k["name"] for k in trace["kernel"]] == ["a"]
        assert "1 lines between rows were not rows" in trace.notes

    def test_torn_name_in_a_last_column(self, nvprof: Callable[..., Trace]) -> None:
        header = '"Start","Duration","Grid X","Name"\nms,us,,\n'
        trace = nvprof(header + '1.0,1.0,4,"kernel_a [3]"\n2.0,1.0,4,"kernel_l')
        assert [k["name"] for k in trace["kernel"]] == ["kernel_a"]
        assert "ends inside a row" in trace.notes

    def test_copies_and_fills(self, nvprof: Callable[..., Trace]) -> None:
        trace = nvprof(
            TRACE_HEADER
            + '0.0,3.0,,,,,,,,,,12.319336,5.0,"Pageable","Device","V (0)","1","7",'
            + '"[CUDA memcpy HtoD]",9\n'
            + '5.0,1.0,,,,,,,,,,0.000107,0.1,"Device",,"V (0)","1","7","[CUDA memset]",10\n'
        )
        (copy,), (fill,) = trace["memcpy"], trace["memset"]
        assert (copy["bytes"], copy["direction"]) == (12_917_760, "HtoD")
        assert (copy["src_kind"], copy["dst_kind"]) == ("pageable", "device")
        assert (fill["bytes"], fill["memory_kind"], fill["start_ns"]) == (112, "device", 5_000_000)

    def test_size_lost_in_its_unit_is_unknown(self, nvprof: Callable[..., Trace]) -> None:
        header = TRACE_HEADER.replace(",MB,", ",GB,")
        row = '0.0,3.0,,,,,,,,,,{},5.0,"Pinned","Device","V (0)","1","7","[CUDA memcpy HtoD]",9\n'
        trace = nvprof(header + row.format("0.000000") + row.format("1.500000"))
        assert [c["bytes"] for c in trace["memcpy"]] == [None, 3 * 2**29]
        assert "kilobyte" in trace.notes

    def test_peer_and_unified_memory_copies(self, nvprof: Callable[..., Trace]) -> None:
        trace = nvprof(
            '"Start","Duration","Grid X","Size","Device","Context","Stream","Src Dev","Src Ctx",'
            '"Dst Dev","Dst Ctx","Unified Memory","Virtual Address","Name","Correlation_ID"\n'
            "ms,ms,,B,,,,,,,,KB,,,\n"
            '0.1,0.5,,,"V (0)",,,,,,,64.000000,"0x7f","[Unified Memory Memcpy HtoD]",\n'
            '0.2,,,,,,,,,,,"PC 0x10","0x7f","[Unified Memory CPU page faults]",\n'
            '0.3,0.1,,123456,"V (1)","1","7","V (1)","1","V (2)","1",,,"[CUDA memcpy PtoP]",99\n'
        )
        unified, peer = trace["memcpy"]
        assert (unified["direction"], unified["bytes"]) == ("unified HtoD", 65_536)
        assert (peer["direction"], peer["src_device_id"], peer["dst_device_id"]) == ("PtoP", 1, 2)
        assert peer["bytes"] == 123_456
        assert "1 rows of other kinds" in trace.notes

    def test_api_calls_ranges_and_marks(self, nvprof: Callable[..., Trace]) -> None:
        trace = nvprof(
            '======== Profiling result:\n"Start","Duration","Name","Correlation_ID"\ns,us,,\n'
            '0.000001,,"[Range start] step (Domain: <unnamed>)",\n'
            '0.000002,,"[Range start] step (Domain: <unnamed>)",\n'
            '0.000003,1.500000,"cudaLaunchKernel_v7000",12\n'
            '0.000004,,"[Marker] here (Domain: mine)",\n'
            '0.000005,,"[Range end] step (Domain: <unnamed>)",\n'
            '0.000006,,"[Range end] never opened (Domain: <unnamed>)",\n'
            '0.000007,,"[Range start] open (Domain: mine)",\n'
            '0.000009,,"[Range end] step (Domain: <unnamed>)",\n'
        )
        (call,), (mark,) = trace["api_call"], trace["nvtx_mark"]
        assert (call["name"], call["start_ns"], call["end_ns"]) == ("cudaLaunchKernel", 3000, 4500)
        assert (mark["text"], mark["domain"], mark["timestamp_ns"]) == ("here", "mine", 4000)
        ranges = sorted(trace["nvtx_range"], key=lambda r: r["nvtx_range_id"])
        assert [(r["text"], r["start_ns"], r["end_ns"], r["is_open"]) for r in ranges] == [
            ("step", 1000, 9000, False),
            ("step", 2000, 5000, False),
            ("open", 7000, 9000, True),
        ]
        assert [r["domain_id"] for r in ranges] == [0, 0, 1]
        assert "1 NVTX range ends without a start" in trace.notes

    def test_names_with_quotes_and_line_breaks(self, nvprof: Callable[..., Trace]) -> None:
        """nvprof 11.8 escapes neither; these lines are as it prints them."""
        names = ['emb "quoted", a\\b x', "line1\nline2, tail", '5" disk', "a, b", '"', "x\n\ny"]
        rows = "".join(f'0.{i},,"[Marker] {name} (Domain: D)",\n' for i, name in enumerate(names))
        last = '9.0,1.0,"cudaFree",3\n'
        trace = nvprof('"Start","Duration","Name","Correlation_ID"\nms,ms,,\n' + rows + last)
        assert [m["text"] for m in trace["nvtx_mark"]] == names
        assert [c["name"] for c in trace["api_call"]] == ["cudaFree"]

    def test_output_of_the_program_anywhere(self, nvprof: Callable[..., Trace]) -> None:
        trace = nvprof(
            'Epoch 1, loss 0.3, "quoted\n==77== NVPROF is profiling process 77, command: '
            "/usr/bin/python3 train.py --token secret\n"
            "==77== Profiling application: python3 train.py\n==77== Profiling result:\n"
            + TRACE_HEADER
            + _kernel("0.0", "1.0", "a")
            + 'Epoch 2, loss "0.2\n==== done ====\n==77== Warning: 3 records have invalid times\n'
            + _kernel("1.0", "1.0", "b")
            + "Bye, 1, 2\n"
        )
        assert [(k["name"], k["process_id"]) for k in trace["kernel"]] == [("a", 77), ("b", 77)]
        assert [(p["pid"], p["name"]) for p in trace["process"]] == [(77, "python3")]
        assert "3 lines between rows" in trace.notes

    def test_several_processes_in_one_file(self, nvprof: Callable[..., Trace]) -> None:
        one = (
            "==1== NVPROF is profiling process 1, command: ./a\n==1== Profiling result:\n"
            + TRACE_HEADER
            + _kernel("0.0", "1.0", "a")
        )
        trace = nvprof(one + one.replace("==1==", "==2==").replace("process 1", "process 2"))
        assert [(k["kernel_id"], k["process_id"]) for k in trace["kernel"]] == [(0, 1), (1, 2)]
        assert "do not compare times" in trace.notes

    def test_columns_of_old_versions(self, nvprof: Callable[..., Trace]) -> None:
        """Without memory kinds and correlation ids, which then stand behind the name."""
        trace = nvprof(
            '"Start","Duration","Grid X","Grid Y","Grid Z","Block X","Block Y","Block Z",'
            '"Registers Per Thread","Static SMem","Dynamic SMem","Size","Throughput","Device",'
            '"Context","Stream","Name"\nms,us,,,,,,,,KB,KB,KB,GB/s,,,,\n'
            '1.0,2.0,1,1,1,64,1,1,8,0.0,0.0,,,"Tesla K20c (0)","1","7","saxpy(int) [95]"\n'
            '2.0,2.0,,,,,,,,,,4.0,1.0,"Tesla K20c (0)","1","7","[CUDA memcpy DtoH]"\n'
        )
        (kernel,), (copy,) = trace["kernel"], trace["memcpy"]
        assert (kernel["name"], kernel["correlation_id"]) == ("saxpy(int)", 95)
        assert (copy["bytes"], copy["src_kind"], copy["correlation_id"]) == (4096, None, None)

    def test_times_in_seconds_say_how_coarse_they_are(self, nvprof: Callable[..., Trace]) -> None:
        trace = nvprof(TRACE_HEADER.replace("ms,us", "s,s") + _kernel("1.5", "0.000002", "a"))
        assert trace["kernel"][0]["start_ns"] == 1_500_000_000
        assert "steps of 1000 ns" in trace.notes

    def test_times_without_units_are_refused(self, nvprof: Callable[..., Trace]) -> None:
        with pytest.raises(InputError, match="row of units"):
            nvprof(TRACE_HEADER.splitlines(keepends=True)[0] + _kernel("0.0", "1.0", "a"))

    @pytest.mark.parametrize(
        ("encoding", "newline"),
        [("utf-8-sig", "\n"), ("utf-8", "\r\n"), ("utf-16", "\r\n"), ("utf-16-le", "\n"),
         ("utf-16-be", "\n")],
    )  # fmt: skip
    def test_encodings(self, nvprof: Callable[..., Trace], encoding: str, newline: str) -> None:
        text = "======== Profiling result:\n" + TRACE_HEADER + _kernel("0.0", "1.0", "größe")
        trace = nvprof(text, encoding=encoding, newline=newline)
        assert [k["name"] for k in trace["kernel"]] == ["größe"]

    def test_nothing_profiled(self, nvprof: Callable[..., Trace]) -> None:
        trace = nvprof("======== Profiling result:\nNo kernels were profiled.\n")
        assert not any(trace.tables.values())
        assert "holds no kernels" in trace.notes

    def test_text_output_is_refused_with_advice(self, tmp_path: Path) -> None:
        path = _write(
            tmp_path / "log",
            "==9== NVPROF is profiling process 9, command: ./a\n==9== Profiling result:\n"
            "            Type  Time(%)      Time     Calls       Avg\n"
            " GPU activities:  100.00%  3.8400us         2  1.9200us\n",
        )
        assert NVPROF_CSV.detect(path, path.read_bytes())
        with pytest.raises(InputError, match="--csv"):
            NVPROF_CSV.open(path)


METRIC_TRACE = (
    '"Device","Context","Stream","Kernel","Correlation_ID","sm_efficiency (0)",'
    '"sm_efficiency (1)","gld_throughput","dram_utilization","gld_transactions","ipc",'
    '"dram_read_bytes","stall_sync"\n,,,,,%,%,GB/s,,,,,%\n'
)


class TestNvprofMetrics:
    def test_metrics_of_each_kernel(self, nvprof: Callable[..., Trace]) -> None:
        trace = nvprof(
            "======== Profiling result:\n"
            + METRIC_TRACE
            + '"V (0)","1","7","a(int)",5,98.5,97.0,2.5,"Max (10)",57891646,1.250000,64,0.0\n'
            + '"V (0)","1","7","b(int)",6,,,,"Idle (0)",0,0.500000,0,\n'
            + "======== PC SAMPLING SUMMARY:\na(int)\n"
            + '"PC","INVALID","NONE"\n"0x10",0,1\n"Total",0,1\nTotal Samples: 1\n'
        )
        assert trace.description.kind == "metrics"
        assert [(k["name"], k["duration_ns"]) for k in trace["kernel"]] == [
            ("a(int)", None),
            ("b(int)", None),
        ]
        a = {
            (m["metric"], m["unit_instance"]): (m["value"], m["unit"], m["text"])
            for m in trace["kernel_metric"]
            if m["kernel_id"] == 0
        }
        assert a == {
            ("sm_efficiency", 0): (98.5, "%", None),
            ("sm_efficiency", 1): (97.0, "%", None),
            ("gld_throughput", None): (2.5 * 2**30, "byte/s", None),
            ("dram_utilization", None): (10.0, "level", "Max (10)"),
            ("gld_transactions", None): (57_891_646.0, "count", None),
            ("ipc", None): (1.25, "ratio", None),
            ("dram_read_bytes", None): (64.0, "byte", None),
            ("stall_sync", None): (0.0, "%", None),
        }

    def test_blank_is_not_zero(self, nvprof: Callable[..., Trace]) -> None:
        trace = nvprof(METRIC_TRACE + '"V (0)","1","7","b(int)",6,,,,"Idle (0)",,0.5,0,\n')
        values = {m["metric"]: m["value"] for m in trace["kernel_metric"]}
        assert values == {
            "sm_efficiency": None, "gld_throughput": None, "dram_utilization": 0.0,
            "gld_transactions": None, "ipc": 0.5, "dram_read_bytes": 0.0, "stall_sync": None,
        }  # fmt: skip

    @pytest.mark.parametrize(
        ("printed", "value", "unit", "text"),
        [
            ("83.976378%", 83.976378, "%", None),
            ("5.360000GB/s", 5.36 * 2**30, "byte/s", None),
            ("24.297435MB/s", 24.297435 * 2**20, "byte/s", None),
            ("0.000000B/s", 0.0, "byte/s", None),
            ("1234567", 1_234_567.0, "count", None),
            ("0.015617", 0.015617, "ratio", None),
            ('"High (7)"', 7.0, "level", "High (7)"),
            ('"Max (10)"', 10.0, "level", "Max (10)"),
            ("<OVERFLOW>", None, None, "<OVERFLOW>"),
            ("nan", None, None, "nan"),
            ("", None, None, None),
        ],
    )
    def test_summary_values(
        self,
        nvprof: Callable[..., Trace],
        printed: str,
        value: float | None,
        unit: str | None,
        text: str | None,
    ) -> None:
        trace = nvprof(
            "======== Profiling result:\n======== Metric result:\n"
            '"Device","Kernel","Invocations","Metric Name","Metric Description","Min","Max","Avg"\n'
            f'"V (0)","k(int, int)",3,"m","A metric",{printed},{printed},{printed}\n'
        )
        (row,) = trace["kernel_metric"]
        assert trace.description.kind == "summary"
        assert row["value"] == (pytest.approx(value) if value is not None else None)
        assert row["min_value"] == row["max_value"] == row["value"]
        assert (row["unit"], row["text"]) == (unit, text)
        assert (row["instances"], row["kernel_id"], row["device_id"]) == (3, None, 0)
        assert row["kernel_name"] == "k(int, int)"

    def test_metrics_of_ranges_are_not_counted_again(self, nvprof: Callable[..., Trace]) -> None:
        table = (
            '"Device","Kernel","Invocations","Metric Name","Metric Description","Min","Max","Avg"\n'
            '"V (0)","k",2,"ipc","Executed IPC",1.0,1.0,1.0\n'
        )
        trace = nvprof(
            f"======== Metric result:\n{table}======== NVTX result:\n"
            f'========       Range "step"\n{table}'
        )
        assert len(trace["kernel_metric"]) == 1

    def test_summary_of_events_and_of_units(self, nvprof: Callable[..., Trace]) -> None:
        trace = nvprof(
            "==5== Event result:\n"
            '"Device","Kernel","Invocations","Event Name","Min","Max","Avg","Total"\n'
            '"V (0)","k",2,"warps_launched",4,6,5,10\n'
            "==5== Metric result:\n"
            '"Device","Kernel","Invocations","Metric Name","Metric Description","Min","Max","Avg"\n'
            '"V (0)","k",2,"sm_efficiency (3 instances)","Activity",,,"30.5%,0.0%,12.0%"\n'
        )
        event = trace.metric("warps_launched")
        assert (event["value"], event["min_value"], event["max_value"]) == (5, 4, 6)
        units = [m for m in trace["kernel_metric"] if m["metric"] == "sm_efficiency"]
        assert [(m["unit_instance"], m["value"], m["unit"]) for m in units] == [
            (0, 30.5, "%"),
            (1, 0.0, "%"),
            (2, 12.0, "%"),
        ]


class TestNvprofSummary:
    HEADER = '"Type","Time(%)","Time","Calls","Avg","Min","Max","Name"\n,%,ms,,us,us,us,\n'

    def test_totals_of_kernels(self, nvprof: Callable[..., Trace]) -> None:
        """The kernels of NVTX ranges are the same kernels again."""
        trace = nvprof(
            "======== Profiling result:\n"
            + self.HEADER
            + '"GPU activities",60.0,6.000000,3,2000.0,1000.0,4000.0,"k(int, int)"\n'
            + '"GPU activities",40.0,4.000000,1,4000.0,4000.0,4000.0,"[CUDA memcpy HtoD]"\n'
            + '"API calls",100.0,9.000000,3,3000.0,1.0,9.0,"cudaLaunchKernel"\n'
            + "\n======== NVTX result:\n"
            + '========   Thread "<unnamed>" (id = 45)\n========     Domain "<unnamed>"\n'
            + '========       Range "step 1:"\n'
            + self.HEADER
            + '"Range:",100.0,9.0,1,9.0,9.0,9.0,"step 1:"\n'
            + '"GPU activities",100.0,6.0,3,2000.0,1000.0,4000.0,"k(int, int)"\n'
            + "No API activities were profiled in this range.\n"
        )
        assert trace.description.kind == "summary"
        (row,) = trace["kernel_aggregate"]
        assert {**row} == {
            "device_id": None, "name": "k(int, int)", "instances": 3, "total_ns": 6_000_000,
            "mean_ns": 2_000_000.0, "min_ns": 1_000_000, "max_ns": 4_000_000,
        }  # fmt: skip

    def test_summary_per_gpu(self, nvprof: Callable[..., Trace]) -> None:
        table = self.HEADER + '"GPU activities",100.0,6.0,3,2.0,1.0,4.0,"k"\n'
        trace = nvprof(
            f'======== Profiling result:\n\n======== Device "V100 (0)"\n{table}'
            f'\n======== Device "V100 (1)"\n{table}'
            '\n======== Device "V100 (2)"\nNo kernels were profiled.\n'
        )
        assert sorted(row["device_id"] for row in trace["kernel_aggregate"]) == [0, 1]

    def test_summary_of_old_versions(self, nvprof: Callable[..., Trace]) -> None:
        header = '"Time(%)","Time","Calls","Avg","Min","Max","Name"\n%,us,,us,us,us,\n'
        trace = nvprof(
            f'==9== Profiling result:\n{header}100.0,3.84,2,1.92,1.504,2.336,"k [3]"\n'
            f'==9== API calls:\n{header}100.0,9.0,3,3.0,1.0,9.0,"cudaMalloc"\n'
            f'==9== OpenACC (excl):\n{header}100.0,9.0,3,3.0,1.0,9.0,"acc_enqueue"\n'
        )
        assert [(r["name"], r["total_ns"]) for r in trace["kernel_aggregate"]] == [("k [3]", 3840)]


class TestNsightCompute:
    def test_metrics_are_distinguished_from_other_columns(self) -> None:
        others = ["ID", "Kernel Name", "Block Size", "thread Domain:Push/Pop__Range:PL_Type"]
        metrics = ["sm__cycles_active.avg", "launch__grid_size", "group:memory__chart"]
        odd = ["SM__Cycles.sum"]
        assert metric_columns([*others, *metrics, *odd]) == [*metrics, *odd]

    def test_details_page(self, ncu: Callable[..., Trace]) -> None:
        """Rows end before the columns of rules; rules name context and stream 1."""
        rule = _details("", "", "").replace('"1","7"', '"1","1"').rstrip(",\n")
        trace = ncu(
            "==PROF== Connected to process 42 (/app)\nhello, world\n==PROF== Disconnected\n"
            + DETAILS_HEADER
            + f'{rule},"SOLBottleneck","OPT","Look, here","global","50"\n'
            + _details("Duration", "us", "1,205.50")
            + _details("SM Frequency", "Ghz", "1.20")
            + _details("Memory Throughput", "%", "62.85")
            + _details("Memory Throughput", "Gbyte/s", "161.84")
            + _details("Elapsed Cycles", "cycle", "37,680,872")
            + _details("Registers Per Thread", "register/thread", "56")
            + _details("Static Shared Memory Per Block", "Kbyte/block", "16.38")
            + _details("Achieved Occupancy", "%", "36.82")
            + _details("SM Busy", "%", "12.00")
            + _details("Cluster Scheduling Policy", "", "PolicySpread")
            + _details("dram__throughput.avg.pct_of_peak_sustained_elapsed", "", "n/a")
            + _details("Duration", "us", "1,205.50")
        )
        (kernel,) = trace["kernel"]
        expected = {
            "kernel_id": 0, "name": "k(int)", "duration_ns": 1_205_500, "start_ns": None,
            "grid_x": 16, "grid_y": 4, "grid_z": 2, "block_x": 128, "block_y": 2, "block_z": 1,
            "process_id": 42, "context_id": 1, "stream_id": 7, "device_id": 0,
            "registers_per_thread": 56, "static_shared_bytes": 16_380,
        }  # fmt: skip
        assert expected.items() <= kernel.items()
        found = [(m["metric"], m["value"], m["unit"], m["text"]) for m in trace["kernel_metric"]]
        assert found == [
            ("gpu__time_duration.sum", 1_205_500.0, "ns", None),
            ("gpc__cycles_elapsed.avg.per_second", 1.2e9, "cycle/s", None),
            ("gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed", 62.85, "%", None),
            ("dram__bytes.sum.per_second", pytest.approx(161.84e9), "byte/s", None),
            ("gpc__cycles_elapsed.max", 37_680_872.0, "cycle", None),
            ("launch__registers_per_thread", 56.0, "register/thread", None),
            ("launch__shared_mem_per_block_static", pytest.approx(16_380.0), "byte/block", None),
            ("sm__warps_active.avg.pct_of_peak_sustained_active", 36.82, "%", None),
            ("SM Busy", 12.0, "%", None),
            ("Cluster Scheduling Policy", None, None, "PolicySpread"),
            ("dram__throughput.avg.pct_of_peak_sustained_elapsed", None, None, "n/a"),
        ]
        assert [(d["device_id"], d["compute_capability"]) for d in trace["device"]] == [(0, "8.6")]
        assert [(p["pid"], p["name"]) for p in trace["process"]] == [(42, "app")]

    def test_raw_page(self, ncu: Callable[..., Trace]) -> None:
        trace = ncu(
            RAW_HEADER + ',"device__attribute_display_name","device__attribute_clock_rate",'
            '"gpu__time_duration.sum","launch__func_cache_config","sass__inst_per_opcode",'
            '"dram__bytes.sum","inst_executed"\n'
            '"","","","","","","","","","","","","","msecond","","inst","Mbyte","inst"\n'
            '"0","42","app","h","k<1, 2>(int)","1","7","(128, 1, 1)","(9, 1, 1)","1","9.0","H100",'
            '"1980000","1,217.860640","CachePreferNone","1,234 (ADD: 34; MUL: 1,200)","2.5",""\n'
            '"1","42","app","h","l(int)","1","7","(64, 1, 1)","(1, 1, 1)","1","9.0","H100",'
            '"1980000","<OVERFLOW>","","nan","0","7"\n'
        )
        first, second = trace["kernel"]
        assert (first["name"], first["duration_ns"]) == ("k<1, 2>(int)", 1_217_860_640)
        assert (second["name"], second["duration_ns"]) == ("l(int)", None)
        assert "without duration" in trace.notes
        found = {
            (m["kernel_id"], m["metric"]): (m["value"], m["text"]) for m in trace["kernel_metric"]
        }
        assert found == {
            (0, "gpu__time_duration.sum"): (1_217_860_640.0, None),
            (0, "launch__func_cache_config"): (None, "CachePreferNone"),
            (0, "sass__inst_per_opcode"): (1234.0, "1,234 (ADD: 34; MUL: 1,200)"),
            (0, "dram__bytes.sum"): (2_500_000.0, None),
            (0, "inst_executed"): (None, None),
            (1, "gpu__time_duration.sum"): (None, "<OVERFLOW>"),
            (1, "launch__func_cache_config"): (None, None),
            (1, "sass__inst_per_opcode"): (None, "nan"),
            (1, "dram__bytes.sum"): (0.0, None),
            (1, "inst_executed"): (7.0, None),
        }
        (device,) = trace["device"]
        assert (device["device_id"], device["name"], device["clock_hz"]) == (1, "H100", 1.98e9)

    def test_columns_of_nvtx_are_no_metrics(self, ncu: Callable[..., Trace]) -> None:
        pushed = "thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg"
        started = "Id:Domain:Start/Stop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg"
        trace = ncu(
            f'"ID","{pushed}","{started}","Kernel Name","gpu__time_duration.sum"\n'
            '"","","","","ns"\n"0"," ""a, b:none"" ","","k","7"\n'
        )
        assert [m["metric"] for m in trace["kernel_metric"]] == ["gpu__time_duration.sum"]
        assert [k["duration_ns"] for k in trace["kernel"]] == [7]

    def test_total_sizes_stand_in_the_first_axis(self, ncu: Callable[..., Trace]) -> None:
        header = DETAILS_HEADER.replace('"Block Size","Grid Size","Device","CC",', "")
        row = '"{}","4","app","h","k","1","7","Launch Statistics","{}","","{}",\n'
        trace = ncu(
            header + row.format(0, "Grid Size", "1,024") + row.format(0, "Block Size", "256")
        )
        (kernel,) = trace["kernel"]
        sizes = [kernel[f"{of}_{axis}"] for of in ("grid", "block") for axis in "xyz"]
        assert sizes == [1024, 1, 1, 256, 1, 1]
        assert "grid_x and block_x contain the number" in trace.notes

    def test_kernels_whose_rows_do_not_stand_together(self, ncu: Callable[..., Trace]) -> None:
        rows = [
            _details(name, unit, str(value + identity), identity, f"k{identity}")
            for name, unit, value in (("Duration", "ns", 100), ("Registers Per Thread", "", 30))
            for identity in range(3)
        ]
        trace = ncu(DETAILS_HEADER + "".join(rows))
        found = [(k["name"], k["duration_ns"], k["registers_per_thread"]) for k in trace["kernel"]]
        assert found == [("k0", 100, 30), ("k1", 101, 31), ("k2", 102, 32)]

    @pytest.mark.parametrize("together", [True, False])
    def test_processes_may_use_the_same_ids(
        self, ncu: Callable[..., Trace], together: bool
    ) -> None:
        kernels = [(process, identity) for identity in range(3) for process in (42, 43)]
        metrics = (("Duration", "ns", 100), ("Registers Per Thread", "", 30))
        order = (
            [(kernel, metric) for kernel in kernels for metric in metrics]
            if together
            else [(kernel, metric) for metric in metrics for kernel in kernels]
        )
        rows = [
            _details(name, unit, str(value + 10 * identity + process), identity).replace(
                '"42"', f'"{process}"'
            )
            for (process, identity), (name, unit, value) in order
        ]
        trace = ncu(DETAILS_HEADER + "".join(rows) + DETAILS_HEADER + rows[0])
        # The last row is a kernel of a second table, as long as the first one of the first.
        found = {(k["process_id"], k["duration_ns"]): k["kernel_id"] for k in trace["kernel"][:-1]}
        wanted = {(process, 100 + 10 * identity + process) for process, identity in kernels}
        assert found.keys() == wanted
        assert len({k["kernel_id"] for k in trace["kernel"]}) == len(kernels) + 1
        durations = {
            m["kernel_id"]: m["value"] for m in trace["kernel_metric"] if m["unit"] == "ns"
        }
        assert all(durations[number] == length for (_, length), number in found.items())
        assert "kernels with an ID that another process uses: 3;" in trace.notes

    def test_ids_go_on_in_a_second_run(self, ncu: Callable[..., Trace]) -> None:
        run = (
            DETAILS_HEADER + _details("Duration", "ns", "5", 0) + _details("Duration", "ns", "6", 1)
        )
        trace = ncu(f"==PROF== Connected\n{run}==PROF== Connected\n{run}")
        assert [(k["kernel_id"], k["duration_ns"]) for k in trace["kernel"]] == [
            (0, 5), (1, 6), (2, 5), (3, 6),
        ]  # fmt: skip
        assert [m["kernel_id"] for m in trace["kernel_metric"]] == [0, 1, 2, 3]

    def test_summary(self, ncu: Callable[..., Trace]) -> None:
        trace = ncu(
            '"Process ID","Kernel Name","Block Size","Grid Size","Device Id","Invocations",'
            '"Section Name","Metric Name","Metric Unit","Minimum","Maximum","Average"\n'
            '"1","k","64","36","0","2","S","gpu__time_duration.sum","usecond","10","30","20"\n'
            '"1","k","128","36","0","1,000","S","gpu__time_duration.sum","msecond","1","1","1"\n'
            '"1","k","64","36","0","2","S","DRAM Throughput","%","5","15","10"\n'
        )
        assert trace.description.kind == "summary"
        assert not trace["kernel"]
        (row,) = trace["kernel_aggregate"]
        assert (row["name"], row["instances"], row["total_ns"]) == ("k", 1002, 1_000_040_000)
        assert (row["min_ns"], row["max_ns"]) == (10_000, 1_000_000)
        throughput = trace.metric("gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed")
        assert (throughput["value"], throughput["min_value"], throughput["max_value"]) == (
            10,
            5,
            15,
        )
        assert (throughput["instances"], throughput["kernel_id"]) == (2, None)

    def test_summary_per_range_has_no_totals(self, ncu: Callable[..., Trace]) -> None:
        trace = ncu(
            '"Domain","Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg","Kernel Name",'
            '"Invocations","Metric Name","Average"\n'
            '"<default domain>"," ""step:none"" ","k","1","gpu__time_duration.sum","5"\n'
        )
        assert not trace["kernel_aggregate"]
        assert "per NVTX range" in trace.notes

    def test_decimal_comma(self, ncu: Callable[..., Trace]) -> None:
        trace = ncu(
            DETAILS_HEADER
            + _details("Elapsed Cycles", "cycle", "1.691")
            + _details("SM Active Cycles", "cycle", "55.313.213,62")
            + _details("DRAM Throughput", "%", "0,47")
        )
        assert [m["value"] for m in trace["kernel_metric"]] == [1691.0, 55_313_213.62, 0.47]

    @pytest.mark.slow
    def test_torn_last_row(self, ncu: Callable[..., Trace]) -> None:
        text = DETAILS_HEADER + _details("Duration", "ns", "5") + _details("Cluster", "", "1234")
        for cut in range(3, 20):
            trace = ncu(text[:-cut])
            first, *torn = [m["value"] for m in trace["kernel_metric"]]
            assert first == 5.0
            assert torn in ([], [None])  # cut behind a comma, it is a row with a blank value
            assert ("ends inside a row" if not torn else "may be cut off") in trace.notes

    @pytest.mark.parametrize("version", ["2020", "2024"])
    def test_console(self, ncu: Callable[..., Trace], version: str) -> None:
        ruler = f"    {'-' * 26} {'-' * 13} {'-' * 12}\n"
        titles = f"    {'Metric Name':<26} {'Metric Unit':>13} {'Metric Value':>12}\n{ruler}"
        where = {
            "2020": ", 2021-Nov-04 16:26:35, Context 1, Stream 7",
            "2024": " (188, 250, 1)x(16, 16, 1), Context 1, Stream 7, Device 0, CC 8.6",
        }[version]

        def section(name: str, *rows: tuple[str, str, str]) -> str:
            lines = [f"    {label:<26} {unit:>13} {value:>12}\n" for label, unit, value in rows]
            above = ruler + (titles if version == "2024" else "")
            return (
                f"    Section: {name}\n{above}{''.join(lines)}{ruler}    OPT   Look, Context 9\n\n"
            )

        trace = ncu(
            f"==PROF== Connected to process 42 (/app)\nC = A, B\n[42] app@127.0.0.1\n"
            f"  void k<(int)1>(int, float *){where}\n"
            + section("Speed", ("Duration", "msecond", "27.01"), ("L2 Hit Rate", "%", "94.5"))
            + section("Launch", ("Waves Per SM", "", "1,000.50"), ("Policy", "", "PolicySpread"))
            + section("Empty")
            + f"  l(){where}\n"
            + section("Speed", ("dram__bytes.sum", "Mbyte", "1.50"), ("bad", "", "(!) n/a"))
        )
        assert [(k["name"], k["duration_ns"]) for k in trace["kernel"]] == [
            ("void k<(int)1>(int, float *)", 27_010_000),
            ("l()", None),
        ]
        kernel = trace["kernel"][0]
        assert (kernel["process_id"], kernel["context_id"], kernel["stream_id"]) == (42, 1, 7)
        shape = (188, 250, 16, 0) if version == "2024" else (None, None, None, None)
        assert (kernel["grid_x"], kernel["grid_y"], kernel["block_x"], kernel["device_id"]) == shape
        assert [(m["metric"], m["value"], m["text"]) for m in trace["kernel_metric"]] == [
            ("gpu__time_duration.sum", 27_010_000.0, None),
            ("lts__t_sector_hit_rate.pct", 94.5, None),
            ("launch__waves_per_multiprocessor", 1000.5, None),
            ("Policy", None, "PolicySpread"),
            ("dram__bytes.sum", 1_500_000.0, None),
            ("bad", None, "(!) n/a"),
        ]
        assert "skipped" not in trace.notes
        assert "ends inside" not in trace.notes

    def test_nothing_profiled(self, ncu: Callable[..., Trace]) -> None:
        said = "==PROF== Connected to process 1\n==WARNING== No kernels were profiled.\n"
        for text in (said, said + DETAILS_HEADER):
            trace = ncu(text)
            assert not any(trace.tables.values())
            assert "no kernels were profiled" in trace.notes

    def test_log_without_results_is_refused_with_advice(self, tmp_path: Path) -> None:
        path = _write(
            tmp_path / "log", "==PROF== Connected to process 1\n==PROF== Report: a.ncu-rep\n"
        )
        with pytest.raises(InputError, match="--page raw"):
            NSIGHT_COMPUTE_CSV.open(path)


@pytest.mark.parametrize(
    "text",
    [
        "Initializing NVTX monkey patches\nDone with NVTX monkey patching\n",
        "Benchmark Type,Test Name,Kernel ID,Theoretical occupancy,Kernel execution time (ns)\n"
        "standard,test22,0,100.0,3232.0\n",
        '"Time (%)","Total Time (ns)","Instances","Avg (ns)","Name"\n100,5,1,5,"k"\n',
        "Start,Duration,Name,Room\n9:00,60,meeting,A\n",
        "ID,Kernel Name,Owner\n1,linux,root\n",
        "Kernel Name,Metric Name,Metric Value\nk,Duration,4\n",
        "==12== Memcheck, a memory error detector\n",
        '{"traceEvents": []}\n',
        "SQLite format 3\x00\x01\x00",
        "\x7fELF\x02\x01\x01\x00\x00\x00\x00",
    ],
)
@pytest.mark.parametrize("source", [NVPROF_CSV, NSIGHT_COMPUTE_CSV], ids=lambda s: s.format)
def test_lookalikes_are_not_detected(source: Source, text: str, tmp_path: Path) -> None:
    path = _write(tmp_path / "file.csv", text, encoding="latin-1")
    assert not source.detect(path, path.read_bytes())


@pytest.mark.parametrize(
    ("printed", "factor", "name"),
    [
        ("", 1, None), ("%", 1, "%"), ("byte", 1, "byte"), ("Kbyte", 1e3, "byte"),
        ("Gbyte/second", 1e9, "byte/s"), ("Gbyte/s", 1e9, "byte/s"), ("usecond", 1e3, "ns"),
        ("ms", 1e6, "ns"), ("s", 1e9, "ns"), ("cycle/nsecond", 1e9, "cycle/s"),
        ("cycle/usecond", 1e6, "cycle/s"), ("hz", 1, "cycle/s"), ("Mhz", 1e6, "cycle/s"),
        ("sector/nsecond", 1e9, "sector/s"), ("Kbyte/block", 1e3, "byte/block"),
        ("inst/cycle", 1, "inst/cycle"), ("register/thread", 1, "register/thread"),
        ("SM", 1, "SM"), ("MB", 1e6, "byte"), ("KByte", 1e3, "byte"),
    ],
)  # fmt: skip
def test_units_of_nsight_compute(printed: str, factor: float, name: str | None) -> None:
    assert ncu_unit(printed) == (factor, name)


# Round trips of made profiles through the two ways of printing.

_NAMES = st.text(
    st.characters(
        codec="utf-8", exclude_characters='"\r\n', exclude_categories=["Cc", "Zl", "Zp", "Cs"]
    ),
    min_size=1,
    max_size=20,
).map(lambda text: f"k{text}(int, float*)")
_NOISE = st.lists(
    st.sampled_from(["Epoch 1", "loss, 0.5, x", 'say "hi', "1,2,3", "==== x ====", "", "100%"]),
    max_size=4,
).map(lambda lines: "".join(f"{line}\n" for line in lines))
_ENCODINGS = st.sampled_from([("utf-8", "\n"), ("utf-8-sig", "\r\n"), ("utf-16", "\r\n")])
_EXAMPLES = settings(
    max_examples=examples(25),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@pytest.mark.slow
@_EXAMPLES
@given(
    kernels=st.lists(
        st.tuples(_NAMES, st.integers(0, 10**12), st.integers(1, 10**9), st.integers(1, 2**31 - 1)),
        min_size=1,
        max_size=8,
    ),
    units=st.tuples(st.sampled_from(["s", "ms", "us", "ns"]), st.sampled_from(["ms", "us", "ns"])),
    noise=_NOISE,
    written=_ENCODINGS,
)
def test_nvprof_round_trip(
    tmp_path: Path,
    kernels: list[tuple[str, int, int, int]],
    units: tuple[str, str],
    noise: str,
    written: tuple[str, str],
) -> None:
    start_unit, duration_unit = (NVPROF_UNITS[unit].factor for unit in units)
    rows = [
        f"{start / start_unit:.6f},{duration / duration_unit:.6f},{grid},1,1,32,1,1,24,0.0,0,,,,,"
        f'"V (0)","1","7","{name}",{number}\n'
        for number, (name, start, duration, grid) in enumerate(kernels)
    ]
    text = noise + TRACE_HEADER.replace("ms,us", ",".join(units)) + noise.join(rows)
    trace = Trace(NVPROF_CSV, _write(tmp_path / "out", text, *written))
    found = [(k["name"], k["grid_x"], k["correlation_id"]) for k in trace["kernel"]]
    assert found == [(name, grid, i) for i, (name, _, _, grid) in enumerate(kernels)]
    for kernel, (_, start, duration, _) in zip(trace["kernel"], kernels, strict=True):
        assert abs(kernel["start_ns"] - start) <= max(1, 0.51e-6 * start_unit)
        assert abs(kernel["duration_ns"] - duration) <= max(1, 0.51e-6 * duration_unit)


_PRINTED_UNITS = {
    "gpu__time_duration.sum": ["ns", "nsecond", "us", "usecond", "ms", "msecond", "s", "second"],
    "dram__bytes.sum": ["byte", "Kbyte", "Mbyte", "Gbyte", "Tbyte"],
    "dram__bytes.sum.per_second": ["byte/s", "Kbyte/second", "Mbyte/s", "Gbyte/second"],
    "gpc__cycles_elapsed.avg.per_second": ["hz", "Mhz", "Ghz", "cycle/usecond", "cycle/nsecond"],
    "smsp__inst_executed.sum": ["inst"],
    "smsp__issue_active.avg.per_cycle_active": [""],
}


@pytest.mark.slow
@_EXAMPLES
@given(
    kernels=st.lists(
        st.tuples(
            _NAMES,
            st.lists(st.none() | st.integers(0, 10**15).map(float), min_size=6, max_size=6),
        ),
        min_size=1,
        max_size=6,
    ),
    units=st.tuples(*(st.sampled_from(units) for units in _PRINTED_UNITS.values())),
    separators=st.booleans(),
    noise=_NOISE,
    written=_ENCODINGS,
)
def test_nsight_compute_round_trip(
    tmp_path: Path,
    *,
    kernels: list[tuple[str, list[float | None]]],
    units: tuple[str, ...],
    separators: bool,
    noise: str,
    written: tuple[str, str],
) -> None:
    """The raw and the details page of one profile give the values that were written."""
    style = ",.9f" if separators else ".9f"

    def printed(value: float | None, unit: str) -> str:
        return "" if value is None else format(value / ncu_unit(unit).factor, style)

    expected = {
        (number, metric): value
        for number, (_, values) in enumerate(kernels)
        for metric, value in zip(_PRINTED_UNITS, values, strict=True)
    }
    for page in (_raw_page(kernels, units, printed), _details_page(kernels, units, printed)):
        path = _write(tmp_path / "out", noise + page + noise, *written)
        trace = Trace(NSIGHT_COMPUTE_CSV, path)
        assert [k["name"] for k in trace["kernel"]] == [name for name, _ in kernels]
        assert [k["duration_ns"] for k in trace["kernel"]] == [values[0] for _, values in kernels]
        found = {(m["kernel_id"], m["metric"]): m["value"] for m in trace["kernel_metric"]}
        assert found == {key: pytest.approx(value, abs=1e4) for key, value in expected.items()}


def _raw_page(
    kernels: list[tuple[str, list[float | None]]],
    units: tuple[str, ...],
    printed: Callable[[float | None, str], str],
) -> str:
    out = io.StringIO()
    writer = csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerow(["ID", "Process ID", "Kernel Name", "Context", *_PRINTED_UNITS])
    writer.writerow(["", "", "", "", *units])
    for number, (name, values) in enumerate(kernels):
        cells = [printed(value, unit) for value, unit in zip(values, units, strict=True)]
        writer.writerow([number, 42, name, 1, *cells])
    return out.getvalue()


def _details_page(
    kernels: list[tuple[str, list[float | None]]],
    units: tuple[str, ...],
    printed: Callable[[float | None, str], str],
) -> str:
    out = io.StringIO()
    writer = csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n")
    metric = ["Section Name", "Metric Name", "Metric Unit", "Metric Value", "Rule Name"]
    writer.writerow(["ID", "Process ID", "Kernel Name", "Context", *metric])
    for number, (name, values) in enumerate(kernels):
        for metric, unit, value in zip(_PRINTED_UNITS, units, values, strict=True):
            writer.writerow([number, 42, name, 1, "S", metric, unit, printed(value, unit)])
    return out.getvalue()
