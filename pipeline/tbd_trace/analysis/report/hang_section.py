"""Section of a report with the answer of ``tbd-trace hang``."""

from __future__ import annotations

import polars as pl

from tbd_trace.analysis.hang.job import listed
from tbd_trace.analysis.hang.loading import load_jobs
from tbd_trace.analysis.hang.rules import diagnose
from tbd_trace.analysis.hang.verdict import named
from tbd_trace.analysis.report.page import Block, Note, Section, Table
from tbd_trace.analysis.report.report_query import QueryRunner
from tbd_trace.store.selection import Selection

FORMAT = "flight-recorder-dump"
_MOST_ROWS = 200
_INTRO = (
    "Which rank hangs the job, at which collective and line? A collective that has ended with gloo "
    "can also have failed."
)


def hang_section(traces: Selection, runner: QueryRunner, frame: pl.DataFrame) -> list[Section]:
    """Return the section on Flight Recorder dumps, none without a dump.

    Args:
        frame: the catalogue of the traces.
    """
    if FORMAT not in frame["format"].to_list():
        return []
    blocks: list[Block] = []
    for job in load_jobs(traces.database, traces.trace_ids):
        verdict = diagnose(job)
        culprits = listed(verdict.ranks) if verdict.ranks else "no rank is named"
        sentences = [f"Job {job.name}: {culprits}: {verdict.evidence}."]
        if verdict.call is not None:
            at = f" at `{verdict.place}`" if verdict.place else ""
            sentences.append(f"The collective is {named(job, verdict.call)}{at}.")
        if verdict.waiting:
            sentences.append(f"Waiting: {listed(verdict.waiting)}.")
        blocks += [Note(" ".join(sentences)), Note(f"Next: {verdict.action}.")]
    for name in ("rank_collectives", "collective_ranks"):
        answer = runner.run(name)
        if answer.reason:
            blocks.append(Note(answer.reason, "missing"))
            continue
        blocks.append(
            Table(
                answer.frame,
                answer.units,
                answer.label,
                filterable=True,
                limit=_MOST_ROWS,
                caption=answer.query.title,
                docs=answer.docs,
            )
        )
    return [Section("hang", "Hang", _INTRO, blocks)]


def has_only_dumps(frame: pl.DataFrame) -> bool:
    """Return True if all traces are Flight Recorder dumps, which have no times of operations."""
    return bool((frame["format"] == FORMAT).all())
