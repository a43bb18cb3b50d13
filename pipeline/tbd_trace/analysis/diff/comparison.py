"""Run the queries of ``queries/diff`` on two runs.

The queries read the traces of both sides and the relation ``diff_side``, which maps traces to
sides. A trace compared with itself is on both sides.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tbd_trace import archive, resources
from tbd_trace import query as queries
from tbd_trace.analysis.diff.result import Comparison, Side
from tbd_trace.analysis.diff.verdict import verdict_on, work_of
from tbd_trace.errors import CannotAnswerError
from tbd_trace.query.shared_session import SharedSession
from tbd_trace.runtime.result_frames import frame
from tbd_trace.sqltext import set_variable
from tbd_trace.store.selection import Selection

if TYPE_CHECKING:
    import polars as pl


QUESTIONS = (
    "comparability",
    "work",
    "iterations",
    "utilization",
    "ranks",
    "collectives",
    "memory",
    "memory_lines",
    "layers",
    "kernels",
)
_SIDES = "CREATE TABLE diff_side (trace_id VARCHAR, side VARCHAR)"
# Metric runs are not named: their counters are joined to the timeline of the capture.
_SIDE_NAMES = """
    SELECT s.side, list(t.name ORDER BY t.name) FROM diff_side s JOIN trace t USING (trace_id)
    WHERE t.trace_id NOT IN (SELECT trace_id FROM counter_donor_trace)
    GROUP BY s.side ORDER BY s.side
"""
# Large files have no SHA-256 but a hash of samples, which is part of the trace id.
_SIDE_CONTENT = """
    SELECT s.side, list(coalesce(t.sha256, t.trace_id) ORDER BY 1)
    FROM diff_side s JOIN trace t USING (trace_id) GROUP BY s.side
"""


def compare(a: Selection, b: Selection, *, min_change_pct: float = 1.0) -> Comparison:
    """Compare two runs.

    Args:
        min_change_pct: minimum change of an iteration that counts, in percent.

    Raises:
        CannotAnswerError: a side has only a metric run.
        StoreError: a trace is damaged, or was removed during the comparison.
    """
    database, trace_ids = archive.merged([(side.database, side.trace_ids) for side in (a, b)])
    catalogue = {name: question(name) for name in QUESTIONS}
    with SharedSession(database, trace_ids) as session:
        connection = session.connection
        connection.execute(_SIDES)
        sides = [*((i, "A") for i in a.trace_ids), *((i, "B") for i in b.trace_ids)]
        connection.executemany("INSERT INTO diff_side VALUES (?, ?)", sides)
        connection.execute(set_variable("min_change_pct", float(min_change_pct)))
        frames = _run(session, catalogue)
        names = dict(connection.execute(_SIDE_NAMES).fetchall())
        content = dict(connection.execute(_SIDE_CONTENT).fetchall())
    for side in ("A", "B"):
        if side not in names:
            raise CannotAnswerError(f"{side} has only counters; add the capture's timeline")
    is_same = content["A"] == content["B"]
    work = work_of(frames, same=is_same)
    return Comparison(
        a=Side(names["A"], a.trace_ids),
        b=Side(names["B"], b.trace_ids),
        queries=catalogue,
        frames=frames,
        verdict=verdict_on(frames, work, same=is_same),
        work=work,
    )


def question(name: str) -> queries.Query:
    """Load a query of ``queries/diff``."""
    return queries.Catalogue().load(resources.sql_files("diff")[name])


def _run(session: SharedSession, catalogue: Mapping[str, queries.Query]) -> dict[str, pl.DataFrame]:
    connection, cache = session.connection, session.cache
    queries.prepare(connection, ["counter_donor_trace"], cache)
    frames = {}
    for name, query in catalogue.items():
        queries.prepare(connection, query.relations, cache)
        frames[name] = frame(connection.sql(query.sql))
    return frames
