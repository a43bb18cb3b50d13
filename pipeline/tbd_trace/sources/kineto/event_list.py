"""Cut the list of events of a trace into blocks, without holding the file."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tbd_trace.sources.kineto.damaged_events import DecodedEvents
from tbd_trace.sources.unpacked import Unpacked

BLOCK_BYTES = 12 << 20  # with 8 MiB up to 7 % slower; 16 MiB only need more memory
_TAIL_BYTES = 1 << 18  # end of the file, which also has the end of the list
_MOST_HEADER_BYTES = 64 << 20
_LONGEST_EVENT = 32 << 20
_SURROGATE = re.compile(r"(?i)\\ud[89a-f]")  # alone or of a pair, escaped in JSON
_EVENTS = re.compile(rb'"traceEvents"\s*:\s*\[')
# Between two events. Objects inside `args` rarely begin with these keys, and a cut there is found:
# the block is invalid.
BOUNDARY = re.compile(
    rb'\}\s*,\s*(?=\{\s*"(?:ph|name|cat|ts|pid|tid|dur|args|id|s|bp)"\s*:)', re.DOTALL
)


class EventList:
    """The events and the header of one trace.

    Args:
        load: takes events separated by commas, and returns False if they are invalid.
    """

    def __init__(self, content: Unpacked, load: Callable[[bytes | memoryview], bool]) -> None:
        self._content = content
        self._load = load
        self.header: dict[str, Any] = {}
        self.decoded = DecodedEvents(load)
        self.is_complete = False  # True if the end of the list was found
        self._is_bare = False

    def read(self) -> bool:
        """Load all events; return False if the file has no list of events."""
        buffer = self._after_header()
        if buffer is None:
            return False
        with ThreadPoolExecutor(1) as reader:  # one block ahead
            following = reader.submit(self._content.read, BLOCK_BYTES)
            while more := following.result():
                buffer += more
                if len(more) < BLOCK_BYTES:  # the end of the file
                    break
                following = reader.submit(self._content.read, BLOCK_BYTES)
                buffer = self._block(buffer)
                if self.is_complete:
                    more = following.result() + self._content.read(_MOST_HEADER_BYTES)
                    self._trailer(buffer + more)
                    return True
        self._last(buffer)
        return True

    def _after_header(self) -> bytes | None:
        buffer = b""
        while len(buffer) < _MOST_HEADER_BYTES:
            more = self._content.read(_TAIL_BYTES)
            buffer += more
            if buffer.lstrip()[:1] == b"[":
                self._is_bare = True
                return buffer.lstrip()[1:]
            for match in _EVENTS.finditer(buffer):
                # The words can be part of a text: the list begins where the part before is valid.
                header = _object(buffer[: match.end()] + b"]}")
                if header is not None:
                    self.header = header
                    return buffer[match.end() :]
            if not more:
                return None
        return None

    def _block(self, buffer: bytes) -> bytes:
        boundary = _last_boundary(buffer, len(buffer))
        if boundary is None and len(buffer) < _LONGEST_EVENT:
            return buffer
        if boundary is not None and self._load(memoryview(buffer)[: boundary[0]]):
            return buffer[boundary[1] :]
        rest, self.is_complete = self.decoded.read(buffer, is_last=False)
        if len(rest) > _LONGEST_EVENT and not self.is_complete:
            self.decoded.dropped += 1
            return b""
        return rest

    def _last(self, buffer: bytes) -> None:
        end = _last_end(buffer)
        boundary = _last_boundary(buffer, len(buffer) - _TAIL_BYTES)
        if end is not None and self._load(memoryview(buffer)[:end]):
            buffer = buffer[end:]
        elif boundary is not None and self._load(memoryview(buffer)[: boundary[0]]):
            buffer = buffer[boundary[1] :]
        rest, self.is_complete = self.decoded.read(buffer, is_last=True)
        if self.is_complete:
            self._trailer(rest)

    def _trailer(self, rest: bytes) -> None:
        if not self._is_bare:
            self.header |= trailing_header(rest.decode("utf-8", "replace")) or {}


def trailing_header(rest: str) -> dict[str, Any] | None:
    """Return the keys after the list of events, None if that is not the end of a trace."""
    return _object('{"traceEvents": []' + rest)


def _object(text: bytes | str) -> dict[str, Any] | None:
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    try:
        # Values of keys are integers, which have all their digits in Python.
        document = json.loads(text, strict=False)
        if _SURROGATE.search(text):  # a lone one is invalid in UTF-8
            whole = json.dumps(document, ensure_ascii=False).encode("utf-8", "replace")
            document = json.loads(whole)
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict):
        return None
    document.pop("traceEvents", None)
    return document


def _last_end(buffer: bytes) -> int | None:
    # The end of what seems to be the last event, None if that is damaged. It may be another object,
    # of which there are few behind the events; the block is invalid then.
    boundary = _last_boundary(buffer, len(buffer))
    if boundary is None:
        return None
    start = boundary[1]
    try:
        text = buffer[start:].decode()
        _, end = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return None
    return start + len(text[:end].encode())


def _last_boundary(buffer: bytes, end: int) -> tuple[int, int] | None:
    for width in (1 << 12, 1 << 16, 1 << 20, len(buffer)):
        boundaries = deque(BOUNDARY.finditer(buffer, max(0, end - width), max(0, end)), maxlen=1)
        if boundaries:
            return boundaries[0].start() + 1, boundaries[0].end()
        if width >= end:
            return None
    return None
