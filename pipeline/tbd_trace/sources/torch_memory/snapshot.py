"""Turn a loaded memory snapshot of PyTorch into columns of canonical tables.

The layout is that of ``torch.cuda.memory._snapshot``: segments with their blocks, and a history of
events by device. Releases before 2.0 wrote the list of segments alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeGuard

from tbd_trace.errors import InputError
from tbd_trace.sources.torch_memory.stacks import Stacks

Batch = dict[str, Any]

_ROWS_PER_BATCH = 65_536
_HOW = "write one with `torch.cuda.memory._dump_snapshot(FILE)`"
_OPERATIONS = {
    "alloc": "allocate",
    "free_completed": "free",
    "free_requested": "free_requested",
    "segment_alloc": "segment_allocate",
    "segment_free": "segment_free",
    "segment_map": "segment_map",
    "segment_unmap": "segment_unmap",
    "snapshot": "snapshot",
    "oom": "out_of_memory",
}
# States of blocks before 2.1, by their present name.
_STATES = {"active_awaiting_free": "active_pending_free"}
# Events whose size is what the program asked for; others are sizes of segments.
_BLOCK_OPERATIONS = frozenset(("allocate", "free", "free_requested"))
_INT64 = 1 << 63
_TORCH_FILE = re.compile(r"(?:^|/)(torch/(?:[\w-]+/)*[\w-]+)\.py$")


class Snapshot:
    """One snapshot.

    Args:
        document: the unpickled object.

    Raises:
        InputError: it is not a memory snapshot.
    """

    def __init__(self, path: Path, document: Any) -> None:
        segments, traces, annotations = _parts(path, document)
        self.segments = segments
        self.traces = traces
        self.annotations = annotations
        self.stacks = Stacks()
        self.unknown_actions = 0
        self.has_history = any(self.traces)
        self.events = sum(len(trace) for trace in traces)
        times = (event.get("time_us") for trace in traces for event in trace[:1])
        # Times count from the first event; epoch times in every row would be hard to read.
        self.origin_us = next((time for time in times if _is_int(time)), None)
        # Events leave memory when they are read, so that the few failures are kept.
        self._failures = [
            (device, position, event)
            for device, trace in enumerate(traces)
            for position, event in enumerate(trace)
            if event.get("action") == "oom"
        ]

    def segment_rows(self) -> Iterator[Batch]:
        """Yield the columns of ``memory_segment``."""
        for part in _chunks(self.segments):
            yield {
                "device_id": [segment.get("device") for segment in part],
                "stream_id": [segment.get("stream") for segment in part],
                "allocator": ["torch"] * len(part),
                "address": [segment.get("address") for segment in part],
                "total_bytes": [segment.get("total_size") for segment in part],
                "allocated_bytes": [segment.get("allocated_size") for segment in part],
                "active_bytes": [segment.get("active_size") for segment in part],
                "requested_bytes": [segment.get("requested_size") for segment in part],
                "segment_type": [_text(segment.get("segment_type")) for segment in part],
                "pool": [_pool(segment.get("segment_pool_id")) for segment in part],
                "is_expandable": [segment.get("is_expandable") for segment in part],
            }

    def block_rows(self) -> Iterator[Batch]:
        """Yield the columns of ``memory_block``."""
        for segment in self.segments:
            blocks = _blocks(segment)
            yield {
                "device_id": [segment.get("device")] * len(blocks),
                "segment_address": [segment.get("address")] * len(blocks),
                "address": _addresses(segment, blocks),
                "bytes": [block.get("size") for block in blocks],
                "requested_bytes": [_requested(block) for block in blocks],
                "state": [_state(block) for block in blocks],
                "stack_id": [self.stacks.number(_frames(block)) for block in blocks],
            }

    def event_rows(self) -> Iterator[Batch]:
        """Yield the columns of ``memory_event``; events are dropped from memory when read."""
        for device, trace in enumerate(self.traces):
            for start in range(0, len(trace), _ROWS_PER_BATCH):
                part = trace[start : start + _ROWS_PER_BATCH]
                trace[start : start + len(part)] = [{}] * len(part)  # frees the events
                yield self._events(device, start, part)

    def _events(self, device: int, start: int, part: Sequence[dict[str, Any]]) -> Batch:
        actions = [event.get("action") for event in part]
        operations = [_OPERATIONS.get(str(action)) for action in actions]
        self.unknown_actions += operations.count(None)
        sizes = [event.get("size") for event in part]
        addresses = [event.get("addr") for event in part]
        return {
            "sequence": range(start, start + len(part)),
            "timestamp_ns": self._times(part),
            "device_id": [device] * len(part),
            "stream_id": [event.get("stream") for event in part],
            "operation": operations,
            "allocator": ["torch"] * len(part),
            "address": addresses,
            "bytes": sizes,
            "requested_bytes": [
                size if operation in _BLOCK_OPERATIONS else None
                for size, operation in zip(sizes, operations, strict=True)
            ],
            "pool": [_pool(event.get("segment_pool_id")) for event in part],
            "stack_id": [self.stacks.number(event.get("frames")) for event in part],
        }

    def failure_rows(self) -> Iterator[Batch]:
        """Yield the columns of ``memory_failure``."""
        for part in _chunks(self._failures):
            events = [event for _, _, event in part]
            yield {
                "sequence": [position for _, position, _ in part],
                "timestamp_ns": self._times(events),
                "device_id": [device for device, _, _ in part],
                "stream_id": [event.get("stream") for event in events],
                "allocator": ["torch"] * len(part),
                "requested_bytes": [event.get("size") for event in events],
                "device_free_bytes": [event.get("device_free") for event in events],
                "stack_id": [self.stacks.number(event.get("frames")) for event in events],
            }

    def annotation_rows(self) -> Iterator[Batch]:
        """Yield the columns of ``memory_annotation``."""
        for part in _chunks(self.annotations):
            yield {
                "device_id": [mark.get("device") for mark in part],
                "timestamp_ns": self._times(part),
                "stage": [_STAGES.get(mark.get("stage")) for mark in part],
                "name": [_text(mark.get("name")) for mark in part],
            }

    def total_rows(self) -> Iterator[Batch]:
        """Yield the columns of ``memory_total``: the end state of each device with segments."""
        devices = sorted({s["device"] for s in self.segments if _is_int(s.get("device"))})
        for device in devices:
            own = [segment for segment in self.segments if segment.get("device") == device]
            active = [b for segment in own for b in _blocks(segment) if _is_active(b)]
            yield {
                "device_id": [device],
                "allocator": ["torch"],
                "requested_bytes": [_sum(_requested(block) for block in active)],
                "allocated_bytes": [_sum(block.get("size") for block in active)],
                "reserved_bytes": [_sum(segment.get("total_size") for segment in own)],
            }

    def stack_rows(self) -> Iterator[Batch]:
        """Yield the columns of ``memory_stack``; call it after the tables that name stacks."""
        for part in _chunks(list(self.stacks.rows())):
            yield {
                "stack_id": [number for number, _, _ in part],
                "depth": [depth for _, depth, _ in part],
                "function": [frame[0] for _, _, frame in part],
                "file": [frame[1] for _, _, frame in part],
                "line": [frame[2] for _, _, frame in part],
                "module": [_module(frame[1]) for _, _, frame in part],
            }

    def _times(self, part: Sequence[dict[str, Any]]) -> list[int | None]:
        origin = self.origin_us
        if origin is None:
            return [None] * len(part)
        times = [event.get("time_us") for event in part]
        return [(time - origin) * 1000 if _is_int(time) else None for time in times]


_STAGES = {"START": "begin", "END": "end"}


def _parts(
    path: Path, document: Any
) -> tuple[list[dict[str, Any]], list[list[dict[str, Any]]], list[dict[str, Any]]]:
    if isinstance(document, list):
        document = {"segments": document}
    if not isinstance(document, dict):
        raise InputError(
            f"{path}: a pickle of {type(document).__name__}, not a memory snapshot; {_HOW}"
        )
    if not {"segments", "device_traces"} & document.keys():
        raise InputError(
            f"{path}: a pickle without `segments`, not a memory snapshot of PyTorch; {_HOW}"
        )
    segments = _list(path, document.get("segments"), "segments")
    traces = document.get("device_traces") or []
    if not isinstance(traces, (list, tuple)):
        raise InputError(f"{path}: its `device_traces` are not a list; {_HOW}")
    histories = [_list(path, trace, "device_traces") for trace in traces]
    annotations = _list(path, document.get("external_annotations"), "external_annotations")
    if any("total_size" not in segment for segment in segments):
        raise InputError(f"{path}: its segments have no `total_size`; {_HOW}")
    return segments, histories, annotations


def _list(path: Path, value: Any, name: str) -> list[dict[str, Any]]:
    if value is None:
        return []
    if not isinstance(value, (list, tuple)) or not all(isinstance(row, dict) for row in value):
        raise InputError(f"{path}: its `{name}` are not a list of dicts; {_HOW}")
    return value if isinstance(value, list) else list(value)


def _chunks(rows: Sequence[Any]) -> Iterator[Sequence[Any]]:
    for start in range(0, len(rows), _ROWS_PER_BATCH):
        yield rows[start : start + _ROWS_PER_BATCH]


def _blocks(segment: dict[str, Any]) -> list[dict[str, Any]]:
    blocks = segment.get("blocks")
    return [b for b in blocks if isinstance(b, dict)] if isinstance(blocks, (list, tuple)) else []


def _addresses(segment: dict[str, Any], blocks: Sequence[dict[str, Any]]) -> list[Any]:
    # Releases before 2.1 gave no addresses: the blocks tile the segment.
    address, addresses = segment.get("address"), []
    for block in blocks:
        address = block.get("address", address)
        addresses.append(address)
        size = block.get("size")
        if address is not None:
            address = address + size if _is_int(address) and _is_int(size) else None
    return addresses


def _requested(block: dict[str, Any]) -> Any:
    if "requested_size" in block:
        return block["requested_size"]
    real = _last_allocation(block).get("real_size")  # before 2.1
    return real if real is not None else (0 if block.get("state") == "inactive" else None)


def _frames(block: dict[str, Any]) -> Any:
    return block["frames"] if "frames" in block else _last_allocation(block).get("frames")


def _last_allocation(block: dict[str, Any]) -> dict[str, Any]:
    history = block.get("history")
    last = history[0] if isinstance(history, (list, tuple)) and history else {}
    return last if isinstance(last, dict) else {}


def _state(block: dict[str, Any]) -> str | None:
    state = _text(block.get("state"))
    return _STATES.get(state, state) if state else None


def _is_active(block: dict[str, Any]) -> bool:
    return (_state(block) or "").startswith("active")


def _sum(sizes: Iterator[Any]) -> int | None:
    values = list(sizes)
    total = sum(values) if all(map(_is_int, values)) else None
    return total if total is not None and 0 <= total < _INT64 else None


def _pool(value: Any) -> str | None:
    if isinstance(value, (list, tuple)) and value:
        return ",".join(str(part) for part in value[:2])
    return None


def _module(file: str | None) -> str | None:
    match = _TORCH_FILE.search(file or "")
    return match[1].replace("/", ".").removesuffix(".__init__") if match else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _is_int(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < _INT64
