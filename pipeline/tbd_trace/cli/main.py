"""The command line ``tbd-trace``."""

from __future__ import annotations

import os
import sys
import traceback
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from tbd_trace.cli.doctor import doctor
from tbd_trace.cli.info import info
from tbd_trace.cli.ingest import ingest
from tbd_trace.cli.output import failure
from tbd_trace.cli.query import query
from tbd_trace.cli.sql import sql
from tbd_trace.errors import TbdTraceError
from tbd_trace.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable

_INTERRUPTED = 128 + 2  # as a shell reports SIGINT and SIGPIPE
_READER_GONE = 128 + 13


class _Commands(TyperGroup):
    """The commands, with errors turned into one line and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except TbdTraceError as error:
            failure(error)
            raise typer.Exit(error.exit_code) from error
        except KeyboardInterrupt:
            raise typer.Exit(_INTERRUPTED) from None
        except BrokenPipeError:
            # The reader (head, less) has seen enough; what is still buffered goes nowhere.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(_READER_GONE) from None
        return result


app = typer.Typer(
    name="tbd-trace",
    cls=_Commands,
    help="Why is my DNN training slow, and what should I change? Ingests profiles of Nsight "
    "Systems, nvprof and Nsight Compute and answers questions about them with SQL.",
    epilog="Exit codes: 0 done, 1 failed, 2 wrong usage, 3 the trace cannot answer the question.",
    no_args_is_help=True,
    rich_markup_mode=None,  # plain help: quick to load, and readable in a pipe
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tbd-trace {__version__}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    pass


_COMMANDS: tuple[tuple[Callable[..., None], dict[str, Any]], ...] = (
    (ingest, {}),
    (info, {}),
    # `query NAME --help` describes the query, so the command answers --help itself.
    (query, {"help_option_names": []}),
    (sql, {}),
    (doctor, {}),
)
for _command, _settings in _COMMANDS:
    app.command(context_settings=_settings)(_command)


def main() -> None:
    """Run the command line and exit."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a terminal that is not UTF-8
    try:
        app(prog_name="tbd-trace")
    except Exception as error:
        if os.environ.get("TBD_TRACE_DEBUG"):
            traceback.print_exc()
        summary = " ".join(str(error).split())
        failure(
            f"this is a bug in tbd-trace: {type(error).__name__}: {summary} "
            "(TBD_TRACE_DEBUG=1 shows the traceback)"
        )
        sys.exit(1)
