"""Stop a program: SIGINT, time to save its work, then SIGTERM and SIGKILL."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

GRACE_S = 60.0
"""Seconds between SIGINT and SIGTERM: a training may write a checkpoint, a profiler its trace."""

_PROC = Path("/proc")
_SAY_AFTER_S = 5.0
_TERMINATE_S = 5.0
_REPORT_S = 10.0  # for a profiler whose program was killed


def _ignore(_text: str) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Stopping:
    """How a program is stopped."""

    grace_s: float = GRACE_S  # between SIGINT and SIGTERM
    # True if the process is a profiler that runs the program in another process group. The
    # program alone gets the signals: nsys that gets SIGINT sends SIGTERM to the program, and it
    # writes its report by itself when the program ends.
    has_own_group: bool = False
    say: Callable[[str], None] = _ignore  # gets a line if the program takes long to end


def stop(
    process: subprocess.Popen[bytes], how: Stopping, has_ended: Callable[[float], bool]
) -> None:
    """Stop a program and its profiler; return after their end.

    Args:
        process: leader of a process group; the program itself, or its profiler.
        how: grace and messages.
        has_ended: waits up to a number of seconds; returns True if the process has ended.
    """
    _signal(process, signal.SIGINT, how)
    soon = min(_SAY_AFTER_S, how.grace_s)
    if has_ended(soon):
        return
    if how.grace_s > soon:
        how.say(f"the program gets up to {how.grace_s:g} s to end")
        if has_ended(how.grace_s - soon):
            return
    how.say(f"the program did not end within {how.grace_s:g} s, and is terminated")
    _signal(process, signal.SIGTERM, how)
    if has_ended(_TERMINATE_S):
        return
    if how.has_own_group:
        _signal(process, signal.SIGKILL, how)
        if has_ended(_REPORT_S):
            return
    kill(process)


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
