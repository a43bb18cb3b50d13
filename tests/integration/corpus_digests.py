"""Digests of the canonical tables of real traces.

    PYTHONPATH=tests/helpers:tests/integration python tests/integration/corpus_digests.py

rewrites `corpus_digests.csv`, which has a line for each file and table, with the number of rows and
a digest of them. Other tests compare counts and sums with the profilers' own answers. The digests
show whether any value of any table changes.
"""

from __future__ import annotations

import csv
import tempfile
from functools import cache
from pathlib import Path

import duckdb

from corpus import matching, relative
from real_traces import Traces
from tbd_trace.errors import TbdTraceError
from tbd_trace.model.canonical_tables import canonical_tables
from tbd_trace.query.connection import connect
from tbd_trace.sqltext import identifier

FILE = Path(__file__).resolve().parent / "corpus_digests.csv"
_LARGEST = 1_500_000  # bytes; larger files take long
_SUFFIXES = {".csv", ".gz", ".json", ".jsonl", ".log", ".nvvp", ".nvprof", ".pickle", ".sqlite",
    ".txt"}  # fmt: skip
# Columns that depend on where, when and by which version a file was read.
_LEFT_OUT = {"path", "name", "ingested_at", "ingested_by"}
_LENGTH = 12  # of a digest

Tables = dict[str, tuple[int, str]]


def is_digested(path: Path) -> bool:
    """Return True for a real file that is ingested here."""
    return (
        path.is_file() and path.suffix in _SUFFIXES and path.stat().st_size <= _LARGEST
        and "oracle" not in path.parts
    )  # fmt: skip


def digests(traces: Traces, path: Path) -> Tables:
    """Return row count and digest of each table of a file, or the error that the ingest raises."""
    try:
        trace_id = traces.id(relative(path))
    except TbdTraceError as error:
        return {"error": (0, str(error).replace(str(path), "FILE"))}
    tables = sorted(canonical_tables())
    with connect(traces.database, [trace_id], names=tables) as connection:
        found = {name: _digest(connection, name) for name in tables}
    return {name: value for name, value in found.items() if value[0]}


def _digest(connection: duckdb.DuckDBPyConnection, table: str) -> tuple[int, str]:
    columns = connection.sql(f"FROM {identifier(table)}").columns
    own = ", ".join(identifier(name) for name in columns if name not in _LEFT_OUT)
    lines = f"SELECT row({own})::VARCHAR AS line FROM {identifier(table)}"
    digest = f"left(sha256(string_agg(line, chr(10) ORDER BY line)), {_LENGTH})"
    found = connection.execute(f"SELECT count(*), {digest} FROM ({lines})").fetchone()
    assert found
    return found


@cache
def committed() -> dict[str, Tables]:
    """Return the digests of the file, by path below the corpus and by table."""
    found: dict[str, Tables] = {}
    with FILE.open(newline="", encoding="utf-8") as file:
        for line in csv.DictReader(file):
            found.setdefault(line["file"], {})[line["table"]] = (int(line["rows"]), line["digest"])
    return found


def main() -> None:
    """Rewrite corpus_digests.csv."""
    with FILE.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("file", "table", "rows", "digest"))
        with tempfile.TemporaryDirectory() as folder:
            traces = Traces(Path(folder))
            for path in filter(is_digested, matching("**/*")):
                tables = digests(traces, path)
                writer.writerows((relative(path), table, *row) for table, row in tables.items())


if __name__ == "__main__":
    main()
