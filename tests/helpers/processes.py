"""Whether processes that a test has started are still there."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path


def is_running(process_id: int) -> bool:
    """Tell whether a process runs; a zombie that nobody waits for does not."""
    try:
        os.kill(process_id, 0)
        if sys.platform != "linux":
            return True
        state = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0]
    except (ProcessLookupError, FileNotFoundError):
        return False
    return state != "Z"


def end_soon(*process_ids: int, within_s: float = 5) -> bool:
    """Wait until none of some processes runs; tell whether that came in time."""
    deadline = time.monotonic() + within_s
    while any(map(is_running, process_ids)):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True
