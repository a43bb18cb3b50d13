"""Find the line of a log that says why the program failed, without lines of other tools."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

_END = 1 << 20  # bytes
_RANK = re.compile(r"^\[rank\d+\]:\s?")  # before the lines of a process of torchrun
_EXCEPTION = re.compile(r"^(?:[A-Za-z_]\w*\.)*(?:[A-Z]\w*|\w*error)(?::\s|$)")
_TRACEBACK = "Traceback (most recent call last):"
# Exceptions of launchers about processes that failed.
_LAUNCHER = re.compile(
    r"\b(?:ChildFailedError|ProcessRaisedException|ProcessExitedException|CalledProcessError)\b"
)
# Before tracebacks that do not end a program: of atexit, of finalizers and of threads.
_HARMLESS = re.compile(r"Exception ignored |Error in atexit\.|Exception in thread ")
# Lines that PyTorch (glog) and its profiler (Kineto) print at any time.
_LOGGED = re.compile(
    r"\[?[DIWEF]\d{4}\s\d\d:|[A-Z]+:\d{4}-\d\d-\d\d\s\d\d:\d\d:\d\d\s\d+:\d+\s\S+\]"
)
# Other lines that are not the program's.
_FOREIGN = re.compile(
    r"""
    Generating\s'|Generated:|Collecting\sdata|Processing\sevents|Saving\stemporary|Importer\serror
    |Unable\sto\sretrieve\sthe\simporter|The\starget\sapplication|WARNING:|\[\d+/\d+\]\s
    |\s+/\S+\.(?:nsys-rep|qdrep|qdstrm|sqlite)$|==\w+==\s
    |[=\-]{5,}$|\S+\sFAILED$|Failures:|Root\sCause|\s*<NO_OTHER_FAILURES>|\[\d\]:$
    |\s+(?:time|host|rank|exitcode|error_file|traceback)\s*:
    |\s+raise\s|\s+File\s"|\s{4}|\S+\.py:\d+:\s\w*Warning:|\s+warnings\.warn\(
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
    return _why([line for line in lines if not _LOGGED.match(line)])


def _why(lines: list[str]) -> str:
    own, exception, harmless = [], "", ""
    is_before_launcher = True
    for line, before, ended in _with_tracebacks(lines):
        if not ended:
            if is_before_launcher and line.strip() and not _FOREIGN.match(line):
                own.append(line.strip())
        elif _HARMLESS.match(before):
            harmless = line.strip()
        elif _LAUNCHER.search(line):
            is_before_launcher = False
        else:
            exception = line.strip()
    return exception or (own[-1] if own else "") or harmless or "no output"


def _with_tracebacks(lines: list[str]) -> Iterator[tuple[str, str, bool]]:
    # Lines outside of tracebacks, and of a traceback the last line alone, with the line before it.
    start: int | None = None
    for number, line in enumerate(lines):
        if line.strip() == _TRACEBACK:
            start = number
        elif start is not None and _EXCEPTION.match(line):
            yield line, lines[start - 1] if start else "", True
            start = None
        elif start is None and not _HARMLESS.match(line):
            yield line, "", False
