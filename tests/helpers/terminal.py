"""Running the real program on a pseudo-terminal."""

from __future__ import annotations

import os
import pty
import re
import sys
from collections.abc import Iterator

ENTRY_POINT = [sys.executable, "-c", "from tbd_trace.__main__ import main; main()"]


def on_terminal(
    *arguments: str, keys: str = "", columns: int = 80, **environment: str
) -> tuple[int, str]:
    """Run the program on a terminal and return its exit code and everything it wrote there.

    Args:
        arguments: arguments of the program.
        keys: what is typed.
        columns: width of the terminal.
        environment: further environment variables.
    """
    size = {"COLUMNS": str(columns), "LINES": "24", "TERM": "xterm"}
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvpe(ENTRY_POINT[0], [*ENTRY_POINT, *arguments], os.environ | size | environment)
    os.write(terminal, keys.encode())
    screen = b"".join(_chunks(terminal))
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    return os.waitstatus_to_exitcode(status), screen.decode().replace("\r\n", "\n")


def without_escapes(screen: str) -> str:
    """Return what stays on the screen: no escape sequences, no lines that were written over."""
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen)
    return "\n".join(line.rsplit("\r", 1)[-1] for line in text.split("\n"))


def _chunks(terminal: int) -> Iterator[bytes]:
    while True:
        try:
            chunk = os.read(terminal, 65536)
        except OSError:  # Linux reports the end of a terminal as an error
            return
        if not chunk:
            return
        yield chunk
