"""Evaluate rules on traces over one connection."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any

import duckdb
import polars as pl

from tbd_trace.analysis.checks.rules import rule_of, select, values
from tbd_trace.errors import CannotAnswerError, SqlError
from tbd_trace.query import (
    Query,
    RelationCache,
    canonical_relations,
    execute_reading,
    prepare,
)
from tbd_trace.query.advice import how_to_collect
from tbd_trace.query.header import Scalar, alternatives
from tbd_trace.query.needs import UNREAD
from tbd_trace.query.recording import in_words_of, in_words_of_each
from tbd_trace.query.shared_session import SharedSession
from tbd_trace.runtime.executors import Executor, Lost
from tbd_trace.sqltext import identifier, set_variable
from tbd_trace.store.base import TraceStore
from tbd_trace.store.selection import Selection

SEVERITIES = ("note", "warning", "severe")
"""Severities of findings in ascending order."""

_VERDICTS = ("finding", "not evaluable", "pass")
_SCHEMA = {
    "rule": pl.String,
    "title": pl.String,
    "verdict": pl.String,
    "severity": pl.String,
    "trace_id": pl.String,
    "value": pl.Float64,
    "threshold": pl.Float64,
    "unit": pl.String,
    "evidence": pl.String,
    "reason": pl.String,
    "advice": pl.String,
    "query": pl.String,
}
# Metric runs of a capture with a timeline are left out: their counters are joined to the timeline.
_CHECKED_TRACES = f"""
    SELECT trace_id, name, tool, kind, coalesce(holds, []), {UNREAD} FROM trace
    WHERE trace_id NOT IN (SELECT trace_id FROM counter_donor_trace)
    ORDER BY name, trace_id
