"""``tbd-trace diff``: compare two runs."""

# polars and duckdb are imported when a command runs, so that `--help` starts fast.
# ruff: noqa: PLC0415
from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tbd_trace.cli.options import DEFAULT_DATABASE, DatabaseOption, FormatOption, WideOption
from tbd_trace.cli.output import busy, emit, emit_text, note, style_of
from tbd_trace.errors import CannotAnswerError, TbdTraceError, UsageError
from tbd_trace.present import Format, format_of

if TYPE_CHECKING:
    from tbd_trace.analysis.diff import Comparison

_ROWS = 10  # layers and kernels in a table; the largest changes come first
_SIDE = (
    "a profiler file, a capture directory, an archive (path or URL), or the id or name of a trace "
    "in the database."
)


def diff(
    a: Annotated[str, typer.Argument(metavar="A", help=f"Run to compare with: {_SIDE}")],
    b: Annotated[str, typer.Argument(metavar="B", help="Run to compare with A.")],
    *,
    max_slowdown: Annotated[
        str | None,
        typer.Option(
            "--max-slowdown",
            metavar="PERCENT",
            help="Exit with 1 if an iteration of B takes more than PERCENT longer, beyond noise, "
            "or does less work, and with 3 if that cannot be determined.",
            show_default=False,
        ),
    ] = None,
    allow_less_work: Annotated[
        bool,
        typer.Option(
            "--allow-less-work",
            help="With --max-slowdown, accept iterations of B that do less work.",
        ),
    ] = False,
    min_change: Annotated[
        str,
        typer.Option(
            "--min-change",
            metavar="PERCENT",
            help="Smallest change that counts, even if the noise within the runs is smaller.",
        ),
    ] = "1%",
    form: FormatOption = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write to FILE, not to standard output; a page if it ends in .html.",
        ),
    ] = None,
    limit: Annotated[
        int,
        typer.Option(
            "--limit",
            metavar="N",
            min=0,
            help="Show N layers and kernels in tables, 0 for all.",
        ),
    ] = _ROWS,
    wide: WideOption = False,
    db: DatabaseOption = DEFAULT_DATABASE,
) -> None:
    """Compare two runs: is B faster than A, at the same work, and where?

    States first whether an iteration of B is faster beyond noise, and whether it does the same
    work, from the shapes of operators. Then lists other differences between the runs, and
    compares work, iterations, use of the GPU, memory, layers and kernels.
    """
    # Options are parsed before the traces are read, which may take minutes.
    limit_pct = None if max_slowdown is None else percent("--max-slowdown", max_slowdown)
    min_change_pct = percent("--min-change", min_change)
    page = output is not None and output.suffix.lower() in (".html", ".htm")
    if form is None and output is not None and not page:
        form = format_of(output)
    from tbd_trace.analysis.diff import compare
    from tbd_trace.api import open_traces

    with busy("comparing"):
        sides = [open_traces(side, db=db) for side in (a, b)]
        comparison = compare(*sides, min_change_pct=min_change_pct)
    if page and form is None:
        assert output is not None
        _write_page(comparison, output)
    else:
        _emit(comparison, form or Format.TABLE, output, limit, wide=wide)
    if limit_pct is not None:
        check(comparison, limit_pct, allow_less_work=allow_less_work)


def percent(option: str, text: str) -> float:
    """Parse a percentage such as ``5%`` or ``5``.

    Raises:
        UsageError: it is not a percentage, or negative.
    """
    try:
        value = float(text.strip().removesuffix("%"))
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise UsageError(f"{option} {text}: expected a percentage, such as 5%")
    return value


def check(comparison: Comparison, limit_pct: float, *, allow_less_work: bool = False) -> None:
    """Fail if B is slower than A by more than ``limit_pct`` percent, beyond noise.

    Raises:
        CannotAnswerError: the change of iteration time is unknown.
        TbdTraceError: B is slower, or does less work and ``allow_less_work`` is false.
    """
    from tbd_trace.analysis.diff import SameWork, Word
    from tbd_trace.analysis.diff.work import differences

    verdict, work = comparison.verdict, comparison.work
    if work.verdict is SameWork.LESS and not allow_less_work:
        raise TbdTraceError(
            f"B does less work than A: {differences(work.differs)}; --allow-less-work accepts that"
        )
    if verdict.change_pct is None:
        raise CannotAnswerError(f"--max-slowdown cannot be checked: {verdict.sentence}")
    if verdict.word is Word.SLOWER and verdict.change_pct > limit_pct:
        raise TbdTraceError(
            f"B is {verdict.change_pct:.2f} % slower than A, beyond noise; "
            f"--max-slowdown allows {limit_pct:g} %"
        )


def _emit(
    comparison: Comparison, form: Format, output: Path | None, limit: int, *, wide: bool
) -> None:
    from tbd_trace.analysis.diff import result

    match form:
        case Format.JSON:
            emit_text(result.as_json(comparison), output)
        case Format.CSV | Format.PARQUET:
            emit(result.as_frame(comparison), form, output)
        case _:
            style = style_of(output is None and sys.stdout.isatty(), wide=wide)
            emit_text(result.as_text(comparison, form, limit, style), output)


def _write_page(comparison: Comparison, path: Path) -> None:
    from tbd_trace.analysis.diff.page import render
    from tbd_trace.present import write

    write(path, render(comparison))
    note(f"wrote {path}")
