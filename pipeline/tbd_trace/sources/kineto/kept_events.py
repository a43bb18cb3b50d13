"""Count the events of a trace and keep the useful ones: a table, or Parquet files of blocks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from tbd_trace.runtime.private_files import temporary_directory
from tbd_trace.sources.kineto.event_block import KINDS, EventBlock
from tbd_trace.sqltext import parquet_relation, string

if TYPE_CHECKING:
    from tbd_trace.sources.kineto.module_paths import Frames

# Ids follow the order of the file. The arguments of frames are read for their ids only (_FRAMES).
_EVENTS = """
    SELECT rowid + {first} AS event_id, kind, name, pid, tid, start_ns, duration_ns,
        if(kind = 'frame', NULL, args) AS args
    FROM kineto_block WHERE is_kept AND defect IS NULL"""
# Groups of rows of one kind let a mapping skip the others.
_KEPT = f"""
    COPY ({_EVENTS} ORDER BY kind, rowid) TO {{path}} (
        FORMAT parquet, PARQUET_VERSION V2, COMPRESSION lz4_raw, ROW_GROUP_SIZE 8192,
        WRITE_BLOOM_FILTER false
    )"""
_COUNTS = """
    SELECT ph, cat, kind, defect, count(*), min(start_ns), max(end_ns)
    FROM kineto_block GROUP BY ALL ORDER BY ALL"""
_THREADS = """
    SELECT DISTINCT TRY_CAST(pid AS BIGINT), TRY_CAST(tid AS BIGINT), kind = 'user'
    FROM kineto_block WHERE is_host AND defect IS NULL"""
_FRAMES = """
    SELECT event_id, is_module, name, frame."Python id" AS id, frame."Python parent id" AS parent
    FROM (
        SELECT rowid + {first} AS event_id, kind = 'module' AS is_module,
            if(kind = 'module', name, NULL) AS name,
            json_transform(args, '{{"Python id": "BIGINT", "Python parent id": "BIGINT"}}') AS frame
        FROM kineto_block WHERE kind IN ('module', 'frame')
    )
    ORDER BY event_id"""
# Kinds whose events carry ids, so that equal events are one. The audit of the store finds equal GPU
# operations and calls. Equal allocations can follow each other.
_NUMBERED = "('operator', 'user', 'module')"
_MOST_SAMPLED = 100_000
_SAMPLE = f"""
    SELECT count(*) > count(DISTINCT hash(name, tid, start_ns, duration_ns))
    FROM event WHERE kind IN {_NUMBERED} AND start_ns % {{every}} = 0"""
_REPEATED = f"""
    CREATE OR REPLACE TEMP TABLE repeated_event AS
    SELECT event_id
    FROM (
        SELECT event_id, hash(kind, name, pid, tid, start_ns, duration_ns, args) AS same
        FROM event WHERE kind IN {_NUMBERED}
    )
    QUALIFY row_number() OVER (PARTITION BY same ORDER BY event_id) > 1"""
_FRAME_KINDS = ("module", "frame")
HostThread = tuple[int | None, int | None, bool]  # process, thread, only ranges of the program

Group = tuple[str | None, str | None, str | None, str | None]


class KeptEvents:
    """The events of one trace; `close` removes their files."""

    def __init__(self) -> None:
        self.kinds: Collection[str] = KINDS  # those to keep
        self.threads: set[HostThread] = set()
        self._directory = temporary_directory()
        self._files: list[Path] = []
        self._thread = ThreadPoolExecutor(1)  # uses the second block, and the caller the first
        self._blocks: list[EventBlock] = []
        self._second: EventBlock | None = None
        self._last: EventBlock | None = None  # decoded, and not kept yet
        self.events = 0
        # events by phase, category, kind of row (None: not stored) and defect (None: none)
        self.groups: Counter[Group] = Counter()
        self.first_ns: int | None = None
        self.last_ns: int | None = None
        self.frames: Frames | None = None  # None without frames
        self.repeated = 0  # events left out because they equal another

    def load(self, connection: duckdb.DuckDBPyConnection, text: bytes | memoryview) -> bool:
        """Add events separated by commas; return False, adding none, if they are invalid.

        The events before are counted and kept at the same time, and the last ones by `finish`. The
        connection of the second block is used in another thread, and only there.

        Args:
            connection: the one that `create_view` gets; the first block is a table of it.
        """
        if not self._blocks:
            directory = Path(self._directory.name)
            self._second = EventBlock(connection.cursor(), directory / "second.json")
            self._blocks = [EventBlock(connection, directory / "first.json"), self._second]
        block = self._blocks[0]
        is_valid = self._decode_and_keep(block, partial(block.decode, text, self.kinds))
        self._last = block if is_valid else None
        if is_valid:
            self._blocks.reverse()
        return is_valid

    def _decode_and_keep(self, block: EventBlock, decode: Callable[[], bool]) -> bool:
        if block is self._second:
            decoding = self._thread.submit(decode)
            self._keep(self._last)
            return decoding.result()
        keeping = self._thread.submit(self._keep, self._last)
        is_valid = decode()
        keeping.result()
        return is_valid

    def finish(self) -> None:
        """Count and keep the events that were added last."""
        last, self._last = self._last, None
        if last is not None and last is self._second:
            self._thread.submit(self._keep, last).result()
        elif self._files:
            self._keep(last)
        elif last is not None:  # a single block stays a table
            self._count(last.connection)

    def _keep(self, block: EventBlock | None) -> None:
        if block is not None:
            self._write(block.connection)
            self._count(block.connection)

    def _write(self, connection: duckdb.DuckDBPyConnection) -> None:
        kept = Path(self._directory.name) / f"{len(self._files):06}.parquet"
        statement = _KEPT.format(first=self.events + 1, path=string(str(kept)))
        connection.execute(statement)
        self._files.append(kept)

    def _count(self, connection: duckdb.DuckDBPyConnection) -> None:
        first = self.events + 1
        self.threads.update(connection.execute(_THREADS).fetchall())
        for *group, events, first_ns, last_ns in connection.execute(_COUNTS).fetchall():
            ph, cat, kind, defect = group
            self.groups[ph, cat, kind, defect] += events
            self.events += events
            if kind is not None and defect is None and first_ns is not None:
                self.first_ns = min(first_ns, self.first_ns or first_ns)
                self.last_ns = max(last_ns, self.last_ns or last_ns)
        if "module" in self.kinds and any(kind in _FRAME_KINDS for _, _, kind, _ in self.groups):
            self._add_frames(connection.execute(_FRAMES.format(first=first)))

    def _add_frames(self, rows: duckdb.DuckDBPyConnection) -> None:
        # Imported late, with NumPy and pyarrow: few traces have frames.
        from tbd_trace.sources.kineto.module_paths import Frames  # noqa: PLC0415

        self.frames = self.frames or Frames()
        self.frames.add(rows.fetchnumpy())

    def holds(self, *kinds: str) -> bool:
        return any(kind in kinds and defect is None for _, _, kind, defect in self.groups)

    def create_view(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Create the view ``event`` over the kept events, each once."""
        self._close_blocks()
        if self._files:
            rows = parquet_relation(self._files)
            connection.execute("DROP TABLE IF EXISTS kineto_block")
        else:
            rows = _EVENTS.format(first=1)
        connection.execute(f"CREATE OR REPLACE TEMP VIEW event AS {rows}")
        every = self.events // _MOST_SAMPLED + 1
        if connection.execute(_SAMPLE.format(every=every)).fetchall() == [(True,)]:
            ((self.repeated,),) = connection.execute(_REPEATED).fetchall()
        if self.repeated:
            kept = f"FROM ({rows}) ANTI JOIN repeated_event USING (event_id)"
            connection.execute(f"CREATE OR REPLACE TEMP VIEW event AS {kept}")

    def _close_blocks(self) -> None:
        self._thread.shutdown()
        if self._second is not None:
            self._second.connection.close()
        self._blocks.clear()

    def close(self) -> None:
        self._close_blocks()
        self._directory.cleanup()
