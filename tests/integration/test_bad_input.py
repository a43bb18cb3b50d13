"""Everything that can be wrong with what a user gives: one clear line, and nothing is harmed."""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from program import (
    METRICS,
    PROGRAM,
    SAMPLE,
    TIMELINE,
    Outcome,
    beside,
    changed,
    complaint,
    invoke,
    rows,
    run,
    run_powerless,
    start,
    state,
)

from tbd_trace.query import Catalogue

PAGE = 4096
CAPTURE = json.loads((SAMPLE / "capture.json").read_text())
LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 84977953\n"
REPORT = b"NVIDIA Tegra Profiler Report 1.\n" + bytes(4000)


@pytest.fixture(scope="session")
def sample_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("made") / "sample.duckdb"
    assert invoke("ingest", SAMPLE, "--db", path).code == 0
    return path


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Run in an empty directory, with a cache of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TBD_TRACE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("TBD_TRACE_DB", raising=False)
    return tmp_path


@pytest.fixture
def db(sample_database: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a database with the sample, which must be the same after the test."""
    monkeypatch.setenv("TBD_TRACE_DB", str(sample_database))
    return sample_database


def refuse(*arguments: object, code: int = 1, how: Callable[..., Outcome] = invoke) -> str:
    """Run a command that must fail and change nothing; return its complaint."""
    before = state(Path.cwd())
    line = complaint(how(*arguments), code)
    assert state(Path.cwd()) == before
    return line


# -- files that are no profiles, or no longer ----------------------------------------------------


def root_page(table: str) -> int:
    """Return the number of the page where a table of the sample begins, counted from 1."""
    with sqlite3.connect(f"file:{TIMELINE}?mode=ro", uri=True) as file:
        query = "SELECT rootpage FROM sqlite_master WHERE name = ?"
        return int(file.execute(query, [table]).fetchone()[0])


def overwritten(table: str, byte: int) -> Callable[[bytes], bytes]:
    begin = (root_page(table) - 1) * PAGE
    return lambda data: data[:begin] + bytes([byte]) * PAGE + data[begin + PAGE :]


DAMAGE: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "empty": (lambda _: b"", "empty file"),
    "a text": (lambda _: b"hello world\n", "not a profile that tbd-trace knows; expected"),
    "zeros": (bytes, "only zeros"),
    "zeros for lengths": (lambda data: bytes(len(data)), "only zeros"),
    "a Git LFS pointer": (lambda _: LFS, "run `git lfs pull`"),
    "gzip": (lambda _: b"\x1f\x8b\x08" + bytes(50), "unpack it first"),
    "a ZIP archive": (lambda _: b"PK\x03\x04" + bytes(50), "unpack it first"),
    "an Nsight Compute report": (lambda _: b"NVR\x00" + bytes(50), "ncu --import FILE --csv"),
    "the header alone": (lambda data: data[:100], "100 of 159,744 bytes"),
    "the first half": (lambda data: data[: len(data) // 2], "79,872 of 159,744 bytes"),
    "all but the last page": (lambda data: data[:-PAGE], "155,648 of 159,744 bytes"),
    "all but the last byte": (lambda data: data[:-1], "159,743 of 159,744 bytes"),
    "zeros after the header": (lambda data: data[:100] + bytes(len(data) - 100), "damaged"),
    "noise": (lambda data: data[:16] + random.Random(1).randbytes(20_000), "damaged"),
    "no schema": (overwritten("sqlite_schema", 0) if False else lambda d: d, "")
}
