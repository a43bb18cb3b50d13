"""Export a timeline for the Perfetto UI (https://ui.perfetto.dev) and its trace processor."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple, cast

from tbd_trace import query as queries
from tbd_trace import resources
from tbd_trace.errors import CannotAnswerError, UsageError
from tbd_trace.export.parent_tracks import ParentTracks
from tbd_trace.export.track_layout import TrackLayout
from tbd_trace.kernel_names import short_labels
from tbd_trace.model.canonical_tables import timeline_events
from tbd_trace.query.catalogue import derived_relation
from tbd_trace.query.connection import LARGE_ROWS
from tbd_trace.runtime.atomic_write import atomic_write
from tbd_trace.runtime.private_files import temporary_directory
from tbd_trace.runtime.sigint import interruptible
from tbd_trace.sqltext import literal, parquet_relation, string
from tbd_trace.store.read_errors import reading
from tbd_trace.store.selection import Selection

if TYPE_CHECKING:
    import duckdb

    from tbd_trace.export.packets import Packets, Slice, Value

ENDINGS = (".pftrace", ".perfetto-trace", ".pftrace.gz", ".perfetto-trace.gz")
_LABEL_WIDTH = 60  # characters of a kernel name
_BATCH_ROWS = 5000  # events converted to Python objects at a time
_COUNTER_COLUMNS = 7  # of queries/export/counters.sql that identify a counter
_CAUSES = "cause_interval"
_ROW = ("row_kind", "process_id", "thread_id", "device_id", "lane")
_TIME = "start_ns, end_ns DESC NULLS LAST, name, flows, correlation_id"
# Order of tracks below a thread or device.
_ORDER = {"iteration": 0, "nvtx": 1, "range": 2, "api": 3, "cause": 4, "gpu": 5}


class Event(NamedTuple):
    """A row of ``queries/export/events.sql``, whose header describes the fields."""

    row_kind: str
    process_id: int | None
    thread_id: int | None
    device_id: int | None
    lane: str
    start_ns: int
    end_ns: int | None
    category: str
    name: str
    flows: list[int] | None
    full_name: str | None
    grid: str | None
    block: str | None
    registers_per_thread: int | None
    shared_bytes: int | None
    bytes: int | None
    memory: str | None
    layer: str | None
    phase: str | None
    iteration: int | None
    correlation_id: int | None


_ARGUMENTS = Event._fields[Event._fields.index("full_name") :]


@dataclass(slots=True)
class ExportSummary:
    """Numbers of written events."""

    slices: dict[str, int] = field(default_factory=dict)  # number of slices by category
    instants: int = 0
    counters: int = 0
    tracks: int = 0  # number of tracks with events; overlapping events need several


def export(traces: Selection, path: Path) -> ExportSummary:
    """Write a timeline to a file.

    Args:
        traces: a trace, or the traces of a capture; one of them must be a timeline, or else a
            memory history with times.
        path: output file, compressed if its name ends in ``.gz``.

    Raises:
        CannotAnswerError: there is no timeline, or it has no events.
        TbdTraceError: the file cannot be written, or the package perfetto is not installed.
        UsageError: there are several timelines, or the extension is unknown.
    """
    if not path.name.lower().endswith(ENDINGS):
        raise UsageError(f"{path}: expected a name that ends in {', '.join(ENDINGS)}")
    from tbd_trace.export.packets import Packets  # noqa: PLC0415 - protos take time to load

    timeline = _timeline(traces)
    with (
        reading(timeline.database),
        queries.connect(timeline.database, timeline.trace_ids) as connection,
        interruptible(connection),
        atomic_write(path) as partial,
        _output_file(partial, path.name.lower().endswith(".gz")) as file,
    ):
        packets = Packets(file, _origin(connection))
        summary = _Timeline(connection, packets, timeline).write()
        if not (summary.slices or summary.instants or summary.counters):
            raise CannotAnswerError("the timeline has no events")
        packets.flush()
    return summary


def _timeline(traces: Selection) -> Selection:
    kinds = traces.database.trace_frame(traces.trace_ids).select("trace_id", "name", "kind")
    timelines = [(trace_id, name) for trace_id, name, kind in kinds.rows() if kind == "timeline"]
    if not timelines:
        timed = queries.sql(
            traces.database,
            "SELECT DISTINCT trace_id FROM memory_event WHERE timestamp_ns IS NOT NULL",
            traces.trace_ids,
        )
        ids = set(timed["trace_id"])
        timelines = [(trace_id, name) for trace_id, name, _ in kinds.rows() if trace_id in ids]
    if not timelines:
        raise CannotAnswerError("no timeline to export; counters and summaries have no time axis")
    if len(timelines) > 1:
        names = ", ".join(name for _, name in timelines)
        raise UsageError(f"several timelines with different clocks: {names}; name one")
    return Selection(traces.database, [timelines[0][0]])


def _origin(connection: duckdb.DuckDBPyConnection) -> int:
    # Perfetto has no negative times, but events may begin before time 0 of the trace.
    row = connection.execute(
        "SELECT least(0, (SELECT min(start_ns) FROM trace), "
        "(SELECT min(timestamp_ns) FROM memory_event))"
    ).fetchone()
    return int(row[0]) if row else 0


@contextmanager
def _output_file(path: Path, compressed: bool) -> Iterator[IO[bytes]]:
    with path.open("wb") as file:
        if not compressed:
            yield file
            return
        # Without name and time, so that equal traces give equal files.
        with gzip.GzipFile("", "wb", compresslevel=6, fileobj=file, mtime=0) as packed:
            yield cast("IO[bytes]", packed)


class _Timeline:
    def __init__(
        self, connection: duckdb.DuckDBPyConnection, packets: Packets, timeline: Selection
    ) -> None:
        self._connection = connection
        self._packets = packets
        self._cache = queries.RelationCache(timeline.database, timeline.trace_ids)
        self._summary = ExportSummary()
        self._parents = ParentTracks(packets, self._fetch(self._sql("parent_tracks")))

    def write(self) -> ExportSummary:
        with temporary_directory() as scratch:
            self._write_events(Path(scratch) / "events.parquet")
        samples = self._fetch(self._sql("counters"))
        for key, values in groupby(samples, key=itemgetter(*range(_COUNTER_COLUMNS))):
            kind, process_id, device_id, allocator, memory_kind, metric, unit = key
            if kind == "gpu":
                parent = self._parents.gpu_metrics(device_id)
            else:
                parent = self._parents.memory(process_id, device_id, allocator, memory_kind)
            track = self._packets.counter_track(metric, unit, parent)
            self._summary.tracks += 1
            for *_, time_ns, value in values:
                self._packets.counter(track, time_ns, value)
                self._summary.counters += 1
        return self._summary

    def _write_events(self, scratch: Path) -> None:
        # Via a Parquet file, so that the events of one row at a time are sorted and in memory.
        self._connection.execute(
            f"COPY ({self._sql('events')}) TO {string(str(scratch))} (FORMAT parquet)"
        )
        events = parquet_relation([scratch])
        rows = f"SELECT DISTINCT {', '.join(_ROW)} FROM ({events}) ORDER BY ALL"
        for row in self._connection.execute(rows).fetchall():
            same = " AND ".join(
                f"{name} IS NOT DISTINCT FROM {literal(value)}"
                for name, value in zip(_ROW, row, strict=True)
            )
            fetched = self._fetch(f"SELECT * FROM ({events}) WHERE {same} ORDER BY {_TIME}")
            self._write_row(Event(*event) for event in fetched)

    def _sql(self, name: str) -> str:
        query = queries.Catalogue().load(resources.sql_files("export")[name])
        if _CAUSES in query.relations and self._cache.rows(self._connection) >= LARGE_ROWS:
            # Causes are found in memory.
            empty = derived_relation(_CAUSES).sql
            self._connection.execute(f"CREATE TEMP TABLE {_CAUSES} AS {empty}")
        queries.prepare(self._connection, query.relations, self._cache)
        events = f"CREATE OR REPLACE TEMP VIEW timeline_event AS {timeline_events()}"
        self._connection.execute(events)
        self._label_kernels()
        return query.sql

    def _label_kernels(self) -> None:
        # The relation kernel_label: names as short as tracks need, different for each kernel.
        self._connection.execute(
            "CREATE OR REPLACE TEMP TABLE kernel_label (name VARCHAR, label VARCHAR)"
        )
        names = self._connection.execute("SELECT DISTINCT name FROM kernel").fetchall()
        labels = short_labels((name for (name,) in names), _LABEL_WIDTH)
        if labels:
            self._connection.execute(
                "INSERT INTO kernel_label SELECT unnest($1), unnest($2)",
                [list(labels), list(labels.values())],
            )

    def _fetch(self, sql: str) -> Iterator[tuple[Any, ...]]:
        self._connection.execute(sql)
        while rows := self._connection.fetchmany(_BATCH_ROWS):
            yield from rows

    def _parent(self, event: Event) -> int:
        if event.row_kind in ("gpu", "cause"):
            return self._parents.device(event.process_id, event.device_id)
        if event.thread_id is None:
            return self._parents.process(event.process_id)
        return self._parents.thread(event.process_id, event.thread_id)

    def _write_row(self, events: Iterator[Event]) -> None:
        # Overlapping events are spread over several tracks, named "NAME (2)" and so on.
        first = next(events)
        parent, packets, tracks = self._parent(first), self._packets, list[int]()
        order = _ORDER[first.row_kind]
        current = first

        def begin(lane: int, start_ns: int) -> None:
            if lane == len(tracks):
                name = f"{first.lane} ({lane + 1})" if lane else first.lane
                tracks.append(packets.track(name, parent, order))
                self._summary.tracks += 1
            packets.begin(tracks[lane], start_ns, _slice(current))

        layout = TrackLayout(
            first.row_kind != "gpu", begin, lambda lane, end_ns: packets.end(tracks[lane], end_ns)
        )
        instants: int | None = None
        for current in _chained(first, events):
            if current.end_ns is None:
                # Marks have a separate track, so that they do not hide behind slices.
                if instants is None:
                    instants = packets.track(f"{first.lane} marks", parent, order)
                    self._summary.tracks += 1
                packets.instant(instants, current.start_ns, current.name, current.category)
                self._summary.instants += 1
            else:
                # Damaged traces have events that end before they start.
                layout.put(current.start_ns, max(current.start_ns, current.end_ns))
                count = self._summary.slices.get(current.category, 0)
                self._summary.slices[current.category] = count + 1
        layout.close()


def _chained(first: Event, events: Iterator[Event]) -> Iterator[Event]:
    yield first
    yield from events


def _slice(event: Event) -> Slice:
    from tbd_trace.export.packets import Slice  # noqa: PLC0415 - protos take time to load

    values = zip(_ARGUMENTS, event[-len(_ARGUMENTS) :], strict=True)
    arguments = {name: cast("Value", value) for name, value in values if value is not None}
    # Arrows start at calls on the host and end at operations on the GPU.
    numbers = event.flows or []
    if event.row_kind == "gpu":
        return Slice(event.name, event.category, arguments, ends=numbers)
    return Slice(event.name, event.category, arguments, starts=numbers)
