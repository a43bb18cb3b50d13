"""Decide how long a program is needed."""

from __future__ import annotations

from enum import Enum, auto
from typing import Protocol


class End(Enum):
    """Why the wait for a program ended."""

    EXIT = auto()  # the program has ended
    TIMEOUT = auto()
    STOPPED = auto()  # by the caller
    ENOUGH = auto()  # the program is not needed any more


class Watcher(Protocol):
    """Decides how long a program is needed."""

    @property
    def keeps_running(self) -> bool:
        """True to leave a program that is not needed any more running."""

    def has_begun(self) -> bool:
        """Return True once the program trains."""

    def is_enough(self) -> bool:
        """Return True once the program is not needed any more; asked every 0.2 s."""

    def before_stop(self) -> None:
        """Prepare the end of the program."""
