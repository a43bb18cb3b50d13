"""Find private data in files written by profilers."""

from __future__ import annotations

import csv
import gzip
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from tbd_trace.errors import InputError
from tbd_trace.redact.identities import is_loopback
from tbd_trace.redact.json_documents import Redactor
from tbd_trace.redact.leak_report import LeakReport, is_empty_or_redacted
from tbd_trace.redact.secrets import is_secret_name
from tbd_trace.redact.text import CANDIDATE
from tbd_trace.sqlite_io import SqliteFile
from tbd_trace.sqltext import identifier

_KIND_OF_NAME = {
    "environment": re.compile(r"(?i)environ"),
    "command-lines": re.compile(r"(?i)command|argument_\d|cmd_?line|argv"),
    "hosts": re.compile(r"(?i)host_?name|export_host$|^host$|^host name$|device_display_name"),
    "users": re.compile(r"(?i)user_?name|export_user$|^user$|^user name$"),
    "device-ids": re.compile(r"(?i)(?<!session_)uuid|systemuid"),
    "output": re.compile(r"(?i)^content$"),
}
"""Kind of private data by the name of the setting or column that holds it."""
_SETTINGS = ("name", "value")
_VARIABLE = re.compile(r"^([A-Za-z_]\w*)=(.*)$", re.MULTILINE)
# A text with this many NAME=VALUE lines is an environment; fewer occur in scripts and logs.
_FEWEST_VARIABLES = 3
_ZERO_UUID = re.compile(r"[0-]*")
# nvprof prints the command line ("==PID== Profiling application, command: ...") and decorates
# NVTX ranges ("[Range start] NAME (Domain: D)").
_COMMAND = re.compile(r"^==\d+== .*command: (.*)")
_AROUND_NVTX = re.compile(r"^\[(?:Range start|Range end|Marker)\] | \(Domain: [^()]*\)$")
_MARKER = r"\{'mod'"  # operator marker of PyProf and DLProf
_CANDIDATE = re.compile(CANDIDATE)
# Characters. Longer lines, such as JSON without line breaks, are searched field by field.
_LONGEST_LINE = 5000
_LINES = 10_000  # lines filtered by RE2 at a time


class _FileScan:
    def __init__(self, report: LeakReport) -> None:
        self._report = report
        self._redactor = Redactor()

    def pattern(self) -> str:
        return "|".join([CANDIDATE, *map(re.escape, self._redactor.names.words)])

    def named_value(self, name: str, where: str, value: str) -> None:
        self._redactor.collect_identities(value)
        for kind, pattern in _KIND_OF_NAME.items():
            if pattern.search(name):
                self._add_named(kind, where, value)
                return
        self.text(where, value)

    def _add_named(self, kind: str, where: str, value: str) -> None:
        if kind == "environment":
            self._environment(where, value)
        elif not (_ZERO_UUID.fullmatch(value) if kind == "device-ids" else is_loopback(value)):
            self._report.add(kind, where, value)
        if kind == "hosts" and not is_empty_or_redacted(value):
            self._redactor.names.add_host(value)
        if kind == "users" and not is_empty_or_redacted(value):
            self._redactor.names.add_user(value)

    def _environment(self, where: str, value: str) -> None:
        variables = _VARIABLE.findall(value) or [("", value)]
        for name, content in variables:
            self._report.add("environment", where, f"{name}={content}" if name else content)
            if is_secret_name(name) and not is_empty_or_redacted(content):
                self._report.add("secrets", where, f"{name}={content}")

    def text(self, where: str, text: str) -> None:
        if len(_VARIABLE.findall(text)) >= _FEWEST_VARIABLES:
            self._environment(where, text)
            return
        examples: dict[str, str] = {}
        self._redactor.collect_identities(text)
        self._redactor.text(text, examples.setdefault)
        for kind, example in examples.items():
            self._report.add(kind, where, example)


def scan_sqlite(path: Path, report: LeakReport) -> None:
    """Add the private data in an SQLite export of Nsight Systems or nvprof to a report.

    Raises:
        InputError: the file is damaged.
    """
    scan = _FileScan(report)
    with SqliteFile(path) as file:
        listed = file.rows("SELECT name FROM sqlite_master WHERE type = 'table'")
        # Settings first: they hold host and user names to search for in the other tables.
        tables = sorted(
            (str(name) for (name,) in listed),
            key=lambda table: (not _has_settings(file, table), table),
        )
        for table in tables:
            if _has_settings(file, table):
                _scan_settings(file, table, scan)
            elif table == "PROCESSES":
                _scan_processes(file, report)
            elif table != "sqlite_sequence":
                _scan_columns(file, table, scan)
        _scan_streams(file, report)


