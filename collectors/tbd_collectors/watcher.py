"""Decide how long a program is needed."""

from __future__ import annotations

import threading
from typing import Protocol

STOPPED_GRACE_S = 1.0
"""Seconds between SIGINT and SIGTERM of a program whose report is not needed."""


class Watcher(Protocol):
    """Decides how long a program is needed."""

    def has_begun(self) -> bool:
        """Return True once the program trains."""

    def is_enough(self) -> bool:
        """Return True once the program is not needed any more; asked every 0.2 s."""

    def before_stop(self) -> float:
        """Prepare the end of the program; return the seconds between SIGINT and SIGTERM."""


class Watch:
    """Notes why a program need not run on.

    Args:
        stop: set when the caller does not need the program any more.
        watcher: decides how long it is needed.
    """

    def __init__(self, stop: threading.Event | None, watcher: Watcher | None) -> None:
        self._stop = stop
        self.watcher = watcher
        self.is_stopped = False
        self.is_enough = False

    def is_over(self) -> bool:
        """Return True if the program need not run on."""
        self.is_stopped = self._stop is not None and self._stop.is_set()
        self.is_enough = self.watcher is not None and self.watcher.is_enough()
        return self.is_stopped or self.is_enough

    def grace_s(self, usual: float) -> float:
        """Return the seconds between SIGINT and SIGTERM; ``usual`` without a watcher."""
        if self.is_stopped:
            return STOPPED_GRACE_S
        return usual if self.watcher is None else self.watcher.before_stop()
