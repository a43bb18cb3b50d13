"""Sentences about records that a trace lacks, with their numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tbd_trace.why.base import Base
from tbd_trace.why.program import Program

# Beginnings of the readers' notes about missing content, and the words that precede the note.
_LACKING = {
    "ends in the middle": "the file",
    "damaged after its events": "the file is",
    "invalid JSON": "the file has",
}
_LEAST_GRAPHS = 0.05  # share of graph launches; at the edges of a capture a few have no kernels


def missing_content(notes: Iterable[str]) -> list[str]:
    """Return sentences about content that a file lacks, from the notes of its trace."""
    return [
        f"{lead} {note}"
        for note in notes
        for beginning, lead in _LACKING.items()
        if note.startswith(beginning)
    ]


def unfinished_run(capture: Mapping[str, Any]) -> list[str]:
    """Return a sentence if the run of a capture did not end as it should.

    Args:
        capture: content of ``trace.capture``.
    """
    if capture.get("status", "ok") == "ok":
        return []
    return [f"the run ended as {capture['status']}: {capture.get('reason') or 'no reason given'}"]


def unrecorded_graphs(program: Program) -> list[str]:
    """Return a sentence if the work of many graph launches was not recorded.

    The GPU seems idle while such a graph runs.
    """
    launching = set(program.ops.call)
    graphs = [call for call, name in enumerate(program.calls.name) if "GraphLaunch" in name]
    without = sum(call not in launching for call in graphs)
    if without <= _LEAST_GRAPHS * len(graphs):
        return []
    return [
        f"{without:,} of {len(graphs):,} graph launches have no kernels in the trace: busy time "
        "and shares are those of the recorded part"
    ]


def unused_steps(base: Base) -> list[str]:
    """Return sentences about steps that were not fully recorded, or were interrupted."""
    return [
        f"{steps} of {base.steps_marked} steps are left out: {reason}"
        for reason, steps in base.left_out.items()
        if reason in ("GPU work not fully recorded", "pause")
    ]
