"""``tbd-trace query``: run a metric query or a SQL file."""

# polars and duckdb are imported when a command runs, so that `--help` starts fast.
# ruff: noqa: PLC0415
from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tbd_trace import resources
from tbd_trace.cli.options import (
    DEFAULT_DATABASE,
    DaskOption,
    DatabaseOption,
    ExcelSafeOption,
    FormatOption,
    IdsOption,
    LimitOption,
    OutputOption,
    TracesArgument,
    WideOption,
    WorkersOption,
)
from tbd_trace.cli.output import (
    busy,
    chosen_form,
    emit,
    emit_joined,
    emit_text,
    note,
    row_limit,
    with_names,
)
from tbd_trace.cli.spread import executor_of, require_all
from tbd_trace.errors import UsageError
from tbd_trace.present import JOINABLE, Format

if TYPE_CHECKING:
    import polars as pl

    from tbd_trace.api import Traces
    from tbd_trace.query import Query, Result
    from tbd_trace.runtime.executors import Executor


def _complete_name(incomplete: str) -> list[str]:
    return [name for name in resources.sql_files("metrics") if name.startswith(incomplete)]


def query(
    ctx: typer.Context,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME|FILE.sql",
            help="A query that ships with tbd-trace (see --list), or a SQL file.",
            autocompletion=_complete_name,
            show_default=False,
        ),
    ] = None,
    traces: TracesArgument = None,
    *,
    assignments: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Set a parameter of the query; may be repeated.",
            show_default=False,
        ),
    ] = None,
    form: FormatOption = None,
    output: OutputOption = None,
    plot: Annotated[
        Path | None,
        typer.Option("--plot", metavar="FILE", help="Also plot the result: .svg, .png or .pdf."),
    ] = None,
    limit: LimitOption = None,
    wide: WideOption = False,
    excel_safe: ExcelSafeOption = False,
    ids: IdsOption = False,
    workers: WorkersOption = None,
    dask: DaskOption = None,
    list_: Annotated[
        bool, typer.Option("--list", help="List the queries that ship with tbd-trace.")
    ] = False,
    describe: Annotated[
        bool,
        typer.Option(
            "--describe", help="Show the question, required data and columns of NAME, and exit."
        ),
    ] = False,
    as_sql: Annotated[
        bool,
        typer.Option(
            "--sql",
            help="Print the query as a script for a DuckDB shell, and exit.",
        ),
    ] = False,
    db: DatabaseOption = DEFAULT_DATABASE,
    help_: Annotated[
        bool, typer.Option("--help", help="Show this message, or with NAME its description.")
    ] = False,
) -> None:
    """Answer a question about traces with a SQL query.

    NAME is a query that ships with tbd-trace, or your own DuckDB SQL file.
    """
    if list_:
        _list(form, output, wide=wide)
        return
    if name is None:
        if not help_:
            raise UsageError("name a query; `tbd-trace query --list` shows all")
        typer.echo(ctx.get_help())
        return
    from tbd_trace.api import find_query

    query = find_query(name)
    if help_ or describe:
        _describe(query, form)
        return
    parameters = assigned(assignments or [])
    if as_sql:
        from tbd_trace.query import script

        emit_text(script(query, parameters), output)
        return
    if plot is not None:
        _check_plot(query, plot)
    # A plot needs all rows.
    rows = row_limit(form, output, limit) if plot is None else None
    if rows is None and plot is None and (written := chosen_form(form, output)) in JOINABLE:
        missing: list[str] = []
        with (
            executor_of(workers, dask) as executor,
            closing(
                _batches(query, traces or [], db, parameters, executor=executor, missing=missing)
            ) as frames,
        ):
            emit_joined(frames, written, output, excel_safe=excel_safe)
        require_all(missing)
        return
    with executor_of(workers, dask) as executor:
        opened, result = _ask(query, traces or [], db, parameters, rows, executor=executor)
    emit(
        result.frame if ids or opened is None else with_names(result.frame, opened, form, output),
        form,
        output,
        limit=limit,
        units=_units(query),
        more=result.more,
        wide=wide,
        excel_safe=excel_safe,
    )
    if plot is not None:
        draw(opened, result, plot)
    require_all(result.missing)


