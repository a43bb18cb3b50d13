"""Parameters that are lists, SQL macros, and relations that come from a file."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from tbd_trace.errors import UsageError
from tbd_trace.query import Catalogue, Query, execute_on_file, script
from tbd_trace.query.catalogue import read_query
from tbd_trace.query.execution import checked_values

LAYERS = 'grad_bytes,name,note,bwd_s,fwd_s\n1e6,a,x,0.02,0.01\n0,"b, c",y,0.04,0.03\n'


def own(folder: Path, header: str, sql: str = "SELECT 1 AS n") -> Query:
    path = folder / "own.sql"
    path.write_text(f'/*\ntitle = "Own"\n{header}\n*/\n{sql}', encoding="utf-8")
    return read_query(path)


LISTED = '[params.sizes]\ndoc = "sizes"\ndefault = "1,2"\nitems = "integer"\nminimum = 1'


def test_a_list_has_items_of_one_kind(tmp_path: Path) -> None:
    query = own(tmp_path, LISTED)
    assert checked_values(query, {"sizes": " 3, 40"}) == {"sizes": "3,40"}
    numbers = own(tmp_path, LISTED.replace("integer", "number"))
    assert checked_values(numbers, {"sizes": "3,1e1"}) == {"sizes": "3.0,10.0"}


@pytest.mark.parametrize("value", ["", "1,", "x", "1.5", "1;2", "2,0", "-1", "9" * 30])
def test_a_wrong_item_is_an_error(tmp_path: Path, value: str) -> None:
    with pytest.raises(UsageError, match=r"^sizes=.*: expected (an integer|at least 1)$"):
        checked_values(own(tmp_path, LISTED), {"sizes": value})


def test_a_number_can_have_a_minimum(tmp_path: Path) -> None:
    query = own(tmp_path, '[params.share]\ndoc = "share"\ndefault = 0.5\nminimum = 0')
    assert checked_values(query, {"share": "0"}) == {"share": 0.0}
    with pytest.raises(UsageError, match=r"share=-0\.1: expected at least 0"):
        checked_values(query, {"share": "-0.1"})


@pytest.mark.parametrize(
    "header",
    ['macros = "one"', "macros = [1]", '[file]\nparam = "none"\ncolumns = {a = "text"}\nrows = ""'],
)
def test_invalid_headers_are_refused(tmp_path: Path, header: str) -> None:
    with pytest.raises(UsageError, match="invalid header"):
        own(tmp_path, header)


def test_unknown_macros_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no macros 'none'"):
        script(own(tmp_path, 'macros = ["none"]'))


def test_rows_of_a_file_replace_a_relation(tmp_path: Path) -> None:
    """Columns are found by name in any order; others are ignored. User queries can do so, too."""
    path = tmp_path / "two [layers].csv"
    path.write_text("\N{ZERO WIDTH NO-BREAK SPACE}" + LAYERS)
    query = own(tmp_path, 'needs = ["layer_cost"]', "SELECT * FROM layer_cost ORDER BY position")
    result = execute_on_file(query, {"layers": str(path)})
    assert result is not None
    unknown = [None] * 5  # iterations and ranks
    assert result.frame.rows() == [
        ("two [layers]", 0, "a", 0.01, 0.02, 1e6, *unknown, "layer list"),
        ("two [layers]", 1, "b, c", 0.03, 0.04, 0.0, *unknown, "layer list"),
    ]


def test_without_a_file_the_traces_are_asked(tmp_path: Path) -> None:
    query = own(tmp_path, 'needs = ["layer_cost"]', "SELECT * FROM layer_cost")
    assert execute_on_file(query, {}) is None
    assert execute_on_file(query, {"layers": ""}) is None
    assert execute_on_file(own(tmp_path, LISTED), {"sizes": "1"}) is None


@pytest.mark.slow
@pytest.mark.parametrize("name", ["comm_overhead", "dp_speedup", "min_bandwidth"])
def test_the_script_of_a_file_runs_in_a_shell(tmp_path: Path, name: str) -> None:
    path = tmp_path / "layers.csv"
    path.write_text(LAYERS)
    query, parameters = Catalogue().get(name), {"layers": str(path), "workers": "2"}
    expected = execute_on_file(query, parameters)
    assert expected is not None
    with duckdb.connect() as connection:
        *before, last = connection.extract_statements(script(query, parameters))
        for statement in before:
            connection.execute(statement)
        assert connection.execute(last).fetchall() == expected.frame.rows()
