"""SQL of query files reads the defaults of parameters that are not set."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from tbd_trace.query import Catalogue
from tbd_trace.query.catalogue import derived_relation, read_query, with_defaults

HEADER = """/*
needs = ["utilization"]
[params.text]
doc = "text"
default = "it's"
[params.number]
doc = "number"
default = 2.5
[params.switch]
doc = "switch"
default = true
*/
"""
SQL = "SELECT getvariable('text') AS a, getvariable('number') * 2 AS b, NOT getvariable('switch')"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "own.sql"
    path.write_text(HEADER + SQL, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ("", ("it's", 5.0, False)),
        ("SET VARIABLE number = 0", ("it's", 0.0, False)),
        ("SET VARIABLE switch = false; SET VARIABLE text = ''", ("", 5.0, True)),
    ],
)
def test_parameters_have_their_defaults(
    path: Path, settings: str, expected: tuple[object, ...]
) -> None:
    with duckdb.connect() as connection:
        connection.execute(settings or "SELECT 1")
        assert connection.execute(read_query(path).sql).fetchall() == [expected]


def test_parameters_of_relations_below_have_theirs(path: Path) -> None:
    default = derived_relation("utilization").params["by"].default
    query = read_query(path)
    assert with_defaults(query, "SELECT getvariable('by')") == (
        f"SELECT coalesce(getvariable('by'), '{default}')"
    )
    assert f"coalesce(getvariable('by'), '{default}')" in Catalogue().get("batch_sweep").sql


def test_other_variables_stay(path: Path) -> None:
    assert with_defaults(read_query(path), "SELECT getvariable('x')") == "SELECT getvariable('x')"
