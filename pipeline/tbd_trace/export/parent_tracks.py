"""What the events of a timeline lie under: processes, threads, devices."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tbd_trace.export.packets import Packets


class ParentTracks:
    """The tracks that hold others; each is made when it is first asked for.

    Args:
        packets: where they are written to.
        rows: the rows of ``queries/export/parent_tracks.sql``.
    """

    def __init__(self, packets: Packets, rows: Iterable[tuple[Any, ...]]) -> None:
        self._packets = packets
        self._known: dict[tuple[str, int | None, int | None], tuple[int | None, str | None]] = {}
        for place, process_id, place_id, number, name in rows:
            self._known.setdefault((place, process_id, place_id), (number, name))
        self._tracks: dict[Hashable, int] = {}

    def _of(
        self, place: str, process_id: int | None, place_id: int | None
    ) -> tuple[int | None, str | None]:
        """Return number and name of a place, None for what is not known."""
        return self._known.get((place, process_id, place_id), (None, None))

    def _made(self, key: Hashable, make: Callable[[], int]) -> int:
        if key not in self._tracks:
            self._tracks[key] = make()
        return self._tracks[key]

    def process(self, process_id: int | None) -> int:
        """Return the track of a process."""
        pid, name = self._of("process", process_id, process_id)
        shown = name or f"Process {'unknown' if pid is None else pid}"
        return self._made(("process", process_id), lambda: self._packets.process(pid, shown))

    def thread(self, process_id: int | None, thread_id: int) -> int:
        """Return the track of a thread."""
        process = self.process(process_id)
        pid, _ = self._of("process", process_id, process_id)
        tid, name = self._of("thread", process_id, thread_id)
        shown = name or f"Thread {thread_id if tid is None else tid}"
        return self._made(
            ("thread", process_id, thread_id),
            lambda: self._packets.thread(process, pid, tid, shown),
        )

    def device(self, process_id: int | None, device_id: int | None) -> int:
        """Return the track of a device, as one process numbers it."""
        pid, _ = self._of("process", process_id, process_id)
        _, own = self._of("device", process_id, device_id)
        _, shared = self._of("device", None, device_id)
        words = ["GPU", "unknown" if device_id is None else str(device_id), own or shared or ""]
        used_by = "" if pid is None else f", process {pid}"
        name = " ".join(filter(None, words)) + used_by
        return self._made(("device", process_id, device_id), lambda: self._packets.track(name))

    def gpu_metrics(self, gpu_id: int | None) -> int:
        """Return the track of the metrics that were sampled on a GPU."""
        name = "GPU metrics" if gpu_id is None else f"Metrics of GPU {gpu_id}"
        return self._made(("metrics", gpu_id), lambda: self._packets.track(name))
