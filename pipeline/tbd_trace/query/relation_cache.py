"""Derived relations that took long to compute, kept beside the database for the next query.

Each is a Parquet file whose name is a hash of all that its rows depend on: the traces, the SQL of
the relation and of those that it builds on, the data tables that they read, DuckDB, and the values
of the parameters. So a file is never out of date, only unused; the ones not used for longest are
removed where they take too much room.

Of large traces relations are computed straight into their files: as tables they would fill the
memory.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from tbd_trace import resources
from tbd_trace.model.canonical_tables import long_tables
from tbd_trace.query.catalogue import names_used, parameters_behind, required_relations
from tbd_trace.query.header import Query
from tbd_trace.runtime.settings_env import MEMORY_LIMIT
from tbd_trace.sqltext import identifier, of_one_trace, parquet_relation, string
from tbd_trace.store.tables import PARQUET

if TYPE_CHECKING:
    from tbd_trace.store.base import TraceStore

# Faster ones are computed again: reading them back would not be faster. The first answer about a
# trace does not wait for more to be written, either, for it may be the only one.
_SHORTEST_SECONDS, _SHORTEST_AT_FIRST = 0.1, 0.5
# Larger ones are read from their files from then on, for as tables they would stay in memory.
_SMALL_BYTES = 2**20
# Relations of traces with as many rows in these tables are computed into their files.
_LARGE = 4_000_000
_SLICE_ROWS = 6_000_000  # as many are sorted within the memory below
# DuckDB takes what it may have and spills the rest. This leaves the whole process below 1 GB where
# relations go into their files; of smaller traces more would not make it faster.
_STREAM_MEMORY = 700_000_000
_MEMORY_PER_ROW = 400
_LEAST_MEMORY = 150_000_000
_MOST_BYTES = 8 * 2**30
_IN_USE_SECONDS = 600
# Types that Parquet has no equal of.
_NOT_IN_PARQUET = ("HUGEINT", "INTERVAL", "UNION", "BIT")


class RelationCache:
    """The kept relations of some traces of a database.

    Args:
        database: the database; where it may not be written, nothing new is kept.
        trace_ids: the traces that queries see.

    Attributes:
        directory: where they are kept.
        are_new: whether nobody has asked about one of the traces before.
    """

    def __init__(self, database: TraceStore, trace_ids: Sequence[str]) -> None:
        self.directory = database.derived_directory
        states = [database.state(trace_id) for trace_id in sorted(trace_ids)]
        self._basis = json.dumps([duckdb.__version__, states])
        self._only_trace = trace_ids[0] if len(trace_ids) == 1 else None
        self.are_new = database.are_new(trace_ids)
        self._rows: int | None = None
        self._new: set[Path] = set()  # files that were written
        self._later: list[Query] = []

    def load(self, connection: duckdb.DuckDBPyConnection, relation: Query) -> bool:
        """Make a relation visible from its file; return False where there is none."""
        path = self._path(connection, relation)
        if not path.exists():
            return False
        try:
            rows = parquet_relation([path])
            if self._only_trace is not None and "trace_id" in relation.columns:
                rows = of_one_trace(rows, self._only_trace)
            connection.execute(f"CREATE TEMP VIEW {relation.name} AS {rows}")
        except duckdb.Error:  # it is damaged, or was removed
            return False
        with contextlib.suppress(OSError):
            os.utime(path)  # it was used now
        return True

    @contextlib.contextmanager
    def bounded(self, connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
        """Bound the memory of what is computed meanwhile, unless the user did.

        Rather once than for each relation: DuckDB returns to the system what it had set aside.
        """
        if os.environ.get(MEMORY_LIMIT):
            yield
            return
        if self.is_large(connection):
            memory = _STREAM_MEMORY
        else:
            memory = max(self.rows(connection) * _MEMORY_PER_ROW, _LEAST_MEMORY)
        with contextlib.suppress(duckdb.OutOfMemoryException):  # what is there takes more
            connection.execute(f"SET memory_limit = '{memory}B'")
        try:
            yield
        finally:
            connection.execute("RESET memory_limit")

    def compute(
        self, connection: duckdb.DuckDBPyConnection, relation: Query, *, for_answer: bool = False
    ) -> None:
        """Compute a relation, whose own relations are visible, and make it visible.

        Of large traces it goes straight into its file; of others, and where it comes in slices, it
        becomes a table first. Where the bounded memory is not enough it takes what there is.

        Args:
            connection: the connection.
            relation: the relation.
            for_answer: the answer comes next, and is not to wait: a table is not kept here, but
                where it is worth it by :meth:`keep_rest`.

        Raises:
            duckdb.Error: it cannot be computed.
        """
        try:
            if not self._stream(connection, relation):
                self._create(connection, relation, for_answer)
        except duckdb.OutOfMemoryException:
            if os.environ.get(MEMORY_LIMIT):
                raise
            with _unbounded(connection):
                self._create(connection, relation, for_answer)

    def _stream(self, connection: duckdb.DuckDBPyConnection, relation: Query) -> bool:
        """Compute a relation into its file, if the traces are large and there is a place for it.

        One that comes in slices would need a file for each.
        """
        if relation.slices or not self.is_large(connection):
            return False
        if not _fits_parquet(connection, relation.sql):
            return False
        size = self._write(connection, relation, f"({relation.sql})")
        return size is not None and self.load(connection, relation)

    def _create(
        self, connection: duckdb.DuckDBPyConnection, relation: Query, for_answer: bool
    ) -> None:
        """Compute a relation as a table, and keep it if that took long and there is a place for it.

        The table then gives way to a view of its file, unless it is small. Where the answer comes
        next it is not kept.
        """
        name = identifier(relation.name)
        started = time.perf_counter()
        if self._comes_in_slices(connection, relation):
            _create_in_slices(connection, relation)
        else:
            connection.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS {relation.sql}")
        if for_answer or not is_slow(started):
            return
        size = self.keep(connection, relation)
        if size is not None and size > _SMALL_BYTES:
            self._read_instead(connection, relation)

    def keep_later(self, relation: Query) -> None:
        """Let :meth:`keep_rest` keep a relation, which is a table."""
        self._later.append(relation)

    @property
    def puts_off(self) -> bool:
        """Whether there is something for :meth:`keep_rest` to keep."""
        return bool(self._later)

    def keep_rest(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Keep what was put off until the answer is computed, as far as there is memory for it."""
        while self._later:
            with contextlib.suppress(duckdb.OutOfMemoryException):
                self.keep(connection, self._later.pop())

    def keep(self, connection: duckdb.DuckDBPyConnection, relation: Query) -> int | None:
        """Keep a relation that was computed, unless that was done already.

        Returns:
            The size of its new file in bytes; None where there is none.
        """
        name = identifier(relation.name)
        if self._path(connection, relation) in self._new or not _fits_parquet(connection, name):
            return None
        return self._write(connection, relation, name)

    def _comes_in_slices(self, connection: duckdb.DuckDBPyConnection, relation: Query) -> bool:
        """Tell whether a relation is computed from slices: of large traces, which are views."""
        if not relation.slices or not self.is_large(connection):
            return False
        return existing_relations(connection).get(relation.slices) == "VIEW"

    def _write(
        self, connection: duckdb.DuckDBPyConnection, relation: Query, rows: str
    ) -> int | None:
        """Write rows, a table or a query in brackets, as a relation's file.

        Returns:
            The file's size in bytes; None where the disk is full or read-only.
        """
        path = self._path(connection, relation)
        beside = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            self.directory.mkdir(exist_ok=True)
            connection.execute(
                f"COPY {rows} TO {string(str(beside))} "
                f"({PARQUET}, COMPRESSION zstd, COMPRESSION_LEVEL 1)"
            )
            size = beside.stat().st_size
            beside.replace(path)
            self._new.add(path)
            self._make_room()
        except (OSError, duckdb.IOException):
            return None
        finally:
            with contextlib.suppress(OSError):
                beside.unlink(missing_ok=True)
        return size

    def is_large(self, connection: duckdb.DuckDBPyConnection) -> bool:
        """Tell whether the traces are so large that what they derive should not stay in memory."""
        return self.rows(connection) >= _LARGE

    def rows(self, connection: duckdb.DuckDBPyConnection) -> int:
        """Return how many rows the long tables have, those that the connection sees."""
        if self._rows is None:
            tables = {name: f"FROM {name}" for name in existing_relations(connection)}
            self._rows = long_rows(connection, tables)
        return self._rows

    def _read_instead(self, connection: duckdb.DuckDBPyConnection, relation: Query) -> None:
        """Put a view of its file in the place of a table that was computed."""
        table = f"{relation.name}_computed"
        connection.execute(f"ALTER TABLE {relation.name} RENAME TO {table}")
        if self.load(connection, relation):
            connection.execute(f"DROP TABLE {table}")
        else:  # the file was removed meanwhile
            connection.execute(f"ALTER TABLE {table} RENAME TO {relation.name}")

    def _path(self, connection: duckdb.DuckDBPyConnection, relation: Query) -> Path:
        names = parameters_behind(relation.name)
        wanted = ", ".join(f"getvariable({string(name)})" for name in names)
        values = connection.execute(f"SELECT {wanted}").fetchall()[0] if names else ()
        basis = [self._basis, _fingerprint(relation.name), relation.name]
        text = json.dumps([*basis, names, values], default=str)
        digest = hashlib.sha256(text.encode()).hexdigest()[:20]
        return self.directory / f"{relation.name}-{digest}.parquet"

    def _make_room(self) -> None:
        """Remove the files that were not used for longest, as far as all take too much room.

        What was used lately stays, for a query may be about to read it.
        """
        lately = time.time() - _IN_USE_SECONDS
        files = [(path, path.stat()) for path in self.directory.glob("*.parquet")]
        total = sum(state.st_size for _, state in files)
        for path, state in sorted(files, key=lambda file: file[1].st_atime_ns):
            if total <= _MOST_BYTES or state.st_atime > lately:
                return
            path.unlink(missing_ok=True)
            total -= state.st_size


