"""The command line ``tbd-trace``."""

from __future__ import annotations

import atexit
import contextlib
import errno
import gc
import io
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, NoReturn, TextIO

import typer
import typer.main
from typer.core import TyperGroup

from tbd_trace.cli.archive import archive
from tbd_trace.cli.check import check
from tbd_trace.cli.collect import collect
from tbd_trace.cli.diff import diff
from tbd_trace.cli.doctor import doctor
from tbd_trace.cli.env import env
from tbd_trace.cli.export import export
from tbd_trace.cli.fit import fit
from tbd_trace.cli.hang import hang
from tbd_trace.cli.info import info
from tbd_trace.cli.ingest import ingest
from tbd_trace.cli.mcp import mcp
from tbd_trace.cli.models import models
from tbd_trace.cli.output import failure, note
from tbd_trace.cli.query import query
from tbd_trace.cli.report import report
from tbd_trace.cli.sql import sql
from tbd_trace.cli.summary import summary
from tbd_trace.cli.try_change import try_change
from tbd_trace.cli.why import whatif, why
from tbd_trace.errors import RenamedWarning, TbdTraceError, UsageError
from tbd_trace.runtime import stop_signals
from tbd_trace.runtime.settings_env import MEMORY_LIMIT, THREADS, WITHOUT_BLAS_THREADS
from tbd_trace.version import __version__

_READER_GONE = 128 + 13  # exit code of a shell for SIGPIPE
_STDIN, _STDOUT, _STDERR = range(3)
# Commands are short and imports leave few cycles, so the default threshold of Python 3.11 (700
# objects) would only cost time.
_OBJECTS_PER_COLLECTION = 100_000
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
# click's UsageError, from click or from the copy of click in newer versions of typer.
_WRONG_USAGE: type[Any] = typer.BadParameter.__mro__[1]


class _LazyCommands(Mapping[str, Any]):
    # Each command is built on first use: building all of them takes longer than `--version`.

    def __getitem__(self, name: str) -> Any:
        return _build(name)

    def __contains__(self, name: object) -> bool:
        return name in _COMMANDS or name in _GROUPS

    def __iter__(self) -> Iterator[str]:
        return iter((*_COMMANDS, *_GROUPS))

    def __len__(self) -> int:
        return len(_COMMANDS) + len(_GROUPS)


def _build(name: str) -> Any:
    if name in _GROUPS:
        command: Any = typer.main.get_group(_GROUPS[name])
    else:
        function, settings = _COMMANDS[name]
        # An application with a single command is that command in typer.
        single = typer.Typer(add_completion=False, rich_markup_mode=None)
        single.command(context_settings=settings)(function)
        command = typer.main.get_command(single)
    command.name = name
    return command


