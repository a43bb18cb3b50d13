"""Files that no reader takes: the error says in one line what each is and what to do."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import json
import lzma
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from corpus import corpus_files
from made_nsys import profile, write
from made_nvprof import make
from tbd_trace.errors import InputError
from tbd_trace.machine.nsys_export import export
from tbd_trace.sources.registry import identify

EXPORT = "nsys export --type sqlite --force-overwrite true"


def refusal(path: Path) -> str:
    """Return what is said about a file that no reader takes, or that cannot be opened."""
    with pytest.raises(InputError) as refused:
        identify(path).open(path)
    (line,) = str(refused.value).splitlines()
    assert line.startswith(f"{path}: ")
    return line.removeprefix(f"{path}: ")


def database(path: Path, tables: Sequence[str]) -> Path:
    with sqlite3.connect(path) as file:
        for name in tables:
            file.execute(f'CREATE TABLE "{name}" (id INTEGER, value TEXT)')
    file.close()
    return path


@pytest.mark.parametrize(
    "tables",
    [
        [],
        ["StringIds"],
        ["StringIds", "ProcessStreams"],
        ["META_DATA_EXPORT"],
        ["ENUM_NSYS_EVENT_TYPE", "ENUM_CUDA_MEMCPY_OPER"],
        ["CUPTI_ACTIVITY_KIND_KERNEL", "NVTX_EVENTS"],  # and no texts
    ],
)
def test_an_export_that_stopped_early(tmp_path: Path, tables: list[str]) -> None:
    line = refusal(database(tmp_path / "x.sqlite", tables))  # without tables, an empty file
    assert "incomplete" in line
    assert EXPORT in line


@pytest.mark.parametrize("kept", [0, 100, 0.5, 0.999])
def test_an_export_that_is_cut(tmp_path: Path, kept: float) -> None:
    path = write(tmp_path / "x.sqlite", profile())
    data = path.read_bytes()
    path.write_bytes(data[: kept if isinstance(kept, int) else int(len(data) * kept)])
    assert EXPORT in refusal(path)


@pytest.mark.parametrize("zeros", [16, 100, 4096])
def test_an_export_whose_header_is_zeros(tmp_path: Path, zeros: int) -> None:
    path = write(tmp_path / "x.sqlite", profile())
    path.write_bytes(bytes(zeros) + path.read_bytes()[zeros:])
    line = refusal(path)
    assert "zeros" in line
    assert "interrupted" in line
    assert EXPORT in line


def test_an_incomplete_database_of_nvprof(tmp_path: Path) -> None:
    line = refusal(make(tmp_path / "x.nvvp", [], {}))
    assert "an incomplete database of nvprof" in line
    assert "nvprof -o" in line


def test_a_database_of_dlprof(tmp_path: Path) -> None:
    tables = ["aggregations", "db_version", "read_only_kernels", "read_only_ops"]
    assert "ingest the profile that DLProf wrote" in refusal(
        database(tmp_path / "x.sqlite", tables)
    )


def test_another_database(tmp_path: Path) -> None:
    line = refusal(database(tmp_path / "x.sqlite", ["a", "b", "c", "d"]))
    assert "a SQLite database but not a known profile (tables: a, b, c, …)" in line


CHROME = [{"ph": "X", "cat": "own", "name": "x", "ts": 1, "dur": 2}]


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize(
    ("content", "said"),
    [
        (CHROME, "Chrome's JSON format"),
        ({"traceEvents": CHROME}, "Chrome's JSON format"),
        ({"schema": "1.1.0-chakra.0.0.4", "pid": 1, "nodes": []}, "an execution trace"),
    ],
)
def test_json(tmp_path: Path, content: Any, indent: int | None, said: str) -> None:
    text = json.dumps(content, indent=indent).encode()
    path = tmp_path / "trace.json"
    path.write_bytes(text)
    assert refusal(path).startswith(said if said.startswith("a") else "a trace in " + said)
    for program, pack in (("gzip", gzip.compress), ("bzip2", bz2.compress), ("xz", lzma.compress)):
        path.write_bytes(pack(text))
        line = refusal(path)
        assert line.startswith(f"compressed with {program}: a")
        assert said in line
        assert "unpack" not in line  # that would not help


def test_something_compressed_may_be_a_profile(tmp_path: Path) -> None:
    path = write(tmp_path / "x.sqlite", profile())
    path.write_bytes(gzip.compress(path.read_bytes()))
    assert refusal(path) == "compressed with gzip; unpack it first"
    path.write_bytes(b"\x28\xb5\x2f\xfd" + bytes(9))
    assert refusal(path) == "compressed with zstd; unpack it first"


def test_a_session_of_the_visual_profiler(tmp_path: Path) -> None:
    path = tmp_path / "x.nvvp"
    path.write_bytes(b'<?xml version="1.0"?><session/>')
    line = refusal(path)
    assert "a session of the Visual Profiler, which only that program can read" in line
    assert "nvprof -o FILE" in line


def test_what_nsys_stats_printed(tmp_path: Path) -> None:
    path = tmp_path / "sum.csv"
    path.write_text("Time (%),Total Time (ns),Instances,Name\n50.0,1000,1,gemm\n")
    assert "aggregates printed by `nsys stats`" in refusal(path)


@pytest.mark.parametrize(
    ("magic", "step"),
    [(b"NVIDIA Tegra Profiler Report", "run"), (b"NVIDIA Nsight Systems Stream", "QdstrmImporter")],
)
def test_a_report_without_nsys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, magic: bytes, step: str
) -> None:
    path = tmp_path / "x.nsys-rep"
    path.write_bytes(magic + bytes(100))
    monkeypatch.setattr("tbd_trace.machine.nsys_install.find", lambda: None)
    with pytest.raises(InputError, match="on PATH") as refused:
        export(path, tmp_path / "x.sqlite")
    assert "\n" not in str(refused.value)
    assert step in str(refused.value)
    assert "nsys export --type sqlite" in str(refused.value)


def test_a_database_of_rpd(tmp_path: Path) -> None:
    path = tmp_path / "trace.rpd"
    with contextlib.closing(sqlite3.connect(path)) as file:
        for name in ("api", "op", "metadata", "string"):
            file.execute(f"create table rocpd_{name} (id integer)")
    assert "a database of RPD (rocmProfileData)" in refusal(path)
    assert "rocprofv3 --sys-trace" in refusal(path)


NOT_READ = corpus_files("kineto/*_et.json.gz", "kineto/siwaarbn*", "jobs/*/*et*.gz")


@pytest.mark.parametrize("path", NOT_READ)
def test_real_files_of_other_profilers(path: Path) -> None:
    """None is taken for something else; each is named."""
    line = refusal(path)
    assert any(name in line for name in ("Chrome's JSON format", "an execution trace"))
