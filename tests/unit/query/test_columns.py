"""Columns of a query: described by its header, or by the relations that it reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from tbd_trace.errors import UsageError
from tbd_trace.model.canonical_tables import canonical_tables
from tbd_trace.query import Catalogue
from tbd_trace.query.catalogue import derived_relation, read_query
from tbd_trace.query.columns import Column, Columns, column

BELOW = {
    "near": {"a": Column("a of near"), "b": Column("b of near", "s")},
    "far": {"b": Column("b of far"), "c": Column("c of far")},
}


def columns(names: str, **own: Column) -> Columns:
    return Columns(list(names), own, ["near", "none", "far"], lambda name: BELOW.get(name, {}))


def own_query(folder: Path, header: str) -> Path:
    path = folder / "own.sql"
    path.write_text(f"/*\n{header}\n*/\nSELECT 1 AS kernel_id, 2 AS stream_id")
    return path


@pytest.mark.parametrize(
    ("name", "described", "expected"),
    [
        ("name", "a name", Column("a name")),
        ("busy_ns", "time", Column("time", "ns")),
        ("busy_pct", {"doc": "share"}, Column("share", "%")),
        ("link_bytes_per_s", "rate", Column("rate", "byte/s")),
        ("forward_flop", "work", Column("work", "FLOP")),
        ("rate_hz", {"doc": "rate", "unit": "kHz"}, Column("rate", "kHz")),
        ("peak", {"doc": "over\n    two lines", "unit": "byte"}, Column("over two lines", "byte")),
    ],
)
def test_a_description_is_a_text_or_a_table(name: str, described: object, expected: Column) -> None:
    assert column(name, described) == expected


@pytest.mark.parametrize("described", [3, {"unit": "ns"}, {"doc": "x", "units": "ns"}, ["x"]])
def test_other_descriptions_are_refused(described: object) -> None:
    with pytest.raises(TypeError):
        column("name", described)


def test_the_nearest_description_counts() -> None:
    assert list(columns("cba").items()) == [
        ("c", Column("c of far")),
        ("b", Column("b of near", "s")),
        ("a", Column("a of near")),
    ]
    assert columns("ab", b=Column("own"))["b"] == Column("own")


def test_only_names_of_the_query_are_columns() -> None:
    assert len(columns("a")) == 1
    assert "b" not in columns("a")
    with pytest.raises(TypeError, match="returns lacks b"):
        columns("a", b=Column("own"))


def test_descriptions_that_repeat_the_inherited_one_are_found() -> None:
    made = columns("abc", a=Column("a of near"), b=Column("b of near"), c=Column("other"))
    assert made.repeated() == ["a"]


def test_a_column_that_nothing_describes_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="column x has no doc: describe it under"):
        columns("x")["x"]
    path = own_query(tmp_path, 'returns = ["kernel_id", "wrong"]\nneeds = ["kernel"]')
    with pytest.raises(UsageError, match=r"own\.sql: column wrong has no doc"):
        Catalogue().load(path)


def test_columns_come_from_canonical_tables_and_derived_relations(tmp_path: Path) -> None:
    header = 'returns = ["kernel_id", "end_ns"]\nneeds = ["busy_interval", "kernel"]'
    found = read_query(own_query(tmp_path, header)).columns
    [doc] = [each.doc for each in canonical_tables()["kernel"].columns if each.name == "kernel_id"]
    assert found["kernel_id"] == Column(doc)
    assert found["end_ns"] == derived_relation("busy_interval").columns["end_ns"]
    assert found["end_ns"].unit == "ns"
