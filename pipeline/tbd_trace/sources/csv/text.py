"""Find tables in the printed output of a profiler.

The output mixes tables with progress, warnings and the output of the profiled program, rows can be
shorter than their header, and nvprof does not escape quotes and line breaks in names. A `Layout`
describes the tables of one tool.
"""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TextIO

Fields = list[str]

SEPARATORS = (",", ";")
_MAX_LINES_PER_ROW = 50  # bounds the search for the end of a quoted name with line breaks
_BOMS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class TableLayout(Protocol):
    """Format of the lines below one header."""

    def is_units(self, fields: Fields) -> bool:
        """Return True if the line below the header contains the units of the columns."""

    def is_row(self, fields: Fields) -> bool:
        """Return True if a line is a row."""

    def repair(self, record: str) -> Fields | None:
        """Return the fields of a row with unescaped quotes, None if the record is not a row."""


class Layout(Protocol):
    """Format of the output of one tool."""

    def table(self, fields: Fields) -> TableLayout | None:
        """Return the format of the rows below a header, None if the line is not a header."""

    def is_message(self, line: str) -> bool:
        """Return True if a line outside tables is a message of the tool about its tables."""

    def ends_table(self, line: str) -> bool:
        """Return True if no row of the current table can follow this line."""


@dataclass(slots=True)
class Damage:
    """Defects found in one pass over a file."""

    skipped: int = 0  # lines between the rows of a table that are not rows
    too_long: int = 0  # rows with more fields than the header: unquoted decimal commas
    ends_inside_row: bool = False  # that row was dropped
    unfinished: bool = False  # no line break after the last value, which may be truncated

    @property
    def notes(self) -> list[str]:
        notes = []
        if self.ends_inside_row:
            notes.append("the file ends inside a row: that row was dropped, the copy is incomplete")
        if self.unfinished:
            notes.append("the file ends without a line break: its last value may be cut off")
        if self.skipped:
            notes.append(f"{self.skipped} lines between rows were not rows and were skipped")
        return notes


@dataclass(slots=True)
class Table:
    """One table of a file; consume its rows before the next table."""

    header: Fields
    units: Fields  # unit by column; empty if the table has no row of units
    messages: list[str]  # lines of the tool since the previous table
    rows: Iterator[Fields]  # each as long as the header


def text_encoding(head: bytes) -> str | None:
    """Return the encoding of a text file from its first bytes, None if it is a binary file."""
    # Windows PowerShell redirects output as UTF-16, with or without a byte order mark.
    if head.startswith(_BOMS):
        return "utf-16"
    if b"\x00" not in head:
        return "utf-8-sig"
    # ASCII in UTF-16 has a zero in one half of the bytes.
    even, odd = head[0:512:2], head[1:512:2]
    if not even.count(0) and odd.count(0) > len(odd) // 2:
        return "utf-16-le"
    if not odd.count(0) and even.count(0) > len(even) // 2:
        return "utf-16-be"
    return None


def head_lines(head: bytes) -> list[str]:
    """Return the lines in the first bytes of a text file; empty for a binary file."""
    encoding = text_encoding(head)
    return head.decode(encoding, "replace").splitlines() if encoding else []


def open_text(path: Path) -> TextIO:
    """Open a text file in its encoding, with universal line breaks."""
    with path.open("rb") as file:
        encoding = text_encoding(file.read(4096)) or "utf-8"
    return path.open(encoding=encoding, errors="replace")


def split(line: str, separator: str = ",") -> Fields:
    """Return the fields of a CSV line; empty if the line is not valid CSV."""
    try:
        return next(csv.reader((line,), delimiter=separator), [])
    except csv.Error:
        return []


def header_fields(line: str, layout: Layout) -> tuple[Fields, str] | None:
    """Return the column names in a header line and their separator, None for another line."""
    # Locales with a decimal comma separate fields by semicolons.
    for separator in SEPARATORS:
        if separator in line:
            fields = split(line, separator)
            if layout.table(fields) is not None:
                return fields, separator
    return None


