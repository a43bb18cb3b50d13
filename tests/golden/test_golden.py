"""Every metric query on the sample, and on a run without a GPU: it returns what was worked out."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from cpu_capture import write_capture
from query_files import NOT_IN_SAMPLES, NOT_WORKED, OF_JOBS
from sample_facts import CAPTURE
from tbd_trace.query import Catalogue, execute
from tbd_trace.store import Database
from worked import CASES, GOLDEN, Case, text

TOLERANCE = 1e-9  # relative, for floats
DATABASES = {
    "sample": "sample_database",
    "cpu_only": "cpu_only",
    "memory": "memory_sample",
    "torch": "torch_sample",
}  # fixtures


@pytest.fixture(scope="session")
def cpu_only(tmp_path_factory: pytest.TempPathFactory) -> Database:
    folder = tmp_path_factory.mktemp("cpu_only")
    database = Database(folder / "cpu_only.duckdb")
    database.ingest([write_capture(folder / "capture")])
    return database


def answer(case: Case, database: Database) -> pl.DataFrame:
    """Return what a query answers; SQLite's version, and so the made trace's id, may vary."""
    query = Catalogue().get(case.query)
    frame = execute(database, query, parameters=case.parameters).frame
    assert list(query.columns) == frame.columns
    if case.capture != "cpu_only":
        return frame
    assert set(frame["trace_id"]) == set(database.trace_ids())
    return frame.with_columns(trace_id=pl.lit(case.capture))


def committed(path: Path) -> list[list[str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def agrees(value: Any, expected: str) -> bool:
    """Tell whether a value is what a CSV field says: floats nearly, everything else exactly."""
    if isinstance(value, float) and expected:
        return value == pytest.approx(float(expected), rel=TOLERANCE, abs=0)
    return text(value) == expected


def differences(columns: list[str], rows: list[list[Any]], expected: list[list[str]]) -> list[str]:
    return [
        f"row {i} {column}: {text(value)} instead of {right}"
        for i, (found, wanted) in enumerate(zip(rows, expected, strict=True), 1)
        for column, value, right in zip(columns, found, wanted, strict=True)
        if not agrees(value, right)
    ]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_worked_rows_are_the_committed_ones(case: Case) -> None:
    header, *expected = committed(case.path)
    rows = case.rows()
    assert all(list(row) == header for row in rows)
    assert len(rows) == len(expected)
    assert not differences(header, [list(row.values()) for row in rows], expected)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_query_returns_the_committed_rows(case: Case, request: pytest.FixtureRequest) -> None:
    header, *expected = committed(case.path)
    frame = answer(case, request.getfixturevalue(DATABASES[case.capture]))
    assert header == frame.columns
    assert len(frame) == len(expected)
    rows = [list(row.values()) for row in frame.to_dicts()]
    assert not differences(header, rows, expected)


def test_every_query_and_every_way_to_group_has_an_answer() -> None:
    asked = {(case.query, case.parameters.get("by")) for case in CASES}
    for query in Catalogue().metrics():
        if query.name in NOT_IN_SAMPLES | NOT_WORKED:
            continue
        assert (query.name, None) in asked
        for by in query.params["by"].choices or [] if "by" in query.params else []:
            is_other = by in (query.params["by"].default, OF_JOBS)
            assert is_other or (query.name, by) in asked


def test_no_committed_answer_is_left_over() -> None:
    assert {path.stem for path in GOLDEN.glob("*.csv")} == {case.name for case in CASES}


def readme_tables() -> dict[str, list[list[str]]]:
    """Return the tables of the sample's README that show what the commands print, as cells."""
    text = (CAPTURE.parent / "README.md").read_text(encoding="utf-8")
    section = text.split("\n## What the commands print\n")[1].split("\n## ")[0]
    parts = (part.split("\n", 1) for part in section.split("\n### ")[1:])
    tables = {name: re.findall(r"^\|.*$", body, flags=re.MULTILINE) for name, body in parts}
    return {
        name: [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in lines]
        for name, lines in tables.items()
        if lines
    }


@pytest.mark.parametrize("name", readme_tables())
def test_readme_of_the_sample_shows_the_committed_answers(name: str) -> None:
    header, *expected = committed(GOLDEN / f"{name}.csv")
    shown, _, *cells = readme_tables()[name]
    if shown[0] == "column":  # a line per column: its name, a cell per row, an explanation
        shown, *cells = (list(line) for line in zip(*(line[:-1] for line in cells), strict=True))
    answers = [dict(zip(header, row, strict=True)) for row in expected]
    assert cells == [[as_shown(answer[column]) for column in shown] for answer in answers]


def as_shown(field: str) -> str:
    """Return a CSV field as the README shows it: four decimals where the number is not whole."""
    try:
        number = float(field)
    except ValueError:
        return field or "\N{EN DASH}"
    return f"{number:,.0f}" if number.is_integer() else f"{number:.4f}"
