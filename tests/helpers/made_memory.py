"""Made memory logs and memory snapshots of PyTorch, and a database of made files."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from tbd_trace.query import Catalogue, execute
from tbd_trace.store import Database

Event = dict[str, Any]
HEADER = {
    "format": "tbd-trace memory",
    "version": 1,
    "framework": "none",
    "device": 0,
    "live_before_bytes": 0,
    "time_unit": "us",
}


def alloc(t: int | None, address: int, size: int, kind: str | None = None, **more: Any) -> Event:
    """Return an allocation of a log."""
    event = {"t": t, "action": "alloc", "address": address, "bytes": size, "stream": 0}
    return event | {"class": kind} | more


def free(t: int | None, address: int, size: int, **more: Any) -> Event:
    """Return a release of a log."""
    return {"t": t, "action": "free", "address": address, "bytes": size, "stream": 0} | more


def write_log(path: Path, events: Iterable[Event], **header: Any) -> Path:
    """Write a memory log."""
    lines = [json.dumps(HEADER | header), *map(json.dumps, events)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def entry(action: str, address: int, size: int, time: int | None = None, **more: Any) -> Event:
    """Return an event of a snapshot's history."""
    event = {"action": action, "addr": address, "size": size, "stream": 0} | more
    return event if time is None else event | {"time_us": time}


def block(size: int, requested: int | None = None, **more: Any) -> dict[str, Any]:
    """Return a block of a segment; without `requested` it is free."""
    state = "inactive" if requested is None else "active_allocated"
    return {"size": size, "requested_size": requested or 0, "state": state} | more


def segment(address: int, blocks: Sequence[dict[str, Any]], **more: Any) -> dict[str, Any]:
    """Return a segment that its blocks tile."""
    placed, at = [], address
    for part in blocks:
        placed.append({"address": at} | part)
        at += part["size"]
    live = [b for b in placed if b["state"].startswith("active")]
    used = sum(b["size"] for b in live)
    made = {"device": 0, "address": address, "total_size": at - address, "stream": 0}
    made |= {"allocated_size": used, "active_size": used, "segment_type": "small"}
    made |= {"requested_size": sum(b["requested_size"] for b in live)}
    return made | {"segment_pool_id": (0, 0), "is_expandable": False, "blocks": placed} | more


def snapshot(
    segments: Sequence[Mapping[str, Any]] = (), *histories: Sequence[Event]
) -> dict[str, Any]:
    """Return a snapshot: its segments, and the history of each device."""
    return {"segments": list(segments), "device_traces": [list(h) for h in histories]}


def write_pickle(path: Path, document: Any, protocol: int = 4) -> Path:
    """Write an object as PyTorch does."""
    path.write_bytes(pickle.dumps(document, protocol=protocol))
    return path


class Ingested:
    """A database of made files."""

    def __init__(self, *paths: Path) -> None:
        self.database = Database(paths[0].with_name("db.duckdb"))
        self.reports = self.database.ingest(paths)
        self.ids = {p.name: r.trace_id for p, r in zip(paths, self.reports, strict=True)}
        self.notes = [note for report in self.reports for note in report.notes]

    def ask(self, name: str, **parameters: str) -> pl.DataFrame:
        """Return the answer of a query."""
        return execute(self.database, Catalogue().get(name), parameters=parameters).frame

    def of(self, path_name: str, query: str, **parameters: str) -> pl.DataFrame:
        """Return the answer of a query about one of the files."""
        ids = [self.ids[path_name]]
        return execute(self.database, Catalogue().get(query), ids, parameters).frame
