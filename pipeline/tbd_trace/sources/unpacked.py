"""Read a plain or gzipped file as a stream of bytes that survives damage."""

from __future__ import annotations

import zlib
from pathlib import Path
from types import TracebackType
from typing import Any, Self

try:
    from isal import isal_zlib

    fast_zlib: Any = isal_zlib
except ImportError:  # no wheel for this platform
    fast_zlib = zlib

_MAGIC = b"\x1f\x8b"
_STEP = 1 << 16  # compressed bytes; an error loses the output of one step
_BOM = b"\xef\xbb\xbf"


class Unpacked:
    """The content of one file, without a byte-order mark; a context manager."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")
        self.damage: str | None = None  # why the content ends early, None if it does not
        self._member = _member() if self._file.read(2) == _MAGIC else None
        self._file.seek(0)
        self._at_start = True
        self._is_ended = False

    def read(self, size: int) -> bytes:
        """Return about ``size`` bytes, empty at the end."""
        parts: list[bytes] = []
        length = 0
        while length < size and not self._is_ended:
            part = self._next(size - length)
            parts.append(part)
            length += len(part)
        content = b"".join(parts)
        if self._at_start and content:
            self._at_start = False
            content = content.removeprefix(_BOM)
        return content

    def _next(self, size: int) -> bytes:
        if self._member is None:
            plain = self._file.read(size)
            self._is_ended = not plain
            return plain
        packed = self._member.unconsumed_tail or self._file.read(_STEP)
        if not packed:
            self._end("the gzip stream ends early")
            return bytes(self._member.flush())
        try:
            part: bytes = self._member.decompress(packed, size)
        except (zlib.error, fast_zlib.error, OSError) as error:
            self._end(f"damaged gzip stream ({error})")
            return b""
        if self._member.eof:
            self._next_member()
        return part

    def _next_member(self) -> None:
        # Files can be concatenated; anything else after the end is padding.
        assert self._member is not None
        rest = self._member.unused_data
        if len(rest) < len(_MAGIC):
            rest += self._file.read(_STEP)
        if not rest.startswith(_MAGIC):
            self._is_ended = True
            return
        self._file.seek(self._file.tell() - len(rest))
        self._member = _member()

    def _end(self, damage: str) -> None:
        self.damage = damage
        self._is_ended = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()


def _member() -> Any:
    return fast_zlib.decompressobj(wbits=31)
