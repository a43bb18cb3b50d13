"""Relations of made traces are the same whether their rows were kept or are computed."""

from __future__ import annotations

import pytest

import made_relations
from made_checks import kernel, train
from made_trace import MadeTrace, Row

RELATIONS = ("iteration", "analysis_window", "idle_interval_cause")


def loop(took: int) -> MadeTrace:
    made = MadeTrace()
    train(made, kernel(100, took))
    return made


def answers(made: MadeTrace, *, keeps: bool, **parameters: str) -> dict[str, list[Row]]:
    with made.connect() as database:
        if not keeps:
            database.relations.off()
        database.set(**parameters)
        return {name: database.relation(name) for name in RELATIONS}


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(made_relations, "_kept", {})


@pytest.mark.slow
def test_rows_that_were_kept_are_those_that_are_computed() -> None:
    """Other rows, another parameter, and again the first: each has its own answers."""
    asked = [(300, {}), (300, {}), (400, {}), (300, {"window": "trace"}), (300, {})]
    found = [answers(loop(took), keeps=True, **parameters) for took, parameters in asked]
    assert made_relations._kept
    computed = [answers(loop(took), keeps=False, **parameters) for took, parameters in asked]
    assert found == computed
    assert found[0] != found[2]
    assert found[0] != found[3]


def test_a_row_that_is_added_by_a_statement_counts() -> None:
    answers(loop(300), keeps=True)
    with loop(300).connect() as database:
        database.connection.execute("DELETE FROM kernel")
        assert database.relation("gpu_op") == []


def test_a_parameter_that_changes_behind_a_relation_stops_the_reuse() -> None:
    with loop(300).connect() as database:
        database.relation("analysis_window")
        assert database.relations._is_on
        database.set(window="trace")
        assert not database.relations._is_on
