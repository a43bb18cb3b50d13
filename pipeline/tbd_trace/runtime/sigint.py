"""Stop DuckDB on Ctrl-C."""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import signal
import threading
from collections.abc import Iterator

import duckdb

from tbd_trace.runtime.stop_signals import STOPPING

_INTERRUPTED = re.compile(r"Query interrupted|^INTERRUPT Error|\bKeyboardInterrupt\b")
_AGAIN_S = 0.1  # between two interrupts


@contextlib.contextmanager
def interruptible(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Interrupt the query of a connection on Ctrl-C.

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
    """Translate DuckDB's errors after Ctrl-C into KeyboardInterrupt.

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
    # In a thread: the main thread is inside DuckDB and handles no signals.
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
    # Again and again: between two statements an interrupt is lost.
    pause_s = None
    with selectors.DefaultSelector() as selector:
        selector.register(wake, selectors.EVENT_READ)
        while True:
            if selector.select(pause_s):
                received = os.read(wake, 1)
                if not received:
                    return
                if received[0] in STOPPING:
                    pause_s = _AGAIN_S
            if pause_s is not None:
                connection.interrupt()
