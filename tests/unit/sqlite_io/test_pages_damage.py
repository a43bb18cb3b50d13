"""Damaged SQLite files: the page reader gives SQLite's rows or an error, never a wrong row."""

from __future__ import annotations

import sqlite3
import struct
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sqlite_readings import both, outcome, reader, watching
from tbd_trace.errors import InputError
from tbd_trace.sqlite_io import tables

PAGE = 512
COLUMNS = {"a": pa.int64(), "s": pa.string(), "r": pa.float64(), "x": pa.binary()}


class Image(bytes):
    """The bytes of a database, which a failing test does not print."""

    def __repr__(self) -> str:
        return f"<{len(self)} bytes>"


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    """A database of a few levels, with overflow pages, a second table and free pages."""
    path = tmp_path_factory.mktemp("damage") / "f"
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA page_size = {PAGE}")
    connection.execute("CREATE TABLE t (a INTEGER, s TEXT, r REAL, x BLOB)")
    connection.execute("CREATE TABLE u (a INTEGER, s TEXT)")
    rows = [
        (i * 1000 ** (i % 5), "t" * (i % 40) if i % 50 else "o" * 1500, i / 2, bytes(i % 7))
        for i in range(900)
    ]
    connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", rows)
    connection.executemany("INSERT INTO u VALUES (?, ?)", [row[:2] for row in rows[:100]])
    connection.execute("DELETE FROM u WHERE a > 5000")
    connection.commit()
    connection.close()
    return Image(path.read_bytes())


def compare(path: Path) -> pa.Table | str:
    """Return what the page reader gives of a damaged file, after comparing it with SQLite."""
    with reader("sqlalchemy"):
        expected = outcome(path, "t", COLUMNS, "row")
    with reader("pages"):
        found = outcome(path, "t", COLUMNS, "row")
    if isinstance(found, pa.Table):
        assert isinstance(expected, pa.Table), expected
        assert found.equals(expected)
    return found


SETTINGS = settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@pytest.mark.slow
@given(st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), min_size=1, max_size=8))
@SETTINGS
def test_any_bytes_changed(image: Image, tmp_path: Path, changes: list[tuple[float, int]]) -> None:
    damaged = bytearray(image)
    for place, byte in changes:
        damaged[int(place * (len(image) - 1))] = byte
    (tmp_path / "f").write_bytes(damaged)
    compare(tmp_path / "f")


