"""The reader of SQLite's pages gives what SQLite gives, whatever is in the tables."""

from __future__ import annotations

import contextlib
import itertools
import math
import random
import sqlite3
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from fast import examples
from sqlite_readings import both, read, reader, watching
from tbd_trace.model.row_range import RowRange
from tbd_trace.sqlite_io import SqliteFile, UnsupportedLayout, tables

KINDS = [pa.int64(), pa.float64(), pa.string(), pa.binary()]
PAGE_SIZES = [512, 1024, 2048, 4096, 8192, 16384, 32768, 65536]
AFFINITIES = ["INTEGER", "REAL", "TEXT", "BLOB", "NUMERIC", "", "FLOATING POINT", "DOUBLE"]

integers = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.integers(0, 63).flatmap(
        lambda bits: st.sampled_from([2**bits - 1, -(2**bits), min(2**bits, 2**63 - 1)])
    ),
    st.integers(-2, 2),
)
texts = st.one_of(st.text(max_size=20), st.integers(0, 3000).map(lambda n: "é" * (n % 7) + "x" * n))
values = st.one_of(st.none(), integers, st.floats(allow_nan=True), texts, st.binary(max_size=40))


@contextlib.contextmanager
def database(path: Path, *pragmas: str) -> Iterator[sqlite3.Connection]:
    path.unlink(missing_ok=True)
    connection = sqlite3.connect(path, isolation_level=None)
    for pragma in pragmas:
        connection.execute(f"PRAGMA {pragma}")
    connection.execute("BEGIN")
    yield connection
    with contextlib.suppress(sqlite3.OperationalError):
        connection.execute("COMMIT")
    connection.close()


def assert_same(
    path: Path,
    columns: dict[str, pa.DataType],
    *,
    from_pages: bool | None = True,
    not_integer: str | None = None,
) -> pa.Table:
    """Compare the readers on table t; ``from_pages``: all rows are to come from pages, or none."""
    with watching() as seen:
        pages, sqlite = both(path, "t", columns, "row", not_integer)
    assert pages.schema == sqlite.schema
    pages.validate(full=True)
    assert pages.equals(sqlite), (pages.to_pylist()[:9], sqlite.to_pylist()[:9])
    if from_pages is not None:
        assert seen.yielded == (sqlite.num_rows if from_pages else 0)
    return pages