class _Commands(TyperGroup):
    """Root command group; prints errors as one line and sets the exit code."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands: Mapping[str, Any] = _LazyCommands()  # type: ignore[assignment]

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.commands)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        # A file where a command is expected: the question about it that most people have.
        if args[0] not in self.commands and Path(args[0]).exists():
            args = [why.__name__, *args]
        return super().resolve_command(ctx, args)

    def main(self, *args: Any, **options: Any) -> Any:
        try:
            status = super().main(*args, **{**options, "standalone_mode": False})
            sys.stdout.flush()
        except _WRONG_USAGE as error:
            failure(_usage(error))
            status = error.exit_code
        except OSError as error:
            # An error with a file name is not about standard output; main() reports it as a bug.
            if error.filename is not None or error.errno not in _NO_ROOM:
                raise
            _drop_output()
            failure(f"standard output cannot be written ({error.strerror})")
            status = 1
        sys.exit(status if isinstance(status, int) else 0)

    def invoke(self, ctx: Any) -> Any:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except TbdTraceError as error:
            failure(error)
            raise typer.Exit(error.exit_code) from error
        except KeyboardInterrupt as interrupt:
            raise typer.Exit(stop_signals.exit_code(interrupt)) from None
        except BrokenPipeError:
            _drop_output()  # the reader (head, less) has seen enough
            raise typer.Exit(_READER_GONE) from None
        return result


def _usage(error: Any) -> str:
    # click's messages are sentences; ours begin in lower case and end with the action.
    message = error.format_message().rstrip(".")
    message = message.replace("No such command", "No such command or file", 1)
    if message.startswith("No such option"):
        message += " (names that begin with - go after --)"
    command = error.ctx.command_path if error.ctx else "tbd-trace"
    return f"{message[:1].lower()}{message[1:]}; see `{command} --help`"


def _drop_output() -> None:
    # Python flushes standard output at exit, which would fail again.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


app = typer.Typer(
    name="tbd-trace",
    cls=_Commands,
    help="Why is my DNN training slow, and what should I change? Ingests profiles of Nsight "
    "Systems, nvprof, Nsight Compute and torch.profiler, and memory profiles, and answers "
    "questions about them with SQL. `tbd-trace FILE` is `tbd-trace why FILE`.",
    epilog="Exit codes: 0 done, 1 failed, 2 wrong usage, 3 the trace cannot answer the question.",
    invoke_without_command=True,
    rich_markup_mode=None,  # plain help does not import rich, and is readable in a pipe
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tbd-trace {__version__}")
        raise typer.Exit


@app.callback()
def _common(
    ctx: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Show the version."),
    ] = False,
    threads: Annotated[
        int | None,
        typer.Option(
            "--threads",
            metavar="N",
            min=1,
            help="Number of threads; the environment variable TBD_TRACE_THREADS sets it, too. By "
            "default one per core.",
            show_default=False,
        ),
    ] = None,
    memory_limit: Annotated[
        str | None,
        typer.Option(
            "--memory-limit",
            metavar="SIZE",
            help="Memory to use before spilling to disk, such as 800MB; the environment variable "
            "TBD_TRACE_MEMORY_LIMIT sets it, too.",
            show_default=False,
        ),
    ] = None,
) -> None:
    # As environment variables, so that worker processes inherit them.
    for variable, value in ((THREADS, threads), (MEMORY_LIMIT, memory_limit)):
        if value is not None:
            os.environ[variable] = str(value)
    if ctx.invoked_subcommand != collect.__name__:  # collect runs the user's program, with BLAS
        os.environ.update(WITHOUT_BLAS_THREADS)
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help(), err=True)
        raise typer.Exit(UsageError.exit_code)


_COMMANDS: dict[str, tuple[Callable[..., None], dict[str, Any]]] = {
    "collect": (collect, {}),
    "models": (models, {}),
    "ingest": (ingest, {}),
    "info": (info, {}),
    # `query NAME --help` describes the query, so the command answers --help itself.
    "query": (query, {"help_option_names": []}),
    "why": (why, {}),
    "whatif": (whatif, {}),
    "try": (try_change, {}),
    "fit": (fit, {}),
    "hang": (hang, {}),
    "check": (check, {}),
    "report": (report, {}),
    "summary": (summary, {}),
    "sql": (sql, {}),
    "diff": (diff, {}),
    "doctor": (doctor, {}),
    "mcp": (mcp, {}),
}
_GROUPS = {"archive": archive, "export": export, "env": env}


def _set_up_streams() -> None:
    # If the caller closed a standard stream, the next file opened would take its descriptor, and
    # output would overwrite that file.
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= _STDERR:
        pass
    os.close(descriptor)
    sys.stdin = sys.stdin or os.fdopen(_STDIN)
    sys.stdout = sys.stdout or os.fdopen(_STDOUT, "w")
    sys.stderr = sys.stderr or os.fdopen(_STDERR, "w")
    for stream, errors in (
        (sys.stdin, "surrogateescape"),
        (sys.stdout, "backslashreplace"),  # for a locale other than UTF-8
        (sys.stderr, "backslashreplace"),
    ):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=errors)


def _exit(status: Any) -> NoReturn:
    # os._exit skips the interpreter's final garbage collection, which takes up to half a second.
    atexit._run_exitfuncs()
    with contextlib.suppress(OSError, ValueError):  # closed, or full
        sys.stderr.flush()
    os._exit(status)


def _show_warning(  # noqa: PLR0917 - the signature of warnings.showwarning
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    # Warnings of other packages are for their developers.
    if category.__module__.startswith("tbd_trace."):
        note(str(message))


def main() -> None:
    """Run the command line and exit."""
    _set_up_streams()
    gc.set_threshold(_OBJECTS_PER_COLLECTION)
    warnings.filterwarnings("always", category=RenamedWarning)
    warnings.showwarning = _show_warning
    stop_signals.raise_on_signals()
    try:
        app(prog_name="tbd-trace")
    except SystemExit as ended:
        _exit(ended.code)
    except KeyboardInterrupt:
        _exit(stop_signals.exit_code())
    except Exception as error:
        # A library that is being loaded turns an interrupt into its own error.
        if stop_signals.is_interrupted():
            _exit(stop_signals.exit_code())
        if os.environ.get("TBD_TRACE_DEBUG"):
            traceback.print_exc()
        summary = " ".join(str(error).split())
        failure(
            f"this is a bug in tbd-trace: {type(error).__name__}: {summary} "
            "(TBD_TRACE_DEBUG=1 shows the traceback)"
        )
        sys.exit(1)
