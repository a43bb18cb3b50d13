"""A made run of one worker: iterations of a layer with known times."""

from __future__ import annotations

import json

from made_trace import MadeTrace

MS = 1_000_000  # ns
GRADIENT = 2_500_000  # bytes: 20 ms between two workers at 1 Gbit/s
CAPTURE = json.dumps({"model": "net", "batch_size": 8})


def add_run(made: MadeTrace, trace: str, periods: list[int], capture: str = CAPTURE) -> None:
    """Add iterations of some ms, with 20 ms of forward and 40 ms of backward pass of one layer."""
    made.add_trace(trace, capture=capture)
    made.add_layer("fc", trace_id=trace, gradient_bytes=GRADIENT)
    at = 0
    for number, period in enumerate([*periods, 100]):
        own = {"trace_id": trace}
        made.add_range(at, at + 90 * MS, f"iteration {number}", **own)
        made.add_range(at + MS, at + 2 * MS, "phase:forward", **own)
        made.add_range(at + MS, at + 2 * MS, "layer:fc", **own)
        made.launch(at + MS + 1, at + 5 * MS, at + 25 * MS, **own)
        made.add_range(at + 3 * MS, at + 4 * MS, "phase:backward", **own)
        made.add_range(at + 3 * MS, at + 4 * MS, "layer_backward:fc", **own)
        made.launch(at + 3 * MS + 1, at + 25 * MS, at + 65 * MS, **own)
        at += period * MS
