"""Finding, documenting, parameterising and running the SQL files."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tbd_trace.query.catalogue import Catalogue, canonical_relations
from tbd_trace.query.header import Check, Column, Param, Query
from tbd_trace.query.plot import Plot

if TYPE_CHECKING:
    from tbd_trace.query.relation_cache import RelationCache
    from tbd_trace.query.session import (
        QueryResult,
        connect,
        execute_reading,
        prepare,
        run,
        run_in_batches,
        script,
        sql,
        sql_in_batches,
    )

__all__ = [
    "Catalogue",
    "Check",
    "Column",
    "Param",
    "Plot",
    "Query",
    "QueryResult",
    "RelationCache",
    "canonical_relations",
    "connect",
    "execute_reading",
    "prepare",
    "run",
    "run_in_batches",
    "script",
    "sql",
    "sql_in_batches",
]


def __getattr__(name: str) -> Any:
    """Import what runs queries when it is first asked for: naming them needs no DuckDB."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = "relation_cache" if name == "RelationCache" else "session"
    return getattr(import_module(f"{__name__}.{module}"), name)
