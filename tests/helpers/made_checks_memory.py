"""Made memory profiles for tests of rules: events of an allocator, sizes in MiB."""

from __future__ import annotations

import json
from typing import Any, Self

from made_trace import MadeTrace

MIB = 1 << 20


class Profile(MadeTrace):
    """A memory profile: each address is allocated once; steps of 1 GiB."""

    def __init__(self, trace_id: str = "t", device: int | None = 0, **capture: Any) -> None:
        super().__init__()
        self.head: dict[str, Any] = {"trace_id": trace_id, "device_id": device}
        self.head |= {"allocator": "torch"}
        self.last = -1
        self.sizes: dict[int, int] = {}
        described = {"batch_size": capture.get("batch_size")}
        self.add_trace(
            trace_id, kind="memory", capture=json.dumps(capture) if capture else None, **described
        )

    def event(self, operation: str, address: int, size: int, **more: Any) -> None:
        self.last += 1
        row = self.head | {"sequence": self.last, "timestamp_ns": 10 * self.last}
        row |= {"operation": operation, "address": address, "bytes": size, "requested_bytes": size}
        self.add("memory_event", **(row | more))

    def make(self, kind: str | None, mib: float, phase: str | None = "forward", **more: Any) -> int:
        """Allocate; return the address."""
        address = more.pop("address", self.next_id() << 30)
        self.sizes[address] = round(mib * MIB)
        self.event("allocate", address, self.sizes[address], phase=phase, **more, **{"class": kind})
        return int(address)

    def free(self, *addresses: int, phase: str = "backward", **more: Any) -> None:
        for address in addresses:
            self.event("free", address, self.sizes[address], phase=phase, **more)

    def hold(self, mib: float) -> Self:
        """State the bytes that the allocator holds from the begin to the end."""
        for sequence in (-1, None):
            self.add("memory_total", **self.head, sequence=sequence, reserved_bytes=int(mib * MIB))
        return self

    def segment(self, address: int, mib: float, live: float = 0, **more: Any) -> None:
        """Add a segment of the final state; its live bytes are one block at its begin."""
        row = self.head | {"address": address, "total_bytes": int(mib * MIB)} | more
        self.add("memory_segment", **row)
        parts = [(address, live, "active_allocated"), (address + int(live * MIB), mib - live, None)]
        for start, size, state in parts:
            if size:
                self.add(
                    "memory_block",
                    trace_id=self.head["trace_id"],
                    device_id=self.head["device_id"],
                    segment_address=address,
                    address=start,
                    bytes=int(size * MIB),
                    requested_bytes=int(size * MIB),
                    state=state or "inactive",
                )

    def join(self, other: Profile) -> Self:
        """Add the rows of another profile, of the same trace or of another one."""
        known = {row["trace_id"] for row in self.rows["trace"]}
        for table, rows in other.rows.items():
            is_new = table != "trace" or other.head["trace_id"] not in known
            self.rows[table] += rows if is_new else []
        return self
