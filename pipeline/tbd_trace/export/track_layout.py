"""Laying out events that overlap: as few lanes as needed, so that on each lane they nest.

A viewer of slices draws a stack: what begins on a track must end before what was begun earlier. The
events of a thread mostly do; NVTX start/end ranges and the operations of a CUDA stream need not.
"""

from __future__ import annotations

from collections.abc import Callable


class Lanes:
    """Lanes of one row of a timeline. Events are put in the order of their start, longest first.

    Args:
        nests: whether an event may lie inside another of its lane. On a GPU that would draw what
            runs beside an operation as a part of it.
        begin: called with lane (from 0) and start for each event, in order of time per lane.
        end: called with lane and end.
    """

    def __init__(
        self, nests: bool, begin: Callable[[int, int], None], end: Callable[[int, int], None]
    ) -> None:
        self._nests = nests
        self._begin = begin
        self._end = end
        self._open: list[list[int]] = []  # ends of what is open, per lane, the innermost last

    def put(self, start_ns: int, end_ns: int) -> int:
        """Begin an event, on the first lane where it fits; return that lane."""
        lane = next(
            (lane for lane in range(len(self._open)) if self._fits(lane, start_ns, end_ns)),
            len(self._open),
        )
        if lane == len(self._open):
            self._open.append([])
        self._open[lane].append(end_ns)
        self._begin(lane, start_ns)
        return lane

    def _fits(self, lane: int, start_ns: int, end_ns: int) -> bool:
        open_ends = self._open[lane]
        while open_ends and open_ends[-1] <= start_ns:
            self._end(lane, open_ends.pop())
        return not open_ends or (self._nests and end_ns <= open_ends[-1])

    def close(self) -> None:
        """End what is still open."""
        for lane, open_ends in enumerate(self._open):
            while open_ends:
                self._end(lane, open_ends.pop())
