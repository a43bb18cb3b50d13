"""Run a program in a process of a fork server: ``python fork_client.py SOCKET``.

The process has the environment, working directory and streams of this one, and gets its SIGINT and
SIGTERM; this one exits like it.
"""

import json
import os
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path
from types import FrameType

_LENGTH_BYTES = 8  # as of fork_server
_FORWARDED = (signal.SIGINT, signal.SIGTERM)


def _send(process_id: int, number: int) -> None:
    try:
        os.killpg(process_id, number)
    except ProcessLookupError:  # it does not lead a group yet
        os.kill(process_id, number)


def main(path: str) -> int:
    """Return the exit code of the program, negative if a signal ended it."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _FORWARDED)
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(path)
        request = json.dumps(
            {"directory": str(Path.cwd()), "environment": dict(os.environ)}
        ).encode()
        length = len(request).to_bytes(_LENGTH_BYTES, "big")
        socket.send_fds(server, [length], [0, 1, 2])
        server.sendall(request)
        answers = server.makefile()
        process_id = int(answers.readline())

        def forward(number: int, _frame: FrameType | None) -> None:
            with suppress(ProcessLookupError):  # it has ended
                _send(process_id, number)

        for number in _FORWARDED:
            signal.signal(number, forward)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _FORWARDED)
        return int(answers.readline())


if __name__ == "__main__":
    code = main(sys.argv[1])
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)
