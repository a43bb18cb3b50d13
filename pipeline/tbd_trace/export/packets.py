"""Write packets of Perfetto's native format.

A file is a sequence of ``TracePacket`` messages (https://perfetto.dev/docs/reference/trace-packet-proto).
Names are interned: each is written once with a number, which later packets refer to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, Any

from tbd_trace.errors import TbdTraceError

try:
    from perfetto.protos.perfetto.trace import (  # type: ignore[import-untyped]
        perfetto_trace_pb2 as protos,
    )
except ImportError as error:
    raise TbdTraceError(
        "the package perfetto is not installed; run `pip install 'tbd-trace[perfetto]'`"
    ) from error

# Ids of packet sequences. The thread described on a sequence becomes the default track of its
# events, so tracks are described on a separate sequence.
_EVENTS, _TRACKS = 1, 2
_BATCH = 2000  # packets serialized at once
_LARGEST_PID = 2**31 - 1  # int32 in the format
Value = str | int | float


@dataclass(frozen=True, slots=True)
class Slice:
    """Content of a slice."""

    name: str
    category: str  # category, used for colours and filters
    arguments: Mapping[str, Value] = field(default_factory=dict)  # values shown in the details
    starts: Sequence[int] = ()  # ids of the flows (arrows) that start here
    ends: Sequence[int] = ()  # ids of the flows that end here


class Packets:
    """Writes tracks and events to a file.

    Args:
        origin_ns: time in nanoseconds that becomes 0 in the file, which has no negative times.
    """

    def __init__(self, file: IO[bytes], origin_ns: int = 0) -> None:
        self._file = file
        self._origin_ns = origin_ns
        self._trace = protos.Trace()
        self._tracks = 0
        self._interned: dict[tuple[str, str], int] = {}
        packet = self._packet(_EVENTS)
        packet.sequence_flags = protos.TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
        packet.first_packet_on_sequence = True

    def _packet(self, sequence: int) -> Any:
        if len(self._trace.packet) >= _BATCH:
            self.flush()
        packet = self._trace.packet.add()
        packet.trusted_packet_sequence_id = sequence
        return packet

    def flush(self) -> None:
        self._file.write(self._trace.SerializeToString())
        # A new message: a cleared one keeps the memory of its packets.
        self._trace = protos.Trace()

    def _track(self, name: str, parent: int | None, order: int | None) -> tuple[int, Any]:
        self._tracks += 1
        track = self._packet(_TRACKS).track_descriptor
        track.uuid = self._tracks
        if name:
            track.name = name
        if parent is not None:
            track.parent_uuid = parent
        if order is not None:
            track.sibling_order_rank = order
        track.child_ordering = protos.TrackDescriptor.EXPLICIT  # by sibling_order_rank
        return self._tracks, track

    def process(self, pid: int | None, name: str) -> int:
        # A process without a valid pid becomes an ordinary track.
        if pid is None or not 0 < pid <= _LARGEST_PID:
            return self.track(name)
        number, track = self._track("", None, None)
        track.process.pid = pid
        track.process.process_name = name
        return number

    def thread(self, process: int, pid: int | None, tid: int | None, name: str) -> int:
        if pid is None or not 0 < pid <= _LARGEST_PID or not tid:
            return self.track(name, process)
        number, track = self._track("", process, None)
        track.thread.pid = pid
        track.thread.tid = tid
        track.thread.thread_name = name
        return number

    def track(self, name: str, parent: int | None = None, order: int | None = None) -> int:
        """Add a track for slices or other tracks; return its id."""
        return self._track(name, parent, order)[0]

    def counter_track(self, name: str, unit: str | None, parent: int) -> int:
        number, track = self._track(name, parent, None)
        track.counter.SetInParent()
        if unit:
            track.counter.unit_name = unit
        return number

    def begin(self, track: int, time_ns: int, content: Slice) -> None:
        packet = self._event(track, time_ns, protos.TrackEvent.TYPE_SLICE_BEGIN)
        self._describe(packet, content.name, content.category)
        for key, value in content.arguments.items():
            self._argument(packet, key, value)
        packet.track_event.flow_ids.extend(content.starts)
        packet.track_event.terminating_flow_ids.extend(content.ends)

    def end(self, track: int, time_ns: int) -> None:
        self._event(track, time_ns, protos.TrackEvent.TYPE_SLICE_END)

    def instant(self, track: int, time_ns: int, name: str, category: str) -> None:
        packet = self._event(track, time_ns, protos.TrackEvent.TYPE_INSTANT)
        self._describe(packet, name, category)

    def counter(self, track: int, time_ns: int, value: float) -> None:
        packet = self._event(track, time_ns, protos.TrackEvent.TYPE_COUNTER)
        packet.track_event.double_counter_value = value

    def _event(self, track: int, time_ns: int, kind: int) -> Any:
        packet = self._packet(_EVENTS)
        packet.timestamp = time_ns - self._origin_ns
        packet.sequence_flags = protos.TracePacket.SEQ_NEEDS_INCREMENTAL_STATE
        packet.track_event.type = kind
        packet.track_event.track_uuid = track
        return packet

    def _describe(self, packet: Any, name: str, category: str) -> None:
        event = packet.track_event
        event.name_iid = self._number(packet, "event_names", name)
        event.category_iids.append(self._number(packet, "event_categories", category))

    def _argument(self, packet: Any, key: str, value: Value) -> None:
        argument = packet.track_event.debug_annotations.add()
        argument.name_iid = self._number(packet, "debug_annotation_names", key)
        match value:
            case str():
                argument.string_value_iid = self._number(
                    packet, "debug_annotation_string_values", value
                )
            case int():
                argument.int_value = value
            case _:
                argument.double_value = value

    def _number(self, packet: Any, table: str, text: str) -> int:
        # The packet that uses a text for the first time also defines its number.
        known = self._interned.get((table, text))
        if known is not None:
            return known
        number = len(self._interned) + 1
        self._interned[table, text] = number
        entry = getattr(packet.interned_data, table).add()
        entry.iid = number
        # Names are strings and argument values bytes; neither may hold lone surrogates.
        if table == "debug_annotation_string_values":
            entry.str = text.encode("utf-8", "replace")
        else:
            entry.name = text.encode("utf-8", "replace").decode()
        return number