def _has_settings(file: SqliteFile, table: str) -> bool:
    return set(_SETTINGS) <= set(file.columns(table))


def _scan_settings(file: SqliteFile, table: str, scan: _FileScan) -> None:
    rows = file.rows(f"SELECT name, value FROM {identifier(table)}")
    # Hosts and users first: their names may occur in the other settings.
    rows.sort(key=lambda row: not re.search("(?i)host|user", str(row[0])))
    for name, value in rows:
        if isinstance(value, str):
            # PROCESS_0:ARGUMENT_7 and its siblings are reported as one location.
            scan.named_value(
                str(name), f"{table}.{re.sub(r'(?<=ARGUMENT)_[0-9]+', '', str(name))}", value
            )


def _scan_processes(file: SqliteFile, report: LeakReport) -> None:
    names = {str(name) for (name,) in file.rows("SELECT name FROM PROCESSES") if name}
    if names:
        report.add("processes", "PROCESSES.name", min(names), len(names))


def _scan_streams(file: SqliteFile, report: LeakReport) -> None:
    # ProcessStreams holds the standard output and error of the profiled programs.
    if "ProcessStreams" not in file.tables or "StringIds" not in file.tables:
        return
    printed = "SELECT value FROM StringIds WHERE id IN (SELECT contentId FROM ProcessStreams)"
    for (text,) in file.rows(printed):
        report.add("output", "ProcessStreams.contentId", str(text))


def _scan_columns(file: SqliteFile, table: str, scan: _FileScan) -> None:
    columns = _text_columns(file, table)
    if not columns:
        return
    for batch in file.batches(table, dict.fromkeys(columns, pa.string())):
        for column in columns:
            texts = pc.unique(batch.column(column)).drop_null()
            where = f"{table}.{column}"
            if _names_a_kind(column):
                for text in texts.to_pylist():
                    scan.named_value(column, where, text)
            else:
                matching = pc.match_substring_regex(texts, scan.pattern())
                for text in texts.filter(matching).to_pylist():
                    scan.text(where, text)


def _text_columns(file: SqliteFile, table: str) -> list[str]:
    # SQLite columns may have no declared type, and then hold texts too.
    declared = file.rows(f"PRAGMA table_info({identifier(table)})")
    return [
        str(name)
        for _, name, kind, *_ in declared
        if re.search("(?i)char|clob|text", str(kind)) or not kind
    ]


def scan_text(path: Path, report: LeakReport) -> None:
    """Add the private data in a text file (CSV, JSON), plain or gzip, to a report.

    Raises:
        InputError: the file cannot be read.
    """
    scan = _FileScan(report)
    header: list[str] = []
    try:
        for line, matches in _lines(path):
            if command := _COMMAND.match(line):
                scan.named_value("command", "command", command[1])
            elif "Host Name" in line or "User Name" in line:
                header = next(csv.reader([line]))
            elif header:
                _scan_row(line, header, scan)
            elif matches:
                _scan_line(line, scan)
    except (OSError, EOFError, csv.Error) as error:
        raise InputError(f"{path}: cannot be read ({error}); copy it again") from error


def _lines(path: Path) -> Iterator[tuple[str, bool]]:
    with path.open("rb") as file:
        compressed = file.read(2) == b"\x1f\x8b"
    opened = gzip.open if compressed else open
    with opened(path, "rt", encoding="utf-8", errors="replace") as file:
        while lines := list(islice(file, _LINES)):
            matching = pc.match_substring_regex(pa.array(lines), f"{CANDIDATE}|{_MARKER}")
            yield from zip(lines, matching.to_pylist(), strict=True)


def _scan_row(line: str, header: list[str], scan: _FileScan) -> None:
    cells = next(csv.reader([line]), [])
    for name, cell in zip(header, cells, strict=False):
        if _names_a_kind(name) or _CANDIDATE.search(cell):
            scan.named_value(name, name, cell)


def _scan_line(line: str, scan: _FileScan) -> None:
    parts = [line]
    if re.search(_MARKER, line):
        parts = [_AROUND_NVTX.sub("", part) for part in line.split('"')]
    elif len(line) > _LONGEST_LINE:
        parts = line.split(",")
    for part in parts:
        if _CANDIDATE.search(part):
            scan.text("lines", part)


def _names_a_kind(name: str) -> bool:
    return any(pattern.search(name) for pattern in _KIND_OF_NAME.values())
