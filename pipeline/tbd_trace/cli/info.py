"""``tbd-trace info``: show the contents of a database or a trace."""

# polars and duckdb are imported when a command runs, so that `--help` starts fast.
# ruff: noqa: PLC0415
from __future__ import annotations

from tbd_trace.cli.options import (
    DEFAULT_DATABASE,
    DatabaseOption,
    FormatOption,
    LimitOption,
    OutputOption,
    TracesArgument,
    WideOption,
)
from tbd_trace.cli.output import busy, emit

_QUERY = "trace_info"
# The other columns of the query would not fit a terminal.
_OVERVIEW = (
    "trace_id",
    "name",
    "tool",
    "tool_version",
    "kind",
    "devices",
    "duration_ns",
    "kernels",
    "nvtx_ranges",
)


def info(
    traces: TracesArgument = None,
    *,
    form: FormatOption = None,
    output: OutputOption = None,
    limit: LimitOption = None,
    wide: WideOption = False,
    db: DatabaseOption = DEFAULT_DATABASE,
) -> None:
    """Show the contents of the database or of traces.

    Lists the traces; with TRACE, shows all columns of the query trace_info for each.
    """
    import tbd_trace

    with busy("reading"):
        result = tbd_trace.open(*(traces or []), db=db).run(_QUERY)
    shown = result.frame if traces else result.frame.select(_OVERVIEW)
    units = {name: column.unit for name, column in result.query.columns.items()}
    emit(shown, form, output, limit=limit, units=units, records=bool(traces), wide=wide)
