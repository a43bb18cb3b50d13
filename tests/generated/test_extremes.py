"""Extreme numbers in any table: what the audit of an ingest leaves of them gives no error.

The rows are audited with the rules of ``queries/ingest/audit/rows``, then each query is asked.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from fast import slow
from generated_traces import generated
from made_trace import MadeDatabase, MadeTrace
from query_digests import Question, answer
from query_files import CHECKS, DERIVED, METRICS
from shared_programs import programs_read_once
from tbd_trace.model.canonical_tables import canonical_tables, timed_tables
from tbd_trace.store.audit import audited_tables, rule

EXTREMES = {
    "BIGINT": [2**63 - 1, -(2**63) + 1, 2**62, 0, -1],
    "INTEGER": [2**31 - 1, -1, 0],
    "UBIGINT": [2**64 - 1, 0],
    "DOUBLE": [1e300, -1e300, 0.0, float("nan"), float("inf")],
}
SHARE = 0.1  # of the cells
OTHER_TABLES = {"device", "job_rank", "kernel_metric", "memory_plan"}  # read as they are
# By readers.
NUMBERED = {(table, "sequence") for table in ("memory_event", "memory_total", "memory_failure")}


def extreme(seed: int) -> MadeTrace:
    """Return generated traces with extreme numbers."""
    dice, made = Random(seed), generated(seed)
    for table in sorted(audited_tables() | OTHER_TABLES):
        columns = [
            column
            for column in canonical_tables()[table].columns
            if column.type in EXTREMES
            and not column.name.endswith("_id")
            and (table, column.name) not in NUMBERED
        ]
        for row in made.rows[table]:
            for column in columns:
                if row.get(column.name) is not None and dice.random() < SHARE:
                    row[column.name] = dice.choice(EXTREMES[column.type])
    return made


def audited(made: MadeTrace) -> MadeDatabase:
    """Return a database with the rows that the audit keeps."""
    database = made.connect()
    database.connection.execute(rule("macros"))
    for table in sorted(audited_tables()):
        middle = "0"
        if table in timed_tables():
            start = timed_tables()[table].start
            ((found,),) = database.connection.execute(
                f"SELECT quantile_disc({start}, 0.5) FILTER ({start} BETWEEN 0 AND 1e18) "
                f"FROM {table}"
            ).fetchall()
            middle = str(found)
        sql = rule(f"rows/{table}").replace("$middle", middle)
        database.connection.execute(
            f"CREATE TEMP TABLE kept AS SELECT * EXCLUDE (fault, kept) FROM ({sql}) WHERE kept;"
            f"DELETE FROM {table}; INSERT INTO {table} BY NAME FROM kept; DROP TABLE kept"
        )
    return database


@pytest.fixture(scope="module")
def database() -> Iterator[MadeDatabase]:
    with programs_read_once(), audited(extreme(1)) as found:
        yield found


@slow
@pytest.mark.parametrize("path", [*DERIVED, *METRICS, *CHECKS], ids=lambda path: path.stem)
def test_a_query_answers(path: Path, database: MadeDatabase) -> None:
    answer(database, Question(path))
