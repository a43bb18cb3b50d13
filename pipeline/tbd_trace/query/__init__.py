"""Find, document, parameterise and run the SQL files of ``queries/``."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tbd_trace.query.catalogue import Catalogue, canonical_relations
from tbd_trace.query.columns import Column
from tbd_trace.query.header import Check, Param, Query
from tbd_trace.query.plot import Plot

if TYPE_CHECKING:
    from tbd_trace.query.connection import connect, prepare
    from tbd_trace.query.divided import execute, execute_batches
    from tbd_trace.query.early import derive_at_ingest
    from tbd_trace.query.execution import execute_on_file, script
    from tbd_trace.query.pages import sql_batches
    from tbd_trace.query.relation_cache import RelationCache
    from tbd_trace.query.result import Result
    from tbd_trace.query.statements import execute_reading, sql

__all__ = [
    "Catalogue",
    "Check",
    "Column",
    "Param",
    "Plot",
    "Query",
    "RelationCache",
    "Result",
    "canonical_relations",
    "connect",
    "derive_at_ingest",
    "execute",
    "execute_batches",
    "execute_on_file",
    "execute_reading",
    "prepare",
    "script",
    "sql",
    "sql_batches",
]

# Imported on first use: listing queries needs no DuckDB, whose import takes 0.05 s.
_MODULES = {
    "RelationCache": "relation_cache",
    "Result": "result",
    "connect": "connection",
    "derive_at_ingest": "early",
    "execute": "divided",
    "execute_batches": "divided",
    "execute_on_file": "execution",
    "execute_reading": "statements",
    "prepare": "connection",
    "script": "execution",
    "sql": "statements",
    "sql_batches": "pages",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
