"""Turn the signals that ask a program to end into KeyboardInterrupt."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

_AS_A_SHELL = 128  # the exit code of a shell is that plus the number of the signal
_ONLY_COUNTED = 2
# Windows lacks SIGHUP, which a terminal or an ssh session sends when it is closed.
STOPPING = [
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
]
"""Signals that ask a program to end."""

_received: list[int] = []
_saving: list[int] = []  # number of signals received at the begin of each `saving_records`


def raise_on_signals() -> None:
    """Raise KeyboardInterrupt on signals that ask to end, so that temporary files are removed.

    Its argument is the name of the signal, without one for Ctrl-C. nohup stays in effect.
    """
    for number in STOPPING:
        if number == signal.SIGINT or signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)


def _interrupt(number: int, _frame: object) -> None:
    _received.append(number)
    if _saving and len(_received) - _saving[0] == _ONLY_COUNTED:
        return
    name = signal.Signals(number).name
    raise KeyboardInterrupt(*([] if number == signal.SIGINT else [name]))


@contextmanager
def saving_records() -> Iterator[None]:
    """Let the second signal pass: after the first, records are being saved. A third interrupts."""
    _saving.append(len(_received))
    try:
        yield
    finally:
        _saving.pop()


def count() -> int:
    """Return the number of signals that have asked this program to end."""
    return len(_received)


def is_interrupted() -> bool:
    """Return True if a signal has asked this program to end."""
    return bool(_received)


def exit_code(interrupt: KeyboardInterrupt | None = None) -> int:
    """Return the exit code after an interrupt: that of its signal or of the first one received."""
    if interrupt is not None and str(interrupt) in signal.Signals.__members__:
        return _AS_A_SHELL + signal.Signals[str(interrupt)]
    return _AS_A_SHELL + (_received[0] if _received else signal.SIGINT)


def cause(interrupt: KeyboardInterrupt) -> str:
    """Return what interrupted a program, for a message: Ctrl-C or the name of a signal."""
    return str(interrupt) or "Ctrl-C"
