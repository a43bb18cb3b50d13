"""Read jobs from derived relations of traces."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import duckdb

from tbd_trace.analysis.hang.job import Call, Job, Member, Place, Rank
from tbd_trace.query.connection import connected, prepare, tables_behind
from tbd_trace.store.base import TraceStore

_RELATIONS = ("flight_rank", "flight_call", "flight_position")
_FIELDS = [field.name for field in fields(Call) if field.name != "place"]
# Older calls of a rank in a group do not explain why it stands.
_CALLS = 500


def load_jobs(database: TraceStore, trace_ids: Sequence[str]) -> list[Job]:
    """Return the jobs whose Flight Recorder dumps are among some traces, by name."""
    names = set(_RELATIONS)
    with connected(database, trace_ids, contextlib.nullcontext(), tables_behind(names)) as (
        connection,
        cache,
    ):
        prepare(connection, names, cache)
        jobs = connection.execute("SELECT DISTINCT job FROM flight_rank ORDER BY job").fetchall()
        return [_job(connection, name) for (name,) in jobs]


def _job(connection: duckdb.DuckDBPyConnection, name: str) -> Job:
    def rows(sql: str) -> list[tuple[Any, ...]]:
        return connection.execute(sql, [name]).fetchall()

    ranks = rows(
        "SELECT rank, dump, written_ns, unrecorded, world_size FROM flight_rank WHERE job = $1 "
        "ORDER BY rank"
    )
    members: dict[str, dict[int, Member]] = defaultdict(dict)
    descriptions = {}
    for group, description, rank, entered, completed in rows(
        "SELECT group_name, group_description, rank, entered, completed FROM flight_position "
        "WHERE job = $1"
    ):
        members[group][rank] = Member(entered, completed)
        if description is not None:
            descriptions[group] = description
    calls = rows(
        "SELECT file, line, function, rank, coalesce(group_name, ''), sequence, position, "
        "coalesce(operation, '?'), coalesce(signature, ''), is_retired, created_ns, "
        "is_point_to_point, peer, shapes, dtypes, backend FROM flight_call "
        "WHERE job = $1 AND sequence IS NOT NULL QUALIFY NOT is_retired OR "
        f"row_number() OVER (PARTITION BY rank, group_name ORDER BY position DESC) <= {_CALLS} "
        "ORDER BY rank, position"
    )
    return Job(
        name,
        {rank: Rank(dump, written, unrecorded) for rank, dump, written, unrecorded, _ in ranks},
        tuple(map(_call, calls)),
        members,
        next((size for *_, size in ranks if size is not None), None),
        descriptions,
    )


def _call(row: tuple[Any, ...]) -> Call:
    file, line, function, *values = row
    place = None if file is None else Place(file, line, function)
    return Call(**dict(zip(_FIELDS, values, strict=True)), place=place)
