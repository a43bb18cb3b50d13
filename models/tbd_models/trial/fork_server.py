"""Import the modules of a training program once, and fork a process for each of its runs.

The interpreter of the program calls :func:`serve` when it starts, before it reads the program. Each
forked process returns from there and goes on like an interpreter that has just started, but with
the modules loaded. ``fork_client.py`` asks for such a process and passes its exit code on.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
import threading
import warnings
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

VARIABLE = "TBD_TRACE_FORK_SERVER"
"""Environment variable: the directory of ``modules.json``, where the server makes ``socket``."""

MODULES, SOCKET = "modules.json", "socket"
LENGTH_BYTES = 8  # before the request
_POLL_S = 0.02
_STREAMS = 3  # standard input, output and error


def serve(directory: Path) -> None:
    """Import the modules, and return in each forked process; the server itself never returns.

    Args:
        directory: holds ``modules.json``, a list of module names.
    """
    os.environ.pop(VARIABLE)  # forked processes and their interpreters are no servers
    try:
        if _is_forked(directory):
            return
    except Exception as error:
        sys.stderr.write(f"tbd-trace: {type(error).__name__}: {error}\n")
        os._exit(1)
    os._exit(0)


def _is_forked(directory: Path) -> bool:
    # True in each forked process; False when the parent of the server has ended.
    before, parent = dict(os.environ), os.getppid()
    _import_all(json.loads((directory / MODULES).read_text(encoding="utf-8")))
    if threading.active_count() > 1:
        raise RuntimeError("a module starts threads when it is imported")
    changed = {name: value for name, value in os.environ.items() if before.get(name) != value}
    with _listening(directory / SOCKET) as listener:
        while os.getppid() == parent:
            with suppress(TimeoutError):
                connection, _ = listener.accept()
                with connection:
                    if _fork(connection, changed):
                        return True
    return False


def _import_all(names: list[str]) -> None:
    for name in names:
        # The program may catch the error of a module, or import it under another condition.
        with suppress(Exception, SystemExit):
            import_module(name)
    if "torch" in sys.modules:
        import_module("tbd_models.auto.pytorch")
        import_module("tbd_models.trial.program_pytorch")


def _listening(path: Path) -> socket.socket:
    # Clients find the socket when it listens.
    listener = socket.socket(socket.AF_UNIX)
    beside = path.with_suffix(".part")
    listener.bind(str(beside))
    listener.listen()
    listener.settimeout(1.0)
    beside.rename(path)
    return listener


def _fork(client: socket.socket, changed: dict[str, str]) -> bool:
    # True in the new process; False in the server, when that has ended.
    client.settimeout(None)
    request, streams = _received(client)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # BLAS libraries have threads
        process_id = os.fork()
    if process_id == 0:
        _become(request, streams, changed)
        return True
    for stream in streams:
        os.close(stream)
    with suppress(BrokenPipeError):
        client.sendall(f"{process_id}\n".encode())
        client.sendall(f"{_exit_code(process_id, client)}\n".encode())
    return False


def _received(client: socket.socket) -> tuple[dict[str, Any], list[int]]:
    head, streams, _, _ = socket.recv_fds(client, LENGTH_BYTES, _STREAMS)
    length, body = int.from_bytes(head, "big"), b""
    while len(body) < length and (block := client.recv(length - len(body))):
        body += block
    return json.loads(body), list(streams)


def _become(request: dict[str, Any], streams: list[int], changed: dict[str, str]) -> None:
    # Environment, directory and streams of the client, in a session that it can signal.
    os.setsid()
    for target, stream in enumerate(streams):
        os.dup2(stream, target)
        os.close(stream)
    os.chdir(request["directory"])
    os.environ.clear()
    os.environ.update(changed | request["environment"])
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed()  # each run of a program without a seed has its own numbers


def _exit_code(process_id: int, client: socket.socket) -> int:
    # Negative for a signal, as of subprocess. The process ends with its client.
    while True:
        ended, status = os.waitpid(process_id, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if select.select([client], [], [], _POLL_S)[0]:
            with suppress(ProcessLookupError):
                os.killpg(process_id, signal.SIGKILL)
            os.waitpid(process_id, 0)
            raise BrokenPipeError
