"""Run the captures of ``tbd-trace collect`` one after another."""

# The collectors are imported when the command runs, so that `--help` starts fast.
# ruff: noqa: PLC0415
from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tbd_trace.cli.collect_results import show_results
from tbd_trace.cli.output import busy, failure, note

if TYPE_CHECKING:
    from tbd_collectors.collect import Result
    from tbd_collectors.collection_request import Command, Profiling, Workload
    from tbd_collectors.sweep import Job

    Search = Callable[[list[Result]], int]  # from the captures so far to the exit code


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings shared by all captures of a command."""

    profiling: Profiling
    compute_capability: str | None
    force: bool
    shown: tuple[int, int]  # descriptors for the output of a command


def run_jobs(
    jobs: list[Job],
    settings: Settings,
    form: Any,
    *,
    wide: bool,
    search: Search | None,
) -> None:
    """Collect all captures, then print a row for each; exit with the code of the last failure."""
    from tbd_collectors.sweep import collect_all

    results: list[Result] = []
    try:
        exit_code = collect_all(
            jobs,
            lambda target, capture: _collect(target, capture, settings),
            results,
            on_error=failure,
        )
        if search is not None and not exit_code:
            exit_code = search(results)
    finally:
        # Also after an interrupt: finished captures stay.
        if results:
            show_results(results, form, wide=wide)
    for result in results:
        if result.kept is not None:
            note("the command runs on; Ctrl-C ends it")
            exit_code = result.kept.wait()
    if exit_code:
        raise typer.Exit(exit_code)


def search_largest(
    device: str, targets: list[Workload | Command], output: Path | None, settings: Settings
) -> Search:
    """Return the search of the largest batch that fits a device, after the captures so far."""
    from tbd_collectors.largest_batch import memory_bytes, search_after
    from tbd_trace.query import Catalogue

    outside = Catalogue().get("memory_vs_batch").params["context_mb"].default
    capacity = memory_bytes(device) - int(float(outside) * 2**20)
    return search_after(
        targets,
        output,
        capacity,
        collect_one=lambda target, capture: _collect(target, capture, settings),
        say=lambda text: note(f"{device}, less {outside:g} MB outside the allocator: {text}"),
    )


def _collect(target: Workload | Command, capture: Path, settings: Settings) -> Result:
    from tbd_collectors.collect import collect as collect_one
    from tbd_collectors.collection_request import Command

    def say(text: str) -> None:
        typer.echo(f"{capture}: {text}", err=True)

    # A spinner would write into the output of a command, which is shown as it is.
    spinner = nullcontext(lambda _text: None) if isinstance(target, Command) else None
    with spinner or busy(f"collecting {capture}") as show:
        result = collect_one(
            target,
            settings.profiling,
            capture,
            force=settings.force,
            compute_capability=settings.compute_capability,
            say=say,
            on_line=show,
            shown=settings.shown,
        )
    for text in result.notes:
        note(f"{capture}: {text}")
    if result.is_earlier_kept:
        failure(f"{capture}: {result.reason}; nothing is recorded, so the earlier capture is kept")
    elif result.status != "ok":
        failure(f"{capture}: {result.reason}; its output is in {capture}/*.log")
    return result
