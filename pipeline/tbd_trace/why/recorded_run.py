"""Add what a capture says about its run to a diagnosis."""

from __future__ import annotations

import json
from dataclasses import replace

from tbd_trace.why.covers import unfinished_run
from tbd_trace.why.diagnosis import Diagnosis
from tbd_trace.why.profiler_cost import profiler_cost


def with_run(diagnosis: Diagnosis, capture: str | None) -> Diagnosis:
    """Return a diagnosis that says how the run ended, and what the profiler added to its steps.

    Args:
        diagnosis: of a process of the trace.
        capture: ``trace.capture``, a JSON object; None for a file that was not made by ``collect``.
    """
    if not capture:
        return diagnosis
    content = json.loads(capture)
    return replace(
        diagnosis,
        covers=unfinished_run(content) + diagnosis.covers,
        profiler_cost=profiler_cost(diagnosis, content),
    )
