"""CSV files embedded in a page as data URIs."""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass

import polars as pl

from tbd_trace.present import csv

# At most 1.5 MB of CSV per page, 2 MB as Base64. Files above their limit have the first rows only.
# Each may use a quarter of the remaining bytes, so that later files get some.
_MOST_BYTES = 400_000
_MOST_BYTES_TOGETHER = 1_500_000
_SHARE = 4
_LEAST_BYTES = 20_000


@dataclass(frozen=True, slots=True)
class Download:
    """A CSV file of a page."""

    id: str  # HTML id of its link
    file_name: str  # file name offered by the browser
    uri: str  # data URI of the file; empty if an earlier link of the page has it
    rows: int  # number of rows in the file
    total: int  # number of rows of the frame


class Downloads:
    """The CSV files of one page, each embedded once."""

    def __init__(self) -> None:
        self._embedded: dict[tuple[str, int], Download] = {}
        self._names: set[str] = set()
        self._left = _MOST_BYTES_TOGETHER

    def of(self, frame: pl.DataFrame, query: str) -> Download:
        """Return the file of a frame, without its content if the page has it already.

        Args:
            frame: the rows; equal rows must be the same object.
            query: query of the rows, from which the file name is derived.
        """
        key = (query, id(frame))
        if first := self._embedded.get(key):
            return Download(first.id, first.file_name, "", first.rows, first.total)
        content, rows = _content(frame, self._room())
        self._left -= len(content)
        name = self._name(query)
        encoded = base64.b64encode(content).decode()
        uri = f"data:text/csv;charset=utf-8;base64,{encoded}"
        download = Download(f"csv-{name}", f"{name}.csv", uri, rows, frame.height)
        self._embedded[key] = download
        return download

    def _room(self) -> int:
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
    rows = frame.height
    content = csv.render(frame)
    while len(content) > room and rows > 1:
        # An estimate, because rows differ in length; the loop repeats it.
        rows = max(1, min(rows - 1, rows * room // len(content)))
        content = csv.render(frame.head(rows))
    return content, rows