@pytest.mark.slow
@given(data=st.data())
@settings(
    max_examples=examples(60),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_any_table(tmp_path: Path, data: st.DataObject) -> None:
    path = tmp_path / "any.sqlite"
    kinds = data.draw(st.lists(st.sampled_from(AFFINITIES), min_size=1, max_size=5))
    page_size = data.draw(st.sampled_from(PAGE_SIZES))
    vacuum = data.draw(st.sampled_from(["NONE", "FULL", "INCREMENTAL"]))
    rows = data.draw(st.lists(st.tuples(*[values] * len(kinds)), max_size=40), label="rows")
    rowids = data.draw(
        st.lists(integers, min_size=len(rows), max_size=len(rows), unique=True), label="rowids"
    )
    with database(path, f"page_size={page_size}", f"auto_vacuum={vacuum}") as connection:
        columns = ", ".join(f"c{i} {kind}" for i, kind in enumerate(kinds))
        connection.execute(f"CREATE TABLE t ({columns})")
        marks = ", ".join("?" * (len(kinds) + 1))
        names = ", ".join(f"c{i}" for i in range(len(kinds)))
        connection.executemany(
            f"INSERT INTO t (rowid, {names}) VALUES ({marks})",
            [(rowid, *row) for rowid, row in zip(rowids, rows, strict=True)],
        )
        for rowid in data.draw(st.lists(st.sampled_from(rowids or [0]), max_size=5)):
            connection.execute("DELETE FROM t WHERE rowid = ?", (rowid,))
        if data.draw(st.booleans()):
            connection.execute("ALTER TABLE t ADD COLUMN added TEXT")
    wanted = {f"c{i}": data.draw(st.sampled_from(KINDS)) for i in range(len(kinds))} | {
        "added": pa.string(),
        "Absent": pa.int64(),
    }
    declared_real = [i for i, kind in enumerate(kinds) if kind in ("REAL", "DOUBLE")]
    unusual = any(wanted[f"c{i}"] == pa.int64() for i in declared_real)
    assert_same(path, wanted, from_pages=False if unusual else None)
    not_integer = data.draw(st.sampled_from(list(wanted)), label="not_integer")
    assert_same(path, wanted, from_pages=None, not_integer=not_integer)


def filled(path: Path, declared: str, rows: Sequence[Sequence[Any]], *pragmas: str) -> Path:
    with database(path, *pragmas) as connection:
        connection.execute(f"CREATE TABLE t ({declared})")
        marks = ", ".join("?" * len(rows[0]))
        connection.executemany(f"INSERT INTO t VALUES ({marks})", rows)
    return path


@cache
def events(count: int) -> list[tuple[Any, ...]]:
    """Return rows like those of profiles, of all widths of integers."""
    chance = random.Random(count)
    return [
        (
            chance.randrange(2 ** chance.choice([1, 7, 15, 23, 31, 47, 62])),
            -chance.randrange(2 ** chance.choice([1, 7, 15, 23, 31, 47, 62])),
            chance.choice([None, 0.5, 3.0, -1e300, 7]),
            chance.choice([None, "", "aten::mm", "Größe", "x" * chance.randrange(90)]),
            chance.choice([None, b"", bytes(range(chance.randrange(40)))]),
        )
        for _ in range(count)
    ]


EVENTS = {
    "a": pa.int64(), "b": pa.int64(), "r": pa.float64(), "s": pa.string(), "x": pa.binary()
}  # fmt: skip
DECLARED = "a INTEGER, b INTEGER, r REAL, s TEXT, x BLOB"


@pytest.mark.parametrize("page_size", PAGE_SIZES)
@pytest.mark.parametrize("mode", ["DELETE", "WAL"])
def test_every_page_size(tmp_path: Path, page_size: int, mode: str) -> None:
    path = filled(
        tmp_path / "f", DECLARED, events(3000), f"page_size={page_size}", f"journal_mode={mode}"
    )
    table = assert_same(path, EVENTS)
    assert table.num_rows == 3000
    assert table["a"].to_pylist() == [row[0] for row in events(3000)]


@pytest.mark.slow
@pytest.mark.parametrize("column", ["a", "b", "s", "x"])
def test_rows_without_an_integer(tmp_path: Path, column: str) -> None:
    """NULL, text, blobs and fractions are none; records in overflow pages count like others."""
    chance = random.Random(3)
    odd = [None, "x" * 9000, "7", 0.5, b"\0" * 5000]
    rows = [
        tuple(chance.choice(odd) if chance.random() < 0.05 else value for value in row)
        for row in events(5000)
    ]
    path = filled(tmp_path / "f", "a, b, r, s, x", rows)
    place = "abrsx".index(column)
    kept = [n for n, row in enumerate(rows, 1) if not isinstance(row[place], int)]
    table = assert_same(path, EVENTS, not_integer=column)
    assert table["row"].to_pylist() == kept


@pytest.mark.parametrize("kept", [[], [1], [3000], [1, 2, 3000]])
def test_blocks_of_which_no_row_is_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: list[int]
) -> None:
    monkeypatch.setattr(tables, "_BATCH_BYTES", 1)
    rows = [(n, None if n in kept else n) for n in range(1, 3001)]
    path = filled(tmp_path / "f", "a, b", rows, "page_size=4096")
    table = assert_same(path, {"a": pa.int64(), "b": pa.int64()}, not_integer="b")
    assert table["a"].to_pylist() == kept


@pytest.mark.slow
@pytest.mark.parametrize(
    ("batch_bytes", "batch_rows"), [(1, 9**9), (4096 * 7, 9**9), (1 << 20, 9**9), (1 << 20, 300)]
)
def test_batches_and_threads_keep_the_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch_bytes: int, batch_rows: int
) -> None:
    monkeypatch.setattr(tables, "_BATCH_BYTES", batch_bytes)
    monkeypatch.setattr(tables, "_BATCH_ROWS", batch_rows)
    path = filled(tmp_path / "f", DECLARED, events(20_000))
    assert assert_same(path, EVENTS)["row"].to_pylist() == list(range(1, 20_001))


