"""Walk through a JSON document without holding it: values of objects and items of lists."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

_SPACES = re.compile(r"[ \t\n\r]*")
_STEP = 1 << 20  # characters that are read at least
_MOST_TEXT = 256 << 20  # characters of the longest value


class JsonStream:
    """One document; each value is taken once, in the order of the text.

    Args:
        read: returns about as many bytes as asked, and none at the end.
    """

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._read = read
        self._decoder = json.JSONDecoder(strict=False)
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self._text = ""
        self._at = 0
        self._is_ended = False

    def fields(self) -> Iterator[str]:
        """Yield the names of the fields of the object that begins here; take each value.

        Raises:
            ValueError: the text is not a valid object.
        """
        self._take("{")
        if self._skip_to() == "}":
            self._at += 1
            return
        while True:
            key = self.value()
            self._take(":")
            yield str(key)
            if self._take(",}") == "}":
                return
            self._skip_to()

    def items(self) -> Iterator[None]:
        """Yield before each item of the list that begins here; take each.

        Raises:
            ValueError: the text is not a valid list.
        """
        self._take("[")
        if self._skip_to() == "]":
            self._at += 1
            return
        while True:
            yield
            if self._take(",]") == "]":
                return

    def values(self) -> Iterator[Any]:
        """Yield the items of the list that begins here.

        Raises:
            ValueError: the text is not a valid list.
        """
        for _ in self.items():
            yield self.value()

    def skip(self) -> None:
        """Pass over a value, item by item if it is a list or an object.

        Raises:
            ValueError: the text is not a valid value.
        """
        match self._skip_to():
            case "[":
                for _ in self.values():
                    pass
            case "{":
                for _ in self.fields():
                    self.skip()
            case _:
                self.value()

    def value(self) -> Any:
        """Return the value that begins here.

        Raises:
            ValueError: the text is not a valid value, or a very long one.
        """
        self._skip_to()
        while True:
            try:
                value, end = self._decoder.raw_decode(self._text, self._at)
            except json.JSONDecodeError:
                if not self._fill():
                    raise
                continue
            # A number at the end of the text can continue.
            if end == len(self._text) and self._fill():
                continue
            self._at = end
            return value

    def _take(self, characters: str) -> str:
        found = self._skip_to()
        if not found or found not in characters:
            raise ValueError(f"{found or 'the end'} instead of {' or '.join(characters)}")
        self._at += 1
        return found

    def _skip_to(self) -> str:
        # The next character that is not a space; empty at the end.
        while True:
            spaces = _SPACES.match(self._text, self._at)
            self._at = spaces.end() if spaces else self._at
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._fill():
                return ""

    def _fill(self) -> bool:
        # At least doubles a value that is not whole, so that long ones are decoded few times.
        waiting = len(self._text) - self._at
        if self._is_ended or waiting > _MOST_TEXT:
            return False
        more = self._read(max(_STEP, waiting))
        self._is_ended = not more
        self._text = self._text[self._at :] + self._utf8.decode(more, final=self._is_ended)
        self._at = 0
        return not self._is_ended
