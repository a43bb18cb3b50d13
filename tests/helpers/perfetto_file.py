"""Reads a file in Perfetto's native format with nothing but Perfetto's own message definitions."""

from __future__ import annotations

import gzip
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

protos = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")


@dataclass
class Slice:
    track: tuple[str, ...]
    start: int
    name: str
    category: str
    arguments: dict[str, Any]
    starts: list[int]
    ends: list[int]
    end: int = -1


@dataclass
class File:
    """A file as a reader understands it who knows the format and nothing of tbd-trace."""

    slices: list[Slice] = field(default_factory=list)
    instants: list[tuple[tuple[str, ...], int, str]] = field(default_factory=list)
    counters: list[tuple[tuple[str, ...], int, float]] = field(default_factory=list)
    processes: dict[int, str] = field(default_factory=dict)
    threads: dict[int, str] = field(default_factory=dict)

    def of(self, category: str) -> list[Slice]:
        return [found for found in self.slices if found.category == category]


def read(path: Path) -> File:
    content = path.read_bytes()
    if path.suffix == ".gz":
        content = gzip.decompress(content)
    trace = protos.Trace.FromString(content)
    assert all(packet.trusted_packet_sequence_id for packet in trace.packet)
    file = File()
    tracks: dict[int, tuple[str, ...]] = {}
    for packet in trace.packet:
        if packet.HasField("track_descriptor"):
            add_track(file, tracks, packet.track_descriptor)
    names: dict[str, dict[int, Any]] = defaultdict(dict)
    open_slices: dict[int, list[Slice]] = defaultdict(list)
    for packet in trace.packet:
        learn(packet, names)
        if packet.HasField("track_event"):
            add_event(file, packet, tracks, names, open_slices)
    assert not any(open_slices.values())
    assert all(found.end >= found.start for found in file.slices)
    return file


def add_track(file: File, tracks: dict[int, tuple[str, ...]], track: Any) -> None:
    assert track.uuid not in tracks
    name = track.name or track.process.process_name or track.thread.thread_name
    above = tracks[track.parent_uuid] if track.HasField("parent_uuid") else ()
    tracks[track.uuid] = (*above, name)
    if track.HasField("process"):
        file.processes[track.process.pid] = track.process.process_name
    if track.HasField("thread"):
        assert track.thread.pid in file.processes
        file.threads[track.thread.tid] = track.thread.thread_name


def learn(packet: Any, names: dict[str, dict[int, Any]]) -> None:
    """Take up the texts that numbers stand for from now on."""
    for table, entries in packet.interned_data.ListFields():
        for entry in entries:
            assert entry.iid not in names[table.name]
            names[table.name][entry.iid] = getattr(entry, "name", None) or entry.str.decode()


def add_event(
    file: File,
    packet: Any,
    tracks: dict[int, tuple[str, ...]],
    names: dict[str, dict[int, Any]],
    open_slices: dict[int, list[Slice]],
) -> None:
    event, at = packet.track_event, packet.timestamp
    track = tracks[event.track_uuid]
    if event.type == protos.TrackEvent.TYPE_SLICE_END:
        open_slices[event.track_uuid].pop().end = at
    elif event.type == protos.TrackEvent.TYPE_COUNTER:
        file.counters.append((track, at, event.double_counter_value))
    elif event.type == protos.TrackEvent.TYPE_INSTANT:
        file.instants.append((track, at, names["event_names"][event.name_iid]))
    else:
        (category,) = (names["event_categories"][iid] for iid in event.category_iids)
        found = Slice(
            track, at, names["event_names"][event.name_iid], category, arguments(event, names),
            list(event.flow_ids), list(event.terminating_flow_ids),
        )  # fmt: skip
        file.slices.append(found)
        open_slices[event.track_uuid].append(found)


def arguments(event: Any, names: dict[str, dict[int, Any]]) -> dict[str, Any]:
    found = {}
    for each in event.debug_annotations:
        key = names["debug_annotation_names"][each.name_iid]
        kind = each.WhichOneof("value")
        value = getattr(each, kind)
        if kind == "string_value_iid":
            value = names["debug_annotation_string_values"][value]
        found[key] = value
    return found
