"""Derived relations of made traces, each computed once for equal inputs.

Most of a question about made traces is deriving relations, about 10 ms each, and the traces of one
module often differ in a few rows. Two keys find rows that were computed before:

- everything behind a relation: SQL, canonical rows and parameters; its inputs are then not needed.
- its own SQL and parameters, and the rows of its inputs, which may be equal although canonical rows
  differ. Most often they are empty.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import duckdb
import pyarrow as pa

from tbd_trace.model.canonical_tables import canonical_tables
from tbd_trace.query.catalogue import (
    derived_names,
    derived_relation,
    parameters_behind,
    required_relations,
)
from tbd_trace.query.computed import create_table
from tbd_trace.query.header import Query
from tbd_trace.query.relation_cache import RelationCache
from tbd_trace.sqltext import identifier

# Computing a relation of shorter SQL takes no longer than keeping its rows.
_SHORTEST_SQL = 700
_MOST_KEPT = 3000
# Types that are the same after a way through Arrow.
_KEPT_TYPES = {"BIGINT", "VARCHAR", "DOUBLE", "BOOLEAN", "INTEGER", "UBIGINT", "VARCHAR[]"}


@dataclass(frozen=True, slots=True)
class _Kept:
    columns: str  # as in CREATE TABLE
    rows: pa.Table | None  # None without any
    content: bytes  # digest of both


_kept: dict[bytes, _Kept] = {}  # the least recently used first


def _find(key: bytes) -> _Kept | None:
    found = _kept.pop(key, None)
    if found is not None:
        _kept[key] = found
    return found


def _keep(key: bytes, kept: _Kept) -> None:
    _kept[key] = kept
    while len(_kept) > _MOST_KEPT:
        del _kept[next(iter(_kept))]


class MadeRelations(RelationCache):
    """The cache of relations of one made database, in the form that ``prepare`` takes.

    Args:
        rows: rows of the canonical tables.
    """

    def __init__(self, rows: Mapping[str, list[Any]]) -> None:
        self._parameters: dict[str, Any] = {}
        self._is_on = True
        self._settled: set[str] = set()  # parameters behind existing relations
        # of the tables and relations that exist
        self._contents = {
            name: _digest(repr(rows.get(name, [])).encode()) for name in canonical_tables()
        }

    def off(self) -> None:
        """Stop: tables may have been changed by other means."""
        self._is_on = False

    def set(self, parameters: Mapping[str, Any]) -> None:
        """Note values of parameters; those without one have their defaults."""
        changed = {n for n, value in parameters.items() if self._parameters.get(n) != value}
        if changed & self._settled:
            self.off()  # existing relations were computed with other values
        self._parameters |= parameters

    def is_large(self, connection: duckdb.DuckDBPyConnection) -> bool:
        return False

    def load(self, connection: duckdb.DuckDBPyConnection, relation: Query) -> bool:
        """Create a relation whose rows are kept, without its inputs; return False otherwise."""
        self._settled.update(parameters_behind(relation.name))
        kept = _find(self._key_of_all(relation)) if self._is_on else None
        if kept is None:
            return False
        self._create(connection, relation, kept)
        return True

    def compute(
        self, connection: duckdb.DuckDBPyConnection, relation: Query, *, for_answer: bool = False
    ) -> None:
        """Create a relation whose inputs exist, from rows that are kept or by its SQL."""
        key = self._key_of_inputs(relation) if self._is_on else None
        if key is None or len(relation.sql) < _SHORTEST_SQL:
            create_table(connection, relation)
            if key is not None:
                self._contents[relation.name] = key
            return
        kept = _find(key)
        if kept is not None:
            self._create(connection, relation, kept)
        else:
            create_table(connection, relation)
            kept = _rows(connection, relation.name)
            if kept is None:
                self._contents[relation.name] = key
                return
            self._contents[relation.name] = kept.content
            _keep(key, kept)
        _keep(self._key_of_all(relation), kept)

    def _create(self, connection: duckdb.DuckDBPyConnection, relation: Query, kept: _Kept) -> None:
        name = identifier(relation.name)
        if kept.rows is None:
            connection.execute(f"CREATE TABLE {name} ({kept.columns})")
        else:
            connection.register("kept_rows", kept.rows)
            connection.execute(f"CREATE TABLE {name} AS FROM kept_rows")
            connection.unregister("kept_rows")
        self._contents[relation.name] = kept.content

    def _key_of_all(self, relation: Query) -> bytes:
        behind = required_relations([relation.name])
        tables = {name for each in behind for name in each.relations} & canonical_tables().keys()
        return _digest(
            *(_text_digest(each.sql) for each in behind),
            *(self._contents[name] for name in sorted(tables)),
            self._values(parameters_behind(relation.name)),
        )

    def _key_of_inputs(self, relation: Query) -> bytes | None:
        # None where it, or the content of an input, is computed by Python.
        if relation.computed_by:
            return None
        inputs = [self._content(name) for name in _inputs(relation)]
        if None in inputs:
            return None
        return _digest(
            _text_digest(relation.sql),
            *(content for content in inputs if content),
            self._values(sorted(relation.params)),
        )

    def _content(self, name: str) -> bytes | None:
        if name not in self._contents and derived_relation(name).view:
            return self._key_of_inputs(derived_relation(name))
        return self._contents.get(name)

    def _values(self, names: Iterable[str]) -> bytes:
        return repr([(name, self._parameters.get(name)) for name in names]).encode()


def _inputs(relation: Query) -> list[str]:
    known = canonical_tables().keys() | derived_names()
    return sorted(set(relation.relations) & known - {relation.name})


def _rows(connection: duckdb.DuckDBPyConnection, relation: str) -> _Kept | None:
    # None if rows have a type that is not kept.
    described = connection.execute(f"DESCRIBE {identifier(relation)}").fetchall()
    columns = ", ".join(f"{identifier(column[0])} {column[1]}" for column in described)
    rows = connection.sql(f"FROM {identifier(relation)}").to_arrow_table()
    if not rows.num_rows:
        return _Kept(columns, None, _digest(columns.encode()))
    if not {column[1] for column in described} <= _KEPT_TYPES:
        return None
    batches = (batch.serialize() for batch in rows.to_batches())
    return _Kept(columns, rows, _digest(columns.encode(), *batches))


@cache
def _text_digest(text: str) -> bytes:
    return _digest(text.encode())


def _digest(*parts: bytes | pa.Buffer) -> bytes:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.digest()
