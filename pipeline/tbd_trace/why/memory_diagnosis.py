"""What holds the memory of one device: values of a verdict on memory."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from tbd_trace.why.diagnosis import TryFirst


@dataclass(frozen=True, slots=True)
class MemoryBase:
    """The moment behind all numbers, and the history that it comes from."""

    moment: str  # peak; end without a history; plan of a compiler
    sequence: int | None  # event after which the moment is; -1 before the first one
    timestamp_ns: int | None
    phase: str | None
    live_bytes: int  # as requested
    held_bytes: int | None  # by the allocator
    most_held_bytes: int | None  # at any time
    start_bytes: int | None  # live before the first event
    events: int  # allocations and releases


@dataclass(frozen=True, slots=True)
class FailedRequest:
    """An allocation that failed; unknown bytes are None."""

    sequence: int
    timestamp_ns: int | None
    requested_bytes: int | None
    device_free_bytes: int | None
    live_bytes: int | None
    held_bytes: int | None
    unused_bytes: int | None  # held, but not live
    largest_free_bytes: int | None  # block of the allocator
    line: str | None
    failures: int  # of this device in the recording


@dataclass(frozen=True, slots=True)
class Line:
    """Bytes of one line of code and layer."""

    line: str | None
    layer: str | None
    bytes: int
    allocations: int


@dataclass(frozen=True, slots=True)
class Part:
    """Bytes of one class at the peak, with their lines of code."""

    cause: str  # class, as in allocation; before_recording for older bytes without a class
    title: str
    share_pct: float
    bytes: int
    allocations: int
    likely: str | None  # likely class of bytes without a class
    evidence: str  # where they come from, in words
    known_by: str
    lines: list[Line] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class MemoryChange:
    """A change, and bytes before and after it: an interval where they are estimated."""

    change: str
    title: str
    measure: str  # live or held
    now_bytes: int
    best_bytes: int
    likely_bytes: int
    worst_bytes: int
    how: str
    advice: str
    suffices: bool | None  # for the request that failed; None without one


@dataclass(frozen=True, slots=True)
class MemoryDiagnosis:
    """What holds the memory of one device, by one allocator."""

    verdict: str  # memory
    trace_id: str
    trace: str
    process_id: int | None
    pid: int | None
    device_id: int | None
    allocator: str
    memory_kind: str | None
    base: MemoryBase
    failed: FailedRequest | None
    causes: list[Part]
    change: str | None
    try_first: TryFirst | None
    changes: list[MemoryChange] = field(default_factory=list)
    devices: str | None = None  # held bytes of the devices of the trace, in words
    fragmentation: str | None = None
    not_known: list[str] = field(default_factory=list)
    covers: list[str] = field(default_factory=list)
    about: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Return the diagnosis as plain values; unknown ones are None."""
        return asdict(self)
