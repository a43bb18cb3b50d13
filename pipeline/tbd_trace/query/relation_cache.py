"""Cache derived relations that are slow to compute as Parquet files beside the database.

The name of a file is a hash of everything that its rows depend on: the traces, the SQL of the
relation and of the relations it reads, their data tables, the version of DuckDB and the values of
parameters. A file is therefore never stale; the least recently used ones are removed above 8 GB.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from tbd_trace import resources
from tbd_trace.model.canonical_tables import long_tables
from tbd_trace.query.catalogue import names_used, parameters_behind, required_relations
from tbd_trace.query.computed import code_of, create_table
from tbd_trace.query.header import Query
from tbd_trace.query.relation_slices import create_in_slices
from tbd_trace.runtime.crc import crc_file, is_sound, replace_with_crc
from tbd_trace.runtime.duckdb_connection import memory_limit
from tbd_trace.runtime.private_files import private_file, remove_abandoned
from tbd_trace.runtime.settings_env import MEMORY_LIMIT
from tbd_trace.sqltext import identifier, parquet_relation, string, with_trace_id_enum
from tbd_trace.store.tables import PARQUET

if TYPE_CHECKING:
    from tbd_trace.store.base import TraceStore

# Faster relations are computed again, which takes no longer than reading them. The first query of
# a trace caches less, because it may be the only one.
_SHORTEST_SECONDS, _SHORTEST_AT_FIRST = 0.1, 0.5
# Larger relations are read from their files, because as tables they would stay in memory.
_SMALL_BYTES = 2**20
# Rows of the long tables from which relations are computed into their files.
_LARGE = 4_000_000
# DuckDB uses all of its limit and spills the rest. This limit keeps the process below 1 GB; for
# smaller traces a higher one is not faster.
_STREAM_MEMORY = 500_000_000
_MEMORY_PER_ROW = 100
_LEAST_MEMORY = 300_000_000
_MOST_BYTES = 8 * 2**30
_IN_USE_SECONDS = 600
# Types without an equivalent in Parquet.
_NOT_IN_PARQUET = ("HUGEINT", "INTERVAL", "UNION", "BIT")


class RelationCache:
    """Cached relations of some traces of a database.

    A read-only database gets no new files. ``are_new`` is True if one of the traces was ingested
    by this process and not queried since.
    """

    def __init__(self, database: TraceStore, trace_ids: Sequence[str]) -> None:
        self.directory = database.derived_directory
        states = [database.state(trace_id) for trace_id in sorted(trace_ids)]
        self._basis = json.dumps([duckdb.__version__, states])
        self._only_trace = trace_ids[0] if len(trace_ids) == 1 else None
        self.are_new = database.are_new(trace_ids)
        self._rows: int | None = None
        self._new: set[Path] = set()  # files that were written
        self._later: list[tuple[str, Path]] = []  # tables and their files

    def load(self, connection: duckdb.DuckDBPyConnection, relation: Query) -> bool:
        """Create a view of a relation's file; return False if there is none."""
        path = self._path(connection, relation)
        if not is_sound(path):  # or there is none; it is computed again
            return False
        try:
            rows = parquet_relation([path])
            if self._only_trace is not None and "trace_id" in relation.columns:
                rows = with_trace_id_enum(rows, self._only_trace)
            connection.execute(f"CREATE VIEW {relation.name} AS {rows}")
        except duckdb.Error:  # damaged, or removed by another process
            return False
        with contextlib.suppress(OSError):
            os.utime(path)  # marks it as recently used
        return True

    @contextlib.contextmanager
    def bounded(self, connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
        """Set DuckDB's memory limit for the duration of the block, unless the user set one."""
        # Once for all relations: each change makes DuckDB return its buffers to the system.
        if os.environ.get(MEMORY_LIMIT):
            yield
            return
        if self.is_large(connection):
            memory = _STREAM_MEMORY
        else:
            memory = max(self.rows(connection) * _MEMORY_PER_ROW, _LEAST_MEMORY)
        with contextlib.suppress(duckdb.OutOfMemoryException):  # existing tables need more
            connection.execute(f"SET memory_limit = '{memory}B'")
        try:
            yield
        finally:
            connection.execute("RESET memory_limit")

    def compute(
        self, connection: duckdb.DuckDBPyConnection, relation: Query, *, for_answer: bool = False
    ) -> None:
        """Compute a relation whose inputs exist.

        For large traces it is written to its file directly; otherwise, and if it is computed in
        slices, it is a table first. If the memory limit is too low, it is lifted.

        Args:
            for_answer: True if the answer follows; :meth:`keep_rest` then caches the table.

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
        # A relation in slices would need a file per slice.
        if relation.slices or relation.computed_by or not self.is_large(connection):
            return False
        if not _fits_parquet(connection, relation.sql):
            return False
        size = self._write(connection, self._path(connection, relation), f"({relation.sql})")
        return size is not None and self.load(connection, relation)

    def _create(
        self, connection: duckdb.DuckDBPyConnection, relation: Query, for_answer: bool
    ) -> None:
        # A slow one is cached, and unless it is small a view of its file replaces the table.
        started = time.perf_counter()
        if self._comes_in_slices(connection, relation):
            create_in_slices(connection, relation)
        else:
            create_table(connection, relation)
        if for_answer or not is_slow(started):
            return
        size = self._keep(connection, relation.name, self._path(connection, relation))
        if size is not None and size > _SMALL_BYTES:
            self._read_instead(connection, relation)

    def keep_later(self, connection: duckdb.DuckDBPyConnection, relation: Query) -> None:
        # The parameters, which the name of the file depends on, are set on this connection only.
        self._later.append((relation.name, self._path(connection, relation)))

    @property
    def puts_off(self) -> bool:
        return bool(self._later)

    def keep_rest(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Cache the relations that were put off, over any connection of their database."""
        if not self._later:
            return
        with self.bounded(connection):
            while self._later:
                with contextlib.suppress(duckdb.OutOfMemoryException):
                    self._keep(connection, *self._later.pop())

    def _keep(self, connection: duckdb.DuckDBPyConnection, table: str, path: Path) -> int | None:
        # Once; returns the size of the new file in bytes, or None.
        if path in self._new or not _fits_parquet(connection, identifier(table)):
            return None
        return self._write(connection, path, identifier(table))

    def _comes_in_slices(self, connection: duckdb.DuckDBPyConnection, relation: Query) -> bool:
        if not relation.slices or not self.is_large(connection):
            return False
        return existing_relations(connection).get(relation.slices) == "VIEW"

    def _write(self, connection: duckdb.DuckDBPyConnection, path: Path, rows: str) -> int | None:
        # Returns the size in bytes, None on a full or read-only disk.
        beside = private_file(path)
        try:
            self.directory.mkdir(exist_ok=True)
            connection.execute(
                f"COPY {rows} TO {string(str(beside))} "
                f"({PARQUET}, COMPRESSION zstd, COMPRESSION_LEVEL 1)"
            )
            size = beside.stat().st_size
            replace_with_crc(beside, path)
            self._new.add(path)
            self._make_room()
        except (OSError, duckdb.IOException):
            return None
        finally:
            with contextlib.suppress(OSError):
                beside.unlink(missing_ok=True)
        return size

    def is_large(self, connection: duckdb.DuckDBPyConnection) -> bool:
        """Return True if derived relations of these traces should not stay in memory."""
        return self.rows(connection) >= _LARGE

    def rows(self, connection: duckdb.DuckDBPyConnection) -> int:
        if self._rows is None:
            tables = {name: f"FROM {name}" for name in existing_relations(connection)}
            self._rows = long_rows(connection, tables)
        return self._rows

    def _read_instead(self, connection: duckdb.DuckDBPyConnection, relation: Query) -> None:
        table = f"{relation.name}_computed"
        connection.execute(f"ALTER TABLE {relation.name} RENAME TO {table}")
        if self.load(connection, relation):
            connection.execute(f"DROP TABLE {table}")
        else:  # another process removed the file
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
        # Files used in the last 10 minutes stay: a query may be about to read them.
        remove_abandoned(self.directory)
        lately = time.time() - _IN_USE_SECONDS
        files = [(path, path.stat()) for path in self.directory.glob("*.parquet")]
        total = sum(state.st_size for _, state in files)
        for path, state in sorted(files, key=lambda file: file[1].st_atime_ns):
            if total <= _MOST_BYTES or state.st_atime > lately:
                return
            path.unlink(missing_ok=True)
            crc_file(path).unlink(missing_ok=True)
            total -= state.st_size


def is_slow(started: float, *, at_first: bool = False) -> bool:
    """Return True if a computation since ``started`` (``time.perf_counter``) is worth caching.

    Args:
        at_first: True if it is the first query of a trace.
    """
    shortest = _SHORTEST_AT_FIRST if at_first else _SHORTEST_SECONDS
    return time.perf_counter() - started >= shortest


def long_rows(connection: duckdb.DuckDBPyConnection, relations: Mapping[str, str]) -> int:
    """Return the number of rows of the long tables; ``relations`` are their SELECTs by name."""
    rows = 0
    for table in sorted(long_tables() & relations.keys()):
        sql = f"SELECT count(*) FROM ({relations[table]})"
        ((count,),) = connection.execute(sql).fetchall()
        rows += count
    return rows


def existing_relations(connection: duckdb.DuckDBPyConnection) -> dict[str, str]:
    """Return the tables and views of a connection: TABLE or VIEW by name."""
    # Without DuckDB's own views, which it would create first.
    return dict(
        connection.execute(
            "SELECT table_name, 'TABLE' FROM duckdb_tables() WHERE database_name <> 'system' "
            "UNION ALL SELECT view_name, 'VIEW' FROM duckdb_views() "
            "WHERE database_name <> 'system'"
        ).fetchall()
    )


@cache
def _fingerprint(name: str) -> str:
    built = required_relations([name])
    named = {word for made in built for word in (*made.relations, *names_used(made.sql))}
    files = [*resources.data().glob("*.csv"), *resources.sql_files("canonical").values()]
    digest = hashlib.sha256()
    for made in sorted(built, key=lambda relation: relation.name):
        digest.update(f"{made.name}\0{made.sql}\0".encode() + code_of(made))
    for file in sorted(file for file in files if file.stem in named):
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


@contextlib.contextmanager
def _unbounded(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    limit = memory_limit(connection)
    connection.execute("RESET memory_limit")
    yield
    with contextlib.suppress(duckdb.OutOfMemoryException):  # the new table may take more
        connection.execute(f"SET memory_limit = {string(limit)}")


def _fits_parquet(connection: duckdb.DuckDBPyConnection, rows: str) -> bool:
    columns = connection.execute(f"DESCRIBE {rows}").fetchall()
    return not any(kind in str(column[1]) for column in columns for kind in _NOT_IN_PARQUET)
