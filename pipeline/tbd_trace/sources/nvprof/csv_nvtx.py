"""Pair the NVTX starts and ends in nvprof's API trace."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from tbd_trace.sources.nvprof.csv_canonical_rows import scaled
from tbd_trace.sources.nvprof.csv_tables import Part

_ENTRY = re.compile(
    r"\[(?P<what>Range start|Range end|Marker)\] (?P<text>.*?)(?: \(Domain: (?P<domain>.*)\))?",
    re.DOTALL,
)
_DEFAULT_DOMAIN = "<unnamed>"
_BATCH_ROWS = 50_000
_SCHEMA = {
    "annotation_id": pl.Int64, "source": pl.String, "start_ns": pl.Int64, "end_ns": pl.Int64,
    "is_open": pl.Boolean, "kind": pl.String, "process_id": pl.Int64, "domain_id": pl.Int64,
    "domain": pl.String, "text": pl.String,
}  # fmt: skip


@dataclass(slots=True)
class Nvtx:
    """Pairs range starts and ends by name, because the trace has no threads: last in, first out."""

    unmatched: int = 0  # ends without a start
    _ids: Iterator[int] = field(default_factory=itertools.count)
    _domains: dict[str, int] = field(default_factory=dict)
    _open: dict[tuple[int | None, int, str], list[dict[str, Any]]] = field(default_factory=dict)

    def ranges(self, parts: Iterable[Part], trace_end_ns: int) -> Iterator[pl.DataFrame]:
        done: list[dict[str, Any]] = []
        for entry in self._entries(parts, ("range start", "range end")):
            key = (entry["process_id"], entry["domain_id"], entry["text"])
            if entry.pop("activity") == "range start":
                entry |= {"annotation_id": next(self._ids), "start_ns": entry.pop("timestamp_ns")}
                self._open.setdefault(key, []).append(entry)
            elif waiting := self._open.get(key):
                done.append(_closed(waiting.pop(), entry["timestamp_ns"], is_open=False))
            else:
                self.unmatched += 1
            if len(done) >= _BATCH_ROWS:
                yield pl.DataFrame(done, schema=_SCHEMA)
                done = []
        left = [entry for waiting in self._open.values() for entry in waiting]
        done += [_closed(entry, trace_end_ns, is_open=True) for entry in left]
        yield pl.DataFrame(done, schema=_SCHEMA)

    def marks(self, parts: Iterable[Part]) -> Iterator[pl.DataFrame]:
        """Return the marks; their ids follow those of the ranges, which must be read first."""
        for part in parts:
            rows = [self._mark(entry) for entry in self._entries([part], ("mark",))]
            yield pl.DataFrame(rows, schema=_SCHEMA)

    def _mark(self, entry: dict[str, Any]) -> dict[str, Any]:
        at_ns = entry["timestamp_ns"]
        times = {"start_ns": at_ns, "end_ns": at_ns, "is_open": False}
        return entry | times | {"annotation_id": next(self._ids), "kind": "mark"}

    def _entries(
        self, parts: Iterable[Part], activities: tuple[str, ...]
    ) -> Iterator[dict[str, Any]]:
        for part in parts:
            rows = part.frame.filter(pl.col("activity").is_in(activities)).select(
                "activity", "Name", timestamp_ns=scaled(part, "Start")
            )
            for activity, printed, timestamp_ns in rows.iter_rows():
                match = _ENTRY.fullmatch(printed)
                if match is not None and timestamp_ns is not None:
                    yield {
                        "activity": activity,
                        "source": "nvtx",
                        "timestamp_ns": timestamp_ns,
                        "process_id": part.process_id,
                        "text": match["text"],
                        **self._domain(match["domain"]),
                    }

    def _domain(self, name: str | None) -> dict[str, Any]:
        # The default domain has number 0 and no name, as in nsys exports.
        if name in (None, _DEFAULT_DOMAIN):
            return {"domain": None, "domain_id": 0}
        return {"domain": name, "domain_id": self._domains.setdefault(name, len(self._domains) + 1)}


def _closed(entry: dict[str, Any], end_ns: int, *, is_open: bool) -> dict[str, Any]:
    # Without threads, nesting is unknown: start_end does not imply any.
    return entry | {"end_ns": end_ns, "is_open": is_open, "kind": "start_end"}
