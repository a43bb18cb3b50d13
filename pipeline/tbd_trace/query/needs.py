"""Check that the traces hold the data that a query needs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

import duckdb

from tbd_trace import resources
from tbd_trace.errors import CannotAnswerError, UsageError
from tbd_trace.model.canonical_tables import CATALOGUE, canonical_tables, event_tables
from tbd_trace.query.advice import how_to_collect
from tbd_trace.query.catalogue import derived_names
from tbd_trace.query.header import Query, Scalar, alternatives
from tbd_trace.query.recording import in_words_of_each
from tbd_trace.query.renamed import old_names

if TYPE_CHECKING:
    import polars as pl

_SHOWN = 3  # traces in a message
_REASONS_SHOWN = 5
UNREAD = "coalesce(list_filter(notes, lambda n: n LIKE 'work of % is not read: %')[1], '')"
"""SQL of the note of a reader on a device whose work it does not read; empty without one."""


def check_needs(connection: duckdb.DuckDBPyConnection, query: Query) -> list[str]:
    """Return a note on each trace that lacks a canonical table the query needs.

    Raises:
        CannotAnswerError: every trace lacks one.
        UsageError: the query names an unknown relation.
    """
    for name in set(query.relations) - _relations():
        raise UsageError(
            f"{query.path.name}: unknown table {name!r} in `needs`; "
            "docs/reference/tables lists all tables"
        )
    stored = set(event_tables())
    needed = [names for names in map(alternatives, query.needs) if stored.issuperset(names)]
    rows = _trace_rows(connection)
    if not rows:
        raise CannotAnswerError(f"{query.name}: no trace to ask; ingest one first")
    lacking: dict[str, list[str]] = defaultdict(list)
    for name, tool, kind, lacks, unread in rows:
        missing = sorted(names for names in needed if lacks.issuperset(names))
        if missing:
            holds = canonical_tables().keys() - lacks
            advice = how_to_collect(missing[0], tool, kind, holds, unread)
            lacking[f"{query.name} {advice}"].append(name)
    notes = [f"{named(names)}: {what}" for what, names in lacking.items()]
    if sum(map(len, lacking.values())) == len(rows):
        rest = sum(len(names) for names in [*lacking.values()][_SHOWN:])
        more = [f"{rest} more traces cannot answer either"] if rest else []
        raise CannotAnswerError("; ".join(notes[:_SHOWN] + more))
    return notes


def named(names: Sequence[str]) -> str:
    """Join the first names of a list for a sentence."""
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def left_out(connection: duckdb.DuckDBPyConnection, query: Query) -> list[str]:
    """Return a note on the traces that a result does not cover, with the reason."""
    if not query.leaves_out:
        return []
    rows = connection.execute(
        f"SELECT why, list(name ORDER BY name) FROM {query.leaves_out} JOIN trace USING (trace_id) "
        "GROUP BY why ORDER BY why"
    ).fetchall()
    return [f"{query.name} leaves out {named(names)}: {why}" for why, names in rows]


def _trace_rows(connection: duckdb.DuckDBPyConnection) -> list[tuple[str, str, str, set[str], str]]:
    # Name, tool, kind, missing tables and unread device of each trace. A metric run of a capture
    # with a timeline only contributes counters to it.
    traces = connection.execute(
        f"SELECT name, tool, kind, capture_id, holds, lacks, {UNREAD} FROM trace "
        "ORDER BY name, trace_id"
    ).fetchall()
    timed = {capture for _, _, kind, capture, *_ in traces if kind == "timeline"} - {None}
    lent: dict[str, set[str]] = defaultdict(set)
    for _, _, kind, capture, holds, *_ in traces:
        if kind == "metrics":
            lent[capture].update(holds)
    return [
        (name, tool, kind, set(lacks) - (lent[capture] if capture else set()), unread)
        for name, tool, kind, capture, _, lacks, unread in traces
        if kind != "metrics" or capture not in timed
    ]


def _relations() -> set[str]:
    data = {file.stem for file in resources.data().glob("*.csv")}
    return data | canonical_tables().keys() | derived_names() | old_names()


def check_sources(connection: duckdb.DuckDBPyConnection, query: Query) -> None:
    """Distinguish an empty result from missing data.

    Raises:
        CannotAnswerError: every trace lacks all tables that the query reads, or their times.
    """
    sources = [name for name in query.relations if name in canonical_tables() and name != CATALOGUE]
    rows = _trace_rows(connection)
    tool, kind, lacking, unread = rows[0][1:]
    holds = canonical_tables().keys() - lacking
    if sources and all(lacks.issuperset(sources) for *_, lacks, _ in rows):
        advice = how_to_collect(sources[:1], tool, kind, holds, unread)
        raise CannotAnswerError(f"{query.name} {advice}")
    if sources and all(kind != "timeline" for _, _, kind, *_ in rows):
        raise CannotAnswerError(f"{query.name} {how_to_collect(['gpu_op'], tool, kind, holds)}")


def check_derived(connection: duckdb.DuckDBPyConnection, query: Query) -> None:
    """Check that the derived relations that the query needs have rows.

    Raises:
        CannotAnswerError: a relation and its alternatives have no rows in any trace.
    """
    for names in map(alternatives, query.needs):
        if not derived_names().intersection(names):
            continue
        if not any(
            connection.execute(f"SELECT 1 FROM {name} LIMIT 1").fetchall() for name in names
        ):
            rows = _trace_rows(connection)
            kinds = {kind for _, _, kind, *_ in rows}
            advice = partial(
                how_to_collect,
                names,
                kind=kinds.pop() if len(kinds) == 1 else "",
                holds=canonical_tables().keys() - set[str]().union(*(row[3] for row in rows)),
                unread=rows[0][4] if len(rows) == 1 else "",
            )
            tools = dict.fromkeys(tool for _, tool, *_ in rows)
            raise CannotAnswerError(f"{query.name} {in_words_of_each(tools, advice)}")


def check_refusal(query: Query, frame: pl.DataFrame, values: Mapping[str, Scalar]) -> None:
    """Refuse a misleading result unless overridden by a parameter.

    Raises:
        CannotAnswerError: the column of reasons is not empty.
        UsageError: the result lacks that column.
    """
    refuse = query.refuse
    if refuse is None or values.get(refuse.unless, query.params[refuse.unless].default):
        return
    if refuse.column not in frame.columns:
        raise UsageError(
            f"{query.path.name}: refuses by {refuse.column!r}, which it does not return"
        )
    refused = frame[refuse.column].drop_nulls().to_list()
    lists = [reasons if isinstance(reasons, list) else [str(reasons)] for reasons in refused]
    reasons = list(dict.fromkeys(chain.from_iterable(lists)))
    if reasons:
        more = len(reasons) - _REASONS_SHOWN
        shown = reasons[:_REASONS_SHOWN] + ([f"and {more} more differences"] if more > 0 else [])
        raise CannotAnswerError(
            f"{query.name}: {'; '.join(shown)} (use --set {refuse.unless}=true to override)"
        )
