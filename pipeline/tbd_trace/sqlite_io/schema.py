"""Tables of a SQLite file, and which of them run code of the file when they are read."""

from __future__ import annotations

import sqlite3

from tbd_trace.sqltext import identifier

_TABLES = """
    SELECT name, type = 'view' OR sql LIKE 'CREATE VIRTUAL TABLE%' FROM sqlite_master
    WHERE type IN ('table', 'view') ORDER BY name
"""


class Schema:
    """Columns of the tables and views of a file, in order of their names.

    Profilers write ordinary tables only. The rows of a view, a virtual table or a generated column
    are computed by code of the file, which may never end: `authorize` refuses to read them.

    Attributes:
        refused: name of the computed table that a statement tried to read; None before.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.columns: dict[str, list[str]] = {}
        self.refused: str | None = None
        self._computed: set[str] = set()
        for name, is_computed in connection.execute(_TABLES).fetchall():
            table = str(name)
            columns = _columns(connection, table, is_computed=bool(is_computed))
            self.columns[table] = [name for name, _ in columns]
            if is_computed or any(is_generated for _, is_generated in columns):
                self._computed.add(table)

    def authorize(
        self,
        _action: int,
        table: str | None,
        _column: str | None,
        _file: str | None,
        view: str | None,
    ) -> int:
        """Answer SQLite, which asks for each table and column while it prepares a statement."""
        for name in (table, view):  # a statement may use no column of a view
            if name in self._computed:
                self.refused = name
                return sqlite3.SQLITE_DENY
        return sqlite3.SQLITE_OK


def _columns(
    connection: sqlite3.Connection, table: str, *, is_computed: bool
) -> list[tuple[str, bool]]:
    # Names, and whether they are generated or hidden.
    try:
        rows = connection.execute(f"PRAGMA table_xinfo({identifier(table)})").fetchall()
    except sqlite3.OperationalError:
        if is_computed:  # its module or a table behind it is missing
            return []
        raise
    return [(str(name), bool(hidden)) for _, name, *_, hidden in rows]
