"""Decode blocks of events with DuckDB and keep the useful ones as Parquet files."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Collection, Iterable
from pathlib import Path

import duckdb

from tbd_trace.sources.kineto.module_paths import Frames
from tbd_trace.sqltext import parquet_relation, string

# Texts for what varies: ids are texts in some releases. DuckDB reads the digits of a decimal from
# the text; a double would be off by up to 248 ns.
_COLUMNS = (
    "{ph: 'VARCHAR', cat: 'VARCHAR', name: 'VARCHAR', pid: 'VARCHAR', tid: 'VARCHAR', "
    "ts: 'DECIMAL(24,3)', dur: 'DECIMAL(24,3)', args: 'JSON'}"
)
_LEAST_BUFFER = 1 << 20
# Kinds of rows by the category of events; the older ones are those of torch 1.8.
_KIND_OF_CATEGORY = {
    "kernel": "kernel",
    "gpu_memcpy": "memcpy",
    "memcpy": "memcpy",
    "gpu_memset": "memset",
    "memset": "memset",
    "cuda_runtime": "call",
    "cuda_driver": "call",
    "runtime": "call",
    "xpu_runtime": "call",
    "cuda_sync": "synchronization",
    "cpu_op": "operator",
    "operator": "operator",
    "user_annotation": "user",
    "python_function": "frame",
    "overhead": "overhead",
}
_CATEGORIES = ", ".join(f"('{category}', '{kind}')" for category, kind in _KIND_OF_CATEGORY.items())
# A join is several times as fast as a CASE over the categories.
_KINDS = """
    CASE
        WHEN ph = 'X' AND c.kind = 'frame' AND starts_with(name, 'nn.Module: ') THEN 'module'
        WHEN ph = 'X' THEN c.kind
        WHEN ph IN ('i', 'I') AND name = '[memory]' THEN 'memory'
        WHEN ph = 'M' AND name IN ('process_name', 'thread_name') THEN name
    END"""
# The texts of other events are not copied. Ids follow the order of the file.
_BLOCK = """
    CREATE OR REPLACE TEMP TABLE kineto_block AS
    SELECT event_id, ph, cat, kind, start_ns, duration_ns,
        if(is_kept, name, NULL) AS name, if(is_host OR is_kept, pid, NULL) AS pid,
        if(is_host OR is_kept, tid, NULL) AS tid,
        if(is_kept OR kind = 'frame' AND {has_frames}, args, NULL) AS args, is_kept, is_host,
        CASE
            WHEN kind IS NULL OR kind IN ('process_name', 'thread_name') THEN NULL
            WHEN start_ns IS NULL OR duration_ns IS NULL AND kind <> 'memory' THEN 'without times'
            WHEN start_ns = 0 AND coalesce(duration_ns, 0) = 0 THEN 'at time 0'
            WHEN duration_ns < 0 THEN 'with negative durations'
            WHEN name IS NULL THEN 'without names'
        END AS defect
    FROM (
        SELECT *, coalesce(kind IN ({kept}), false) AS is_kept,
            coalesce(kind IN ({host}), false) AS is_host
        FROM (
            SELECT event_id, ph, cat, name, pid, tid, TRY_CAST(ts * 1000 AS BIGINT) AS start_ns,
                TRY_CAST(dur * 1000 AS BIGINT) AS duration_ns, args, {kinds} AS kind
            FROM (
                SELECT row_number() OVER () + {before} AS event_id, *
                FROM read_json({path}, format = 'array', columns = {columns},
                    maximum_object_size = {size})
            ) AS e
            LEFT JOIN (VALUES {categories}) AS c(category, kind) ON c.category = lower(e.cat)
        )
    )"""
_KEPT = """
    COPY (
        SELECT event_id, kind, lower(cat) AS category, name, pid, tid, start_ns, duration_ns, args
        FROM kineto_block WHERE is_kept AND defect IS NULL
        ORDER BY kind, event_id
    ) TO {path} (FORMAT parquet, COMPRESSION lz4_raw, ROW_GROUP_SIZE 8192)"""
_COUNTS = """
    SELECT ph, cat, kind, defect, count(*), min(start_ns), max(start_ns + coalesce(duration_ns, 0))
    FROM kineto_block GROUP BY ALL ORDER BY ALL"""
_THREADS = """
    SELECT DISTINCT TRY_CAST(pid AS BIGINT), TRY_CAST(tid AS BIGINT), kind = 'user'
    FROM kineto_block WHERE is_host AND defect IS NULL"""
_FRAMES = """
    SELECT event_id, kind = 'module' AS is_module, if(kind = 'module', name, NULL) AS name,
        a."Python id" AS id, a."Python parent id" AS parent
    FROM (
        SELECT *,
            json_transform(args, '{"Python id": "BIGINT", "Python parent id": "BIGINT"}') AS a
        FROM kineto_block WHERE kind IN ('module', 'frame')
    )
    ORDER BY event_id"""
KINDS = (
    "kernel", "memcpy", "memset", "call", "synchronization", "operator", "user", "module",
    "overhead", "memory", "process_name", "thread_name",
)  # fmt: skip
HostThread = tuple[int | None, int | None, bool]  # process, thread, only ranges of the program
HOST_KINDS = ("call", "operator", "user", "module")

Group = tuple[str | None, str | None, str | None, str | None]


class KeptEvents:
    """The events of one trace; a context manager that removes its files at the end."""

    def __init__(self) -> None:
        self.kinds: Collection[str] = KINDS  # those to keep
        self.threads: set[HostThread] = set()
        self._directory = tempfile.TemporaryDirectory(prefix="tbd-trace-events-")
        self._block = Path(self._directory.name) / "block.json"
        self._files: list[Path] = []
        self.events = 0
        # events by phase, category, kind of row (None: not stored) and defect (None: none)
        self.groups: Counter[Group] = Counter()
        self.first_ns: int | None = None
        self.last_ns: int | None = None
        self.frames = Frames()

    def load(self, connection: duckdb.DuckDBPyConnection, text: bytes) -> bool:
        """Add events separated by commas; return False, adding none, if they are invalid."""
        with self._block.open("wb") as file:
            file.write(b"[")
            file.write(text)
            file.write(b"]")
        statement = _BLOCK.format(
            before=self.events,
            kept=_texts(self.kinds),
            host=_texts(HOST_KINDS),
            has_frames="module" in self.kinds,
            kinds=_KINDS,
            categories=_CATEGORIES,
            path=string(str(self._block)),
            columns=_COLUMNS,
            # DuckDB takes several times as much memory.
            size=max(len(text), _LEAST_BUFFER),
        )
        try:
            connection.execute(statement)
        except (duckdb.InvalidInputException, duckdb.ConversionException):
            return False
        self._count(connection)
        kept = Path(self._directory.name) / f"{len(self._files):06}.parquet"
        connection.execute(_KEPT.format(path=string(str(kept))))
        self._files.append(kept)
        return True

    def _count(self, connection: duckdb.DuckDBPyConnection) -> None:
        for *group, events, first, last in connection.execute(_COUNTS).fetchall():
            ph, cat, kind, defect = group
            self.groups[ph, cat, kind, defect] += events
            self.events += events
            if kind is not None and defect is None and first is not None:
                self.first_ns = min(first, self.first_ns or first)
                self.last_ns = max(last, self.last_ns or last)
        self.threads.update(connection.execute(_THREADS).fetchall())
        if "module" in self.kinds:
            self.frames.add(connection.execute(_FRAMES).fetchnumpy())

    def holds(self, *kinds: str) -> bool:
        return any(kind in kinds and defect is None for _, _, kind, defect in self.groups)

    def create_view(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Create the view ``event`` over the kept events."""
        connection.execute("DROP TABLE IF EXISTS kineto_block")
        rows = parquet_relation(self._files)
        connection.execute(f"CREATE OR REPLACE TEMP VIEW event AS {rows}")

    def close(self) -> None:
        self._directory.cleanup()


def _texts(values: Iterable[str]) -> str:
    return ", ".join(map(string, values))
