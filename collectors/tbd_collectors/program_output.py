"""Keep the output of a program in a log, with its last lines, and show it to the user."""

from __future__ import annotations

import os
import re
import subprocess
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, BinaryIO, Protocol

from tbd_collectors.interrupt_filter import InterruptFilter

TAIL_LINES = 40

_PROGRESS = re.compile(r"\[[=>\s]*\d+\s?%")  # progress bars of nsys
_LINE_END = re.compile(rb"\r\n|\r|\n")  # progress bars end their lines with a lone \r
_BEGINS = (b"Generating '/", b"USDT:")
_REPORT = re.compile(rb"^Generating '/[^\n]*\.qdstrm'", re.MULTILINE)
_NOTICE = re.compile(rb"^USDT:[^\n]*profiler_(?:start|stop)\n", re.MULTILINE)
_BLOCK = 1 << 16
_LONGEST_BEGIN = 32 << 20  # bytes of a log that are kept from its begin, and from its end
_LONGEST_END = 1 << 20
_CLOSE_S = 2.0


class ProgramOutput(Protocol):
    """Where the streams of a program go."""

    tail: deque[str]  # last lines, without blank ones and progress bars

    def streams(self) -> dict[str, Any]:
        """Return the arguments ``stdin``, ``stdout`` and ``stderr`` of Popen."""

    def started(self) -> None:
        """Note that the program has started."""

    def forward(self, *, to_the_end: bool = False) -> None:
        """Handle new output; called often, and once after the end."""

    def note_interrupt(self) -> None:
        """Note that the program gets SIGINT: its tracebacks of that are in the log only."""


class LineSplitter:
    """Divide the output of one stream into lines."""

    def __init__(self, on_line: Callable[[str], None]) -> None:
        self._on_line = on_line
        self._rest = b""

    def add(self, output: bytes, *, to_the_end: bool = False) -> None:
        """Pass on the lines that are complete, or with ``to_the_end`` all; blank ones are left out.

        Bytes that are no UTF-8 are replaced.
        """
        *lines, self._rest = _LINE_END.split(self._rest + output)
        if to_the_end:
            lines.append(self._rest)
            self._rest = b""
        for line in lines:
            if text := line.decode("utf-8", "replace").rstrip():
                self._on_line(text)


class LoggedOutput:
    """Output that goes to a log file; each line is passed to ``on_line``.

    Args:
        log: the file, open to write.
        read: the same file, open to read.
        on_line: gets the lines, if given.
    """

    def __init__(
        self, log: BinaryIO, read: BinaryIO, on_line: Callable[[str], None] | None = None
    ) -> None:
        self._log = log
        self._read = read
        self._on_line = on_line
        self._lines = LineSplitter(self._take)
        self.tail: deque[str] = deque(maxlen=TAIL_LINES)

    def streams(self) -> dict[str, Any]:
        """Return the arguments ``stdin``, ``stdout`` and ``stderr`` of Popen."""
        return {"stdin": subprocess.DEVNULL, "stdout": self._log, "stderr": subprocess.STDOUT}

    def started(self) -> None:
        """Note that the program has started."""

    def forward(self, *, to_the_end: bool = False) -> None:
        """Handle what the program has printed."""
        self._lines.add(self._read.read(), to_the_end=to_the_end)

    def note_interrupt(self) -> None:
        """Note that the program gets SIGINT: its tracebacks of that are in the log only."""
        self._on_line = None  # it shows one line at a time, and so no traceback

    def _take(self, text: str) -> None:
        _append(self.tail, text)
        if self._on_line is not None:
            self._on_line(text)


