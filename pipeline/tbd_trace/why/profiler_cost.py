"""What recording adds to a step, by the iterations that collect timed without the profiler."""

from __future__ import annotations

import json

_LEAST = 1.02  # slow-down that is worth a sentence


def profiler_cost(capture: str | None) -> str | None:
    """Compare a step with and without the profiler, in words; None if that is unknown or little.

    Args:
        capture: ``trace.capture``, a JSON object.
    """
    content = json.loads(capture) if capture else {}
    slowdown = content.get("profiler_slowdown")
    bare = content.get("unprofiled") or content.get("throughput") or {}
    seconds, iterations = bare.get("seconds"), bare.get("iterations")
    if not slowdown or slowdown < _LEAST or not seconds or not iterations:
        return None
    return (
        f"without it a step takes {1e3 * seconds / iterations:.4g} ms, recorded {slowdown:.2f} "
        "times as long; shares of the host are upper bounds"
    )
