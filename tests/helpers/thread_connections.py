"""DuckDB connections that only one thread may use, until it ends or gives them back."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

_SAFE = {"interrupt"}  # DuckDB's only method for other threads
_STACK = 12  # calls shown of a wrong use


class Owner:
    """The thread that uses a connection."""

    def __init__(self, record: Path) -> None:
        self._record = record
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def check(self, method: str) -> None:
        """Raise, and note in the record, that another thread than the owner uses the connection."""
        now = threading.current_thread()
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._thread = now
            owner = self._thread
        if owner is not now:
            problem = f"{now.name} calls {method} of the connection of {owner.name}"
            # What calls may catch the exception, or be in another process.
            with self._record.open("a", encoding="utf-8") as file:
                file.writelines([problem, "\n", *traceback.format_stack(limit=_STACK), "\n"])
            raise AssertionError(problem)

    def give_back(self) -> None:
        """Let another thread use the connection."""
        self._thread = None

    def each(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield batches that the connection computes one by one."""
        coming = iter(batches)
        while True:
            self.check("the next batch")
            batch = next(coming, None)
            if batch is None:
                return
            yield batch


class _Checked:
    # Calls the methods of a DuckDB object if this thread may.

    def __init__(self, real: Any, owner: Owner) -> None:
        self.real = real
        self.owner = owner

    def __getattr__(self, name: str) -> Any:
        if name in _SAFE:
            return getattr(self.real, name)
        self.owner.check(name)
        found = getattr(self.real, name)
        return self._calling(name, found) if callable(found) else found

    def _calling(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            self.owner.check(name)
            return self._of(method(*given, **named))

        return call

    def _of(self, result: Any) -> Any:
        if result is self.real:
            return self
        if isinstance(result, duckdb.DuckDBPyRelation):
            return CheckedRelation(result, self.owner)
        return result


class CheckedRelation(_Checked):
    """A relation, whose rows its connection computes when they are read."""

    def __arrow_c_stream__(self, schema: object = None) -> object:
        self.owner.check("__arrow_c_stream__")
        rows = pa.RecordBatchReader.from_stream(self.real)
        batches = pa.RecordBatchReader.from_batches(rows.schema, self.owner.each(rows))
        return batches.__arrow_c_stream__(schema)


class CheckedConnection(_Checked):
    """A connection; a cursor of it belongs to the thread that first uses the cursor."""

    def __init__(self, real: duckdb.DuckDBPyConnection, record: Path) -> None:
        super().__init__(real, Owner(record))
        self._record = record

    def cursor(self) -> CheckedConnection:
        self.owner.check("cursor")
        return CheckedConnection(self.real.cursor(), self._record)

    def __enter__(self) -> CheckedConnection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Idle(list[tuple[int, CheckedConnection]]):
    """Connections that were given back, in place of ``runtime.duckdb_connection._idle``."""

    def append(self, item: tuple[int, CheckedConnection], /) -> None:
        item[1].owner.give_back()
        super().append(item)


def connector(record: Path) -> Callable[..., CheckedConnection]:
    """Return a function for ``duckdb.connect`` whose connections note wrong uses in a file."""
    connect = duckdb.connect

    def connect_checked(*given: Any, **named: Any) -> CheckedConnection:
        return CheckedConnection(connect(*given, **named), record)

    return connect_checked


def check_process(record: str) -> None:
    """Let this process, a worker, check its connections."""
    from tbd_trace.runtime import duckdb_connection

    duckdb.connect = connector(Path(record))
    duckdb_connection._idle = Idle()


def use_in_two_threads() -> None:
    """Use a connection as no thread may."""
    connection = duckdb.connect()
    connection.execute("SELECT 1")
    with ThreadPoolExecutor(1) as executor:
        executor.submit(connection.execute, "SELECT 1").result()