def is_slow(started: float, *, at_first: bool = False) -> bool:
    """Tell whether what was computed since a moment of ``time.perf_counter`` is worth keeping.

    Args:
        started: the moment.
        at_first: it is all that is asked for, of a trace that nobody has asked about before.
    """
    shortest = _SHORTEST_AT_FIRST if at_first else _SHORTEST_SECONDS
    return time.perf_counter() - started >= shortest


def long_rows(connection: duckdb.DuckDBPyConnection, relations: Mapping[str, str]) -> int:
    """Return how many rows the long tables have; ``relations`` are their SELECTs by name."""
    rows = 0
    for table in sorted(long_tables() & relations.keys()):
        found = connection.execute(f"SELECT count(*) FROM ({relations[table]})").fetchall()
        rows += found[0][0]
    return rows


def existing_relations(connection: duckdb.DuckDBPyConnection) -> dict[str, str]:
    """Return what a connection sees: TABLE or VIEW by name.

    Not DuckDB's own views, which it would have to make first.
    """
    return dict(
        connection.execute(
            "SELECT table_name, 'TABLE' FROM duckdb_tables() WHERE database_name <> 'system' "
            "UNION ALL SELECT view_name, 'VIEW' FROM duckdb_views() "
            "WHERE database_name <> 'system'"
        ).fetchall()
    )


