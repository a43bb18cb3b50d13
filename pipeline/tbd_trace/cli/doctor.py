"""``tbd-trace doctor``: report the profilers, frameworks, GPUs and permissions of this machine."""

# polars and duckdb are imported when a command runs, so that `--help` starts fast.
# ruff: noqa: PLC0415
from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from tbd_trace.cli.options import (
    DEFAULT_DATABASE,
    DatabaseOption,
    FormatOption,
    OutputOption,
    WideOption,
)
from tbd_trace.cli.output import busy, emit
from tbd_trace.errors import StoreError

if TYPE_CHECKING:
    from tbd_trace.machine.inspection import Finding
    from tbd_trace.store import Database


def doctor(
    *,
    form: FormatOption = None,
    output: OutputOption = None,
    wide: WideOption = False,
    db: DatabaseOption = DEFAULT_DATABASE,
) -> None:
    """Report what this machine can collect and analyse.

    Checks Python and its libraries, the profilers, the frameworks and their interpreters, the GPU,
    the permissions for hardware counters and CPU sampling, and the storage of traces, whose files
    are compared with their checksums; shows how to install missing parts. The exit code is 1 if a
    file is damaged.
    """
    import polars as pl

    from tbd_collectors import environments
    from tbd_trace.machine.inspection import examine
    from tbd_trace.query.profile_cache import cache_database
    from tbd_trace.store import Database

    with busy("looking around"):
        pythons = {name: environments.usual_interpreter(name) for name in environments.recipes()}
        findings = [
            *examine(pythons),
            _storage("database", Database(Path(db))),
            _storage("cache", cache_database()),
        ]
    emit(pl.DataFrame(findings), form, output, limit=0, wide=wide)
    if any(finding.status == "damaged" for finding in findings):
        raise typer.Exit(StoreError.exit_code)


def _storage(check: str, database: Database) -> Finding:
    from tbd_trace.machine.inspection import Finding, storage
    from tbd_trace.store.checksums import problems_of

    if problems := problems_of(database.traces_directory, database.trace_ids()):
        more = f" and {len(problems) - 1} more" if len(problems) > 1 else ""
        advice = "remove this directory and ingest the profile again"
        return Finding(check, "damaged", problems[0] + more, advice)
    count = len(database.trace_ids())
    contents = f"{count} trace{'' if count == 1 else 's'}" if database.exists() else "not made yet"
    return storage(check, database.path, contents)
