"""Number the distinct call stacks of a snapshot."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

Frame = tuple[str | None, str | None, int | None]  # function, file, line


class Stacks:
    """The distinct stacks seen, numbered from 0 in the order of their first use."""

    def __init__(self) -> None:
        self._by_list: dict[int, tuple[Sequence[Any], int | None]] = {}
        self._by_frames: dict[tuple[int, ...], int | None] = {}
        self._frames: dict[int, tuple[Any, int]] = {}
        self._frame_numbers: dict[Frame, int] = {}
        self._numbers: dict[tuple[int, ...], int] = {}

    def number(self, frames: Any) -> int | None:
        """Return the number of a stack, None if there is none.

        Frames are shared objects in a snapshot: identity is compared first, content only for
        objects not seen before. The objects are kept, so that no identity is used twice.
        """
        if not isinstance(frames, (list, tuple)) or not frames:
            return None
        known = self._by_list.get(id(frames))
        if known is None:
            identities = tuple(map(id, frames))
            if identities not in self._by_frames:
                self._by_frames[identities] = self._content_number(frames)
            known = self._by_list[id(frames)] = (frames, self._by_frames[identities])
        return known[1]

    def _content_number(self, frames: Sequence[Any]) -> int:
        key = tuple(self._frame_number(frame) for frame in frames)
        return self._numbers.setdefault(key, len(self._numbers))

    def _frame_number(self, frame: Any) -> int:
        known = self._frames.get(id(frame))
        if known is None:
            number = self._frame_numbers.setdefault(_frame(frame), len(self._frame_numbers))
            known = self._frames[id(frame)] = (frame, number)
        return known[1]

    def rows(self) -> Iterator[tuple[int, int, Frame]]:
        """Yield number, depth and frame of all stacks; depth 0 is the innermost frame."""
        frames = list(self._frame_numbers)
        for key, number in self._numbers.items():
            for depth, frame in enumerate(key):
                yield number, depth, frames[frame]


def _frame(frame: Any) -> Frame:
    if not isinstance(frame, dict):
        return (None, None, None)
    name, file, line = (frame.get(key) for key in ("name", "filename", "line"))
    is_line = isinstance(line, int) and 0 < line < 1 << 31
    return (
        name if isinstance(name, str) and name else None,
        file if isinstance(file, str) and file not in ("", "??") else None,
        line if is_line else None,
    )