class PassedThrough:
    """Output that goes on to this program's own streams as it is, and to a log file.

    The program reads this program's standard input. A long log lacks its middle. What profilers
    print is in the log only.

    Args:
        log: the file, open to write.
        stdout: descriptor to which its standard output goes.
        stderr: descriptor to which its error output goes.
    """

    def __init__(self, log: BinaryIO, stdout: int, stderr: int) -> None:
        self._log = _LimitedLog(log)
        self._shown = True
        self._leaves_out_interrupts = False
        self._lock = threading.Lock()
        self.tail: deque[str] = deque(maxlen=TAIL_LINES)
        self._ends: list[int] = []  # of the program
        self._threads = []
        for target in (stdout, stderr):
            ours, its = os.pipe()
            self._ends.append(its)
            copying = threading.Thread(target=self._copy, args=(ours, target), daemon=True)
            self._threads.append(copying)

    def streams(self) -> dict[str, Any]:
        """Return the arguments ``stdin``, ``stdout`` and ``stderr`` of Popen."""
        return {"stdin": None, "stdout": self._ends[0], "stderr": self._ends[1]}

    def started(self) -> None:
        """Note that the program has started."""
        for end in self._ends:
            os.close(end)
        for thread in self._threads:
            thread.start()

    def forward(self, *, to_the_end: bool = False) -> None:
        """Handle what the program has printed."""
        if not to_the_end:
            return
        for thread in self._threads:
            if thread.ident is not None:  # a program that cannot start has none
                # A process that has left the run may hold the stream open.
                thread.join(_CLOSE_S)
        with self._lock:
            self._log.close()

    def note_interrupt(self) -> None:
        """Note that the program gets SIGINT: its tracebacks of that are in the log only."""
        self._leaves_out_interrupts = True

    def _copy(self, source: int, target: int) -> None:
        lines, notices, interrupts = LineSplitter(self._take), _NoticeFilter(), InterruptFilter()
        with os.fdopen(source, "rb", buffering=0) as stream:
            while block := stream.read(_BLOCK):
                shown = notices.left_out(block)
                if self._leaves_out_interrupts:
                    shown = interrupts.left_out(shown)
                self._show(shown, target)
                with self._lock:
                    self._log.write(block)
                    lines.add(block)
        self._show(interrupts.rest() + notices.held, target)
        with self._lock:
            lines.add(b"", to_the_end=True)

    def _show(self, block: bytes, target: int) -> None:
        try:
            while block and self._shown:
                block = block[os.write(target, block) :]
        except OSError:  # the reader of our output has ended, such as `head`
            self._shown = False

    def _take(self, text: str) -> None:
        _append(self.tail, text)


def _append(tail: deque[str], text: str) -> None:
    if not _PROGRESS.search(text):
        tail.append(text)


class _NoticeFilter:
    # Removes the output of profilers: of torch.profiler a line at its start and stop, of nsys all
    # after the end of the program.

    def __init__(self) -> None:
        self.held = b""  # begin of a line that may be one of them
        self._has_ended = False

    def left_out(self, block: bytes) -> bytes:
        block = b"" if self._has_ended else self.held + block
        if report := _REPORT.search(block):
            block, self._has_ended = block[: report.start()], True
        block = _NOTICE.sub(b"", block)
        last = block[block.rfind(b"\n") + 1 :]
        is_open = last and any(
            last.startswith(begin) or begin.startswith(last) for begin in _BEGINS
        )
        self.held = last if is_open else b""
        return block.removesuffix(self.held)


class _LimitedLog:
    # Writes the begin of an output, and at the end its last bytes.

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._room = _LONGEST_BEGIN
        self._end: deque[bytes] = deque()
        self._end_size = 0
        self._left_out = 0

    def write(self, block: bytes) -> None:
        begin, rest = block[: self._room], block[self._room :]
        self._room -= len(begin)
        with suppress(OSError):  # a full disk: the program goes on, and its output is shown
            self._file.write(begin)
            self._file.flush()
        if not rest:
            return
        self._end.append(rest)
        self._end_size += len(rest)
        while self._end_size - len(self._end[0]) >= _LONGEST_END:
            self._end_size -= len(self._end[0])
            self._left_out += len(self._end.popleft())

    def close(self) -> None:
        with suppress(OSError):
            if self._left_out:
                self._file.write(f"\n[{self._left_out} bytes left out]\n".encode())
            self._file.write(b"".join(self._end))
            self._file.flush()
        self._end.clear()
        self._left_out = 0
