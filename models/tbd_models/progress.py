"""Print how far training is, and how long it still takes."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence

_INTERVAL_S = 1.0  # a line per iteration would delay short ones


class Progress:
    """Prints at most one line per second, so that iterations are not disturbed."""

    def __init__(self) -> None:
        self._printed = time.monotonic()

    def warming_up(self, seconds: Sequence[float], limit: int | None, left_s: float) -> None:
        """Print the state of the warm-up.

        Args:
            seconds: durations of its iterations so far.
            limit: their number if it is known, else it ends when times are stable.
            left_s: longest time that it then may still take, in seconds.
        """
        if not self._is_due():
            return
        if limit is None:
            _print(f"warm-up, iteration {len(seconds)}", max(left_s, 0), "at most ")
        else:
            done = len(seconds)
            left_s = statistics.median(seconds) * (limit - done)
            _print(f"warm-up, iteration {done} of {limit}", left_s)

    def measuring(self, starts_ns: Sequence[int], count: int) -> None:
        """Print the state of the measured window, at the start of one of ``count`` iterations."""
        done = len(starts_ns) - 1
        if done and self._is_due():
            mean_s = (starts_ns[-1] - starts_ns[0]) / 1e9 / done
            _print(f"measuring, iteration {done} of {count}", mean_s * (count - done))

    def _is_due(self) -> bool:
        now = time.monotonic()
        is_due = now - self._printed >= _INTERVAL_S
        if is_due:
            self._printed = now
        return is_due


def _print(text: str, left_s: float, limit: str = "") -> None:
    print(f"{text}: {limit}{left_s:.0f} s left", flush=True)
