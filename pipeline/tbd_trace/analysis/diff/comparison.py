"""Asking the queries of ``queries/diff`` about two runs.

They are ordinary queries over the traces of both sides, with one more relation: ``diff_side`` says
which trace is on which side. A trace compared with itself is on both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tbd_trace import query as queries
from tbd_trace import resources
from tbd_trace.analysis.diff.verdict import Verdict, judge
from tbd_trace.api import Traces, together
from tbd_trace.errors import CannotAnswerError
from tbd_trace.query.shared_session import SharedSession
from tbd_trace.runtime.result_frames import frame
from tbd_trace.sqltext import set_variable

if TYPE_CHECKING:
    import polars as pl

QUESTIONS = ("comparability", "iterations", "utilization", "layers", "kernels")
_SIDES = "CREATE TEMP TABLE diff_side (trace_id VARCHAR, side VARCHAR)"
# A metric run of a capture only lends its counters to the capture's timeline.
_ASKED = """
    SELECT s.side, list(t.name ORDER BY t.name) FROM diff_side s JOIN trace t USING (trace_id)
    WHERE t.trace_id NOT IN (SELECT trace_id FROM counter_donor_trace)
    GROUP BY s.side ORDER BY s.side
"""
# Large files are hashed by samples only, so their trace id identifies them.
_CONTENT = """
    SELECT s.side, list(coalesce(t.sha256, t.trace_id) ORDER BY 1)
    FROM diff_side s JOIN trace t USING (trace_id) GROUP BY s.side
"""


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two runs.

    Attributes:
        names: names of its traces, metric runs that only lend their counters apart.
        trace_ids: its traces.
    """

    names: list[str]
    trace_ids: list[str]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two runs side by side.

    Attributes:
        a: the run that is compared with.
        b: the run that is judged.
        queries: the queries of ``queries/diff`` by name.
        frames: their answers by name; one that the traces cannot answer has no rows.
        verdict: what follows for the time of an iteration.
    """

    a: Side
    b: Side
    queries: Mapping[str, queries.Query]
    frames: Mapping[str, pl.DataFrame]
    verdict: Verdict


def compare(a: Traces, b: Traces, *, min_change_pct: float = 1.0) -> Comparison:
    """Compare two runs.

    Args:
        a: the run that is compared with.
        b: the run that is judged.
        min_change_pct: smallest change that counts, in percent.

    Raises:
        CannotAnswerError: one of them is nothing but a metric run's counters.
        StoreError: a trace is damaged, or was removed meanwhile.
    """
    both = together(a, b)
    asked = {name: question(name) for name in QUESTIONS}
    with SharedSession(both.database, both.trace_ids) as conversation:
        connection = conversation.connection
        connection.execute(_SIDES)
        sides = [*((i, "A") for i in a.trace_ids), *((i, "B") for i in b.trace_ids)]
        connection.executemany("INSERT INTO diff_side VALUES (?, ?)", sides)
        connection.execute(set_variable("min_change_pct", float(min_change_pct)))
        frames = _answers(conversation, asked)
        names = dict(connection.execute(_ASKED).fetchall())
        content = dict(connection.execute(_CONTENT).fetchall())
    for side in ("A", "B"):
        if side not in names:
            raise CannotAnswerError(f"{side} holds only counters; add the capture's timeline")
    return Comparison(
        a=Side(names["A"], a.trace_ids),
        b=Side(names["B"], b.trace_ids),
        queries=asked,
        frames=frames,
        verdict=judge(frames, same=content["A"] == content["B"]),
    )


def question(name: str) -> queries.Query:
    """Return a query of ``queries/diff``."""
    return queries.Catalogue().load(resources.sql_files("diff")[name])


def _answers(
    conversation: SharedSession, asked: Mapping[str, queries.Query]
) -> dict[str, pl.DataFrame]:
    connection, kept = conversation.connection, conversation.kept
    queries.prepare(connection, ["counter_donor_trace"], kept)
    frames = {}
    for name, query in asked.items():
        queries.prepare(connection, query.relations, kept)
        frames[name] = frame(connection.sql(query.sql))
    return frames
