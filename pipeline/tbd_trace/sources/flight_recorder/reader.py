"""Source for dumps of PyTorch's Flight Recorder."""

from __future__ import annotations

from pathlib import Path

from tbd_trace.sources.base import TraceDescription
from tbd_trace.sources.flight_recorder.dump import (
    entries_of,
    load_dump,
    looks_like_dump,
    rank_in_name,
)
from tbd_trace.sources.flight_recorder.groups import group_rows
from tbd_trace.sources.flight_recorder.records import record_row
from tbd_trace.sources.row_reader import RowReader


class FlightRecorderDump:
    """Source for a dump of one rank."""

    format = "flight-recorder-dump"

    def detect(self, path: Path, head: bytes) -> bool:
        """Return True if a file begins like a dump."""
        return looks_like_dump(head)

    def open(self, path: Path) -> RowReader:
        """Read a detected file.

        Raises:
            InputError: the file is damaged, of an unsupported version, or names a class.
        """
        document = load_dump(path)
        entries = entries_of(document)
        records = [record_row(entry, number) for number, entry in enumerate(entries)]
        rank = rank_in_name(path.name)
        notes = [] if records else ["the dump has no records; this rank recorded no collective"]
        if rank is None:
            notes.append("the file name has no rank; name it after the rank, such as dump_0")
        backends = {record["backend"] for record in records} - {None}
        version = document.get("nccl_version") or document.get("comm_lib_version")
        description = TraceDescription(
            "flight-recorder",
            "summary",
            tool_version=version if isinstance(version, str) else None,
            schema_version=str(document["version"]),
            utc_start_ns=0,
            notes=notes,
        )
        job_rank = {
            "rank": rank,
            "backend": next(iter(backends)) if len(backends) == 1 else None,
            "evidence": "file name",
        }
        rows = {
            "flight_record": records,
            "flight_group": group_rows(document, entries),
            "job_rank": [] if rank is None else [job_rank],
        }
        return RowReader(rows, description)


FLIGHT_RECORDER_DUMP = FlightRecorderDump()
