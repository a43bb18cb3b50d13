"""Databases and JSON of rocprofv3 become the records that were written, to the nanosecond."""

from __future__ import annotations

import gzip
import json
import re
import sqlite3
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest
from typer.testing import CliRunner

import made_rocprof as made
import tbd_trace
from corpus import corpus_file
from tbd_trace.archive.leak_scan import leaks
from tbd_trace.cli.main import app
from tbd_trace.errors import InputError
from tbd_trace.sources.registry import identify

REAL = "kineto/AMD-AGI_TraceLens__tests__rocprof__908_results.json.gz"
Write = Callable[[Path, made.Recording], Path]


def old_schema(folder: Path, recording: made.Recording) -> Path:
    return made.write_database(folder / "a_results.db", recording)


def new_schema(folder: Path, recording: made.Recording) -> Path:
    return made.write_database(folder / "b_results.db", recording, has_tracks=True)


def plain_json(folder: Path, recording: made.Recording) -> Path:
    return made.write_json(folder / "c_results.json", made.document(recording))


def packed_json(folder: Path, recording: made.Recording) -> Path:
    return made.write_json(folder / "d_results.json.gz", made.document(recording))


FORMATS = [old_schema, new_schema, plain_json, packed_json]


def rows(path: Path, table: str, columns: str) -> list[tuple[Any, ...]]:
    """Return columns of the rows of a canonical table, in the order of their times."""
    with identify(path).open(path) as reader, duckdb.connect() as connection:
        select = reader.relation(connection, table)
        if select is None:
            return []
        return connection.execute(f"SELECT {columns} FROM ({select}) ORDER BY ALL").fetchall()


def launching(recording: made.Recording, call: int) -> int:
    # A dispatch that HSA made inside of HIP is HIP's.
    return next(each.parent or each.call for each in recording.calls if each.call == call)


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("write", FORMATS)
def test_kernels_are_those_written(tmp_path: Path, write: Write, seed: int) -> None:
    recording = made.drawn(seed)
    columns = (
        "start_ns, end_ns, duration_ns, name, short_name, mangled_name, device_id, stream_id, "
        "process_id, correlation_id, [grid_x, grid_y, grid_z], [block_x, block_y, block_z], "
        "registers_per_thread, static_shared_bytes, dynamic_shared_bytes, local_bytes_per_thread"
    )
    expected = []
    for run in recording.dispatches:
        symbol, shown, group, vector, accumulation = made.SYMBOLS[run.kernel]
        is_gemm = run.kernel == 7
        expected.append((
            run.start, run.end, run.end - run.start, shown, "gemm" if is_gemm else shown,
            symbol.removesuffix(".kd") if is_gemm else None, run.gpu, run.stream, made.PID,
            launching(recording, run.call),
            [items // size for items, size in zip(run.items, run.block, strict=True)],
            list(run.block), vector + accumulation, group, run.group - group, run.private,
        ))  # fmt: skip
    assert rows(write(tmp_path, recording), "kernel", columns) == sorted(expected)


@pytest.mark.parametrize("write", FORMATS)
def test_copies_are_those_written(tmp_path: Path, write: Write) -> None:
    recording = made.drawn(3)
    expected = []
    for copy in recording.copies:
        is_peer = copy.kind == 3 and copy.source != copy.target
        direction = ("", "HtoD", "DtoH", "PtoP" if is_peer else "DtoD")[copy.kind]
        device = copy.target if copy.source is None else copy.source
        expected.append(
            (copy.start, copy.end, copy.bytes, direction, device, copy.stream, copy.call)
        )
    assert {row[3] for row in expected} == {"HtoD", "DtoH", "DtoD", "PtoP"}
    columns = "start_ns, end_ns, bytes, direction, device_id, stream_id, correlation_id"
    assert rows(write(tmp_path, recording), "memcpy", columns) == sorted(expected)


@pytest.mark.parametrize("write", FORMATS)
def test_calls_and_markers_are_those_written(tmp_path: Path, write: Write) -> None:
    recording = made.drawn(4)
    path = write(tmp_path, recording)
    calls = [each for each in recording.calls if each.category[:3] in ("HIP", "HSA")]
    columns = "start_ns, end_ns, name, correlation_id, process_id, thread_id, api"
    assert rows(path, "api_call", columns) == sorted(
        (c.start, c.end, c.name, c.call, made.PID, made.PID, "cuda") for c in calls
    )
    kinds = {"roctxRangePushA": "push_pop", "roctxMarkA": "mark", "ncclAllReduce": "push_pop"}
    others = [each for each in recording.calls if each not in calls]
    columns = "start_ns, end_ns, kind, text, coalesce(domain, ''), thread_id, source"
    assert rows(path, "annotation", columns) == sorted(
        (c.start, c.end, kinds[c.name], c.message or c.name, "" if c.message else "RCCL",
         made.PID, "nvtx")
        for c in others
    )  # fmt: skip


@pytest.mark.parametrize("write", FORMATS)
def test_devices_processes_and_threads(tmp_path: Path, write: Write) -> None:
    path = write(tmp_path, made.drawn(5, 2))
    columns = (
        "device_id, name, sm_count, clock_hz, max_threads_per_block, max_warps_per_sm, "
        "max_shared_bytes_per_sm, process_id"
    )
    model = ("AMD Instinct MI300X", 304, 2_100_000_000, 1024, 32, 65_536, None)
    assert rows(path, "device", columns) == [(0, *model), (1, *model)]
    assert rows(path, "process", "process_id, pid, name") == [(made.PID, made.PID, "python")]
    name = "main" if path.suffix == ".db" else None
    assert rows(path, "thread", "thread_id, tid, name") == [(made.PID, made.PID, name)]


@pytest.mark.parametrize("reader", ["pages", "sqlalchemy"])
def test_recordings_of_one_database_stay_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reader: str
) -> None:
    monkeypatch.setenv("TBD_TRACE_READER", reader)
    first, second = made.drawn(6, 3), made.drawn(7, 3)
    path = made.write_database(tmp_path / "merged.db", first)
    made.write_database(path, second, uuid="_0195c0de_other", pid=77)
    found = rows(path, "kernel", "start_ns, process_id % 4294967296")
    expected = [(run.start, made.PID) for run in first.dispatches]
    assert found == sorted(expected + [(run.start, 77) for run in second.dispatches])
    assert [pid for (pid,) in rows(path, "process", "pid")] == [77, made.PID]
    assert len(rows(path, "device", "process_id, device_id")) == 2 * len(made.GPUS)


