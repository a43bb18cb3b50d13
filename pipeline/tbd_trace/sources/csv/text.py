"""Tables inside text: headers, rows and the profiler's own lines in whatever it printed.

A profiler's CSV output is rarely a clean CSV file: the program's output, progress and warnings
stand before the header and sometimes between the rows, one file may hold several tables, the rows
may be shorter than their header, nvprof does not escape quotes and line breaks inside names, and
an interrupted copy ends in the middle of a row. What a table of one tool looks like is told by a
:class:`Layout`; everything here is common to all.
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
_MAX_LINES_PER_ROW = 50
_BOMS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class TableLayout(Protocol):
    """What the lines of one table look like."""

    def is_units(self, fields: Fields) -> bool:
        """Tell whether the line below the header holds the units of the columns."""

    def is_row(self, fields: Fields) -> bool:
        """Tell whether a line is a row."""

    def repair(self, record: str) -> Fields | None:
        """Return the fields of a row that is not valid CSV, None if it is no row."""


class Layout(Protocol):
    """What the output of one tool looks like."""

    def table(self, fields: Fields) -> TableLayout | None:
        """Return what the rows below a header look like, None if the line is no header."""

    def is_remark(self, line: str) -> bool:
        """Tell whether a line outside tables says something about them."""

    def ends_table(self, line: str) -> bool:
        """Tell whether no row of a table can follow this line."""


@dataclass(slots=True)
class Damage:
    """What one pass over a file met that it could not use.

    Attributes:
        skipped: lines between the rows of a table that are not rows.
        torn: the file ends inside a row, which was dropped.
        unfinished: the file ends without a line break after a value without closing quote.
        too_long: lines of numbers in a table that have more fields than its header, as numbers with
            decimal commas have when they are not quoted.
    """

    skipped: int = 0
    too_long: int = 0
    torn: bool = False
    unfinished: bool = False

    @property
    def notes(self) -> list[str]:
        """Sentences for the ``trace`` table."""
        notes = []
        if self.torn:
            notes.append("the file ends inside a row: that row was dropped, the copy is incomplete")
        if self.unfinished:
            notes.append("the file ends without a line break: its last value may be cut off")
        if self.skipped:
            notes.append(f"{self.skipped} lines between rows were not rows and were skipped")
        return notes


@dataclass(slots=True)
class Table:
    """One table of a file.

    Attributes:
        header: column names.
        units: the unit of each column; empty where the table has no row of units.
        remarks: the tool's own lines since the previous table.
        rows: the rows, each as long as the header; to be consumed before the next table is asked
            for.
    """

    header: Fields
    units: Fields
    remarks: list[str]
    rows: Iterator[Fields]


def text_encoding(head: bytes) -> str | None:
    """Return the encoding of a text from its first bytes, None if it is no text.

    Windows PowerShell writes redirected output as UTF-16.
    """
    if head.startswith(_BOMS):
        return "utf-16"
    if b"\x00" not in head:
        return "utf-8-sig"
    even, odd = head[0:512:2], head[1:512:2]
    if not even.count(0) and odd.count(0) > len(odd) // 2:
        return "utf-16-le"
    if not odd.count(0) and even.count(0) > len(even) // 2:
        return "utf-16-be"
    return None


def head_lines(head: bytes) -> list[str]:
    """Return the lines in the first bytes of a file, none if it is no text; the last may be cut."""
    encoding = text_encoding(head)
    return head.decode(encoding, "replace").splitlines() if encoding else []


def open_text(path: Path) -> TextIO:
    """Open a text file for reading, whatever its encoding and line breaks."""
    with path.open("rb") as file:
        encoding = text_encoding(file.read(4096)) or "utf-8"
    return path.open(encoding=encoding, errors="replace")


def split(line: str, separator: str = ",") -> Fields:
    """Return the fields of a CSV line, none if it is not valid CSV."""
    try:
        return next(csv.reader((line,), delimiter=separator), [])
    except csv.Error:
        return []


def header_fields(line: str, layout: Layout) -> tuple[Fields, str] | None:
    """Return the columns of a table whose header a line is, and what separates them.

    Where the comma is the decimal sign, spreadsheets and some tools separate by semicolons.
    """
    for separator in SEPARATORS:
        if separator in line:
            fields = split(line, separator)
            if layout.table(fields) is not None:
                return fields, separator
    return None


def tables(path: Path, layout: Layout, damage: Damage) -> Iterator[Table]:
    """Find the tables of a file.

    Args:
        path: the file.
        layout: what the tables look like.
        damage: filled in with what is no row; complete when the last table is consumed.
    """
    with open_text(path) as file:
        lines = Lines(file)
        remarks: list[str] = []
        while (line := lines.take()) is not None:
            found_header = header_fields(line, layout)
            if found_header is not None:
                header, lines.separator = found_header
                table = layout.table(header)
                assert table is not None
                units = _units(lines, header, table)
                found = Table(header, units, remarks, _rows(lines, header, layout, table, damage))
                yield found
                for _ in found.rows:  # what the caller left over
                    pass
                remarks = []
            elif layout.is_remark(line):
                remarks.append(line)
        if remarks:
            yield Table([], [], remarks, iter(()))


class Lines:
    """The lines of a text, with a look at the next one.

    Args:
        file: the lines, with their line breaks.
    """

    def __init__(self, file: Iterable[str]) -> None:
        self._file = iter(file)
        self._next = next(self._file, None)
        self.taken = 0  # number of lines taken
        self.unfinished = False  # the line taken last is the file's last and has no line break
        self.separator = ","  # of the fields; lines come with commas whatever it is

    def peek(self) -> str | None:
        """Return the next line without its line break, None at the end."""
        return None if self._next is None else self._with_commas(self._next.rstrip("\n"))

    def take(self) -> str | None:
        """Return the next line without its line break and go on, None at the end."""
        line, self._next = self._next, next(self._file, None) if self._next is not None else None
        self.taken += line is not None
        self.unfinished = self._next is None and line is not None and not line.endswith("\n")
        return None if line is None else self._with_commas(line.rstrip("\n"))

    def _with_commas(self, line: str) -> str:
        """Return a line of fields that are separated by something else as ordinary CSV."""
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
    noise, width = 0, len(header)
    while (line := lines.peek()) is not None:
        before, fields = lines.taken, _row(line, table)
        if fields is None and _ends(line, layout):
            return
        lines.take()
        if fields is None:
            fields = _row_over_lines(line, lines, layout, table)
        if fields is None:
            noise += lines.taken - before if line.strip() else 0
            damage.too_long += line[:1].isdigit() and len(split(line)) > width
            damage.torn |= lines.unfinished and "," in line
            continue
        damage.unfinished |= lines.unfinished and not line.endswith('"')
        damage.skipped, noise = damage.skipped + noise, 0
        yield fields[:width] if len(fields) >= width else fields + [""] * (width - len(fields))


def _row(record: str, table: TableLayout) -> Fields | None:
    """Return the fields of a record that is a complete row."""
    if record.count('"') % 2 == 0:
        fields = split(record)
        if table.is_row(fields):
            return fields
    return table.repair(record) if '"' in record else None


def _ends(line: str, layout: Layout) -> bool:
    return layout.ends_table(line) or header_fields(line, layout) is not None


def _row_over_lines(line: str, lines: Lines, layout: Layout, table: TableLayout) -> Fields | None:
    """Return the fields of a row with line breaks inside a value."""
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