def tables(path: Path, layout: Layout, damage: Damage) -> Iterator[Table]:
    """Yield the tables of a file.

    Args:
        damage: counts defects; complete when the last table is consumed.
    """
    with open_text(path) as file:
        lines = Lines(file)
        messages: list[str] = []
        while (line := lines.take()) is not None:
            header_and_separator = header_fields(line, layout)
            if header_and_separator is not None:
                header, lines.separator = header_and_separator
                table = layout.table(header)
                assert table is not None
                units = _units(lines, header, table)
                parsed = Table(header, units, messages, _rows(lines, header, layout, table, damage))
                yield parsed
                for _ in parsed.rows:  # rows that the caller did not consume
                    pass
                messages = []
            elif layout.is_message(line):
                messages.append(line)
        if messages:
            yield Table([], [], messages, iter(()))


class Lines:
    """Lines of a text with a lookahead of one line."""

    def __init__(self, file: Iterable[str]) -> None:
        self._file = iter(file)
        self._next = next(self._file, None)
        self.taken = 0  # number of lines returned by `take`
        self.unfinished = False  # the last line returned is the file's last, without a line break
        self.separator = ","  # of the fields in the file; `peek` and `take` convert it to commas

    def peek(self) -> str | None:
        """Return the next line without its line break, None at the end; do not advance."""
        return None if self._next is None else self._with_commas(self._next.rstrip("\n"))

    def take(self) -> str | None:
        """Return the next line without its line break, None at the end, and advance."""
        line, self._next = self._next, next(self._file, None) if self._next is not None else None
        self.taken += line is not None
        self.unfinished = self._next is None and line is not None and not line.endswith("\n")
        return None if line is None else self._with_commas(line.rstrip("\n"))

    def _with_commas(self, line: str) -> str:
        if self.separator == "," or self.separator not in line or line.count('"') % 2:
            return line
        out = io.StringIO()
        csv.writer(out, lineterminator="").writerow(split(line, self.separator))
        return out.getvalue()


def _units(lines: Lines, header: Fields, table: TableLayout) -> Fields:
    following = lines.peek()
    fields = split(following) if following is not None else []
    if len(fields) != len(header) or not table.is_units(fields):
        return []
    lines.take()
    return fields


def _rows(
    lines: Lines, header: Fields, layout: Layout, table: TableLayout, damage: Damage
) -> Iterator[Fields]:
    # Lines that are not rows count as damage only if they resemble one or another row follows:
    # output of the program often follows the last row.
    pending, width = 0, len(header)
    while (line := lines.peek()) is not None:
        before, fields = lines.taken, _row(line, table)
        if fields is None and _ends(line, layout):
            return
        lines.take()
        if fields is None:
            fields = _row_over_lines(line, lines, layout, table)
        if fields is None:
            taken = lines.taken - before if line.strip() else 0
            if _resembles_row(line, width) and not lines.unfinished:
                damage.skipped += taken
            else:
                pending += taken
            damage.too_long += line[:1].isdigit() and len(split(line)) > width
            damage.ends_inside_row |= lines.unfinished and "," in line
            continue
        damage.unfinished |= lines.unfinished and not line.endswith('"')
        damage.skipped, pending = damage.skipped + pending, 0
        yield fields[:width] if len(fields) >= width else fields + [""] * (width - len(fields))


def _row(record: str, table: TableLayout) -> Fields | None:
    if record.count('"') % 2 == 0:
        fields = split(record)
        if table.is_row(fields):
            return fields
    return table.repair(record) if '"' in record else None


def _resembles_row(line: str, width: int) -> bool:
    return line[:1].isdigit() and 2 * len(split(line)) > width


def _ends(line: str, layout: Layout) -> bool:
    return layout.ends_table(line) or header_fields(line, layout) is not None


def _row_over_lines(line: str, lines: Lines, layout: Layout, table: TableLayout) -> Fields | None:
    # A value can contain line breaks: append lines until the record is a row.
    record = line
    for _ in range(_MAX_LINES_PER_ROW if '"' in line else 0):
        following = lines.peek()
        if following is None or _row(following, table) is not None or _ends(following, layout):
            return None
        record += f"\n{lines.take()}"
        fields = _row(record, table)
        if fields is not None:
            return fields
    return None