def test_partial_workgroups_count(tmp_path: Path) -> None:
    recording = made.drawn(8, 1)
    recording.dispatches[0].block, recording.dispatches[0].items = (64, 1, 1), (130, 1, 1)
    path = old_schema(tmp_path, made.Recording(recording.dispatches[:1]))
    assert rows(path, "kernel", "grid_x, block_x") == [(3, 64)]


def test_ranges_of_processes_need_not_nest(tmp_path: Path) -> None:
    calls = [
        made.Call(1, "MARKER_CORE_API", "roctxRangeStartA", 5, 100, 900, 0, "epoch"),
        made.Call(2, "MARKER_CORE_API", "roctxThreadRangeA", 5, 200, 300, 0, "step"),
        made.Call(3, "MARKER_CORE_API", "roctxGetThreadId", 5, 400, 401, 0, "roctxGetThreadId"),
        made.Call(4, "MARKER_CONTROL_API", "roctxProfilerPause", 5, 500, 501),
    ]
    path = old_schema(tmp_path, made.Recording(calls=calls))
    assert rows(path, "annotation", "text, kind") == [("epoch", "start_end"), ("step", "push_pop")]


@pytest.mark.parametrize("write", [old_schema, plain_json])
def test_a_recording_of_nothing_is_named(tmp_path: Path, write: Write) -> None:
    path = write(tmp_path, made.Recording())
    with pytest.raises(InputError, match="without kernels, copies and calls; record again") as said:
        rows(path, "kernel", "*")
    assert "\n" not in str(said.value)


@pytest.mark.parametrize("write", FORMATS)
@pytest.mark.parametrize("part", [0.3, 0.9])
def test_a_truncated_file_is_named(tmp_path: Path, write: Write, part: float) -> None:
    path = write(tmp_path, made.drawn(9))
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * part)])
    with pytest.raises(InputError, match=r"copy it again|truncated|incomplete") as said:
        rows(path, "kernel", "*")
    assert "\n" not in str(said.value)


def test_damage_inside_json_is_named(tmp_path: Path) -> None:
    path = plain_json(tmp_path, made.drawn(10))
    path.write_bytes(path.read_bytes().replace(b'"memory_copy"', b'}"memory_copy"'))
    with pytest.raises(InputError, match="damaged or incomplete JSON of rocprofv3"):
        rows(path, "kernel", "*")


