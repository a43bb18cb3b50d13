"""Files of other bytes with the same events are one trace."""

from __future__ import annotations

import gzip
import json
import shutil
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

import made_nsys
from made_kineto import kernel, launch, operator
from tbd_trace.store import Database
from tbd_trace.store.capture import CaptureFile, capture_files, in_job
from tbd_trace.store.identified_file import IngestReport

EVENTS = [operator("aten::mm", 1, 20), launch(2, 1), kernel(30, correlation=1)]


def database(directory: Path) -> Database:
    return Database(directory / "x.duckdb")


def ingest(traces: Database, path: Path) -> IngestReport:
    (report,) = traces.ingest([path])
    return report


def export(path: Path, kernels: int = 3, **values: int) -> Path:
    rows = [made_nsys.kernel(start=20 * i, end=20 * i + 10, **values) for i in range(kernels)]
    return made_nsys.write(path, {"StringIds": made_nsys.strings(), made_nsys.KERNEL: rows})


def torch_trace(path: Path, **header: object) -> Path:
    path.write_text(json.dumps({"schemaVersion": 1, **header, "traceEvents": EVENTS}))
    return path


@pytest.mark.slow
def test_an_export_that_another_tool_has_indexed(tmp_path: Path) -> None:
    traces, original = database(tmp_path), export(tmp_path / "a.sqlite")
    indexed = Path(shutil.copy(original, tmp_path / "b.sqlite"))
    with sqlite3.connect(indexed) as file:
        # An index from which all columns of a query can be read, in another order.
        file.execute(
            f'CREATE INDEX by_end ON {made_nsys.KERNEL}("end" DESC, start, correlationId, streamId)'
        )
        file.execute("CREATE TABLE notes_of_a_tool(text)")
    file.close()
    first, second = ingest(traces, original), ingest(traces, indexed)
    assert (second.status, second.trace_id, second.name) == (
        "already there", first.trace_id, "a.sqlite",
    )  # fmt: skip
    assert (second.kernels, second.notes[-1]) == (3, "b.sqlite has the same events")
    assert traces.trace_ids() == [first.trace_id]


@pytest.mark.slow
def test_a_compressed_copy_takes_the_name_that_the_user_gave(tmp_path: Path) -> None:
    traces, original = database(tmp_path), torch_trace(tmp_path / "a.json")
    packed = tmp_path / "b.json.gz"
    packed.write_bytes(gzip.compress(original.read_bytes()))
    first = ingest(traces, original)
    (file,) = capture_files(packed)
    (report,) = traces.ingest_files([replace(file, name="baseline", is_named=True)])
    assert (report.status, report.trace_id, report.name) == ("labelled", first.trace_id, "baseline")
    assert traces.traces()["name"].to_list() == ["baseline"]


@pytest.mark.slow
@pytest.mark.parametrize("changed", ["kernels", "streamId", "end"])
def test_other_events_are_another_trace(tmp_path: Path, changed: str) -> None:
    """A kernel more, and a stream or an end in one row that no other column repeats."""
    traces = database(tmp_path)
    ingest(traces, export(tmp_path / "a.sqlite"))
    other = export(tmp_path / "b.sqlite", kernels=4 if changed == "kernels" else 3)
    if changed != "kernels":
        with sqlite3.connect(other) as file:
            file.execute(
                f'UPDATE {made_nsys.KERNEL} SET "{changed}" = "{changed}" - 1 WHERE start = 20'
            )
        file.close()
    assert ingest(traces, other).status == "ingested"
    assert len(traces.trace_ids()) == 2


@pytest.mark.slow
def test_ranks_of_a_job_and_captures_stay_apart(tmp_path: Path) -> None:
    traces = database(tmp_path)
    files = [torch_trace(tmp_path / f"{name}.json", note=name) for name in "abcd"]
    alone = CaptureFile(files[0], "a.json")
    ranks = [in_job(CaptureFile(path, path.name), "job") for path in files[1:3]]
    capture = CaptureFile(files[3], "d.json", salt="metadata of the capture")
    reports = traces.ingest_files([alone, *ranks, capture])
    assert [report.status for report in reports] == ["ingested"] * 4
    assert len(traces.trace_ids()) == 4


def test_a_damaged_trace_does_not_stop_an_ingest(tmp_path: Path) -> None:
    traces, original = database(tmp_path), export(tmp_path / "a.sqlite")
    first = ingest(traces, original)
    other = Path(shutil.copy(original, tmp_path / "b.sqlite"))
    with sqlite3.connect(other) as file:
        file.execute("CREATE TABLE notes_of_a_tool(text)")
    file.close()
    kernels = traces.traces_directory / first.trace_id / "kernel.parquet"
    content = bytearray(kernels.read_bytes())
    content[len(content) // 2] ^= 1
    kernels.write_bytes(content)
    assert ingest(Database(traces.path), other).status == "ingested"
