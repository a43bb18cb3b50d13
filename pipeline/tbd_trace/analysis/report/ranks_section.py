"""Headline numbers of distributed jobs and remarks of their chapter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from tbd_trace.analysis.report.page import Figure, Figures
from tbd_trace.analysis.report.report_query import QueryRunner
from tbd_trace.present.values import NULL

ID = "ranks"
"""HTML id of the chapter."""

Row = Mapping[str, Any]


def has_ranks(runner: QueryRunner) -> bool:
    """Return True if the traces are ranks of a job, or measure the links of one."""
    return bool(_jobs(runner)) or not runner.run("link_summary").frame.is_empty()


def job_figures(runner: QueryRunner) -> list[Figures]:
    """Return a row of numbers per job of several ranks."""
    verdicts = _first_by_job(runner.run("straggler").frame)
    return [
        Figures([_ranks(job), _straggler(verdicts.get(job["job"]))], f"Job {job['job']}")
        for job in _jobs(runner)
    ]


def verdicts_of(frame: pl.DataFrame) -> str:
    """Return the verdict on each job, from rows of ``straggler``."""
    texts = [f"{job}: {_verdict(row)}" for job, row in _first_by_job(frame).items()]
    return f"{'; '.join(texts)}." if texts else ""


def _jobs(runner: QueryRunner) -> list[Row]:
    frame = runner.run("job_summary").frame
    return [row for row in frame.to_dicts() if max(_ranks_of(row)) > 1]


def _ranks_of(row: Row) -> tuple[int, int]:
    return row["ranks_present"], row["world_size"] or 0


def _first_by_job(frame: pl.DataFrame) -> dict[str, Row]:
    # Of each job the straggler, else the rank that is last most often.
    rows: Sequence[Row] = [] if frame.is_empty() else frame.to_dicts()
    first: dict[str, Row] = {}
    for row in sorted(rows, key=lambda row: not row["is_straggler"]):
        first.setdefault(row["job"], row)
    return first


def _ranks(job: Row) -> Figure:
    present, world = _ranks_of(job)
    value = f"{present}" if world <= present else f"{present} of {world}"
    details = [f"rank {job['missing_ranks']} is missing" if job["missing_ranks"] else ""]
    details.append(f"{job['collectives_matched']:,} of {job['collectives']:,} collectives matched")
    return Figure(
        "Ranks", value, "", f"ranks from {job['rank_evidence']}", "job_summary",
        "; ".join(filter(None, details)), ID,
    )  # fmt: skip


def _straggler(row: Row | None) -> Figure:
    label, query = "Straggler", "straggler"
    if row is None:
        return Figure(label, NULL, query=query, detail="no matched collectives", link=ID)
    value = {"same rank": f"rank {row['rank']}", "rotating": "none"}.get(row["verdict"], NULL)
    evidence = "starts of matched collectives on one clock"
    return Figure(label, value, "", evidence, query, _verdict(row), ID)


def _verdict(row: Row) -> str:
    late = ""
    if row["median_lateness_when_last_ns"] is not None:
        late = f", by {row['median_lateness_when_last_ns'] / 1e6:.4g} ms"
        if row["lateness_pct"] is not None:
            late += f" ({row['lateness_pct']:.3g} % of an iteration)"
    return f"{row['verdict']}: {row['reason']}{late}"
