"""Stop a program: SIGINT, time to save its work, then SIGTERM and SIGKILL."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tbd_trace.runtime import stop_signals

GRACE_S = 60.0
"""Seconds between SIGINT and SIGTERM: a training may write a checkpoint, a profiler its trace."""

_PROC = Path("/proc")
_SAY_AFTER_S = 5.0
_AGAIN_S = 10.0  # after another Ctrl-C
_TERMINATE_S = 5.0
_POLL_S = 0.2
_REPORT_S = 10.0  # for a profiler whose program was killed


def _ignore(_text: str) -> None:
    pass


def _never() -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Stopping:
    """How a program is stopped."""

    grace_s: float = GRACE_S  # between SIGINT and SIGTERM
    # True if the process is a profiler that runs the program in another process group. The
    # program alone gets the signals: nsys that gets SIGINT sends SIGTERM to the program, and it
    # writes its report by itself when the program ends.
    has_own_group: bool = False
    say: Callable[[str], None] = _ignore  # gets a line if the program takes long to end
    # Returns True while the program writes its trace; SIGINT would stop that.
    is_writing: Callable[[], bool] = _never


def stop(
    process: subprocess.Popen[bytes], how: Stopping, has_ended: Callable[[float], bool]
) -> None:
    """Stop a program and its profiler; return after their end.

    Another Ctrl-C before that goes on to the program, which then has 10 seconds to end.

    Args:
        process: leader of a process group; the program itself, or its profiler.
        how: grace and messages.
        has_ended: waits up to a number of seconds; returns True if the process has ended.
    """
    _signal(process, signal.SIGINT, how)
    if _ends_in_time(process, how, has_ended):
        return
    how.say("the program did not end in time, and is terminated")
    _signal(process, signal.SIGTERM, how)
    if has_ended(_TERMINATE_S):
        return
    if how.has_own_group:
        _signal(process, signal.SIGKILL, how)
        if has_ended(_REPORT_S):
            return
    kill(process)


def _ends_in_time(
    process: subprocess.Popen[bytes], how: Stopping, has_ended: Callable[[float], bool]
) -> bool:
    asked, started, is_said = stop_signals.count(), time.monotonic(), False
    deadline = started + how.grace_s
    while not has_ended(_POLL_S):
        now = time.monotonic()
        if now > deadline:
            return False
        if not is_said and now - started > _SAY_AFTER_S:
            is_said = True
            how.say(f"the program gets up to {how.grace_s:g} s to end")
        if stop_signals.count() > asked and not how.is_writing():
            asked = stop_signals.count()
            how.say(f"the program gets Ctrl-C again, and {_AGAIN_S:g} s to end")
            deadline = min(deadline, now + _AGAIN_S)
            _signal(process, signal.SIGINT, how)
    return True


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill the process group of a process, and wait for the process."""
    _signal(process, signal.SIGKILL, Stopping())
    process.wait()


def _signal(process: subprocess.Popen[bytes], number: signal.Signals, how: Stopping) -> None:
    # After wait() the kernel may reuse the process id.
    if process.poll() is not None:
        return
    own = groups_below(process.pid) if how.has_own_group else []
    # A profiler that has not started the program yet gets the signal itself.
    for group in own or [process.pid]:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, number)


def groups_below(process_id: int) -> list[int]:
    """Return the process groups that descendants of a process lead, without groups below these."""
    return list(_groups_below(process_id, _children()))


def _groups_below(process_id: int, children: Mapping[int, Sequence[tuple[int, int]]]) -> list[int]:
    found = []
    for child, group in children.get(process_id, ()):
        found += [group] if group == child else _groups_below(child, children)
    return found


def _children() -> dict[int, list[tuple[int, int]]]:
    # Process id and group of the children of each process.
    children: dict[int, list[tuple[int, int]]] = {}
    for entry in _PROC.glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended
            # PID (NAME) STATE PARENT GROUP …; the name may contain anything.
            _, parent, group, *_ = (
                (entry / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
            )
            children.setdefault(int(parent), []).append((int(entry.name), int(group)))
    return children
