"""The rules on the samples: verdicts and values are what was worked out without a query."""

from __future__ import annotations

import csv

import pytest

from tbd_trace.analysis.checks import evaluate
from tbd_trace.api import Traces
from tbd_trace.store import Database
from worked_checks import COLUMNS, FOLDER, MEMORY, SAMPLE, Row, checks
from worked_memory_checks import RULES, memory_checks

NUMBERS = {"value", "threshold"}


def committed(name: str) -> list[Row]:
    with (FOLDER / name).open(newline="", encoding="utf-8") as file:
        return [
            {name: _read(name, text) for name, text in row.items()} for row in csv.DictReader(file)
        ]


def _read(name: str, text: str) -> str | float | None:
    return None if not text else float(text) if name in NUMBERS else text


def agree(found: list[Row], expected: list[Row]) -> bool:
    return len(found) == len(expected) and all(
        one[name] == (other[name] if name not in NUMBERS else nearly(other[name]))
        for one, other in zip(found, expected, strict=True)
        for name in other
    )


def nearly(value: float | None) -> object:
    return None if value is None else pytest.approx(value, rel=1e-9, abs=1e-9)


def test_worked_verdicts_are_the_committed_ones() -> None:
    assert agree(checks(), committed(SAMPLE))
    assert agree(memory_checks(), committed(MEMORY))


def test_rules_say_what_was_worked_out(sample_database: Database) -> None:
    frame = evaluate(Traces(sample_database, sample_database.trace_ids()))
    found = frame.sort("rule").select(COLUMNS).to_dicts()
    assert agree(found, committed(SAMPLE)), found


def test_memory_rules_say_what_was_worked_out(memory_sample: Database) -> None:
    frame = evaluate(Traces(memory_sample, memory_sample.trace_ids()), RULES)
    found = frame.sort("rule", "trace_id").to_dicts()
    assert agree(found, committed(MEMORY)), found