def test_interleaved_tables_and_free_pages(tmp_path: Path) -> None:
    path = tmp_path / "f"
    with database(path, "page_size=512") as connection:
        for name in ("t", "other"):
            connection.execute(f"CREATE TABLE {name} ({DECLARED})")
        for row in events(2000):
            for name in ("t", "other"):
                connection.execute(f"INSERT INTO {name} VALUES (?, ?, ?, ?, ?)", row)
        connection.execute("DELETE FROM t WHERE rowid % 5 = 0 OR rowid BETWEEN 400 AND 900")
        connection.execute("DROP TABLE other")
        connection.execute("UPDATE t SET s = s || s WHERE rowid % 3 = 0")
    assert_same(path, EVENTS)


@pytest.mark.parametrize("page_size", [512, 4096, 65536])
@pytest.mark.parametrize("vacuum", ["NONE", "FULL", "INCREMENTAL"])
def test_overflow_chains(tmp_path: Path, page_size: int, vacuum: str) -> None:
    usable = page_size
    sizes = [usable - 40, usable - 36, usable - 35, usable - 34, usable, 3 * usable, 200_000]
    rows = [(n, "é" * (n // 2), b"\0" * n, n) for n in sizes]
    path = filled(
        tmp_path / "f",
        "a INTEGER, s TEXT, x BLOB, z INTEGER",
        rows,
        f"page_size={page_size}",
        f"auto_vacuum={vacuum}",
    )
    wanted = {"z": pa.int64(), "x": pa.binary(), "s": pa.string(), "a": pa.int64()}
    assert assert_same(path, wanted)["z"].to_pylist() == sizes


@pytest.mark.parametrize(
    ("declared", "is_alias"),
    [
        ("id INTEGER PRIMARY KEY, v TEXT", True),
        ("v TEXT, id integer, PRIMARY KEY (id)", True),
        ("id INTEGER PRIMARY KEY DESC, v TEXT", False),
        ("id INT PRIMARY KEY, v TEXT", False),
        ("id INTEGER, v TEXT, PRIMARY KEY (id, v)", False),
    ],
)
def test_primary_keys(tmp_path: Path, declared: str, is_alias: bool) -> None:
    path = tmp_path / "f"
    ids = [-(2**63), -(2**33), -129, -1, 0, 1, 127, 128, 2**21, 2**56, 2**63 - 1]
    with database(path) as connection:
        connection.execute(f"CREATE TABLE t ({declared})")
        connection.executemany("INSERT INTO t (id, v) VALUES (?, ?)", [(i, str(i)) for i in ids])
    table = assert_same(path, {"v": pa.string(), "id": pa.int64()})
    assert table["id"].to_pylist() == ids
    assert (table["row"].to_pylist() == ids) == is_alias


def test_added_columns(tmp_path: Path) -> None:
    path = tmp_path / "f"
    with database(path) as connection:
        connection.execute("CREATE TABLE t (a INTEGER)")
        connection.execute("INSERT INTO t VALUES (1), (2)")
        connection.execute("ALTER TABLE t ADD COLUMN n TEXT")
        connection.execute("ALTER TABLE t ADD COLUMN d INTEGER NOT NULL DEFAULT 7")
        connection.execute("INSERT INTO t VALUES (3, 'n', 8)")
    assert_same(path, {"a": pa.int64(), "n": pa.string()})
    table = assert_same(path, {"a": pa.int64(), "d": pa.int64()}, from_pages=False)
    assert table["d"].to_pylist() == [7, 7, 8]


@pytest.mark.parametrize(
    ("statements", "from_pages"),
    [
        (["CREATE TABLE t (a INTEGER, b TEXT)"], True),
        (["CREATE TABLE t (a INTEGER, b TEXT)", "INSERT INTO t VALUES (1, 'x')"], True),
        (["CREATE TABLE t (a PRIMARY KEY, b) WITHOUT ROWID", "INSERT INTO t VALUES (1, 2)"], False),
        (["CREATE TABLE t (a, b)", "CREATE INDEX i ON t (b, a)",
          "INSERT INTO t VALUES (1, 9), (2, 8), (3, 7)"], True),
        (["CREATE TABLE t (a INTEGER, b ANY) STRICT",
          "INSERT INTO t VALUES (1, 2), (3, 'x')"], True),
    ],
)  # fmt: skip
def test_kinds_of_tables(tmp_path: Path, statements: list[str], from_pages: bool) -> None:
    path = tmp_path / "f"
    with database(path) as connection:
        for statement in statements:
            connection.execute(statement)
    wanted = {"a": pa.int64(), "b": pa.string()}
    with watching() as seen:
        pages, sqlite = both(path, "t", wanted)
    assert pages.equals(sqlite)
    assert seen.yielded == (sqlite.num_rows if from_pages else 0)


def test_texts_with_nul_and_other_encodings(tmp_path: Path) -> None:
    path = tmp_path / "f"
    with database(path) as connection:
        connection.execute("CREATE TABLE t (s TEXT)")
        connection.execute("INSERT INTO t VALUES ('a' || char(0) || 'b'), ('plain'), (NULL)")
        connection.execute("INSERT INTO t VALUES (CAST(x'ff41ed' AS TEXT)), (CAST(x'c3' AS TEXT))")
        connection.execute(f"INSERT INTO t VALUES (CAST(x'{'80' * 9000}' AS TEXT))")
    texts = assert_same(path, {"s": pa.string()})["s"].to_pylist()
    assert texts[:4] == ["a\0b", "plain", None, "\ufffdA\ufffd"]


@pytest.mark.parametrize("encoding", ["UTF-16le", "UTF-16be"])
def test_utf_16_is_left_to_sqlite(tmp_path: Path, encoding: str) -> None:
    path = filled(tmp_path / "f", DECLARED, events(50), f"encoding='{encoding}'")
    assert_same(path, EVENTS, from_pages=False)


def test_reserved_bytes(tmp_path: Path) -> None:
    """A file whose pages end in bytes that belong to an extension."""
    path = tmp_path / "f"
    path.write_bytes(with_reserved_bytes(events(400), reserved=32))
    assert sqlite3.connect(path).execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert assert_same(path, EVENTS).num_rows == 400


def with_reserved_bytes(rows: list[tuple[Any, ...]], reserved: int) -> bytes:
    """Let SQLite write a database from an empty one whose header asks for reserved bytes."""
    connection = sqlite3.connect(":memory:")
    connection.execute("PRAGMA page_size = 512")
    connection.execute("CREATE TABLE empty (a)")
    connection.execute("DROP TABLE empty")
    connection.execute("VACUUM")
    image = bytearray(connection.serialize())
    image[20] = reserved
    image[105:107] = (512 - reserved).to_bytes(2, "big")  # where the content of page 1 begins
    connection.deserialize(bytes(image))
    connection.execute(f"CREATE TABLE t ({DECLARED})")
    connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?)", rows)
    connection.commit()
    return connection.serialize()


def test_many_values_of_another_type(tmp_path: Path) -> None:
    path = filled(tmp_path / "f", "a", [(i + 0.5 if i % 2 else str(i),) for i in range(5000)])
    assert assert_same(path, {"a": pa.int64()}, from_pages=False)["a"].null_count == 2500


@pytest.mark.slow
def test_many_columns_and_lengths(tmp_path: Path) -> None:
    names = [f"c{i}" for i in range(150)]
    rows = [tuple(range(n, n + 150)) for n in range(50)]
    path = filled(tmp_path / "wide", ", ".join(names), rows)
    assert_same(path, dict.fromkeys(names, pa.int64()))
    texts = [("x" * (i % 701), "y" * (i % 97)) for i in range(3000)]
    assert_same(filled(tmp_path / "f", "a, b", texts), {"a": pa.string(), "b": pa.string()})


def test_no_number_is_null(tmp_path: Path) -> None:
    path = filled(tmp_path / "f", "r REAL", [(math.nan,), (math.inf,), (-0.0,), (2**53 + 1,)])
    values = assert_same(path, {"r": pa.float64()})["r"].to_pylist()
    assert values == [None, math.inf, 0.0, float(2**53)]


@pytest.mark.parametrize("rows", [0, 1, 3000])
@pytest.mark.parametrize("page_size", [512, 65536])
@pytest.mark.parametrize("count", [1, 2, 3, 50])
@pytest.mark.parametrize("not_integer", [None, "b"])
def test_parts_of_a_table(
    tmp_path: Path, rows: int, page_size: int, count: int, not_integer: str | None
) -> None:
    path = tmp_path / "f"
    with database(path, f"page_size={page_size}") as connection:
        connection.execute(f"CREATE TABLE t ({DECLARED})")
        connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?)", events(rows))
        connection.execute("UPDATE t SET b = NULL WHERE rowid % 7 = 1")
    _, whole = both(path, "t", EVENTS, "row", not_integer)
    with SqliteFile(path) as file:
        parts = [
            file.batches(
                "t", EVENTS, rowid="row", not_integer=not_integer, row_range=RowRange(number, count)
            ).read_all()
            for number in range(count)
        ]
    assert pa.concat_tables(parts).combine_chunks().equals(whole)


@pytest.mark.slow
@given(pages=st.integers(0, 100_000), count=st.integers(1, 64))
def test_later_parts_are_smaller(pages: int, count: int) -> None:
    leaves = np.arange(pages)
    parts = [tables._leaves_in(leaves, RowRange(number, count)) for number in range(count)]
    assert np.concatenate(parts).tolist() == leaves.tolist()
    sizes = [part.size for part in parts]
    assert all(later <= earlier + 1 for earlier, later in pairwise(sizes))
    assert sizes[-1] <= pages / count**2 + 1


def test_a_part_is_not_left_to_sqlite(tmp_path: Path) -> None:
    """The caller could not know which rows SQLite would have to give."""
    path = filled(tmp_path / "f", "a", [(i + 0.5 if i % 2 else str(i),) for i in range(5000)])
    with SqliteFile(path) as file, pytest.raises(UnsupportedLayout):
        file.batches("t", {"a": pa.int64()}, row_range=RowRange(0, 2)).read_all()


def test_a_stream_may_be_left_early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "_BATCH_BYTES", 1)
    path = filled(tmp_path / "f", DECLARED, events(5000))
    with reader("pages"), SqliteFile(path) as file:
        assert next(file.batches("t", EVENTS)).num_rows > 0