def test_values_of_other_types_are_counted(tmp_path: Path) -> None:
    content = made.document(made.drawn(11, 1))
    lists = content["rocprofiler-sdk-tool"][0]["buffer_records"]
    lists["kernel_dispatch"][0]["start_timestamp"] = "soon"
    lists["kernel_dispatch"].append(5)
    path = made.write_json(tmp_path / "a.json", content)
    with identify(path).open(path) as reader, duckdb.connect() as connection:
        select = reader.relation(connection, "kernel")
        ((known, number),) = connection.execute(
            f"SELECT count(start_ns), count(*) FROM ({select})"
        ).fetchall()
        assert known == number - 1 == len(lists["kernel_dispatch"]) - 2
        assert reader.describe().notes == ["values of another type than expected: 2; NULL"]


def test_counters_are_noted(tmp_path: Path) -> None:
    database = old_schema(tmp_path, made.drawn(12, 1))
    with sqlite3.connect(database) as file:
        file.execute(f"create table rocpd_pmc_event{made.UUID} (id integer primary key)")
        file.execute(f"insert into rocpd_pmc_event{made.UUID} values (1)")
    file.close()
    content = made.document(made.drawn(12, 1))
    content["rocprofiler-sdk-tool"][0]["callback_records"]["counter_collection"] = [{}, {}]
    for path in (database, made.write_json(tmp_path / "a.json", content)):
        with identify(path).open(path) as reader, duckdb.connect() as connection:
            assert reader.relation(connection, "kernel")
            assert any("hardware counters" in note for note in reader.describe().notes)


@pytest.mark.slow
@pytest.mark.parametrize("write", [old_schema, packed_json])
def test_archives_have_no_names_of_users(tmp_path: Path, write: Write) -> None:
    recording = made.drawn(14, 3)
    recording.calls[0].message = "made by /home/gwendolyn/loop.py"
    path = write(tmp_path, recording)
    assert "source-paths" in leaks(path)["kind"].to_list()
    copy = tmp_path / "shared"
    result = CliRunner().invoke(app, ["archive", "create", str(path), "-o", str(copy)])
    assert result.exit_code == 0, result.output
    assert leaks(copy).is_empty()
    with tbd_trace.open(copy) as traces:
        texts = traces.sql("SELECT text FROM annotation")["text"].to_list()
    assert len(texts) == 9
    assert not [text for text in texts if "gwendolyn" in text]


@pytest.mark.slow
@pytest.mark.parametrize("write", [old_schema, plain_json])
def test_answers_speak_of_rocprofv3(tmp_path: Path, write: Write) -> None:
    path = write(tmp_path, made.drawn(13))
    said = ""
    for words in ("why --all", "summary", "check --verbose", "query kernel_summary"):
        result = CliRunner().invoke(app, [*words.split(), str(path)])
        assert result.exit_code in (0, 1), result.output
        said += result.output
    assert "gemm" in said
    assert "ROCTX" in said or "rocprofv3" in said
    assert "roctx range" in said
    assert re.findall(r"(?i)\bnsys\b|\bNVTX\b|Nsight|nvprof|\bncu\b", said) == []


@pytest.mark.slow
def test_a_real_file_equals_a_count_of_its_records() -> None:
    path = corpus_file(REAL)
    with gzip.open(path) as file:
        (recording,) = json.load(file)["rocprofiler-sdk-tool"]
    names = {
        each["kernel_id"]: each["formatted_kernel_name"] for each in recording["kernel_symbols"]
    }
    gpus = {each["id"]["handle"]: each["logical_node_type_id"] for each in recording["agents"]}
    expected: Counter[tuple[Any, ...]] = Counter()
    for record in recording["buffer_records"]["kernel_dispatch"]:
        info = record["dispatch_info"]
        grid, block = info["grid_size"], info["workgroup_size"]
        expected[
            record["start_timestamp"], record["end_timestamp"], names[info["kernel_id"]],
            gpus[info["agent_id"]["handle"]], record["stream_id"]["handle"],
            *(-(-grid[axis] // block[axis]) for axis in "xyz"),
        ] += 1  # fmt: skip
    columns = "start_ns, end_ns, name, device_id, stream_id, grid_x, grid_y, grid_z"
    assert Counter(rows(path, "kernel", columns)) == expected
    assert sum(expected.values()) == 43_915
