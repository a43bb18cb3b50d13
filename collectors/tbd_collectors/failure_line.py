"""Find the line of a log that says why the program failed, without lines of other tools."""

from __future__ import annotations

import re
from pathlib import Path

_END = 1 << 20  # bytes
_RANK = re.compile(r"^\[rank\d+\]:\s?")  # before the lines of a process of torchrun
_EXCEPTION = re.compile(r"^(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?::\s|$)")
_TRACEBACK = "Traceback (most recent call last):"
# Exceptions of launchers about processes that failed.
_LAUNCHER = re.compile(
    r"\b(?:ChildFailedError|ProcessRaisedException|ProcessExitedException|CalledProcessError)\b"
)
# Lines that are not the program's.
_FOREIGN = re.compile(
    r"""
    Generating\s'|Generated:|Collecting\sdata|Processing\sevents|Saving\stemporary|Importer\serror
    |Unable\sto\sretrieve\sthe\simporter|The\starget\sapplication|WARNING:|\[\d+/\d+\]\s
    |\s+/\S+\.(?:nsys-rep|qdrep|qdstrm|sqlite)$|==\w+==\s
    |[=\-]{5,}$|\S+\sFAILED$|Failures:|Root\sCause|\s*<NO_OTHER_FAILURES>|\[\d\]:$
    |\s+(?:time|host|rank|exitcode|error_file|traceback)\s*:
    |\s+raise\s|\s+File\s"|\s{4}|[EW]\d{4}\s
    """,
    re.VERBOSE,
)


def failure_line(log: Path) -> str:
    """Return the line that says why the program failed: the end of its traceback, or its last one.

    Args:
        log: file with the output of the program, of profilers and of launchers.
    """
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _END))
            lines = file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        lines = []
    lines = [_RANK.sub("", line) for line in lines]
    return _of_traceback(lines) or _last_own(lines) or "no output"


def _of_traceback(lines: list[str]) -> str | None:
    found = None
    in_traceback = False
    for line in lines:
        if line.strip() == _TRACEBACK:
            in_traceback = True
        elif in_traceback and _EXCEPTION.match(line):
            in_traceback = False
            if not _LAUNCHER.search(line):
                found = line.strip()
    return found


def _last_own(lines: list[str]) -> str | None:
    # Before the traceback of a launcher.
    until = next((n for n, line in enumerate(lines) if line.strip() == _TRACEBACK), len(lines))
    own = (line.strip() for line in reversed(lines[:until]) if not _FOREIGN.match(line))
    return next((line for line in own if line), None)
