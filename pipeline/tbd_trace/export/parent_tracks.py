"""Tracks of processes, threads and devices, which contain the tracks of events."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tbd_trace.export.packets import Packets


class ParentTracks:
    """Parent tracks, written on first use.

    Args:
        rows: rows of ``queries/export/parent_tracks.sql``.
    """

    def __init__(self, packets: Packets, rows: Iterable[tuple[Any, ...]]) -> None:
        self._packets = packets
        self._known: dict[tuple[str, int | None, int | None], tuple[int | None, str | None]] = {}
        for place, process_id, place_id, number, name in rows:
            self._known.setdefault((place, process_id, place_id), (number, name))
        self._tracks: dict[Hashable, int] = {}

    def _described(
        self, place: str, process_id: int | None, place_id: int | None
    ) -> tuple[int | None, str | None]:
        # Number (pid, tid) and name; None if unknown.
        return self._known.get((place, process_id, place_id), (None, None))

    def _cached(self, key: Hashable, make: Callable[[], int]) -> int:
        if key not in self._tracks:
            self._tracks[key] = make()
        return self._tracks[key]

    def process(self, process_id: int | None) -> int:
        pid, name = self._described("process", process_id, process_id)
        shown = name or f"Process {'unknown' if pid is None else pid}"
        return self._cached(("process", process_id), lambda: self._packets.process(pid, shown))

    def thread(self, process_id: int | None, thread_id: int) -> int:
        process = self.process(process_id)
        pid, _ = self._described("process", process_id, process_id)
        tid, name = self._described("thread", process_id, thread_id)
        shown = name or f"Thread {thread_id if tid is None else tid}"
        return self._cached(
            ("thread", process_id, thread_id),
            lambda: self._packets.thread(process, pid, tid, shown),
        )

    def device(self, process_id: int | None, device_id: int | None) -> int:
        # Device ids are per process: CUDA_VISIBLE_DEVICES may renumber the GPUs.
        pid, _ = self._described("process", process_id, process_id)
        _, own = self._described("device", process_id, device_id)
        _, shared = self._described("device", None, device_id)
        words = ["GPU", "unknown" if device_id is None else str(device_id), own or shared or ""]
        used_by = "" if pid is None else f", process {pid}"
        name = " ".join(filter(None, words)) + used_by
        return self._cached(("device", process_id, device_id), lambda: self._packets.track(name))

    def gpu_metrics(self, gpu_id: int | None) -> int:
        name = "GPU metrics" if gpu_id is None else f"Metrics of GPU {gpu_id}"
        return self._cached(("metrics", gpu_id), lambda: self._packets.track(name))

    def memory(
        self,
        process_id: int | None,
        device_id: int | None,
        allocator: str | None,
        memory_kind: str | None,
    ) -> int:
        pid, _ = self._described("process", process_id, process_id)
        place = "Host memory" if device_id is None else f"Memory of GPU {device_id}"
        used_by = None if pid is None else f"process {pid}"
        name = ", ".join(filter(None, (place, used_by, allocator, memory_kind)))
        key = ("memory", process_id, device_id, allocator, memory_kind)
        return self._cached(key, lambda: self._packets.track(name))
