"""The answer of ``tbd-trace hang``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tbd_trace.analysis.hang.dump_files import find_dumps, ingest_dumps
from tbd_trace.analysis.hang.job import Job
from tbd_trace.analysis.hang.loading import load_jobs
from tbd_trace.analysis.hang.log_lines import LogLine, find_log_lines
from tbd_trace.analysis.hang.rules import diagnose
from tbd_trace.analysis.hang.verdict import Verdict, named
from tbd_trace.store.base import TraceStore


@dataclass(frozen=True, slots=True)
class Hang:
    """Which ranks hang a job, where, and who waits."""

    job: Job
    verdict: Verdict
    logs: Sequence[LogLine] = ()  # lines of logs beside the dumps
    notes: Sequence[str] = ()  # files that were left out

    @property
    def collective(self) -> str | None:
        """The collective in words, None if none is known."""
        call = self.verdict.call
        return None if call is None else named(self.job, call)

    @property
    def since(self) -> str | None:
        """Time of the call that waits longest, as UTC text; None if it is unknown."""
        call = self.verdict.call
        if call is None or call.created_ns is None:
            return None
        return datetime.fromtimestamp(call.created_ns / 1e9, UTC).strftime("%Y-%m-%d %H:%M:%S")

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as plain values; ``ranks`` is empty if no rank is named."""
        verdict = self.verdict
        return {
            "ranks": sorted(verdict.ranks),
            "collective": self.collective,
            "line": None if verdict.place is None else str(verdict.place),
            "evidence": verdict.evidence,
            "waiting": list(verdict.waiting),
            "rule": verdict.rule,
            "since": self.since,
            "action": verdict.action,
            "job": self.job.name,
            "dumps": {str(rank): known.dump for rank, known in sorted(self.job.ranks.items())},
            "logs": [f"{line.file}: {line.text}" for line in self.logs],
            "notes": list(self.notes),
        }


def explain_hang(
    directory: Path, world_size: int | None = None
) -> tuple[Hang, TraceStore, list[str]]:
    """Explain the hang of a job from the dumps in a directory.

    Args:
        world_size: number of ranks, None if only the dumps show it.

    Returns:
        The answer, and store and ids of the dumps.

    Raises:
        InputError: the directory is missing, or a pickle names a class or function.
        UsageError: two dumps have the same rank.
        CannotAnswerError: the directory has no dump.
    """
    found = find_dumps(directory)
    store, trace_ids = ingest_dumps(found, world_size)
    (job,) = load_jobs(store, trace_ids)
    return Hang(job, diagnose(job), find_log_lines(found.logs), found.notes), store, trace_ids
