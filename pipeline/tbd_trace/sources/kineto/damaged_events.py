"""Decode events one by one where a block is invalid: repair them or drop them."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Iterator
from decimal import Decimal, InvalidOperation
from typing import Any

_KEY = r'"(?:ph|name|cat|ts|pid|tid|dur|args|id|s|bp)"\s*:'
_BOUNDARY = re.compile(rf"\}}\s*,\s*(?=\{{\s*{_KEY})")
_BETWEEN = re.compile(r"[\s,]*")
_LIST_END = re.compile(r"\}\s*,?\s*\]")
# A backslash that begins no escape, as in paths of Windows.
_LONE_BACKSLASH = re.compile(r'\\(?!["\\/bfnrt]|u[0-9a-fA-F]{4})')
_PAIR = re.compile(r'\\["\\]')
_NAME = re.compile(rf'("name"\s*:\s*")(.*?)("\s*(?:,\s*{_KEY}|\}}))', re.DOTALL)
_LONE_QUOTE = re.compile(r'(?<!\\)"')
_TRAILING_COMMA = re.compile(r",(\s*[}\]])")
_TIMES = ("ts", "dur")
_PHASE = re.compile(r'"ph"\s*:')
_LONGEST_WORD = 8  # Infinity
_PART = 1 << 14  # characters decoded at once; times this if the event is longer
_MOST_INNER_OBJECTS = 4
_MOST_US = Decimal(10) ** 19


class DecodedEvents:
    """Counts and loads the events of invalid blocks.

    Args:
        load: takes events separated by commas, and returns False if they are invalid.
    """

    def __init__(self, load: Callable[[bytes], bool]) -> None:
        self._load = load
        self._decoder = json.JSONDecoder(
            strict=False, parse_float=str, parse_int=_integer, parse_constant=lambda _: None
        )
        self.dropped = 0
        self.repaired = 0
        self.has_bad_utf8 = False

    def read(self, content: bytes, *, is_last: bool) -> tuple[bytes, bool]:
        """Load events, and return the rest and whether the list ended.

        Args:
            is_last: nothing follows: an incomplete event is left out.
        """
        utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        text = utf8.decode(content, is_last)
        incomplete = utf8.getstate()[0]
        self.has_bad_utf8 |= "\ufffd" in text and b"\xef\xbf\xbd" not in content
        events: list[str] = []
        position, is_ended = self._events(text, events, is_last)
        self._load_all(events)
        return text[position:].encode("utf-8", "replace") + incomplete, is_ended

    def _events(self, text: str, events: list[str], is_last: bool) -> tuple[int, bool]:
        position = 0
        while True:
            position = _end(_BETWEEN, text, position)
            if position == len(text):
                return position, False
            if text[position] == "]":
                return position + 1, True
            value, end, is_cut = self._decoded(text, position)
            if end is None:
                # Objects in the arguments of a cut event look like events.
                value, end = (None, None) if is_cut else self._damaged(text, position)
                if end is None:
                    return (
                        self._after_last(text, position, events) if is_last else (position, False)
                    )
            if isinstance(value, dict):
                events.append(json.dumps(_with_times(value), ensure_ascii=False))
            else:
                self.dropped += 1
            position = end

    def _decoded(self, text: str, position: int) -> tuple[Any, int | None, bool]:
        # Value, its end, and whether the text ends within it. An error counts the lines before
        # it, so most events are decoded from a short part of the text.
        width = _PART
        while True:
            part = text[position : position + width]
            is_whole = position + width >= len(text)
            try:
                value, end = self._decoder.raw_decode(part)
                return value, position + end, False
            except json.JSONDecodeError as error:
                is_cut = error.pos >= len(part.rstrip()) - _LONGEST_WORD
                is_cut |= error.msg.startswith("Unterminated string")
                if is_whole or not is_cut:
                    return None, None, is_cut
            except (ValueError, RecursionError):
                return None, None, False
            width *= _PART

    def _damaged(self, text: str, position: int) -> tuple[Any, int | None]:
        # The repaired event, None if it has to be dropped, and the start of the next event, None
        # if there is none.
        start, dropped = position, 0
        for number, match in enumerate(_BOUNDARY.finditer(text, position)):
            # An object in the arguments can begin as an event does.
            if number < _MOST_INNER_OBJECTS:
                value = self._repaired(text[position : match.start() + 1])
                if isinstance(value, dict):
                    self.repaired += 1
                    return value, match.end()
            dropped += bool(_PHASE.search(text, start, match.start()))
            start = match.end()
            if self._is_event(text, start):
                self.dropped += max(dropped - 1, 0)
                return None, start
        return None, None

    def _is_event(self, text: str, position: int) -> bool:
        value, end, _ = self._decoded(text, position)
        if end is None and (boundary := _BOUNDARY.search(text, position)):
            value = self._repaired(text[position : boundary.start() + 1])
        return isinstance(value, dict) and "ph" in value

    def _after_last(self, text: str, position: int, events: list[str]) -> tuple[int, bool]:
        # The damaged event is the last one, or the file ends within it.
        for match in _LIST_END.finditer(text, position):
            if is_trailer(text[match.end() :]):
                value = self._repaired(text[position : match.start() + 1])
                if isinstance(value, dict):
                    self.repaired += 1
                    events.append(json.dumps(_with_times(value), ensure_ascii=False))
                else:
                    self.dropped += 1
                return match.end(), True
        return position, False

    def _repaired(self, piece: str) -> Any:
        for attempt in _attempts(piece):
            try:
                value = self._decoder.decode(attempt)
            except (ValueError, RecursionError):
                continue
            return value
        return None

    def _load_all(self, events: list[str]) -> None:
        if not events:
            return
        if self._load(",".join(events).encode("utf-8", "replace")):
            return
        if len(events) == 1:
            self.dropped += 1
            return
        middle = len(events) // 2
        self._load_all(events[:middle])
        self._load_all(events[middle:])


def is_trailer(rest: str) -> bool:
    """Return True if a text can follow the list of events."""
    if not rest.strip():
        return True
    try:
        json.loads('{"traceEvents": []' + rest, strict=False)
    except (ValueError, RecursionError):
        return False
    return True


def _attempts(piece: str) -> Iterator[str]:
    backslashes = _escaped_backslashes(piece)
    yield _TRAILING_COMMA.sub(r"\1", piece)
    yield backslashes
    for text in (piece, backslashes):
        yield _NAME.sub(lambda m: m[1] + _LONE_QUOTE.sub(r"\\\"", m[2]) + m[3], text)
    # A path that ends in a backslash hides the quote after it.
    yield _NAME.sub(lambda m: m[1] + json.dumps(m[2])[1:-1] + m[3], piece)


def _escaped_backslashes(piece: str) -> str:
    parts, start = [], 0
    for pair in _PAIR.finditer(piece):
        parts += [_LONE_BACKSLASH.sub(r"\\\\", piece[start : pair.start()]), pair[0]]
        start = pair.end()
    return "".join([*parts, _LONE_BACKSLASH.sub(r"\\\\", piece[start:])])


def _with_times(event: dict[str, Any]) -> dict[str, Any]:
    for key in _TIMES:
        if key in event:
            event[key] = _microseconds(event[key])
    return event


def _microseconds(value: Any) -> str | None:
    if not isinstance(value, (int, str)) or isinstance(value, bool):
        return None
    try:
        number = Decimal(value)
    except (InvalidOperation, ValueError):
        return None
    return f"{number:f}" if number.is_finite() and abs(number) < _MOST_US else None


def _integer(digits: str) -> int | str:
    # Python refuses to convert thousands of digits.
    return int(digits) if len(digits) < 40 else digits


def _end(pattern: re.Pattern[str], text: str, position: int) -> int:
    match = pattern.match(text, position)
    return match.end() if match else position
