"""Run calls on the workers of a Dask cluster."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Generator, Sequence
from importlib import import_module
from itertools import islice
from typing import Any

from tbd_trace.errors import TbdTraceError, UsageError
from tbd_trace.runtime.executors import Call, Executor, Lost, unwrapped, wrapped
from tbd_trace.version import __version__

_CONNECT_SECONDS = 10
_LOOK_SECONDS = 2  # between looks at the cluster while a result is awaited
_WITHOUT_WORKERS_SECONDS = 30
_AHEAD = 2  # calls per thread of the cluster that are given out before the first result is taken

# DuckDB uses all cores of a worker for one call, and its memory is that of one trace then.
_call_lock = threading.Lock()


class DaskCluster(Executor):
    """Runs each call as a task of a Dask cluster.

    Dask repeats the task of a worker that ends, and gives up after some times.

    Args:
        address: the scheduler, such as ``tcp://HOST:8786``.

    Raises:
        UsageError: dask is not installed, or the scheduler cannot be reached.
    """

    def __init__(self, address: str) -> None:
        try:
            distributed: Any = import_module("distributed")  # an extra, without types
        except ImportError:
            raise UsageError(
                "--dask: distributed is not installed; run `pip install 'tbd-trace[dask]'`"
            ) from None
        # It reports each lost connection at length; what matters is in the results.
        logging.getLogger("distributed").setLevel(logging.CRITICAL)
        self._address = address
        self._lost: type[Exception] = distributed.KilledWorker
        try:
            self._client = distributed.Client(
                address, timeout=_CONNECT_SECONDS, set_as_default=False
            )
        except (OSError, ValueError, ImportError) as error:
            reason = " ".join(str(error).split())
            raise UsageError(
                f"--dask {address}: cannot be reached ({reason}); start `dask scheduler` and "
                "`dask worker`, and name the scheduler's address"
            ) from error

    def run(self, calls: Sequence[Call]) -> Generator[Any]:
        rest = iter(calls)
        coming: deque[Any] = deque()
        try:
            for call in islice(rest, max(sum(self._threads().values()), 1) * _AHEAD):
                coming.append(self._submit(call))
            while coming:
                result = self._result(coming[0])
                coming.popleft()
                for call in islice(rest, 1):
                    coming.append(self._submit(call))
                yield unwrapped(result)
        finally:
            self._client.cancel(list(coming), force=True)

    def _submit(self, call: Call) -> Any:
        return self._client.submit(_run, __version__, call, pure=False)

    def _threads(self) -> dict[str, int]:
        threads: dict[str, int] = self._client.nthreads()
        return threads

    def _result(self, future: Any) -> Any:
        alone_since = None
        while True:
            try:
                return future.result(timeout=_LOOK_SECONDS)
            except TimeoutError:
                alone_since = None if self._threads() else alone_since or time.monotonic()
                if alone_since and time.monotonic() - alone_since > _WITHOUT_WORKERS_SECONDS:
                    return Lost("the cluster has no workers")
            except self._lost as error:
                return Lost(str(error))
            except (ImportError, AttributeError) as error:
                raise TbdTraceError(
                    f"--dask {self._address}: its workers cannot run this ({error}); install "
                    f"tbd-trace {__version__} there"
                ) from error

    def close(self) -> None:
        with contextlib.suppress(Exception):  # the scheduler may be gone
            self._client.close(timeout=_LOOK_SECONDS)


def _run(version: str, call: Call) -> Any:
    if version != __version__:
        text = f"a Dask worker has tbd-trace {__version__}; install {version} on all"
        return wrapped(lambda: _fail(text))
    with _call_lock:
        return wrapped(call)


def _fail(text: str) -> None:
    raise TbdTraceError(text)
