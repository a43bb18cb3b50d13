"""Running the rules over some traces, all on one connection."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

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
from tbd_trace.query.shared_session import SharedSession
from tbd_trace.sqltext import identifier, set_variable

if TYPE_CHECKING:
    from tbd_trace.api import Traces

SEVERITIES = ("note", "warning", "severe")
"""How bad a finding is, the mildest first."""

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
# A metric run of a capture that has a timeline only lends its counters to it.
_ASKED = """
    SELECT trace_id, name, tool, kind, coalesce(holds, []) FROM trace
    WHERE trace_id NOT IN (SELECT trace_id FROM counter_donor_trace)
    ORDER BY name, trace_id
"""
_NOTHING = "nothing that the rule is about is in the trace"

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Asked:
    """A trace that the rules are about."""

    trace_id: str
    name: str
    tool: str
    kind: str
    holds: list[str]


def evaluate(
    traces: Traces,
    rules: Sequence[str] | None = None,
    parameters: Mapping[str, str] | None = None,
) -> pl.DataFrame:
    """Return what the rules say about some traces.

    Args:
        traces: the traces.
        rules: rule ids (OBS04) or file names (gpu_idle_small_batch); None means all.
        parameters: thresholds and parameters of what the rules build on, as texts.

    Returns:
        One row per rule and trace, or per rule and sweep or set of runs (``trace_id`` is null
        then): rule, title, verdict (finding, not evaluable or pass), severity of a finding (note,
        warning or severe), trace_id, value, threshold, unit, evidence, reason, advice and query,
        the file name without ``.sql``. Findings come first, the worst before the others, then what
        is not evaluable, then what passes.

    Raises:
        CannotAnswerError: there is no trace to ask.
        UsageError: a rule or parameter is unknown, or its value not allowed.
        StoreError: a trace is damaged, or was removed meanwhile.
    """
    checks = select(rules)
    settings = values(checks, parameters or {})
    database, trace_ids = traces.database, traces.trace_ids
    tables = {"trace"}.union(*map(canonical_relations, checks))
    with _blamed(settings), SharedSession(database, trace_ids, tables) as conversation:
        return evaluate_on(conversation, checks, settings)


@contextlib.contextmanager
def _blamed(settings: Mapping[str, Scalar]) -> Iterator[None]:
    """Blame DuckDB's errors on the parameters, where any were set.

    Raises:
        SqlError: a value cannot be used, such as a regular expression that is none.
    """
    try:
        yield
    except duckdb.Error as error:
        if not settings:
            raise
        given = ", ".join(f"{name}={value}" for name, value in settings.items())
        raise SqlError(f"check with {given}: {error}") from error


def evaluate_on(
    conversation: SharedSession,
    checks: Sequence[Query],
    settings: Mapping[str, Scalar] | None = None,
) -> pl.DataFrame:
    """Return what rules say about the traces of a conversation; see :func:`evaluate`."""
    settings = settings or {}
    conversation.renew({name for query in checks for name in query.relations}, settings)
    for name, value in settings.items():
        conversation.connection.execute(set_variable(name, value))
    evaluator = Evaluator(conversation.connection, conversation.kept)
    rows = [row for query in checks for row in evaluator.rows(query)]
    return _ordered(rows, evaluator.names)


class Evaluator:
    """The rules over the traces that a connection sees.

    Args:
        connection: where the canonical tables are, and the parameters as variables.
        kept: derived relations that are kept between connections.

    Raises:
        CannotAnswerError: the connection sees no trace.
    """

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, kept: RelationCache | None = None
    ) -> None:
        self._connection = connection
        self._kept = kept
        prepare(connection, ["counter_donor_trace"], kept)
        self._asked = [_Asked(*row) for row in connection.execute(_ASKED).fetchall()]
        if not self._asked:
            raise CannotAnswerError("check: no trace to ask; ingest one first")

    @property
    def names(self) -> dict[str, str]:
        """Names of the traces by their ids."""
        return {trace.trace_id: trace.name for trace in self._asked}

    def rows(self, query: Query) -> Iterator[Row]:
        """Yield the rows of one rule, complete: of each trace, or of the sweeps and runs."""
        if rule_of(query).scope != "trace":
            yield from (_complete(query, row) for row in self._answers(query))
            return
        lacking = self._lacking(query)
        answers = self._answers(query) if len(lacking) < len(self._asked) else []
        by_trace = {row["trace_id"]: row for row in answers if row["trace_id"] not in lacking}
        for trace in self._asked:
            row = by_trace.get(trace.trace_id) or _abstention(trace, lacking)
            yield _complete(query, row)

    def _answers(self, query: Query) -> list[Row]:
        prepare(self._connection, query.relations, self._kept)
        return execute_reading(self._connection, query.sql).to_dicts()

    def _lacking(self, query: Query) -> dict[str, str]:
        """Return what the traces lack that the rule needs, and how to get it, by trace."""
        lacking: dict[str, str] = {}
        for names in map(alternatives, query.needs):
            left = [trace for trace in self._asked if trace.trace_id not in lacking]
            if not left:
                break
            there = self._holding(names)
            for trace in left:
                if trace.trace_id not in there:
                    lacking[trace.trace_id] = how_to_collect(
                        names, trace.tool, trace.kind, trace.holds
                    )
        return lacking

    def _holding(self, names: Sequence[str]) -> set[str]:
        """Return the traces of which one of the relations holds rows."""
        prepare(self._connection, names, self._kept)
        union = " UNION ".join(f"SELECT trace_id FROM {identifier(name)}" for name in names)
        return {row[0] for row in self._connection.execute(union).fetchall()}


def _abstention(trace: _Asked, lacking: Mapping[str, str]) -> Row:
    """Return the row of a trace that a rule cannot judge."""
    reason, _, advice = lacking.get(trace.trace_id, _NOTHING).partition("; ")
    return {
        "trace_id": trace.trace_id,
        "verdict": "not evaluable",
        "reason": reason,
        "advice": advice or None,
    }


def _complete(query: Query, row: Row) -> Row:
    """Return a row with all columns, and with what the header of its rule says."""
    check = rule_of(query)
    advice = {"finding": check.advice, "not evaluable": check.collect}.get(row["verdict"])
    told: Row = dict.fromkeys(_SCHEMA)
    return (
        told
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
    """Return the findings of an evaluation that are at least as bad as a severity."""
    bad = SEVERITIES[SEVERITIES.index(level) :]
    return frame.filter(pl.col("severity").is_in(bad))
