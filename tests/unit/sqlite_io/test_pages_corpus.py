"""Both readers of SQLite files give the same rows of every table that is read of real profiles."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from corpus import corpus_files
from fast import first_of_each_format
from sqlite_readings import reader, watching
from tbd_trace.errors import InputError
from tbd_trace.sources.nsys.columns import DETAILS, EVENTS, FACTS
from tbd_trace.sources.nvprof.tables import RAW_TABLES, Blob
from tbd_trace.sqlite_io import SqliteFile

NVPROF = {
    table: {n: pa.binary() if isinstance(kind, Blob) else kind for n, kind in columns.items()}
    for table, columns in RAW_TABLES.items()
}
TABLES = (*EVENTS.items(), *DETAILS.items(), *FACTS.items(), *NVPROF.items())


def tables(file: SqliteFile, name: str) -> list[tuple[str, pa.Table | str]]:
    found: list[tuple[str, pa.Table | str]] = []
    with reader(name):
        for table, columns in TABLES:
            if table in file.tables:
                try:
                    rows = file.batches(table, columns, rowid="row").read_all().combine_chunks()
                    found.append((table, rows))
                except InputError as error:
                    found.append((table, str(error)))
    return found


@pytest.mark.parametrize(
    "path", first_of_each_format(corpus_files("nsys/*", "nvprof/*", "odd/*"), then_one_in=8)
)
def test_same_tables(path: Path) -> None:
    with path.open("rb") as opened:
        if not SqliteFile.has_magic(opened.read(16)):
            pytest.skip("no SQLite file")
    try:
        file = SqliteFile(path)
    except InputError as error:
        pytest.skip(str(error))
    with file, watching() as seen:
        pages = tables(file, "pages")
        yielded = seen.yielded
        expected = tables(file, "sqlalchemy")
    assert seen.yielded == yielded
    for (name, got), (_, wanted) in zip(pages, expected, strict=True):
        assert type(got) is type(wanted), (name, got, wanted)
        assert got == wanted if isinstance(got, str) else got.equals(wanted), name
    if all(isinstance(table, pa.Table) for _, table in pages):
        assert yielded == sum(table.num_rows for _, table in pages)
