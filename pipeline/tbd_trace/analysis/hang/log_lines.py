"""Find the lines of TorchElastic and NCCL in logs beside the dumps."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

_TAIL_BYTES = 4 << 20  # the end of a log has the failure
_LINES = 3  # of each log
_LONGEST = 160
_TELLING = re.compile(
    r"failed \(exitcode: .*"  # TorchElastic
    r"|Watchdog caught collective operation timeout.*"  # NCCL: which operation timed out
    r"|NCCL WARN.*"
    r"|Timed out waiting \d+ms.*|Connection closed by peer.*|Connection reset by peer.*"  # gloo
    r"|terminate called.*|CUDA error.*|.*out of memory.*|Xid.*"
)
# TorchElastic's summary: the process that ended first.
_ROOT_CAUSE = re.compile(
    r"Root Cause \(first observed failure\).*?rank\s+: (\d+) .*?exitcode\s+: (-?\d+)", re.DOTALL
)


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line of a log."""

    file: str
    text: str


def find_log_lines(paths: Iterable[Path]) -> list[LogLine]:
    """Return the first lines of each log that state a failure, at most three of each."""
    return [LogLine(path.name, text) for path in paths for text in _telling(path)]


def _telling(path: Path) -> Iterator[str]:
    log = _tail(path)
    if first := _ROOT_CAUSE.search(log):
        yield f"the first process that failed is rank {first[1]}, with exit code {first[2]}"
    found = (match[0].strip()[:_LONGEST] for match in _TELLING.finditer(log))
    yield from list(dict.fromkeys(found))[:_LINES]


def _tail(path: Path) -> str:
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _TAIL_BYTES))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""
