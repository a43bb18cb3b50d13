"""Leave the tracebacks of KeyboardInterrupt out of the output of a program that gets SIGINT."""

from __future__ import annotations

import re

_RANK = re.compile(rb"\[rank\d+\]:\s?")  # of torchrun, before each line
_RANK_BEGIN = re.compile(rb"\[(?:r|ra|ran|rank\d*\]?:?)?")
_TRACEBACK = b"Traceback (most recent call last):"
# Lines before a traceback: of multiprocessing and finalizers, and of a chain of exceptions.
_PROCESS = re.compile(rb"Process (?:Spawn|Fork|ForkServer)?Process-\d+(?::\d+)*:")
_PROCESS_BEGIN = re.compile(rb"Process (?:[SFP]\w*(?:-[\d:]*)?)?")
_BEFORE = (
    b"Exception ignored ",
    b"During handling of the above exception",
    b"The above exception was the direct",
)
_EXCEPTION = re.compile(rb"(?:[A-Za-z_]\w*\.)*(?:[A-Z]\w*|\w*error)(?::\s|\s*$)")
# The second is torchrun's; 2 is SIGINT.
_INTERRUPT = re.compile(
    rb"KeyboardInterrupt|(?:\w+\.)*SignalException: Process \d+ got signal: 2\b"
)
_LONGEST = 1 << 20  # bytes that are held


class InterruptFilter:
    """Removes tracebacks that end in KeyboardInterrupt from one stream.

    A traceback is held until its last line; all other output passes at once. Tracebacks of several
    processes may alternate line by line: they are held until the last of them ends.
    """

    def __init__(self) -> None:
        self._held = b""  # lines of tracebacks, and those between them
        self._line = b""  # begin of a line
        self._open = 0  # tracebacks without their last line
        self._follows = False  # True after a removed traceback

    def left_out(self, block: bytes) -> bytes:
        """Return what of the held and new output is to be shown now."""
        *lines, self._line = (self._line + block).split(b"\n")
        shown = b"".join(self._next(line + b"\n") for line in lines)
        if not self._open and not _may_begin(self._line):
            shown += self._taken() + self._line
            self._line = b""
        if len(self._held) + len(self._line) > _LONGEST:
            shown += self.rest()
        return shown

    def rest(self) -> bytes:
        """Return the held output; call it at the end of the stream."""
        rest, self._line = self._taken() + self._line, b""
        self._open = 0
        return rest

    def _taken(self) -> bytes:
        held, self._held = self._held, b""
        return held

    def _next(self, line: bytes) -> bytes:
        begin = line.find(_TRACEBACK)
        if begin >= 0:
            before = b"" if _RANK.fullmatch(line[:begin]) else line[:begin]  # a progress bar
            shown = self._taken() + before if before else b""
            self._open += 1
            self._held += line.removeprefix(before)
            return shown
        text = _without_rank(line)
        if self._open and _INTERRUPT.match(text):
            self._open -= 1
            if not self._open:
                self._held, self._follows = b"", True
            return b""
        if self._open and _EXCEPTION.match(text):
            self._open -= 1
            return self._taken() + line
        if self._belongs(text):
            self._held += line
            return b""
        self._follows = False
        # Of another process, if a traceback is open.
        return line if self._open else self._taken() + line

    def _belongs(self, text: bytes) -> bool:
        if text.startswith(_BEFORE) or _PROCESS.match(text):
            return True
        if not text.strip():
            return bool(self._open or self._held or self._follows)
        return bool(self._open) and text[:1] in (b" ", b"\t")


def _without_rank(line: bytes) -> bytes:
    return _RANK.sub(b"", line, count=1) if _RANK.match(line) else line


def _may_begin(line: bytes) -> bool:
    # True if a line that begins so can be, or come before, the first one of a traceback.
    text = _without_rank(line)
    if not text or _RANK_BEGIN.fullmatch(line) or _PROCESS_BEGIN.fullmatch(text):
        return True
    begins = (_TRACEBACK, b"Process ", *_BEFORE)
    return text.startswith(_BEFORE) or any(begin.startswith(text) for begin in begins)
