"""Finding, documenting, parameterising and running the SQL files."""

from tbd_trace.query.catalogue import Catalogue, canonical_relations
from tbd_trace.query.header import Column, Param, Plot, Query
from tbd_trace.query.kept import KeptRelations
from tbd_trace.query.session import QueryResult, connect, execute_reading, prepare, run, script, sql

__all__ = [
    "Catalogue",
    "Column",
    "KeptRelations",
    "Param",
    "Plot",
    "Query",
    "QueryResult",
    "canonical_relations",
    "connect",
    "execute_reading",
    "prepare",
    "run",
    "script",
    "sql",
]
