"""Ctrl-C while DuckDB is at work."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import threading
from collections.abc import Iterator

import duckdb

_INTERRUPTED = re.compile(r"Query interrupted|^INTERRUPT Error|\bKeyboardInterrupt\b")
_STOPPING = {signal.SIGINT, signal.SIGTERM}


@contextlib.contextmanager
def interruptible(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Let Ctrl-C stop what runs on a connection, soon, and come out as what it is.

    Raises:
        KeyboardInterrupt: the user pressed Ctrl-C.
    """
    with translate_interrupts():
        if threading.current_thread() is threading.main_thread():
            with _watched(connection):
                yield
        else:
            yield


@contextlib.contextmanager
def translate_interrupts() -> Iterator[None]:
    """Turn what DuckDB makes of Ctrl-C back: its own error, or that of a stream in Python.

    Raises:
        KeyboardInterrupt: the user pressed Ctrl-C.
    """
    try:
        yield
    except (duckdb.Error, RuntimeError) as error:
        if _INTERRUPTED.search(str(error)):
            raise KeyboardInterrupt from None
        raise


@contextlib.contextmanager
def _watched(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Interrupt DuckDB from another thread on a signal: the main thread may not look for hours."""
    wake, signalled = os.pipe()
    os.set_blocking(signalled, False)
    previous = signal.set_wakeup_fd(signalled)
    watcher = threading.Thread(target=_watch, args=(wake, connection), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(previous)
        os.close(signalled)
        watcher.join()
        os.close(wake)


def _watch(wake: int, connection: duckdb.DuckDBPyConnection) -> None:
    while received := os.read(wake, 1):
        if received[0] in _STOPPING:
            connection.interrupt()
