"""A database of which reading one trace ends the process that reads it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Sequence
from pathlib import Path

from tbd_trace.store import Database

TRACE = "TBD_TRACE_TEST_DEADLY"
"""Variable with the trace and, after a colon, a file: with it only the first reader ends."""


class DeadlyDatabase(Database):
    """Kills each process but the test's, which is that of the variable's value."""

    def files(self, table: str, trace_ids: Iterable[str]) -> list[Path]:
        """Return the files, if this process may live."""
        ids = list(trace_ids)
        _end(ids)
        return super().files(table, ids)


def deadly(trace_id: str, once: Path | None = None) -> str:
    """Return the value of the variable that spares this process."""
    return f"{os.getpid()}:{trace_id}:{once or ''}"


def _end(trace_ids: Sequence[str]) -> None:
    spared, trace_id, once = os.environ[TRACE].split(":")
    if os.getpid() == int(spared) or trace_id not in trace_ids:
        return
    if once:
        if Path(once).exists():
            return
        Path(once).touch()
    os.kill(os.getpid(), signal.SIGKILL)
