"""Derived relations that took long to compute, kept beside the database for the next query.

Each is a Parquet file whose name is a hash of all that its rows depend on: the traces, the SQL and
data files of this version, DuckDB, and the values of the parameters. So a file is never out of
date, only unused; the ones not used for longest are removed where they take too much room.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from tbd_trace import resources
from tbd_trace.query.catalogue import required_relations
from tbd_trace.query.header import Query
from tbd_trace.sqltext import identifier, parquet_relation, string

if TYPE_CHECKING:
    from tbd_trace.store.base import TraceStore

# Faster ones are computed again: reading them back would not be faster.
_SHORTEST_SECONDS = 0.1
# Larger ones are read from their files from then on, for as tables they would stay in memory.
_SMALL_BYTES = 2**20
_MOST_BYTES = 8 * 2**30
_IN_USE_SECONDS = 600
# Types that Parquet has no equal of.
_NOT_IN_PARQUET = ("HUGEINT", "INTERVAL", "UNION", "ENUM", "BIT")


class KeptRelations:
    """The kept relations of some traces of a database.

    Args:
        database: the database; where it may not be written, nothing new is kept.
        trace_ids: the traces that queries see.
    """

    def __init__(self, database: TraceStore, trace_ids: Sequence[str]) -> None:
        self.directory = database.derived_directory
        states = [database.state(trace_id) for trace_id in sorted(trace_ids)]
        self._basis = json.dumps([_fingerprint(), duckdb.__version__, states])

    def load(self, connection: duckdb.DuckDBPyConnection, relation: Query) -> bool:
        """Make a relation visible from its file; return False where there is none."""
        path = self._path(connection, relation)
        try:
            connection.execute(f"CREATE TEMP VIEW {relation.name} AS {parquet_relation([path])}")
        except duckdb.Error:  # there is none, or it is damaged
            return False
        with contextlib.suppress(OSError):
            os.utime(path)  # it was used now
        return True

    def keep(self, connection: duckdb.DuckDBPyConnection, relation: Query, seconds: float) -> None:
        """Write a relation that was computed, if that took long and there is a place for it.

        The table gives way to a view of its file, unless it is small.
        """
        if seconds < _SHORTEST_SECONDS or not _fits_parquet(connection, relation.name):
            return
        path = self._path(connection, relation)
        beside = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            self.directory.mkdir(exist_ok=True)
            connection.execute(
                f"COPY {relation.name} TO {string(str(beside))} "
                "(FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 1)"
            )
            large = beside.stat().st_size > _SMALL_BYTES
            beside.replace(path)
            self._make_room()
        except (OSError, duckdb.IOException):  # a full or read-only disk: the rows are there anyway
            beside.unlink(missing_ok=True)
            return
        if large:
            self._read_instead(connection, relation)

    def _read_instead(self, connection: duckdb.DuckDBPyConnection, relation: Query) -> None:
        """Put a view of its file in the place of a table that was computed."""
        table = f"{relation.name}_computed"
        connection.execute(f"ALTER TABLE {relation.name} RENAME TO {table}")
        if self.load(connection, relation):
            connection.execute(f"DROP TABLE {table}")
        else:  # the file was removed meanwhile
            connection.execute(f"ALTER TABLE {table} RENAME TO {relation.name}")

    def _path(self, connection: duckdb.DuckDBPyConnection, relation: Query) -> Path:
        names = sorted(
            {name for made in required_relations([relation.name]) for name in made.params}
        )
        values = [
            connection.execute(f"SELECT getvariable({string(name)})").fetchall()[0][0]
            for name in names
        ]
        text = json.dumps([self._basis, relation.name, names, values], default=str)
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


@cache
def _fingerprint() -> str:
    """Return a hash of the files of this version that derived relations come from."""
    digest = hashlib.sha256()
    for file in sorted([*resources.queries().rglob("*.sql"), *resources.data().glob("*.csv")]):
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


def _fits_parquet(connection: duckdb.DuckDBPyConnection, name: str) -> bool:
    columns = connection.execute(f"DESCRIBE {identifier(name)}").fetchall()
    return not any(kind in str(column[1]) for column in columns for kind in _NOT_IN_PARQUET)
