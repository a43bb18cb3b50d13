"""Section of a report with the verdict on memory of ``tbd-trace why``."""

from __future__ import annotations

from typing import Any

import polars as pl

from tbd_trace.analysis.report.page import Block, Note, Section, Table
from tbd_trace.why.memory_diagnosis import MemoryDiagnosis
from tbd_trace.why.memory_result import MemoryVerdict
from tbd_trace.why.memory_screen import heading, sentences

_QUERY = "tbd-trace why"
_LINES = 20  # rows of the table of lines
_BYTES = ("bytes", "now_bytes", "best_bytes", "likely_bytes", "worst_bytes", "held_bytes")
_UNITS = {**dict.fromkeys(_BYTES, "byte"), "share_pct": "%"}
_DOCS = {
    "class": "class of the bytes; disjoint, so that they sum to 100 %",
    "share_pct": "part of the live bytes",
    "likely": "likely class of bytes without a class",
    "evidence": "how the class is known",
    "measure": "live (as requested) or held (by the allocator)",
    "now_bytes": "the measure now",
    "best_bytes": "the measure after the change, at best",
    "likely_bytes": "the measure after the change, likely",
    "worst_bytes": "the measure after the change, at worst",
    "how": "how the numbers are computed",
}


def memory_verdict_section(answer: MemoryVerdict) -> Section:
    """Return the classes of the first device, the changes, and the other devices."""
    first, *others = answer.diagnoses
    blocks: list[Block] = [Note(heading(first), "lead")]
    blocks += [
        Note(f"{label}: {text}" if label else text, "missing" if label == "Covers" else "note")
        for label, text in sentences(first)
    ]
    blocks += _parts(first)
    blocks += _changes(first)
    blocks += [Note(text, "missing") for text in first.not_known]
    if others:
        blocks += _devices(answer)
    intro = "Live bytes at the peak by class, and the bytes that changes save (`tbd-trace why`)."
    return Section("why", "Memory at the peak", intro, blocks, beside=True)


def _parts(diagnosis: MemoryDiagnosis) -> list[Block]:
    classes = [
        {
            "class": part.title,
            "share_pct": part.share_pct,
            "bytes": part.bytes,
            "allocations": part.allocations,
            "likely": part.likely,
            "evidence": part.known_by,
        }
        for part in diagnosis.causes
    ]
    lines = [
        {
            "class": part.title,
            "line": line.line,
            "layer": line.layer,
            "bytes": line.bytes,
            "allocations": line.allocations,
        }
        for part in diagnosis.causes
        for line in part.lines
        if line.line or line.layer
    ]
    lines.sort(key=lambda line: -int(line["bytes"] or 0))
    return [
        *_table(classes, f"Classes of bytes at the {diagnosis.base.moment}"),
        *_table(lines, "Lines of code and layers", limit=_LINES),
    ]


def _changes(diagnosis: MemoryDiagnosis) -> list[Block]:
    names = ("measure", "now_bytes", "best_bytes", "likely_bytes", "worst_bytes", "how")
    rows = [
        {"change": change.title, **{name: getattr(change, name) for name in names}}
        for change in diagnosis.changes
    ]
    return _table(rows, "Changes and the bytes after them")


def _devices(answer: MemoryVerdict) -> list[Block]:
    rows = [
        {
            "run": one.trace,
            "device_id": one.device_id,
            "memory_kind": one.memory_kind,
            "bytes": one.base.live_bytes,
            "held_bytes": one.base.held_bytes,
            "largest class": one.causes[0].title if one.causes else None,
            "share_pct": one.causes[0].share_pct if one.causes else None,
        }
        for one in answer.diagnoses
    ]
    return _table(rows, "Devices compared")


def _table(rows: list[dict[str, Any]], caption: str, limit: int | None = None) -> list[Block]:
    if not rows:
        return []
    frame = pl.DataFrame(rows, infer_schema_length=None)
    return [Table(frame, _UNITS, _QUERY, limit=limit, docs=_DOCS, caption=caption)]
