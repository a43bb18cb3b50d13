"""Find and end processes that a program has left behind, in whatever session they are."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path

MARKER = "TBD_TRACE_RUN"
"""Environment variable that is unique to a run; all its processes inherit it."""

_PROC = Path("/proc")
# Signal and seconds to wait: orphaned processes may exit alone, then SIGTERM, then SIGKILL.
_LEFT_OVER_STEPS = ((None, 1.0), (signal.SIGTERM, 2.0), (signal.SIGKILL, 2.0))


def left_overs(marker: str) -> list[int]:
    """Return the ids of processes with a run's marker in their environment."""
    wanted = f"{MARKER}={marker}".encode()
    process_ids = []
    for entry in _PROC.glob("[0-9]*"):
        # The process has ended, or belongs to another user and so not to the run.
        with contextlib.suppress(OSError):
            if wanted in (entry / "environ").read_bytes().split(b"\0"):
                process_ids.append(int(entry.name))
    return process_ids


def end_left_overs(marker: str) -> None:
    """End the processes with a run's marker."""
    for number, patience in _LEFT_OVER_STEPS:
        deadline = time.monotonic() + patience
        while process_ids := left_overs(marker):
            if number is not None:
                _signal_all(process_ids, number)
            if time.monotonic() > deadline:
                break
            time.sleep(0.1)
        else:
            return


def _signal_all(process_ids: Sequence[int], number: signal.Signals) -> None:
    for process_id in process_ids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process_id, number)
