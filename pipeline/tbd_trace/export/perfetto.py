"""A timeline for the Perfetto UI (https://ui.perfetto.dev) and its trace processor."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from tbd_trace import query as queries
from tbd_trace import resources
from tbd_trace.errors import CannotAnswerError, UsageError
from tbd_trace.export.beside import written_beside
from tbd_trace.export.lanes import Lanes
from tbd_trace.interrupts import interruptible
from tbd_trace.store.reading import reading

if TYPE_CHECKING:
    import duckdb

    from tbd_trace.api import Traces
    from tbd_trace.export.packets import Packets, Slice, Value

ENDINGS = (".pftrace", ".perfetto-trace", ".pftrace.gz", ".perfetto-trace.gz")
_ROWS = 5000  # rows in memory at a time
_ORDER = {"iteration": 0, "nvtx": 1, "range": 2, "api": 3, "gpu": 4}


class Event(NamedTuple):
    """A row of ``queries/export/events.sql``; its header says what the fields are."""

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


_Key = TypeVar("_Key")
_ARGUMENTS = Event._fields[Event._fields.index("full_name") :]


@dataclass(slots=True)
class Written:
    """What an export wrote.

    Attributes:
        slices: slices by category.
        instants: NVTX marks.
        counters: values of counters.
        tracks: rows that hold events; a row whose events overlap takes several.
    """

    slices: dict[str, int] = field(default_factory=dict)
    instants: int = 0
    counters: int = 0
    tracks: int = 0


def export(traces: Traces, path: Path) -> Written:
    """Write the timeline among some traces to a file.

    Args:
        traces: a trace, or those of a capture; one of them must be a timeline.
        path: the file; compressed if it ends in ``.gz``.

    Raises:
        CannotAnswerError: there is no timeline among them, or nothing in it.
        TbdTraceError: the file cannot be written, or the package perfetto is missing.
        UsageError: there are several timelines, or the file's extension is another.
    """
    if not path.name.lower().endswith(ENDINGS):
        raise UsageError(f"{path}: expected a name that ends in {', '.join(ENDINGS)}")
    from tbd_trace.export.packets import Packets  # noqa: PLC0415 - protos take time to load

    timeline = _timeline(traces)
    with (
        reading(timeline.database),
        timeline.connect() as connection,
        interruptible(connection),
        written_beside(path) as beside,
        _opened(beside, path.name.lower().endswith(".gz")) as file,
    ):
        packets = Packets(file)
        written = _Timeline(connection, packets, timeline).write()
        if not (written.slices or written.instants or written.counters):
            raise CannotAnswerError("the timeline has no events")
        packets.flush()
    return written


def _timeline(traces: Traces) -> Traces:
    kinds = traces.database.trace_frame(traces.trace_ids).select("trace_id", "name", "kind")
    found = [(trace_id, name) for trace_id, name, kind in kinds.rows() if kind == "timeline"]
    if not found:
        raise CannotAnswerError("no timeline to export: counters and summaries have no time axis")
    if len(found) > 1:
        names = ", ".join(name for _, name in found)
        raise UsageError(f"several timelines, whose clocks differ: {names}; name one")
    return type(traces)(traces.database, [found[0][0]])


@contextmanager
def _opened(path: Path, compressed: bool) -> Iterator[IO[bytes]]:
    with path.open("wb") as file:
        if not compressed:
            yield file
            return
        # without name and time, so that the same trace gives the same file
        with gzip.GzipFile("", "wb", compresslevel=6, fileobj=file, mtime=0) as packed:
            yield cast("IO[bytes]", packed)


class _Timeline:
    """Writes one timeline: places first, then the events row by row."""

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, packets: Packets, timeline: Traces
    ) -> None:
        self._connection = connection
        self._packets = packets
        self._kept = queries.KeptRelations(timeline.database, timeline.trace_ids)
        self._written = Written()
        self._names: dict[tuple[str, int | None, int], tuple[int | None, str | None]] = {}
        self._processes: dict[int | None, int] = {}
        self._threads: dict[tuple[int | None, int | None], int] = {}
        self._devices: dict[tuple[int | None, int | None], int] = {}

    def write(self) -> Written:
        for place, process_id, place_id, number, name in self._rows("places"):
            self._names.setdefault((place, process_id, place_id), (number, name))
        events = (Event(*row) for row in self._rows("events"))
        for _, row in groupby(events, key=itemgetter(0, 1, 2, 3, 4)):
            self._write_row(row)
        samples = self._rows("counters")
        for (gpu_id, metric, unit), values in groupby(samples, key=itemgetter(0, 1, 2)):
            parent = self._gpu_metrics(gpu_id)
            track = self._packets.counter_track(metric, unit, parent)
            self._written.tracks += 1
            for *_, time_ns, value in values:
                self._packets.counter(track, time_ns, value)
                self._written.counters += 1
        return self._written

    def _rows(self, name: str) -> Iterator[tuple[Any, ...]]:
        query = queries.Catalogue().load(resources.queries() / "export" / f"{name}.sql")
        queries.prepare(self._connection, query.relations, self._kept)
        self._connection.execute(query.sql)
        while rows := self._connection.fetchmany(_ROWS):
            yield from rows

    def _write_row(self, events: Iterator[Event]) -> None:
        """Write the events of one row of the timeline, on as many tracks as they take."""
        first = next(events)
        parent, packets, tracks = self._parent(first), self._packets, list[int]()
        order = _ORDER[first.row_kind]
        current = first

        def begin(lane: int, start_ns: int) -> None:
            if lane == len(tracks):
                name = f"{first.lane} ({lane + 1})" if lane else first.lane
                tracks.append(packets.track(name, parent, order))
                self._written.tracks += 1
            packets.begin(tracks[lane], start_ns, _slice(current))

        lanes = Lanes(
            first.row_kind != "gpu", begin, lambda lane, end_ns: packets.end(tracks[lane], end_ns)
        )
        instants: int | None = None
        for current in _chained(first, events):
            if current.end_ns is None:
                if instants is None:
                    instants = packets.track(f"{first.lane} marks", parent, order)
                    self._written.tracks += 1
                packets.instant(instants, current.start_ns, current.name, current.category)
                self._written.instants += 1
            else:
                lanes.put(current.start_ns, max(current.start_ns, current.end_ns))
                count = self._written.slices.get(current.category, 0)
                self._written.slices[current.category] = count + 1
        lanes.close()

    def _parent(self, event: Event) -> int:
        if event.row_kind == "gpu":
            return self._device(event.process_id, event.device_id)
        if event.thread_id is None:
            return self._process(event.process_id)
        return self._thread(event.process_id, event.thread_id)

    def _process(self, process_id: int | None) -> int:
        def make() -> int:
            pid, name = self._names.get(("process", process_id, process_id or 0), (None, None))
            return self._packets.process(pid, name or f"Process {pid or 'unknown'}")

        return _made(self._processes, process_id, make)

    def _thread(self, process_id: int | None, thread_id: int) -> int:
        def make() -> int:
            process = self._process(process_id)
            pid, _ = self._names.get(("process", process_id, process_id or 0), (None, None))
            tid, name = self._names.get(("thread", process_id, thread_id), (None, None))
            return self._packets.thread(process, pid, tid, name or f"Thread {tid or thread_id}")

        return _made(self._threads, (process_id, thread_id), make)

    def _device(self, process_id: int | None, device_id: int | None) -> int:
        def make() -> int:
            known = [
                self._names.get(("device", process, device_id or 0))
                for process in (process_id, None)
            ]
            name = next((f" {found[1]}" for found in known if found and found[1]), "")
            pid, _ = self._names.get(("process", process_id, process_id or 0), (None, None))
            used_by = f", process {pid}" if pid is not None else ""
            number = "unknown" if device_id is None else device_id
            return self._packets.track(f"GPU {number}{name}{used_by}")

        return _made(self._devices, (process_id, device_id), make)

    def _gpu_metrics(self, gpu_id: int | None) -> int:
        name = "GPU metrics" if gpu_id is None else f"Metrics of GPU {gpu_id}"
        return _made(self._devices, (-1, gpu_id), lambda: self._packets.track(name))


def _made(known: dict[_Key, int], key: _Key, make: Callable[[], int]) -> int:
    """Return the track that is known by a key, made if it is not."""
    if key not in known:
        known[key] = make()
    return known[key]


def _chained(first: Event, events: Iterator[Event]) -> Iterator[Event]:
    yield first
    yield from events


def _slice(event: Event) -> Slice:
    from tbd_trace.export.packets import Slice  # noqa: PLC0415 - protos take time to load

    values = zip(_ARGUMENTS, event[-len(_ARGUMENTS) :], strict=True)
    arguments = {name: cast("Value", value) for name, value in values if value is not None}
    numbers = event.flows or []
    if event.row_kind == "gpu":
        return Slice(event.name, event.category, arguments, ends=numbers)
    return Slice(event.name, event.category, arguments, starts=numbers)
