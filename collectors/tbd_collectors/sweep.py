"""Collect several captures one after another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from tbd_collectors.collect import Result
from tbd_collectors.collection_request import Command, Workload
from tbd_trace.errors import TbdTraceError

Job = tuple[Workload | Command, Path]


def collect_all(
    jobs: Sequence[Job],
    collect_one: Callable[[Workload | Command, Path], Result],
    results: list[Result],
    on_error: Callable[[TbdTraceError], None],
) -> int:
    """Collect each job and return the exit code of the sweep, 0 if all succeeded.

    Results are appended to ``results``, so that they survive an interrupt. ``on_error`` gets the
    error of a job and the others continue; the error of a single job is raised.
    """
    failures = []
    for target, capture in jobs:
        # If a batch exhausted memory, a larger one would too.
        if any(_is_smaller_and_did_not_fit(result, target) for result in results):
            continue
        try:
            results.append(collect_one(target, capture))
        except TbdTraceError as error:
            if len(jobs) == 1:
                raise
            on_error(error)
            failures.append(error.exit_code)
    failures += [result.exit_code for result in results if result.status == "failed"]
    # Exhausting memory ends a sweep over batch sizes as intended; it fails only if none fits.
    if results and all(result.status == "out_of_memory" for result in results):
        failures.append(results[0].exit_code)
    return failures[0] if failures else 0


def _is_smaller_and_did_not_fit(result: Result, target: Workload | Command) -> bool:
    return (
        isinstance(target, Workload)
        and result.status == "out_of_memory"
        and result.document["model"] == target.model
        and result.document["batch_size"] <= target.batch_size
    )