@pytest.mark.slow
@given(
    page=st.floats(0, 0.999),
    place=st.one_of(st.integers(0, 24), st.integers(PAGE - 40, PAGE - 1)),
    value=st.binary(min_size=1, max_size=4),
)
@SETTINGS
def test_page_headers_and_cells_changed(
    image: Image, tmp_path: Path, page: float, place: int, value: bytes
) -> None:
    damaged = bytearray(image)
    at = int(page * (len(image) // PAGE)) * PAGE + place
    damaged[at : at + len(value)] = value
    (tmp_path / "f").write_bytes(damaged[: len(image)])
    compare(tmp_path / "f")


@pytest.mark.slow
@given(st.integers(0, 100), st.binary(min_size=1, max_size=3))
@SETTINGS
def test_file_header_changed(image: Image, tmp_path: Path, place: int, value: bytes) -> None:
    damaged = bytearray(image)
    damaged[place : place + len(value)] = value
    (tmp_path / "f").write_bytes(damaged)
    compare(tmp_path / "f")


@pytest.mark.parametrize("kept", [0, 1, 99, 100, 511, 512, 513, 5000, -513, -512, -1])
def test_truncated(image: Image, tmp_path: Path, kept: int) -> None:
    (tmp_path / "f").write_bytes(image[:kept])
    # SQLite takes an empty file, and one of a byte, for a database without tables.
    found = compare(tmp_path / "f")
    assert found == "InputError" if kept not in (0, 1) else found.num_rows == 0


def leaves(image: Image) -> list[int]:
    """Return the numbers of table leaf pages, counted from 0, of more than a few cells."""
    pages = range(1, len(image) // PAGE)
    return [
        page
        for page in pages
        if image[page * PAGE] == 13 and struct.unpack_from(">H", image, page * PAGE + 3)[0] > 3
    ]


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (0, b"\x05"),  # another type of page
        (0, b"\x0a"),
        (3, b"\xff\xff"),  # too many cells
        (3, b"\x00\x00"),  # none
        (8, b"\xff\xff"),  # a cell outside the page
        (8, b"\x00\x00"),  # a cell in the page's header
        (8, b"\x01\xfe"),  # a cell cut by the end of the page
    ],
)
@pytest.mark.parametrize("which", [2, 20])
def test_damaged_leaf(image: Image, tmp_path: Path, place: int, value: bytes, which: int) -> None:
    damaged = bytearray(image)
    at = leaves(image)[which] * PAGE + place
    damaged[at : at + len(value)] = value
    (tmp_path / "f").write_bytes(damaged)
    compare(tmp_path / "f")


@pytest.mark.parametrize("place", [0xFFFF, 0, PAGE - 2])
def test_a_cell_outside_its_page(image: Image, tmp_path: Path, place: int) -> None:
    """SQLite alone reads whatever its memory holds there: now an error, now a wrong row."""
    damaged = bytearray(image)
    struct.pack_into(">H", damaged, leaves(image)[2] * PAGE + 8, place)
    (tmp_path / "f").write_bytes(damaged)
    for name in ("pages", "sqlalchemy") * 5:
        with reader(name):
            assert outcome(tmp_path / "f", "t", COLUMNS, "row") == "InputError"


@pytest.mark.parametrize("child", [0, 1, 2, 3, 10**6, 2**32 - 1])
def test_damaged_child_pointer(image: Image, tmp_path: Path, child: int) -> None:
    """Pages out of range, in the tree twice, of another table, and loops."""
    damaged = bytearray(image)
    interior = [p for p in range(1, len(image) // PAGE) if image[p * PAGE] == 5]
    assert interior
    for page in interior:
        struct.pack_into(">I", damaged, page * PAGE + 8, child)
        (tmp_path / "f").write_bytes(damaged)
        compare(tmp_path / "f")


def test_error_in_the_middle(image: Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages before the damaged one are read from pages, and SQLite reports what is wrong."""
    monkeypatch.setattr(tables, "_BATCH_BYTES", 1)
    damaged = bytearray(image)
    damaged[leaves(image)[30] * PAGE] = 7
    path = tmp_path / "f"
    path.write_bytes(damaged)
    with watching() as seen, reader("pages"), pytest.raises(InputError, match="damaged"):
        both(path, "t", COLUMNS)
    assert seen.yielded > 100


def test_rest_is_read_by_sqlite(
    image: Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page that the page reader does not like and SQLite does: every row comes once."""
    monkeypatch.setattr(tables, "_BATCH_BYTES", 1)
    path = tmp_path / "f"
    path.write_bytes(image)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA writable_schema = ON")
    connection.execute(
        "UPDATE sqlite_schema SET sql = replace(sql, 'x BLOB', 'x BLOB, d DEFAULT 5')"
    )
    connection.commit()
    connection.close()
    connection = sqlite3.connect(path)  # writes the new column of the first rows
    connection.execute("UPDATE t SET r = r WHERE rowid < 300")
    connection.commit()
    connection.close()
    columns = {"a": pa.int64(), "d": pa.int64()}
    with watching() as seen:
        pages, sqlite = both(path, "t", columns, "row")
    assert pages.equals(sqlite)
    assert 100 < seen.yielded < pages.num_rows == 900


def test_wrong_count_is_an_error(
    image: Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "f"
    path.write_bytes(image)
    stream = tables.stream
    monkeypatch.setattr(
        tables, "stream", lambda *arguments: (b.slice(1) for b in stream(*arguments))
    )
    with reader("pages"), pytest.raises(InputError, match="of 900 rows of t"):
        both(path, "t", COLUMNS)
