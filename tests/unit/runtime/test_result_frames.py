"""DuckDB's rows as polars frames: the same as DuckDB's own, without pyarrow."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import duckdb
import polars as pl
import pytest

from tbd_trace.runtime.result_frames import frame, frames

VALUES = [
    "1::TINYINT", "1::UBIGINT", "1.5::FLOAT", "0.1", "1.25::DECIMAL(18, 3)", "5::HUGEINT",
    "'text'", "NULL", "true", "'b'::BLOB", "DATE '2026-01-02'",
    "TIME '10:11:12'", "TIMESTAMP '2026-01-02 03:04:05.678'", "[1, NULL]", "['a']",
    "{'a': 1, 'b': [2.5]}", "MAP {'k': 1}",
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES)
def test_same_as_duckdbs_own(value: str) -> None:
    relation = duckdb.sql(f"SELECT {value} AS x UNION ALL SELECT NULL UNION ALL SELECT {value}")
    assert frame(relation).equals(relation.pl())
    assert frame(relation).schema == relation.pl().schema
    assert frame(relation.filter("false")).schema == relation.pl().schema


def test_what_polars_does_not_know_is_text() -> None:
    relation = duckdb.sql("""
        SELECT INTERVAL 3 DAY AS "a ""b", [INTERVAL 1 HOUR] AS l, union_value(u := 1) AS u, 1 AS n
    """)
    assert frame(relation).rows() == [("3 days", "['01:00:00']", "1", 1)]
    assert frame(relation).columns == ['a "b', "l", "u", "n"]


def test_enumerations_are_text() -> None:
    found = frame(duckdb.sql("SELECT 'x'::ENUM('x', 'y') AS e, ['y'::ENUM('x', 'y')] AS l"))
    assert found.rows() == [("x", ["y"])]
    assert found.schema["e"] == pl.String
    twice = frame(duckdb.sql("SELECT 'x'::ENUM('x') AS e, 'y'::ENUM('y') AS e"))
    assert (twice.rows(), set(twice.dtypes)) == ([("x", "y")], {pl.String})


def test_columns_of_one_name_are_numbered() -> None:
    assert frame(duckdb.sql("SELECT 1 AS a, 2 AS a")).rows(named=True) == [{"a": 1, "a_1": 2}]


def test_errors_are_duckdbs(tmp_path: Path) -> None:
    with pytest.raises(duckdb.Error, match=r"^Invalid Input Error: said"):
        frame(duckdb.sql("SELECT i, error('said') FROM range(3) AS t(i)"))
    with pytest.raises(duckdb.Error, match=r"^Conversion Error: .*'9x'"):
        frame(duckdb.sql("SELECT CAST(i || if(i > 8, 'x', '') AS INT) FROM range(10) AS t(i)"))
    text = "a" * 400
    with duckdb.connect(config={"memory_limit": "20MB", "max_temp_directory_size": "0B"}) as small:
        rows = small.sql(f"SELECT i, '{text}' || i AS t FROM range(400000) AS r(i) ORDER BY t")
        with pytest.raises(duckdb.OutOfMemoryException):
            frame(rows)
    path = tmp_path / "rows.parquet"
    duckdb.sql(f"COPY (SELECT random() AS x FROM range(300000)) TO '{path}' (ROW_GROUP_SIZE 20480)")
    relation = duckdb.read_parquet(str(path))
    path.unlink()
    with pytest.raises(duckdb.IOException):
        frame(relation)


@pytest.mark.slow
def test_pyarrow_is_not_imported_and_the_process_ends_in_silence() -> None:
    program = (
        "import sys, duckdb\n"
        "from tbd_trace.runtime.result_frames import frame\n"
        "assert frame(duckdb.sql('SELECT 1 AS a')).rows() == [(1,)]\n"
        "print(sorted({'numpy', 'pandas', 'pyarrow'} & sys.modules.keys()))\n"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "[]\n"
    assert done.stderr == ""  # DuckDB writes there what it believes to be leaks


@pytest.mark.slow
def test_frames_are_the_rows_of_the_whole() -> None:
    columns = ", ".join(f"if(i % 3 = 0, {value}, NULL) AS c{n}" for n, value in enumerate(VALUES))
    relation = duckdb.sql(
        f"SELECT i, 't' || i AS t, INTERVAL 1 DAY AS d, {columns} FROM range(300_000) AS r(i)"
    )
    several = list(frames(relation))
    assert len(several) > 1
    assert pl.concat(several).equals(frame(relation))
    (empty,) = frames(relation.filter("i < 0"))
    assert (empty.height, empty.schema) == (0, several[0].schema)
    (numbered,) = frames(duckdb.sql("SELECT 1 AS a, 2 AS a"))
    assert numbered.rows(named=True) == [{"a": 1, "a_1": 2}]


def test_errors_come_with_the_frames() -> None:
    late = duckdb.sql("SELECT if(i < 200_000, i, error('said')) AS i FROM range(300_000) AS t(i)")
    with pytest.raises(duckdb.Error, match=r"^Invalid Input Error: said"):
        list(frames(late))
