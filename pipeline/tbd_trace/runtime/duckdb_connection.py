"""Open in-memory DuckDB connections."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from weakref import WeakKeyDictionary

import duckdb

from tbd_trace.errors import UsageError
from tbd_trace.runtime.private_files import private_prefix, shared_place
from tbd_trace.runtime.settings_env import MEMORY_LIMIT, THREADS
from tbd_trace.sqltext import string

# DuckDB runs an ASOF join whose left side it believes to be small as a nested loop; behind filters
# its estimate is often one row where there are a million. GLOBAL: cursors take no other settings.
SORTED_ASOF = "SET GLOBAL asof_loop_join_threshold = 0"

# Connections whose databases were given back, each with the process that has them: a copy of a
# process (`helpers`) makes its own.
_idle: list[tuple[int, duckdb.DuckDBPyConnection]] = []
# How often each was released.
_uses: WeakKeyDictionary[duckdb.DuckDBPyConnection, int] = WeakKeyDictionary()
# A database keeps some memory of each file that it has read: 0.1 MB.
_MOST_USES = 8
_opening: list[threading.Thread] = []  # they add to these
_taking = threading.Lock()
_Settings = dict[str, str | bool | int | float | list[str]]
# What users of a database change, and what another may want otherwise.
_SETTINGS = ("disabled_optimizers", "temp_directory", "threads")
# The memory limit of each database when it was opened, as it was given and as it is shown.
_limits: WeakKeyDictionary[duckdb.DuckDBPyConnection, tuple[object, str]] = WeakKeyDictionary()


def spill_directory() -> Path:
    """Return the directory where queries of this process spill to disk.

    Files of killed queries can be many gigabytes; the next process removes them.
    """
    place = shared_place()
    return place.with_name(f"{private_prefix(place)}spill")


def scratch_connection(spill: Path) -> duckdb.DuckDBPyConnection:
    """Return an in-memory connection, of a released database if there is one.

    ``TBD_TRACE_THREADS`` and ``TBD_TRACE_MEMORY_LIMIT`` limit its threads and memory.

    Args:
        spill: directory for data that exceeds the memory; by default the working directory.

    Raises:
        UsageError: DuckDB rejects the value of a variable.
    """
    config = _config() | {"temp_directory": str(spill)}
    idle = _taken()
    try:
        return _open(config) if idle is None else _as_new(idle, config)
    except duckdb.Error as error:
        chosen = ", ".join(
            f"{name}={os.environ[name]}" for name in (THREADS, MEMORY_LIMIT) if name in os.environ
        )
        raise UsageError(f"{chosen}: {str(error).splitlines()[0]}") from error


def _open(config: _Settings) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config=config)
    connection.execute("SET enable_progress_bar = false")  # it would go to standard output
    connection.execute(SORTED_ASOF)
    # A question asks the same files again and again, and those never change.
    connection.execute("SET GLOBAL parquet_metadata_cache = true")
    _limits[connection] = (config.get("memory_limit"), memory_limit(connection))
    return connection


def memory_limit(connection: duckdb.DuckDBPyConnection) -> str:
    """Return the memory limit of a database as DuckDB shows it, rounded down to a tenth."""
    ((limit,),) = connection.execute("SELECT current_setting('memory_limit')").fetchall()
    return str(limit)


def _taken() -> duckdb.DuckDBPyConnection | None:
    with _taking:  # two threads would take the same one
        while _opening:
            _opening.pop().join()
        return _idle.pop()[1] if _has_idle() else None


def _has_idle() -> bool:
    return bool(_idle) and _idle[-1][0] == os.getpid()


def prefetch() -> None:
    """Open a database for `scratch_connection` in a thread.

    Errors are raised when the database is used.
    """
    if _opening or _has_idle():
        return

    def open_database() -> None:
        with contextlib.suppress(duckdb.Error):
            _idle.append((os.getpid(), _open(_config())))

    thread = threading.Thread(target=open_database)
    thread.start()
    _opening.append(thread)


def release(connection: duckdb.DuckDBPyConnection) -> None:
    """Return a connection of `scratch_connection` for the next caller.

    Opening and closing a database takes 25 ms. All its tables were temporary, on other connections
    that are closed. A database that has spilled is closed, because its spill directory is fixed,
    and one that was used often, because its memory has grown.
    """
    ((spill,),) = connection.execute("SELECT current_setting('temp_directory')").fetchall()
    uses = _uses[connection] = _uses.get(connection, 0) + 1
    # One idle database is enough for the next question.
    if Path(spill).exists() or _has_idle() or uses == _MOST_USES:
        connection.close()
    else:
        _idle.append((os.getpid(), connection))


def return_memory(connection: duckdb.DuckDBPyConnection) -> None:
    """Return the memory that earlier queries of a database used to the system.

    DuckDB keeps it for the next query, and returns it when its memory limit is set.
    """
    number, unit = memory_limit(connection).split()
    # Shown rounded down to a tenth: set again and again as it is shown, it would shrink.
    with contextlib.suppress(duckdb.OutOfMemoryException):  # existing tables need more
        connection.execute(f"SET memory_limit = '{float(number) + 0.05} {unit}'")


def column_types(connection: duckdb.DuckDBPyConnection, select: str) -> dict[str, str]:
    """Return the types of the columns of a SELECT, by name."""
    return {row[0]: row[1] for row in connection.execute(f"DESCRIBE {select}").fetchall()}


def _config() -> _Settings:
    chosen = ((THREADS, "threads"), (MEMORY_LIMIT, "memory_limit"))
    return {name: os.environ[variable] for variable, name in chosen if os.environ.get(variable)}


def _as_new(
    connection: duckdb.DuckDBPyConnection, config: Mapping[str, object]
) -> duckdb.DuckDBPyConnection:
    names = list(_SETTINGS)
    # Setting the memory limit returns memory to the system, which is slow to get again.
    if _limits[connection] != (config.get("memory_limit"), memory_limit(connection)):
        names.append("memory_limit")
    for name in names:
        value = string(str(config[name])) if name in config else None
        connection.execute(f"SET {name} = {value}" if value else f"RESET {name}")
    return connection


@cache
def ingest_database(staging: Path, process: int) -> duckdb.DuckDBPyConnection:
    """Return the database in which a process maps the rows of a trace.

    It is cached: opening another takes 20 ms, and memory returned to the system is slow to
    get again. Code that closes it clears the cache.

    Args:
        process: id of the process, so that a forked copy opens its own.
    """
    return scratch_connection(staging / f"{process}.spill")