@pytest.mark.slow
def test_large_tables_are_read_from_pages(tmp_path: Path) -> None:
    path = filled(tmp_path / "f", DECLARED, events(30_000), "page_size=4096")
    with path.open("ab") as file:
        assert file.tell() > 1 << 20
    filled(path, f"{DECLARED}, pad TEXT", [(*row, "p" * 80) for row in events(30_000)])
    with watching() as seen, reader("auto"):
        assert read(path, "t", EVENTS).num_rows == seen.yielded == 30_000


@pytest.mark.slow
@given(st.lists(st.integers(1, 3).flatmap(lambda n: st.integers(2048 * n, 2048 * n + 70))))
@example([2048 + 64, 3000])
@example([2048 + 65, 3000])
@settings(max_examples=20)
def test_duckdb_passes_batches_on_in_order(sizes: list[int]) -> None:
    ends = list(itertools.accumulate(sizes, initial=0))
    made = [
        pa.record_batch({"row": pa.array(range(first, end), pa.int64())})
        for first, end in itertools.pairwise(ends)
    ]
    batches = [piece for batch in made for piece in tables._without_small_tail(batch)]
    schema = pa.schema([("row", pa.int64())])
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute("CREATE TABLE few AS SELECT 1 AS id")
        connection.register("rows", pa.RecordBatchReader.from_batches(schema, iter(batches)))
        connection.execute("CREATE TABLE kept AS SELECT row FROM rows LEFT JOIN few ON id = row")
        kept = [row for (row,) in connection.execute("SELECT row FROM kept").fetchall()]
    assert kept == list(range(ends[-1]))
