"""Parse the tables that nccl-tests prints, one or several in a log."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from tbd_trace.errors import InputError

_START = re.compile(r"# nThread \d+ nGpus \d+ minBytes \d+")
# Written before each line by `mpirun --tag-output` and by `srun --label`.
_TAG = re.compile(r"^\s*(?:\[\d+,\d+\]<std\w+>:|\d+: )?\s*")
_VERSION = re.compile(r"# [nr]ccl-tests version (\S+)")
_NAME = re.compile(r"# Collective test starting: (\w+?)_perf")
_RANK = re.compile(r"#\s+Rank\s+\d+ .*Pid\s+\d+ on\s+(\S+) device\s+\d+ \[\S+\]\s*(.*)")
_COLUMNS = re.compile(r"#\s+size\s+count\s+type\s.*\bbusbw\b")
_ROW = re.compile(r"\d+\s+\d+\s+[A-Za-z]\w*\s")
_END = re.compile(r"# Out of bounds values : (\d+) (OK|FAILED)\b")
_PLACEMENTS = re.compile(r"\b(out-of-place|in-place)\b")
_KINDS = (
    *("all_reduce", "reduce_scatter", "all_gather", "all_to_all", "broadcast", "send_recv"),
    *("scatter", "gather", "reduce"),
)
_PROGRAMS = {"alltoall": "all_to_all", "sendrecv": "send_recv", "hypercube": None}
_AGAIN = "run the test again"


@dataclass(slots=True)
class _Test:
    kind: str | None
    hosts: list[str] = field(default_factory=list)
    devices: set[str] = field(default_factory=set)
    placements: list[str] = field(default_factory=list)
    columns: list[str] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)
    is_complete: bool = False


def is_log(head: bytes) -> bool:
    """Return True if the beginning of a file has the first line of a test."""
    return bool(_START.search(head.decode("utf-8", "replace")))


def read_log(path: Path) -> tuple[str | None, list[dict[str, Any]]]:
    """Return the version of the program, and rows of ``link_sample``.

    Raises:
        InputError: the log ends early, or a test found wrong values.
    """
    version, name = None, None
    tests: list[_Test] = []
    for number, line in _lines(path):
        if match := _VERSION.match(line):
            version = match[1]
        elif match := _NAME.match(line):
            name = match[1]
        elif _START.match(line):
            tests.append(_Test(_kind(name)))
            name = None
        elif tests:
            _read_line(tests[-1], path, number, line)
    for test in tests:
        if not test.is_complete:
            raise InputError(
                f"{path}: the log ends before the end of a test; copy it again, or {_AGAIN}"
            )
    rows = [row for test in tests for row in _finished(test, path)]
    if not rows:
        raise InputError(f"{path}: a log of nccl-tests without a result; {_AGAIN}")
    return version, [row | {"sample_id": number} for number, row in enumerate(rows, 1)]


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    with path.open(encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, 1):
            yield number, _TAG.sub("", line).rstrip()


def _read_line(test: _Test, path: Path, number: int, line: str) -> None:
    if match := _RANK.match(line):
        test.hosts.append(match[1])
        test.devices.add(match[2])
    elif match := _END.match(line):
        if match[2] != "OK":
            _wrong(path, f"{match[1]} values out of bounds")
        test.is_complete = True
    elif _COLUMNS.match(line):
        test.columns = line.removeprefix("#").split()
    elif line.startswith("#"):
        test.placements = _PLACEMENTS.findall(line) or test.placements
    elif test.columns and _ROW.match(line):
        try:
            test.rows += _samples(test, line.split())
        except (KeyError, ValueError, OverflowError):  # a column is missing, or a number
            raise InputError(
                f"{path}: line {number} is damaged; copy the log again, or {_AGAIN}"
            ) from None
        for row in test.rows[-2:]:
            if row["errors"]:
                _wrong(path, f"{row['errors']} wrong values at {row['bytes']} bytes")


def _wrong(path: Path, what: str) -> NoReturn:
    raise InputError(f"{path}: the test found {what}; check the links and NCCL, then {_AGAIN}")


def _samples(test: _Test, fields: list[str]) -> list[dict[str, Any]]:
    # The columns from `time` on are repeated for each placement.
    first = test.columns.index("time")
    groups = test.columns.count("time")
    if len(fields) != len(test.columns):
        raise ValueError(fields)
    common = dict(zip(test.columns[:first], fields[:first], strict=True))
    width = (len(test.columns) - first) // groups
    samples = []
    for group in range(groups):
        start = first + group * width
        result = dict(
            zip(test.columns[start : start + width], fields[start : start + width], strict=True)
        )
        if result["time"] == "N/A":
            continue
        placement = test.placements[group] if len(test.placements) == groups else None
        samples.append(_sample(common, result) | {"placement": placement})
    return samples


def _sample(common: dict[str, str], result: dict[str, str]) -> dict[str, Any]:
    microseconds, algbw, busbw = (float(result[name]) for name in ("time", "algbw", "busbw"))
    wrong = result.get("#wrong", "N/A")
    size, count = int(common["size"]), int(common["count"])
    if not (math.isfinite(algbw) and math.isfinite(busbw) and max(size, count) < 2**63):
        raise ValueError(common)
    return {
        "bytes": size,
        "elements": count,
        "dtype": common["type"],
        "operation": None if common.get("redop") in (None, "none") else common["redop"],
        "root": None if common.get("root") in (None, "-1") else int(common["root"]),
        "time_ns": round(1000 * microseconds),
        "algbw_bytes_per_s": 1e9 * algbw,
        "busbw_bytes_per_s": 1e9 * busbw,
        # Without validation the column says N/A.
        "errors": None if wrong == "N/A" else int(float(wrong)),
    }


def _finished(test: _Test, path: Path) -> list[dict[str, Any]]:
    ranks = len(test.hosts) or None
    kind, evidence = test.kind, "program name"
    if kind is None:
        kind, evidence = _kind_of_results(test.rows, ranks), "columns and bus bandwidth"
    if kind is None:
        kind, evidence = _kind(path.stem), "file name"
    [device] = test.devices if len(test.devices) == 1 else [None]
    return [
        row
        | {
            "kind": kind,
            "kind_evidence": evidence if kind else None,
            "ranks": ranks,
            "nodes": len(set(test.hosts)) or None,
            "device_name": device or None,
        }
        for row in test.rows
    ]


def _kind(text: str | None) -> str | None:
    if text is None or text in _PROGRAMS:
        return _PROGRAMS.get(text or "")
    lower = text.lower().replace("-", "_")
    return next((kind for kind in _KINDS if kind in lower), None)


def _kind_of_results(rows: list[dict[str, Any]], ranks: int | None) -> str | None:
    """Return the kind of a reduction, by its root and the factor of the bus bandwidth."""
    if not rows or rows[-1]["operation"] is None:
        return None
    if rows[-1]["root"] is not None:
        return "reduce"
    largest = max(rows, key=lambda row: row["algbw_bytes_per_s"])
    if not ranks or ranks < 2 or largest["algbw_bytes_per_s"] < 1e9:
        return None
    steps = largest["busbw_bytes_per_s"] / largest["algbw_bytes_per_s"] * ranks / (ranks - 1)
    return {1: "reduce_scatter", 2: "all_reduce"}.get(round(steps))