@cache
def _fingerprint(name: str) -> str:
    """Return a hash of the SQL of a relation and of those that it builds on, and of their tables.

    With the traces and the parameters that is all that its rows depend on.
    """
    built = required_relations([name])
    named = {word for made in built for word in (*made.relations, *names_used(made.sql))}
    files = [*resources.data().glob("*.csv"), *resources.sql_files("canonical").values()]
    digest = hashlib.sha256()
    for made in sorted(built, key=lambda relation: relation.name):
        digest.update(f"{made.name}\0{made.sql}\0".encode())
    for file in sorted(file for file in files if file.stem in named):
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


def _create_in_slices(connection: duckdb.DuckDBPyConnection, relation: Query) -> None:
    """Compute a relation as a table from one slice of a canonical table after another.

    What sorts a slice stays in the bounded memory. What sorts all rows at once spills to disk, and
    takes twice the time.
    """
    name, table = identifier(relation.name), relation.slices
    whole, key = f"whole_{table}", f"{table}_id"
    connection.execute(f"ALTER VIEW {table} RENAME TO {whole}")
    try:
        into = f"CREATE OR REPLACE TEMP TABLE {name} AS"
        for first, last in _slices(connection, whole, key):
            rows = f"FROM {whole} WHERE {key} BETWEEN {first} AND {last}"
            connection.execute(f"CREATE OR REPLACE TEMP VIEW {table} AS {rows}")
            connection.execute(f"{into} {relation.sql}")
            into = f"INSERT INTO {name}"
    finally:
        connection.execute(f"DROP VIEW IF EXISTS {table}")
        connection.execute(f"ALTER VIEW {whole} RENAME TO {table}")


def _slices(
    connection: duckdb.DuckDBPyConnection, table: str, key: str
) -> Iterator[tuple[int, int]]:
    """Yield the first and the last id of each slice of a table, of an empty one any."""
    ((first, last, rows),) = connection.execute(
        f"SELECT coalesce(min({key}), 0), coalesce(max({key}), 0), count(*) FROM {table}"
    ).fetchall()
    count = max(-(-rows // _SLICE_ROWS), 1)
    starts = [first + (last + 1 - first) * number // count for number in range(count + 1)]
    for start, following in pairwise(starts):
        yield start, following - 1


@contextlib.contextmanager
def _unbounded(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    ((limit,),) = connection.execute("SELECT current_setting('memory_limit')").fetchall()
    connection.execute("RESET memory_limit")
    yield
    with contextlib.suppress(duckdb.OutOfMemoryException):  # the new table may take more
        connection.execute(f"SET memory_limit = {string(limit)}")


def _fits_parquet(connection: duckdb.DuckDBPyConnection, rows: str) -> bool:
    columns = connection.execute(f"DESCRIBE {rows}").fetchall()
    return not any(kind in str(column[1]) for column in columns for kind in _NOT_IN_PARQUET)
