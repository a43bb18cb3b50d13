"""Define the measured commands in groups; the first command of a group is the reference."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from benchmarks.claims import WHY
from tbd_trace import resources
from tbd_trace.machine import nsys_install
from tbd_trace.sources.nsys.columns import DETAILS, EVENTS

_HERE = Path(__file__).resolve().parent
_TBD = (sys.executable, "-m", "tbd_trace")
# Rules of the expert system about CUDA.
_RULES = "cuda-async-memcpy,cuda-sync-api,cuda-sync-memcpy,cuda-sync-memset,gpu-low-util,gpu-starv"
_PROGRAM = str(Path(sys.executable).with_name("tbd-trace"))


@dataclass(frozen=True, slots=True)
class Subject:
    """A command to measure."""

    name: str  # in the tables
    command: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)
    prepare: Callable[[], None] = lambda: None  # before each run, not timed
    lacks: str = ""  # why it cannot be measured here, or empty


class Subjects:
    """The commands for one Nsight Systems export.

    They write below ``scratch``; preparing a run may take ``limit_s`` seconds.
    """

    def __init__(self, file: Path, scratch: Path, limit_s: float) -> None:
        self._file = str(file)
        self._output = scratch / "output"
        self._warm = {"TBD_TRACE_CACHE": str(scratch / "warm")}
        self._warmed: set[tuple[str, ...]] = set()
        self._limit_s = limit_s
        self._copy = scratch / "nsys-ai" / file.name
        self._columns = scratch / "columns.json"
        self._columns.write_text(json.dumps(_columns()), encoding="utf-8")

    def groups(self) -> dict[str, list[Subject]]:
        """Return the groups by name."""
        return {
            "ingest": self._ingest(),
            "kernel summary, cold": [
                self._nsys("stats", "--report", "gpukernsum"),
                self._cold("kernel_summary"),
            ],
            "range summary, cold": [
                self._nsys("stats", "--report", "nvtxsum"),
                self._cold("nvtx_summary"),
            ],
            "range projection, cold": [
                self._nsys("stats", "--report", "nvtxgpuproj"),
                self._cold("nvtx_projection"),
            ],
            "attribution": [
                self._scan("SQLite's own scan, again"),
                self._underived("nvtx_gpu_time"),
            ],
            "layer breakdown": [
                self._nsys_ai("skill", "run", "nvtx_layer_breakdown"),
                self._cold("nvtx_gpu_time"),
                self._cold("layer_time"),
                self._warm_query("layer_time"),
            ],
            "why": [
                self._underived("step_breakdown"),
                self._without_derived(WHY, (*_TBD, "why", self._file, "--format", "json")),
                self._nsys_ai("diagnose"),
                self._nsys("analyze", "--rule", _RULES),
            ],
            "start-up": [
                Subject("tbd-trace --help", (_PROGRAM, "--help")),
                Subject("tbd-trace query --list", (_PROGRAM, "query", "--list")),
            ],
            "metrics, warm": [self._warm_query(name) for name in resources.sql_files("metrics")],
        }

    def _ingest(self) -> list[Subject]:
        database = ("--db", str(self._output / "bench.duckdb"))
        ingest = (*_TBD, "ingest", self._file, *database)
        ordinary = {"TBD_TRACE_READER": "sqlalchemy"}
        return [
            self._scan("SQLite's own scan"),
            Subject("tbd-trace ingest", ingest, prepare=self._empty),
            Subject("tbd-trace ingest, SQLAlchemy", ingest, ordinary, self._empty),
            self._rival("ADBC", "adbc", "adbc_to_parquet.py"),
            self._rival("DuckDB's sqlite scanner", "duckdb", "scanner_to_parquet.py"),
            self._rival(
                "DuckDB's sqlite scanner, rows in any order",
                "duckdb",
                "scanner_to_parquet.py",
                "any",
            ),
        ]

    def _scan(self, name: str) -> Subject:
        script = str(_HERE / "rivals" / "scan.py")
        return Subject(name, (sys.executable, script, self._file, str(self._columns)))

    def _rival(self, name: str, environment: str, script: str, *options: str) -> Subject:
        python = _HERE / ".venvs" / environment / "bin" / "python"
        path = str(_HERE / "rivals" / script)
        command = (str(python), path, self._file, str(self._columns), str(self._output))
        return Subject(name, (*command, *options), prepare=self._empty, lacks=_lacks(python))

    def _nsys(self, command: str, option: str, names: str) -> Subject:
        installation = nsys_install.find()
        return Subject(
            f"nsys {command} {names.replace(',', ', ')}",
            (
                "nsys",
                command,
                "--quiet",
                option,
                names,
                "--format",
                "csv",
                "--output",
                "-",
                self._file,
            ),
            {} if installation is None else installation.environment(),
            lacks="" if installation is not None else "nsys is not installed",
        )

    def _nsys_ai(self, *command: str) -> Subject:
        program = _HERE / ".venvs" / "nsys-ai" / "bin" / "nsys-ai"
        home = {"HOME": str(_HERE / ".venvs" / "home")}
        return Subject(
            f"nsys-ai {command[-1]}, cold",
            (str(program), *command, str(self._copy)),
            home,
            self._fresh_copy,
            _lacks(program),
        )

    def _query(self, query: str) -> tuple[str, ...]:
        return (*_TBD, "query", query, self._file, "--format", "csv")

    def _cold(self, query: str) -> Subject:
        command = self._query(query)
        environment = {"TBD_TRACE_CACHE": str(self._output)}
        return Subject(f"tbd-trace query {query}, cold", command, environment, self._empty)

    def _warm_query(self, query: str) -> Subject:
        command = self._query(query)
        return Subject(
            f"tbd-trace query {query}, warm", command, self._warm, lambda: self._warm_up(command)
        )

    def _underived(self, query: str) -> Subject:
        return self._without_derived(f"tbd-trace query {query}, ingested", self._query(query))

    def _without_derived(self, name: str, command: tuple[str, ...]) -> Subject:
        # The file stays ingested, but the relations derived from it are removed before each run.
        def forget() -> None:
            self._warm_up(command)
            for derived in Path(self._warm["TBD_TRACE_CACHE"]).glob("*/derived"):
                shutil.rmtree(derived)

        return Subject(name, command, self._warm, forget)

    def _warm_up(self, command: tuple[str, ...]) -> None:
        # A first run ingests the file and derives all relations that the query needs.
        if command not in self._warmed:
            self._warmed.add(command)
            with contextlib.suppress(subprocess.TimeoutExpired):
                environment = {**os.environ, **self._warm}
                subprocess.run(
                    command,
                    env=environment,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    timeout=self._limit_s,
                    check=False,
                )

    def _empty(self) -> None:
        shutil.rmtree(self._output, ignore_errors=True)
        self._output.mkdir(parents=True)

    def _fresh_copy(self) -> None:
        # nsys-ai writes its cache beside the file; a fresh copy has none.
        shutil.rmtree(self._copy.parent, ignore_errors=True)
        self._copy.parent.mkdir(parents=True)
        shutil.copyfile(self._file, self._copy)


def _lacks(program: Path) -> str:
    return "" if program.exists() else "not installed (benchmarks/rivals/install.sh)"


def _columns() -> dict[str, dict[str, str]]:
    # SQLite types of the columns that ingest reads, by table.
    kinds = {pa.int64(): "integer", pa.float64(): "real", pa.string(): "text"}
    return {
        table: {name: kinds[kind] for name, kind in columns.items()}
        for table, columns in {**EVENTS, **DETAILS}.items()
    }
