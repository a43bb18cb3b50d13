"""Texts of SQL mean what they say."""

from __future__ import annotations

import csv
from pathlib import Path

import duckdb
import pytest

from tbd_trace import resources
from tbd_trace.sqltext import csv_relation

DATA = sorted(resources.data().glob("*.csv"))


@pytest.mark.parametrize("file", DATA, ids=lambda file: file.stem)
def test_data_tables_hold_what_is_written(file: Path) -> None:
    with file.open(newline="", encoding="utf-8") as lines:
        header, *rows = csv.reader(lines)
    found = duckdb.sql(csv_relation(file))
    assert found.columns == header
    as_text = ", ".join(f'CAST("{name}" AS VARCHAR)' for name in header)
    for written, read in zip(
        rows, duckdb.sql(f"SELECT {as_text} FROM ({csv_relation(file)})").fetchall(), strict=True
    ):
        for text, value in zip(written, read, strict=True):
            assert value == (text or None) or float(value) == float(text)


@pytest.mark.parametrize("file", DATA, ids=lambda file: file.stem)
def test_duckdb_finds_out_the_same_by_itself(file: Path) -> None:
    alone = duckdb.sql(f"SELECT * FROM read_csv('{file}', header = true, sample_size = -1)")
    told = duckdb.sql(csv_relation(file))
    assert (told.columns, told.types) == (alone.columns, alone.types)
    assert told.fetchall() == alone.fetchall()
