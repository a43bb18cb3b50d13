"""What is private in the files that profilers write."""

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
from tbd_trace.redact.json_documents import Treatment
from tbd_trace.redact.leak_report import Findings, is_nothing
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
"""What a setting or column holds whose name matches."""
_SETTINGS = ("name", "value")
_VARIABLE = re.compile(r"^([A-Za-z_]\w*)=(.*)$", re.MULTILINE)
_FEWEST_VARIABLES = 3
_NO_UUID = re.compile(r"[0-]*")
# nvprof tells what it profiled, and names the NVTX ranges of its traces so.
_COMMAND = re.compile(r"^==\d+== .*command: (.*)")
_AROUND_NVTX = re.compile(r"^\[(?:Range start|Range end|Marker)\] | \(Domain: [^()]*\)$")
_MARKER = r"\{'mod'"
_CANDIDATE = re.compile(CANDIDATE)
_LONGEST_LINE = 5000
_LINES = 10_000


class _Search:
    """Searches the texts of one file."""

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._treatment = Treatment()

    def pattern(self) -> str:
        """Return an RE2 pattern of texts that may hold something private."""
        return "|".join([CANDIDATE, *map(re.escape, self._treatment.names.words)])

    def named(self, name: str, where: str, value: str) -> None:
        """Search a value whose name tells what it is."""
        self._treatment.learn(value)
        for kind, pattern in _KIND_OF_NAME.items():
            if pattern.search(name):
                self._of_kind(kind, where, value)
                return
        self.text(where, value)

    def _of_kind(self, kind: str, where: str, value: str) -> None:
        if kind == "environment":
            self._environment(where, value)
        elif not (_NO_UUID.fullmatch(value) if kind == "device-ids" else is_loopback(value)):
            self._findings.add(kind, where, value)
        if kind == "hosts" and not is_nothing(value):
            self._treatment.names.learn_host(value)
        if kind == "users" and not is_nothing(value):
            self._treatment.names.learn_user(value)

    def _environment(self, where: str, value: str) -> None:
        variables = _VARIABLE.findall(value) or [("", value)]
        for name, said in variables:
            self._findings.add("environment", where, f"{name}={said}" if name else said)
            if is_secret_name(name) and not is_nothing(said):
                self._findings.add("secrets", where, f"{name}={said}")

    def text(self, where: str, text: str) -> None:
        """Search any text."""
        if len(_VARIABLE.findall(text)) >= _FEWEST_VARIABLES:
            self._environment(where, text)
            return
        found: dict[str, str] = {}
        self._treatment.learn(text)
        self._treatment.text(text, found.setdefault)
        for kind, example in found.items():
            self._findings.add(kind, where, example)


def search_sqlite(path: Path, findings: Findings) -> None:
    """Search all texts of a SQLite file: an export of Nsight Systems, or of nvprof.

    Raises:
        InputError: the file is damaged.
    """
    search = _Search(findings)
    with SqliteFile(path) as file:
        listed = file.rows("SELECT name FROM sqlite_master WHERE type = 'table'")
        tables = sorted(
            (str(name) for (name,) in listed),
            key=lambda table: (not _has_settings(file, table), table),
        )
        for table in tables:
            if _has_settings(file, table):
                _search_settings(file, table, search)
            elif table == "PROCESSES":
                _search_processes(file, findings)
            elif table != "sqlite_sequence":
                _search_columns(file, table, search)
        _search_streams(file, findings)


def _has_settings(file: SqliteFile, table: str) -> bool:
    """Tell whether a table holds names and values; they tell whom else to look for."""
    return set(_SETTINGS) <= set(file.columns(table))


def _search_settings(file: SqliteFile, table: str, search: _Search) -> None:
    rows = file.rows(f"SELECT name, value FROM {identifier(table)}")
    # Hosts and users first: their names may be in the others.
    rows.sort(key=lambda row: not re.search("(?i)host|user", str(row[0])))
    for name, value in rows:
        if isinstance(value, str):
            # PROCESS_0:ARGUMENT_7 is one of many
            search.named(
                str(name), f"{table}.{re.sub(r'(?<=ARGUMENT)_[0-9]+', '', str(name))}", value
            )


