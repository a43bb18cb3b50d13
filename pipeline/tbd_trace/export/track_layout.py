"""Distribute overlapping events to lanes on which they nest.

Perfetto draws the slices of a track as a stack: a slice must end before the one around it. Events
of a thread mostly do, but NVTX start/end ranges and operations of a CUDA stream may overlap.
"""

from __future__ import annotations

from collections.abc import Callable


class TrackLayout:
    """Lanes of one row of a timeline.

    Args:
        nests: allow events inside other events of a lane. False for GPUs, where a concurrent
            operation would look like a part of another one.
        begin: called with lane (from 0) and start in nanoseconds, in order of time per lane.
        end: called with lane and end in nanoseconds.
    """

    def __init__(
        self, nests: bool, begin: Callable[[int, int], None], end: Callable[[int, int], None]
    ) -> None:
        self._nests = nests
        self._begin = begin
        self._end = end
        self._open: list[list[int]] = []  # ends of the open events per lane, innermost last

    def put(self, start_ns: int, end_ns: int) -> int:
        """Begin an event on the first lane where it fits, and return that lane.

        Events must be put in the order of their start, longest first.
        """
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
        # Events that ended before this start are closed now, in order of time.
        open_ends = self._open[lane]
        while open_ends and open_ends[-1] <= start_ns:
            self._end(lane, open_ends.pop())
        return not open_ends or (self._nests and end_ns <= open_ends[-1])

    def close(self) -> None:
        for lane, open_ends in enumerate(self._open):
            while open_ends:
                self._end(lane, open_ends.pop())
