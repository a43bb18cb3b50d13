"""Finding, documenting, parameterising and running the SQL files."""

from tbd_trace.query.catalogue import Catalogue
from tbd_trace.query.header import Column, Param, Plot, Query
from tbd_trace.query.session import QueryResult, connect, execute_reading, prepare, run, script, sql

__all__ = [
    "Catalogue",
    "Column",
    "Param",
    "Plot",
    "Query",
    "QueryResult",
    "connect",
    "execute_reading",
    "prepare",
    "run",
    "script",
    "sql",
]
