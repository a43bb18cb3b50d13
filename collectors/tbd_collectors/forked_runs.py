"""Start the runs of a Python command by forks of one process that has imported its modules."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tbd_collectors.workload import importable
from tbd_models.trial import fork_client
from tbd_models.trial.fork_server import MODULES, SOCKET, VARIABLE
from tbd_trace.runtime.private_files import temporary_directory

_IMPORT_S = 120.0
_POLL_S = 0.02


@contextmanager
def forked_runs(command: Sequence[str], modules: Sequence[str]) -> Iterator[list[str] | None]:
    """Yield a command line whose runs are those of ``command``, but import nothing again.

    Yields None for other commands than a Python interpreter, and if its modules cannot be shared.

    Args:
        command: the program and its arguments.
        modules: names of the modules to import, in order.
    """
    if not modules or not Path(command[0]).name.startswith("python"):
        yield None
        return
    with temporary_directory() as name, importable(auto=True) as environment:
        directory = Path(name)
        (directory / MODULES).write_text(json.dumps(list(modules)), encoding="utf-8")
        server = subprocess.Popen(
            list(command),
            env={**os.environ, **environment, VARIABLE: name},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            is_ready = _is_ready(server, directory / SOCKET)
            client = [sys.executable, "-I", "-S", fork_client.__file__, str(directory / SOCKET)]
            yield client if is_ready else None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(server.pid, signal.SIGKILL)
            server.wait()


def _is_ready(server: subprocess.Popen[bytes], socket: Path) -> bool:
    deadline = time.monotonic() + _IMPORT_S
    while server.poll() is None and time.monotonic() < deadline:
        if socket.exists():
            return True
        time.sleep(_POLL_S)
    return False
