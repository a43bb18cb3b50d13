"""The sample capture read with the standard library alone: what the worked answers start from.

Nothing of tbd-trace is used here. Ranges, layers, phases and iterations are found by looking at
every range for every launch, which is slow and hard to get wrong.
"""

from __future__ import annotations

import csv
import hashlib
import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, TypeAlias

CAPTURE = Path(__file__).resolve().parents[2] / "data" / "samples" / "synthetic_cnn"
PID, DEVICE, GPU = 4242, 0, "NVIDIA A100-SXM4-40GB"
DOMAIN = "tbd_trace"
PUSH_POP = 59  # NVTX event type
ID_BITS = 24  # nsys packs process and thread number into one key

Row: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Call:
    """A CUDA call on the host, times in ns."""

    name: str
    start: int
    end: int
    tid: int


@dataclass(frozen=True)
class Range:
    """An NVTX push/pop range, numbered by its place in the file, times in ns."""

    number: int
    text: str
    start: int
    end: int
    tid: int


@dataclass(frozen=True)
class Operation:
    """A kernel, copy or fill on the GPU, times in ns, and what the launch around it tells."""

    kind: str
    name: str
    start: int
    end: int
    correlation: int
    launch: Call
    ranges: tuple[Range, ...]  # around the launch on its thread, outermost first
    iteration: int
    details: dict[str, Any]  # the row of the file

    @property
    def duration(self) -> int:
        return self.end - self.start

    @property
    def shape(self) -> tuple[str, str]:
        """Grid and block of a kernel, x y z."""
        grid, block = (
            " ".join(str(self.details[f"{what}{axis}"]) for axis in "XYZ")
            for what in ("grid", "block")
        )
        return grid, block

    @cached_property
    def layer(self) -> str | None:
        """The layer whose forward or backward range is innermost around the launch."""
        return next((_after_colon(r) for r in reversed(self.ranges) if _is_layer(r)), None)

    @cached_property
    def layer_evidence(self) -> str | None:
        text = next((r.text for r in reversed(self.ranges) if _is_layer(r)), None)
        return text and ("nvtx backward" if text.startswith("layer_backward:") else "nvtx")

    @cached_property
    def phase(self) -> str | None:
        if self.layer_evidence == "nvtx backward":
            return "backward"
        phases = [_after_colon(r) for r in self.ranges if r.text.startswith("phase:")]
        return phases[-1] if phases else None


def _is_layer(r: Range) -> bool:
    return r.text.startswith(("layer:", "layer_backward:"))


def _after_colon(r: Range) -> str:
    return r.text.split(":", 1)[1]


