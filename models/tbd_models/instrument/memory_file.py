"""Write memory.jsonl: a header and one line per memory event."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

# Lines kept in memory before they are written.
_BLOCK = 4096


class MemoryFile:
    """Write memory events beside ``path`` and publish them there on ``close``.

    Args:
        path: the file to write.
        header: entries of the header besides format, version and unit of time.
        timed: record the time of each event; estimates have none.
    """

    def __init__(self, path: Path, header: dict[str, Any], *, timed: bool = True) -> None:
        self._path = path
        self._beside = path.with_name(f".{path.name}.{os.getpid()}")
        self._file = self._beside.open("w", encoding="utf-8")
        self._process = os.getpid()
        self._clock = time.perf_counter_ns if timed else None
        # Finalizers run at any allocation, also during a write. They only append to this list,
        # because a nested write would fail.
        self._lines: list[str] = []
        first = {"format": "tbd-trace memory", "version": 1, "time_unit": "ns"}
        self._lines.append(_line(first | {"live_before_bytes": 0} | header))

    def alloc(self, address: int, size: int, **details: Any) -> None:
        """Write an allocation of ``size`` bytes; details without value are left out."""
        self._add({"action": "alloc", "address": address, "bytes": size, **details})

    def free(self, address: int, size: int) -> None:
        """Write the end of an allocation."""
        self._add({"action": "free", "address": address, "bytes": size})

    def classify(self, address: int, kind: str, layer: str | None = None) -> None:
        """Write the class of a live allocation, which replaces the class it was born with."""
        self._add({"action": "classify", "address": address, "class": kind, "layer": layer})

    def device(self, used: int, total: int, reserved: int) -> None:
        """Write a reading: bytes in use on the device, its size, bytes of the allocator."""
        self._add({"action": "device", "used": used, "total": total, "reserved": reserved})

    def close(self) -> None:
        """Write the rest and rename the file to its final name."""
        if self._file.closed or os.getpid() != self._process:
            return
        self._flush()
        self._file.close()
        self._beside.replace(self._path)

    def discard(self) -> None:
        """Remove the file without publishing it."""
        self._file.close()
        self._beside.unlink(missing_ok=True)

    def _add(self, event: dict[str, Any]) -> None:
        # A forked worker of a data loader inherits the recorder, but not the right to write.
        if self._file.closed or os.getpid() != self._process:
            return
        time_entry = {} if self._clock is None else {"t": self._clock()}
        self._lines.append(_line(time_entry | event))
        if len(self._lines) >= _BLOCK:
            self._flush()

    def _flush(self) -> None:
        lines, self._lines = self._lines, []
        self._file.writelines(lines)


def _line(event: dict[str, Any]) -> str:
    present = {name: value for name, value in event.items() if value is not None}
    return json.dumps(present, separators=(",", ":")) + "\n"
