"""Several captures, one after the other."""

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
    """Collect everything that can be collected, and return the exit code of the whole.

    A model whose batch did not fit is not tried with a larger one; that is a failure only where no
    batch of any model did.

    Args:
        jobs: what to collect, and the directory that it makes.
        collect_one: collects one of them.
        results: gets what was collected, so that it is there after an interrupt too.
        on_error: called with the error of one among several jobs; the others go on.

    Raises:
        TbdTraceError: the only job failed.
    """
    failures = []
    for target, capture in jobs:
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