def _list(form: Format | None, output: Path | None, *, wide: bool) -> None:
    from tbd_trace.query import Catalogue

    metrics = [(query.name, query.question) for query in Catalogue().metrics()]
    if form is None and output is None:
        # Without polars, whose import takes longer than everything else here.
        width = max(len(name) for name, _ in metrics)
        rows = [("name", "question"), *metrics]
        emit_text("".join(f"{name:{width}}  {question}\n" for name, question in rows))
        return
    import polars as pl

    frame = pl.DataFrame(metrics, schema=["name", "question"], orient="row")
    emit(frame, form, output, limit=0, wide=wide)


def _describe(query: Query, form: Format | None) -> None:
    from tbd_trace.present import description

    as_json = form is not None and form.value == "json"
    typer.echo(description.as_json(query) if as_json else description.as_text(query), nl=False)


def assigned(assignments: list[str]) -> dict[str, str]:
    """Parse the values of ``--set NAME=VALUE``.

    Raises:
        UsageError: a value has no name or no equals sign.
    """
    pairs = [assignment.partition("=") for assignment in assignments]
    for name, equals, _ in pairs:
        if not name or not equals:
            raise UsageError(f"--set {name}: expected NAME=VALUE")
    return {name.strip(): value for name, _, value in pairs}


def _ask(
    query: Query,
    traces: list[str],
    db: str,
    parameters: dict[str, str],
    rows: int | None,
    *,
    executor: Executor | None,
) -> tuple[Traces | None, Result]:
    from tbd_trace.api import open_traces
    from tbd_trace.query import execute

    with busy(f"asking {query.name}"):
        if result := _file_result(query, traces, parameters):
            return None, result
        opened = open_traces(*traces, db=db, question=query)
        result = execute(
            opened.database, query, opened.trace_ids, parameters, rows, executor=executor
        )
    for text in result.notes:
        note(text)
    return opened, result


def _batches(
    query: Query,
    traces: list[str],
    db: str,
    parameters: dict[str, str],
    *,
    executor: Executor | None,
    missing: list[str],
) -> Generator[pl.DataFrame]:
    # In batches, because a result may have millions of rows. Traces without an answer are added to
    # `missing`.
    from tbd_trace.api import open_traces
    from tbd_trace.query import execute_batches

    if result := _file_result(query, traces, parameters):
        yield result.frame
        return
    with busy(f"asking {query.name}"):
        opened = open_traces(*traces, db=db, question=query)
        batches = execute_batches(
            opened.database, query, opened.trace_ids, parameters, executor=executor
        )
        # Up to the first batch: errors of the query are raised under the spinner.
        first = next(batches)
    with closing(batches):
        for text in first.notes:
            note(text)
        for batch in chain([first], batches):
            missing += batch.missing
            yield batch.rows


def _file_result(query: Query, traces: list[str], parameters: dict[str, str]) -> Result | None:
    from tbd_trace.query import execute_on_file

    result = execute_on_file(query, parameters)
    if result is not None and traces:
        raise UsageError(f"{traces[0]}: a file replaces the traces; name one or the other")
    return result


def _units(query: Query) -> dict[str, str | None]:
    return {name: column.unit for name, column in query.columns.items()}


def _check_plot(query: Query, path: Path) -> None:
    from tbd_trace.present.plot import check_path

    check_path(path)
    if query.plot is None:
        raise UsageError(f"{query.name} has no plot; add a [plot] table to its header")


def draw(opened: Traces | None, result: Result, path: Path) -> None:
    """Write the plot of a result to a file, whose extension is known."""
    from tbd_trace.present import write
    from tbd_trace.present.plot import render

    query = result.query
    assert query.plot is not None
    names = {} if opened is None else opened.names()
    content = render(
        result.frame,
        query.plot,
        title=query.title,
        form=path.suffix.lower().removeprefix("."),
        units=_units(query),
        trace_names=names,
    )
    write(path, content)
    note(f"wrote {path}")