def _search_processes(file: SqliteFile, findings: Findings) -> None:
    names = {str(name) for (name,) in file.rows("SELECT name FROM PROCESSES") if name}
    if names:
        findings.add("processes", "PROCESSES.name", min(names), len(names))


def _search_streams(file: SqliteFile, findings: Findings) -> None:
    """List what the profiled programs printed."""
    if "ProcessStreams" not in file.tables or "StringIds" not in file.tables:
        return
    printed = "SELECT value FROM StringIds WHERE id IN (SELECT contentId FROM ProcessStreams)"
    for (text,) in file.rows(printed):
        findings.add("output", "ProcessStreams.contentId", str(text))


def _search_columns(file: SqliteFile, table: str, search: _Search) -> None:
    """Search the texts of a table's columns, each distinct text of a batch once."""
    columns = _text_columns(file, table)
    if not columns:
        return
    for batch in file.batches(table, dict.fromkeys(columns, pa.string())):
        for column in columns:
            texts = pc.unique(batch.column(column)).drop_null()
            where = f"{table}.{column}"
            if _is_telling(column):
                for text in texts.to_pylist():
                    search.named(column, where, text)
            else:
                matching = pc.match_substring_regex(texts, search.pattern())
                for text in texts.filter(matching).to_pylist():
                    search.text(where, text)


def _text_columns(file: SqliteFile, table: str) -> list[str]:
    """Return the columns that are declared as texts."""
    declared = file.rows(f"PRAGMA table_info({identifier(table)})")
    return [
        str(name)
        for _, name, kind, *_ in declared
        if re.search("(?i)char|clob|text", str(kind)) or not kind
    ]


def search_text(path: Path, findings: Findings) -> None:
    """Search the lines of a text file, such as CSV or JSON, as it is or compressed by gzip.

    Raises:
        InputError: it cannot be read.
    """
    search = _Search(findings)
    header: list[str] = []
    try:
        for line, matches in _lines(path):
            if command := _COMMAND.match(line):
                search.named("command", "command", command[1])
            elif "Host Name" in line or "User Name" in line:
                header = next(csv.reader([line]))
            elif header:
                _search_row(line, header, search)
            elif matches:
                _search_line(line, search)
    except (OSError, EOFError, csv.Error) as error:
        raise InputError(f"{path}: cannot be read ({error}); copy it again") from error


def _lines(path: Path) -> Iterator[tuple[str, bool]]:
    """Yield the lines of a file, and whether they may hold something private."""
    with path.open("rb") as file:
        compressed = file.read(2) == b"\x1f\x8b"
    opened = gzip.open if compressed else open
    with opened(path, "rt", encoding="utf-8", errors="replace") as file:
        while lines := list(islice(file, _LINES)):
            matching = pc.match_substring_regex(pa.array(lines), f"{CANDIDATE}|{_MARKER}")
            yield from zip(lines, matching.to_pylist(), strict=True)


def _search_row(line: str, header: list[str], search: _Search) -> None:
    cells = next(csv.reader([line]), [])
    for name, cell in zip(header, cells, strict=False):
        if _is_telling(name) or _CANDIDATE.search(cell):
            search.named(name, name, cell)


def _search_line(line: str, search: _Search) -> None:
    """Search a line; markers are found in their quotes, and long lines piece by piece."""
    parts = [line]
    if re.search(_MARKER, line):
        parts = [_AROUND_NVTX.sub("", part) for part in line.split('"')]
    elif len(line) > _LONGEST_LINE:
        parts = line.split(",")
    for part in parts:
        if _CANDIDATE.search(part):
            search.text("lines", part)


def _is_telling(name: str) -> bool:
    """Tell whether the name of a column says what it holds."""
    return any(pattern.search(name) for pattern in _KIND_OF_NAME.values())