"""
_NO_SUBJECT = "the trace has no data that the rule applies to"

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _CheckedTrace:
    trace_id: str
    name: str
    tool: str
    kind: str
    holds: list[str]
    unread: str  # note on a device whose work is not read


def evaluate(
    traces: Selection,
    rules: Sequence[str] | None = None,
    parameters: Mapping[str, str] | None = None,
    *,
    executor: Executor | None = None,
    missing: list[str] | None = None,
) -> pl.DataFrame:
    """Evaluate rules on traces.

    Args:
        rules: rule ids (OBS04) or file names (gpu_idle_small_batch); None evaluates all.
        parameters: texts of thresholds and of parameters of the tables that rules use.
        executor: where to evaluate each trace; None means this process.
        missing: gets the names of traces whose process ended; rows about them are missing.

    Returns:
        One row per rule and trace, or per rule and sweep or set of runs (with a null ``trace_id``):
        rule, title, verdict (finding, not evaluable or pass), severity of a finding (note, warning
        or severe), trace_id, value, threshold, unit, evidence, reason, advice, and query (the file
        name without ``.sql``). Ordered by verdict, then by descending severity.

    Raises:
        CannotAnswerError: there are no traces.
        UsageError: a rule or parameter is unknown, or its value is not allowed.
        StoreError: a trace is damaged, or was removed during the evaluation.
    """
    checks = select(rules)
    settings = values(checks, parameters or {})
    database, trace_ids = traces.database, traces.trace_ids
    tables = {"trace"}.union(*map(canonical_relations, checks))
    with _explained(settings), SharedSession(database, trace_ids, tables, executor) as session:
        frame = evaluate_on(session, checks, settings)
    if missing is not None:
        missing += session.missing
    return frame


@contextlib.contextmanager
def _explained(settings: Mapping[str, Scalar]) -> Iterator[None]:
    # With parameters, a DuckDB error is the user's: for example an invalid regular expression.
    try:
        yield
    except duckdb.Error as error:
        if not settings:
            raise
        given = ", ".join(f"{name}={value}" for name, value in settings.items())
        raise SqlError(f"check with {given}: {error}") from error


def evaluate_on(
    session: SharedSession,
    checks: Sequence[Query],
    settings: Mapping[str, Scalar] | None = None,
) -> pl.DataFrame:
    """Evaluate rules on the traces of a shared session; see :func:`evaluate`."""
    settings = settings or {}
    rows: list[Row] = []
    if session.is_divided:
        # Rules that read no other traces are evaluated one trace at a time, like queries.
        apart = [query for query in checks if query.reduce]
        checks = [query for query in checks if query not in apart]
        for together in sorted({query.together for query in apart}):
            some = [query for query in apart if query.together == together]
            rows += _rows_of_parts(session, session.parts_for(together), some, settings)
    evaluator = _evaluator(session, checks, settings)
    rows += [row for query in checks for row in evaluator.rows(query)]
    return _ordered(rows, evaluator.names)


def _evaluator(
    session: SharedSession, checks: Sequence[Query], settings: Mapping[str, Scalar]
) -> Evaluator:
    session.renew({name for query in checks for name in query.relations}, settings)
    for name, value in settings.items():
        session.connection.execute(set_variable(name, value))
    return Evaluator(session.connection, session.cache)


def _rows_of_parts(
    session: SharedSession,
    parts: Sequence[Sequence[str]],
    checks: Sequence[Query],
    settings: Mapping[str, Scalar],
) -> list[Row]:
    calls = [partial(_rows_of_part, session.database, part, checks, settings) for part in parts]
    rows: list[Row] = []
    with closing(session.executor.run(calls)) as results:
        for part, part_rows in zip(parts, results, strict=False):
            if isinstance(part_rows, Lost):
                session.missing += session.database.trace_frame(part)["name"].to_list()
            else:
                rows += part_rows
    return rows


def _rows_of_part(
    database: TraceStore,
    trace_ids: Sequence[str],
    checks: Sequence[Query],
    settings: Mapping[str, Scalar],
) -> list[Row]:
    tables = {"trace"}.union(*map(canonical_relations, checks))
    with SharedSession(database, trace_ids, tables) as session:
        evaluator = _evaluator(session, checks, settings)
        return [row for query in checks for row in evaluator.rows(query)]


class Evaluator:
    """Evaluates rules on the traces of a connection.

    Args:
        connection: has the canonical tables, and the parameters as variables.
        cache: derived relations shared between connections; None derives all of them.

    Raises:
        CannotAnswerError: the connection has no traces.
    """

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, cache: RelationCache | None = None
    ) -> None:
        self._connection = connection
        self._cache = cache
        prepare(connection, ["counter_donor_trace"], cache)
        self._traces = [
            _CheckedTrace(*row) for row in connection.execute(_CHECKED_TRACES).fetchall()
        ]
        if not self._traces:
            raise CannotAnswerError("check: there are no traces; ingest one first")

    @property
    def names(self) -> dict[str, str]:
        return {trace.trace_id: trace.name for trace in self._traces}

    def rows(self, query: Query) -> Iterator[Row]:
        """Yield the rows of a rule: one per trace, or those of the sweeps and runs."""
        if rule_of(query).scope != "trace":
            tools = dict.fromkeys(trace.tool for trace in self._traces)
            yield from (_complete(query, row, tools) for row in self._answers(query))
            return
        # The query is skipped if no trace has the required data.
        missing = self._missing_data(query)
        answers = self._answers(query) if len(missing) < len(self._traces) else []
        by_trace = {row["trace_id"]: row for row in answers if row["trace_id"] not in missing}
        for trace in self._traces:
            row = by_trace.get(trace.trace_id) or _not_evaluable(trace, missing)
            yield _complete(query, row, [trace.tool])

    def _answers(self, query: Query) -> list[Row]:
        prepare(self._connection, query.relations, self._cache)
        return execute_reading(self._connection, query.sql).to_dicts()

    def _missing_data(self, query: Query) -> dict[str, str]:
        # Maps a trace to its first missing requirement and how to collect it.
        missing: dict[str, str] = {}
        for names in map(alternatives, query.needs):
            left = [trace for trace in self._traces if trace.trace_id not in missing]
            if not left:
                break
            with_rows = self._traces_with_rows(names)
            for trace in left:
                if trace.trace_id not in with_rows:
                    missing[trace.trace_id] = how_to_collect(
                        names, trace.tool, trace.kind, trace.holds, trace.unread
                    )
        return missing

    def _traces_with_rows(self, names: Sequence[str]) -> set[str]:
        # Any one of the relations is enough.
        prepare(self._connection, names, self._cache)
        union = " UNION ".join(f"SELECT trace_id FROM {identifier(name)}" for name in names)
        return {row[0] for row in self._connection.execute(union).fetchall()}


def _not_evaluable(trace: _CheckedTrace, missing: Mapping[str, str]) -> Row:
    # how_to_collect() separates reason and advice by a semicolon.
    reason, _, advice = missing.get(trace.trace_id, _NO_SUBJECT).partition("; ")
    return {
        "trace_id": trace.trace_id,
        "verdict": "not evaluable",
        "reason": reason,
        "advice": advice or None,
    }


def _complete(query: Query, row: Row, tools: Collection[str]) -> Row:
    # The advice of the query's row is more specific than that of the rule's header, which names
    # actions of the profilers of the traces.
    check = rule_of(query)
    text = {"finding": check.advice, "not evaluable": check.collect}.get(row["verdict"])
    advice = text and in_words_of_each(tools, partial(in_words_of, text))
    empty: Row = dict.fromkeys(_SCHEMA)
    return (
        empty
        | row
        | {
            "rule": check.rule,
            "title": query.title,
            "query": query.name,
            "advice": row.get("advice") or advice,
        }
    )


def _ordered(rows: Sequence[Row], names: Mapping[str, str]) -> pl.DataFrame:
    def key(row: Row) -> tuple[Any, ...]:
        severity = row.get("severity")
        mildness = -SEVERITIES.index(severity) if severity else 0
        name = names.get(row["trace_id"] or "", "")
        return _VERDICTS.index(row["verdict"]), mildness, row["rule"], name, row["reason"]

    return pl.DataFrame(sorted(rows, key=key), schema=_SCHEMA)


def findings_from(frame: pl.DataFrame, level: str) -> pl.DataFrame:
    """Return the findings of at least a severity."""
    bad = SEVERITIES[SEVERITIES.index(level) :]
    return frame.filter(pl.col("severity").is_in(bad))
