"""Two made runs, and the queries of ``queries/diff`` about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from made_trace import MadeDatabase, MadeTrace, Row
from tbd_trace.analysis.diff.comparison import QUESTIONS, question


def add_iterations(made: MadeTrace, trace: str, periods: Sequence[int], **row: Any) -> None:
    """Add iterations of these lengths, each with a kernel of 100 ns, and a last one of 990 ns."""
    start = 1000
    for number, period in enumerate([*periods, 1000]):
        made.add_range(start, start + period - 10, f"step {number}", trace_id=trace, **row)
        made.launch(start + 1, start + 50, start + 150, "multiply", trace_id=trace, **row)
        start += period


def answers(
    made: MadeTrace, a: Sequence[str] = ("a",), b: Sequence[str] = ("b",), **parameters: Any
) -> Mapping[str, list[Row]]:
    """Return what the queries say of traces on side A and traces on side B."""
    with made.connect() as database:
        database.set(**parameters)
        return answers_on(database, a, b)


def answers_on(
    database: MadeDatabase, a: Sequence[str], b: Sequence[str]
) -> Mapping[str, list[Row]]:
    """Return what the queries say of two sides of the traces of a database."""
    queries = {name: question(name) for name in QUESTIONS}
    database.derive({name for query in queries.values() for name in query.relations})
    connection = database.connection
    connection.execute("CREATE OR REPLACE TABLE diff_side (trace_id VARCHAR, side VARCHAR)")
    rows = [*((name, "A") for name in a), *((name, "B") for name in b)]
    connection.executemany("INSERT INTO diff_side VALUES (?, ?)", rows)
    return {name: database.select(query.sql) for name, query in queries.items()}
