"""Profile tbd-trace: seconds per canonical table, derived relation and metric of one file.

Usage: python -m benchmarks.where FILE [--explain RELATION]

Each derived relation is computed once from earlier ones, with the memory limit of a query. Metrics
find the relations computed and return the rows of a terminal. CPU time is that of this process
only, without the workers that read large files.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import duckdb

from tbd_trace.errors import CannotAnswerError
from tbd_trace.query.catalogue import Catalogue, derive_relations
from tbd_trace.query.connection import connect
from tbd_trace.query.execution import checked_values, execute_on
from tbd_trace.query.header import Query
from tbd_trace.query.relation_cache import RelationCache
from tbd_trace.store.database import Database

_SHOWN = 50  # rows that a terminal displays


@dataclass(frozen=True, slots=True)
class _Now:
    wall: float  # s
    cpu: float  # s, all threads


_Timing = tuple[str, _Now, _Now, str]


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path, metavar="FILE")
    parser.add_argument("--explain", metavar="RELATION", help="print DuckDB's profile of one")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        database = Database(Path(directory) / "where.duckdb")
        print("| kind | name | wall, s | CPU, s | rows |\n|---|---|---:|---:|---:|")
        _print("canonical", _ingest(database, options.file))
        with connect(database) as connection:
            kept = RelationCache(database, database.trace_ids())
            relations = derive_relations()
            with kept.bounded(connection):
                if options.explain:
                    print(_explain(connection, kept, relations, options.explain))
                    return
                _print("derived", (_derive(connection, kept, each) for each in relations))
            _print("metric", (_ask(connection, kept, query) for query in Catalogue().metrics()))


def _now() -> _Now:
    return _Now(time.perf_counter(), time.process_time())


def _print(kind: str, timings: Iterator[_Timing]) -> None:
    for name, begin, end, rows in timings:
        wall, cpu = end.wall - begin.wall, end.cpu - begin.cpu
        print(f"| {kind} | {name} | {wall:.2f} | {cpu:.2f} | {rows} |", flush=True)


def _ingest(database: Database, file: Path) -> Iterator[_Timing]:
    begun = [("hash", _now())]
    database.ingest([file], lambda what: begun.append((what.partition(": ")[2], _now())))
    begun.append(("", _now()))
    for (table, start), (_, end) in pairwise(begun):
        yield table, start, end, ""


def _derive(connection: duckdb.DuckDBPyConnection, kept: RelationCache, relation: Query) -> _Timing:
    begin = _now()
    kept.compute(connection, relation)
    end = _now()
    (rows,) = connection.execute(f"SELECT count(*) FROM {relation.name}").fetchall()[0]
    return relation.name, begin, end, f"{rows:,}"


def _ask(connection: duckdb.DuckDBPyConnection, kept: RelationCache, query: Query) -> _Timing:
    begin = _now()
    try:
        result = execute_on(connection, query, checked_values(query, None), kept, _SHOWN)
        rows = f"{result.frame.height:,}{' and more' if result.more else ''}"
    except CannotAnswerError:
        rows = "cannot answer"
    return query.name, begin, _now(), rows


def _explain(
    connection: duckdb.DuckDBPyConnection,
    kept: RelationCache,
    relations: Sequence[Query],
    name: str,
) -> str:
    # Computes the relations before it first, so that the profile is of this one alone.
    for relation in relations:
        if relation.name == name:
            return str(connection.execute(f"EXPLAIN ANALYZE {relation.sql}").fetchall()[0][1])
        _derive(connection, kept, relation)
    return f"there is no derived relation {name}"


if __name__ == "__main__":
    main()
