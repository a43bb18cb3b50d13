"""The rows behind a page as CSV files that it carries with it."""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass

import polars as pl

from tbd_trace.present import csv

# A page stays light: of what is larger than this it has the first rows, and the files of a page
# with many large ones are smaller from one to the next.
_MOST_BYTES = 400_000
_MOST_BYTES_TOGETHER = 1_500_000
_SHARE = 4  # of what is left, for the next file
_LEAST_BYTES = 20_000


@dataclass(frozen=True, slots=True)
class Download:
    """A CSV file that is part of the page.

    Attributes:
        id: address of its link on the page.
        file_name: the name under which it is saved.
        uri: the file as a data URI; empty where an earlier link of the page has it.
        rows: rows in it.
        total: rows that there are.
    """

    id: str
    file_name: str
    uri: str
    rows: int
    total: int


class Downloads:
    """The CSV files of one page; each is in it once."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, int], Download] = {}
        self._names: set[str] = set()
        self._left = _MOST_BYTES_TOGETHER

    def of(self, frame: pl.DataFrame, query: str) -> Download:
        """Return the file of a frame, without its content where it was asked for before.

        Args:
            frame: the rows, the same object for the same rows.
            query: the query that gave them, after which the file is named.
        """
        key = (query, id(frame))
        if found := self._found.get(key):
            return Download(found.id, found.file_name, "", found.rows, found.total)
        content, rows = _content(frame, self._room())
        self._left -= len(content)
        name = self._name(query)
        encoded = base64.b64encode(content).decode()
        uri = f"data:text/csv;charset=utf-8;base64,{encoded}"
        download = Download(f"csv-{name}", f"{name}.csv", uri, rows, frame.height)
        self._found[key] = download
        return download

    def _room(self) -> int:
        """Return how large the next file may be."""
        return max(_LEAST_BYTES, min(_MOST_BYTES, self._left // _SHARE))

    def _name(self, query: str) -> str:
        base = re.sub(r"[^A-Za-z0-9_]+", "-", query).strip("-") or "rows"
        name, number = base, 1
        while name in self._names:
            number += 1
            name = f"{base}-{number}"
        self._names.add(name)
        return name


def _content(frame: pl.DataFrame, room: int) -> tuple[bytes, int]:
    """Return a frame as CSV, as many rows as there is room for, and their number."""
    rows = frame.height
    content = csv.render(frame)
    while len(content) > room and rows > 1:
        # Rows differ in length, so the share that fits is an estimate to start from.
        rows = max(1, min(rows - 1, rows * room // len(content)))
        content = csv.render(frame.head(rows))
    return content, rows
