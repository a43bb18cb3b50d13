"""Read memory snapshots of PyTorch: ``torch.cuda.memory._dump_snapshot``, also gzipped."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Self

import duckdb

from tbd_trace.sources import plain_pickle
from tbd_trace.sources.arrow_columns import Damage, register
from tbd_trace.sources.base import Ask, TraceDescription
from tbd_trace.sources.flight_recorder.dump import looks_like_dump
from tbd_trace.sources.memory_notes import memory_notes
from tbd_trace.sources.torch_memory.snapshot import Snapshot

_AGAIN = "write it again with `torch.cuda.memory._dump_snapshot(FILE)`"
_SUFFIXES = (".pickle", ".pkl", ".pickle.gz", ".pkl.gz")


class TorchSnapshotReader:
    """Reader of one snapshot.

    Raises:
        InputError: the file is damaged, names a class or function, or is not a memory snapshot.
    """

    def __init__(self, path: Path) -> None:
        self._snapshot = Snapshot(path, plain_pickle.load(path, "a memory snapshot", _AGAIN))
        self._damage = Damage()
        self._rows = {
            "memory_annotation": self._snapshot.annotation_rows,
            "memory_block": self._snapshot.block_rows,
            "memory_event": self._snapshot.event_rows,
            "memory_failure": self._snapshot.failure_rows,
            "memory_segment": self._snapshot.segment_rows,
            "memory_stack": self._snapshot.stack_rows,
            "memory_total": self._snapshot.total_rows,
        }

    def relation(self, connection: duckdb.DuckDBPyConnection, table: str) -> str | None:
        """Return a SELECT over the rows of a canonical table, None if the file lacks them."""
        rows = self._rows.get(table)
        return None if rows is None else register(connection, table, rows(), self._damage)

    def describe(self, ask: Ask | None = None) -> TraceDescription:
        """Return kind, start and notes of the file; call after the last `relation`."""
        snapshot = self._snapshot
        notes = [] if ask is None else memory_notes(ask)
        if not snapshot.has_history:
            notes.append(
                "no history of allocations; record it with "
                "`torch.cuda.memory._record_memory_history()` before the run"
            )
        elif snapshot.origin_us is None:
            notes.append("its events have no times; they are in the order of the file")
        if snapshot.unknown_actions:
            notes.append(f"memory events with an unknown action: {snapshot.unknown_actions:,}")
        if self._damage.values:
            notes.append(f"values of another type than expected: {self._damage.values:,}; NULL")
        start = snapshot.origin_us
        return TraceDescription(
            tool="torch",
            kind="memory",
            utc_start_ns=None if start is None else start * 1000,
            notes=notes,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Do nothing: the file is closed after loading."""


class TorchSnapshot:
    """Source for memory snapshots of PyTorch."""

    format = "torch-memory-snapshot"

    def detect(self, path: Path, head: bytes) -> bool:
        """Return True for a pickle, and for any file that is named like one."""
        # Snapshots have no signature; a pickle of something else is explained when it is opened.
        if looks_like_dump(head):
            return False
        return plain_pickle.is_pickle(plain_pickle.unpacked_head(head)) or (
            path.name.lower().endswith(_SUFFIXES)
        )

    def open(self, path: Path) -> TorchSnapshotReader:
        """Open a detected file.

        Raises:
            InputError: the file is damaged, names a class or function, or is not a memory snapshot.
        """
        return TorchSnapshotReader(path)


TORCH_SNAPSHOT = TorchSnapshot()
