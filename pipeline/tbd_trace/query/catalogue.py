"""Find the query files of the package and their dependencies."""

from __future__ import annotations

import difflib
import re
from collections import ChainMap
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from tbd_trace import resources
from tbd_trace.errors import UsageError
from tbd_trace.model.canonical_tables import canonical_tables
from tbd_trace.query.columns import Column, column
from tbd_trace.query.header import Query, parse_query
from tbd_trace.sqltext import literal

_WORD = re.compile(r"[A-Za-z_]\w*")
_VARIABLE = re.compile(r"getvariable\('(?P<name>\w+)'\)")
_COMMENT = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)


class Catalogue:
    """The metric queries and the checks that ship with the package."""

    def __init__(self) -> None:
        self._files = resources.sql_files("metrics")

    def metrics(self) -> list[Query]:
        return [read_query(self._files[name]) for name in sorted(self._files)]

    def get(self, name: str) -> Query:
        """Return a metric query by name.

        Raises:
            UsageError: unknown name; the message suggests close ones.
        """
        if name not in self._files:
            close = difflib.get_close_matches(name, self._files, n=3)
            hint = f"; did you mean {', '.join(close)}?" if close else ""
            raise UsageError(f"no query {name!r}{hint} (`tbd-trace query --list` names them all)")
        return read_query(self._files[name])

    def checks(self) -> list[Query]:
        queries = map(read_query, resources.sql_files("checks").values())
        return sorted((query for query in queries if query.check), key=_rule)

    def load(self, path: Path) -> Query:
        """Return a user's own query file.

        Raises:
            UsageError: the file cannot be read, or its header is invalid.
        """
        query = read_query(path)
        try:
            dict(query.columns)
        except UsageError as error:
            raise UsageError(f"{path}: {error}") from error
        return query


def read_query(path: Path) -> Query:
    """Read a query file, as :func:`~tbd_trace.query.header.parse_query` does.

    Its SQL reads the default of a parameter that is not set.

    Raises:
        UsageError: the file cannot be read, or its header is invalid.
    """
    query = parse_query(path, relation_columns)
    return replace(query, sql=with_defaults(query, query.sql))


def with_defaults(query: Query, sql: str) -> str:
    """Return SQL that reads parameters of a query, with their defaults where they are not set.

    Defaults stand in headers only: those of the query and of the relations that it reads.
    """
    params = query.params
    if {match["name"] for match in _VARIABLE.finditer(sql)} - params.keys():
        below = [relation.params for relation in required_relations(query.relations)]
        params = dict(ChainMap(params, *below))

    def read(match: re.Match[str]) -> str:
        if match["name"] not in params:
            return match[0]
        return f"coalesce({match[0]}, {literal(params[match['name']].default)})"

    return _VARIABLE.sub(read, sql)


def _rule(query: Query) -> str:
    assert query.check is not None
    return query.check.rule


@cache
def derived_names() -> frozenset[str]:
    """Return the names of the derived relations."""
    return frozenset(resources.sql_files("derive"))


@cache
def derived_relation(name: str) -> Query:
    """Return the derived relation of a name."""
    return read_query(resources.sql_files("derive")[name])


@cache
def relation_columns(name: str) -> Mapping[str, Column]:
    """Return the columns of a derived relation or canonical table; of others none are known."""
    if name in derived_names():
        return derived_relation(name).columns
    table = canonical_tables().get(name)
    return {each.name: column(each.name, each.doc) for each in table.columns} if table else {}


@cache
def derive_relations() -> Sequence[Query]:
    """Return the derived relations, each after the relations it reads."""
    return required_relations(sorted(derived_names()))


def required_relations(names: Iterable[str], given: Collection[str] = ()) -> list[Query]:
    """Return the derived relations among ``names`` and all that they read, in build order.

    Those in ``given`` exist, so neither they nor what only they read are returned.
    """
    ordered: dict[str, Query] = {}

    def visit(name: str) -> None:
        if name in ordered or name in given or name not in derived_names():
            return
        query = derived_relation(name)
        for other in query.relations:
            if other != name:
                visit(other)
        ordered[name] = query

    for name in names:
        visit(name)
    return list(ordered.values())


@cache
def parameters_behind(name: str) -> Sequence[str]:
    """Return the parameters on which a derived relation's rows depend, sorted."""
    return sorted({param for relation in required_relations([name]) for param in relation.params})


def canonical_relations(query: Query) -> set[str]:
    """Return the canonical tables that a query and its relations may read."""
    built = required_relations(query.relations)
    named = {name for each in (query, *built) for name in each.relations}
    return named & canonical_tables().keys()


@cache
def names_used(sql: str) -> frozenset[str]:
    """Return the words of a SQL text, without comments: a superset of the relations it names."""
    return frozenset(_WORD.findall(_COMMENT.sub(" ", sql)))