class Timeline:
    """The nsys SQLite file."""

    path = CAPTURE / "timeline.sqlite"

    def __init__(self) -> None:
        self._connection = sqlite3.connect(f"file:{self.path}?mode=ro", uri=True)
        self._connection.row_factory = sqlite3.Row
        self._strings: dict[int, str] = {r["id"]: r["value"] for r in self.rows("StringIds")}
        self._calls = {
            r["correlationId"]: Call(
                self._strings[r["nameId"]], r["start"], r["end"], _tid(r["globalTid"])
            )
            for r in self.rows("CUPTI_ACTIVITY_KIND_RUNTIME")
        }
        self.calls = sorted(self._calls.values(), key=lambda call: call.start)
        self.ranges = [
            Range(r["rowid"], r["text"] or self._strings[r["textId"]], r["start"], r["end"],
                  _tid(r["globalTid"]))
            for r in self.rows("NVTX_EVENTS") if r["eventType"] == PUSH_POP
        ]  # fmt: skip
        self.iterations = [r for r in self.ranges if r.text.startswith("iteration ")]
        self.operations = sorted(self._operations(), key=lambda operation: operation.start)
        self.kernels = [operation for operation in self.operations if operation.kind == "kernel"]
        self.gpu = self.rows("TARGET_INFO_GPU")[0]
        self.counts = {
            r["name"]: len(self.rows(r["name"]))
            for r in self._connection.execute("SELECT name FROM sqlite_master")
        }
        self.export = {r["name"]: r["value"] for r in self.rows("EXPORT_META_DATA")}
        self.threads = {
            _tid(r["globalTid"]): self._strings[r["nameId"]] for r in self.rows("ThreadNames")
        }
        self.memory_kinds = {r["id"]: r["label"] for r in self.rows("ENUM_CUDA_MEM_KIND")}
        self._connection.close()

    def rows(self, table: str) -> list[dict[str, Any]]:
        rows = self._connection.execute(f"SELECT rowid, * FROM {table} ORDER BY rowid")
        return [dict(row) for row in rows]

    def around(self, start: int, end: int, tid: int) -> list[Range]:
        """Return the ranges of a thread that hold a span of it, outermost first."""
        found = [r for r in self.ranges if r.tid == tid and r.start <= start and end <= r.end]
        return sorted(found, key=lambda r: r.start - r.end)

    def _operations(self) -> Iterator[Operation]:
        for row in self.rows("CUPTI_ACTIVITY_KIND_KERNEL"):
            yield self._operation("kernel", self._strings[row["demangledName"]], row)
        for row in self.rows("CUPTI_ACTIVITY_KIND_MEMCPY"):
            direction = {1: "HtoD", 2: "DtoH"}[row["copyKind"]]
            yield self._operation("memcpy", f"[CUDA memcpy {direction}]", row)
        for row in self.rows("CUPTI_ACTIVITY_KIND_MEMSET"):
            yield self._operation("memset", "[CUDA memset]", row)

    def _operation(self, kind: str, name: str, row: dict[str, Any]) -> Operation:
        launch = self._calls[row["correlationId"]]
        # The autograd thread has no iteration ranges: time tells which iteration launched.
        (iteration,) = (i for i, r in enumerate(self.iterations) if r.start <= launch.start < r.end)
        return Operation(
            kind,
            name,
            row["start"],
            row["end"],
            row["correlationId"],
            launch,
            tuple(self.around(launch.start, launch.end, launch.tid)),
            iteration,
            row,
        )


def _tid(key: int) -> int:
    return key % (1 << ID_BITS)


class Counters:
    """The raw page of Nsight Compute: a row per kernel of one iteration."""

    path = CAPTURE / "metrics.csv"

    def __init__(self) -> None:
        with self.path.open(newline="", encoding="utf-8") as file:
            self.units, *self.rows = csv.DictReader(file)
        self._by_launch: dict[tuple[str, str, str], list[dict[str, str]]] = defaultdict(list)
        for row in self.rows:
            grid, block = (
                " ".join(row[f"launch__{what}_dim_{axis}"] for axis in "xyz").replace(",", "")
                for what in ("grid", "block")
            )
            self._by_launch[row["Kernel Name"], grid, block].append(row)
        self._rows: dict[int, dict[str, str]] = {}
        turn: dict[tuple[str, str, str], int] = defaultdict(int)
        for kernel in timeline().kernels:
            launch = (kernel.name, *kernel.shape)
            if rows := self._by_launch.get(launch):
                self._rows[kernel.correlation] = rows[turn[launch] % len(rows)]
                turn[launch] += 1

    def value(self, kernel: Operation, metric: str) -> float | None:
        """Return what was counted for a kernel: executions of one launch take turns."""
        row = self._rows.get(kernel.correlation)
        return None if row is None else number(row[metric])


def number(text: str) -> float:
    """Return a number as Nsight Compute prints it."""
    return float(text.replace(",", ""))


@cache
def timeline() -> Timeline:
    return Timeline()


@cache
def counters() -> Counters:
    return Counters()


@cache
def capture() -> dict[str, Any]:
    content: dict[str, Any] = json.loads((CAPTURE / "capture.json").read_text(encoding="utf-8"))
    return content


@cache
def layers() -> dict[str, dict[str, Any]]:
    content = json.loads((CAPTURE / "layers.json").read_text(encoding="utf-8"))
    return {layer["name"]: layer for layer in content["layers"]}


def sha256(*paths: Path) -> str:
    return hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()


@cache
def trace_id(path: Path) -> str:
    """Return the id of a file of the capture: of its content and of the capture's metadata."""
    metadata = sha256(CAPTURE / "capture.json", CAPTURE / "layers.json")
    return hashlib.sha256((sha256(path) + metadata).encode()).hexdigest()[:12]


def row(**columns: Any) -> Row:
    """Return a row about the timeline."""
    return {"trace_id": trace_id(Timeline.path), **columns}
