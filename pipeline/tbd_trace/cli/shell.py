"""The interactive shell of ``tbd-trace sql``."""

from __future__ import annotations

import contextlib

import duckdb
import polars as pl
import typer

from tbd_trace.cli.output import emit, failure
from tbd_trace.errors import UsageError
from tbd_trace.present import Format
from tbd_trace.query.statements import execute_reading

_HELP = "End a statement with ; — .tables  .schema NAME  .help  .quit"


class Shell:
    """Reads SQL statements and prints their rows.

    Args:
        connection: connection to the traces; statements that write are refused.
        form: output format, default a table.
        limit: rows to show per statement, as ``--limit``.
        wide: do not shorten tables, as ``--wide``.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        *,
        form: Format | None = None,
        limit: int | None = None,
        wide: bool = False,
    ) -> None:
        self._connection = connection
        self._form = form
        self._limit = limit
        self._wide = wide

    def run(self) -> None:
        with contextlib.suppress(ImportError):
            import readline  # noqa: F401, PLC0415 - gives input() editing and history
        typer.echo(_HELP, err=True)
        pending = ""
        while True:
            try:
                line = input("...> " if pending else "tbd-trace> ")
            except EOFError:
                typer.echo(err=True)
                return
            except KeyboardInterrupt:  # discard the statement, keep the session
                typer.echo(err=True)
                pending = ""
                continue
            if not pending and line.strip() in {".quit", ".exit"}:
                return
            pending = self.feed(pending, line)

    def feed(self, pending: str, line: str) -> str:
        """Process one line; return the incomplete statement, or an empty string."""
        if not pending and line.strip().startswith("."):
            self._execute(self._command_sql(line.split()))
            return ""
        statement = f"{pending}\n{line}" if pending else line
        if not statement.strip():
            return ""
        if not statement.rstrip().endswith(";"):
            return statement
        self._execute(statement)
        return ""

    def _command_sql(self, words: list[str]) -> str | None:
        match words:
            case [".tables"]:
                return (
                    "SELECT view_name AS table_name FROM duckdb_views() "
                    "WHERE NOT internal ORDER BY ALL"
                )
            case [".schema", name]:
                quoted = name.replace('"', '""')
                return f'SELECT column_name, column_type FROM (DESCRIBE "{quoted}")'
            case _:
                typer.echo(_HELP, err=True)
                return None

    def _execute(self, statement: str | None) -> None:
        if statement is None:
            return
        try:
            frame: pl.DataFrame = execute_reading(self._connection, statement)
        except UsageError as error:
            failure(error)
        except KeyboardInterrupt:
            failure("interrupted")
        else:
            emit(frame, self._form, limit=self._limit, wide=self._wide)
