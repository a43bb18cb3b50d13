"""One page of Markdown about traces, for a ticket or a language model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import polars as pl

from tbd_trace import query as queries
from tbd_trace.analysis.checks import evaluate
from tbd_trace.analysis.checks.evaluation import SEVERITIES
from tbd_trace.analysis.why import why
from tbd_trace.errors import CannotAnswerError
from tbd_trace.present import printable
from tbd_trace.present.markdown import render
from tbd_trace.store.selection import Selection

# Names and numbers of a trace take at least 3 characters per token, so that this is 4,000 tokens.
MOST_CHARACTERS = 12_000
_ROWS = 8  # of a table
_UNKNOWN = "\N{EN DASH}"
_LONGEST_CELL = 80  # characters; names of kernels may have thousands


@dataclass(frozen=True, slots=True)
class _Table:
    # Columns of a query's answer; without `columns` all.
    title: str
    query: str
    columns: tuple[str, ...] = ()


_TABLES = (
    _Table(
        "Iterations",
        "iteration_summary",
        ("measure", "n", "mean_ns", "median_ns", "p95_ns", "stalls", "measured_over", "method"),
    ),
    _Table(
        "GPU utilization",
        "compute_util",
        ("device_id", "gpu_busy_pct", "kernel_busy_pct", "iterations", "measured_over"),
    ),
    _Table("GPU idle time", "idle_causes", ("title", "idle_ns", "elapsed_pct", "gaps", "evidence")),
    _Table(
        "Layers",
        "dominant_layer",
        ("rank", "layer", "layer_type", "gpu_ns", "host_ns", "share_pct", "evidence"),
    ),
    _Table(
        "Kernels",
        "kernel_summary",
        ("kernel_name", "instances", "total_ns", "mean_ns", "share_pct"),
    ),
)
_RECORDING = ("name", "tool", "tool_version", "devices", "duration_ns", "kernels", "nvtx_ranges")


def summary(traces: Selection) -> str:
    """Return one page about traces: verdict, findings, times and their evidence.

    Sections that do not fit in 12,000 characters are named at the end. Times are in ns.

    Raises:
        CannotAnswerError: there are no traces.
        StoreError: a trace is damaged, or was removed while it was read.
    """
    if not traces.trace_ids:
        raise CannotAnswerError("summary: there are no traces; ingest one first")
    parts: list[tuple[str, Callable[[], str]]] = [
        ("Recording", lambda: _table(_result(traces, "trace_info").frame, _RECORDING)),
        ("Why it is slow", lambda: _why(traces)),
        ("Findings", lambda: _findings(traces)),
        *((each.title, _table_text(traces, each)) for each in _TABLES),
    ]
    return "".join(_fitting(parts, MOST_CHARACTERS))


def _fitting(parts: Sequence[tuple[str, Callable[[], str]]], most: int) -> Iterator[str]:
    head = f"# Training profile\n\nTimes are in ns. `{_UNKNOWN}` means unknown.\n"
    left_out = []
    left = most - len(head) - sum(len(title) + 4 for title, _ in parts) - 100
    yield head
    for title, text in parts:
        section = f"\n## {title}\n\n{text()}"
        if len(section) > left:
            left_out.append(title)
        else:
            left -= len(section)
            yield section
    if left_out:
        yield f"\nLeft out, as the page has a limit: {', '.join(left_out)}.\n"


def _result(traces: Selection, name: str) -> queries.Result:
    return queries.execute(traces.database, queries.Catalogue().get(name), traces.trace_ids)


def _why(traces: Selection) -> str:
    try:
        answer = why(traces.database, traces.trace_ids)
    except CannotAnswerError as error:
        return f"{printable(str(error))}\n"
    missing = [f"- {sentence}\n" for sentence in answer.slowest.not_known[:_ROWS]]
    unknown = f"\nNot known:\n\n{''.join(missing)}" if missing else ""
    return answer.markdown() + unknown


def _findings(traces: Selection) -> str:
    frame = evaluate(traces)
    findings = frame.filter(pl.col("verdict") == "finding")
    unknown = frame.filter(pl.col("verdict") == "not evaluable")["rule"].n_unique()
    passed = frame.filter(pl.col("verdict") == "pass")["rule"].n_unique()
    counts = f"{findings.height} findings, {passed} rules passed, {unknown} lack data.\n"
    if findings.is_empty():
        return counts
    ranks = dict(zip(SEVERITIES, range(len(SEVERITIES), 0, -1), strict=True))
    worst = findings.sort(pl.col("severity").replace_strict(ranks), maintain_order=True)
    return counts + "\n" + _table(worst, ("rule", "severity", "reason", "advice"), cell=240)


def _table_text(traces: Selection, table: _Table) -> Callable[[], str]:
    def text() -> str:
        try:
            result = _result(traces, table.query)
        except CannotAnswerError as error:
            return f"{printable(str(error))}\n"
        left = result.frame.height - _ROWS
        more = f"\n{left} more: `tbd-trace query {table.query}`.\n" if left > 0 else ""
        return _table(result.frame, table.columns) + more

    return text


def _table(frame: pl.DataFrame, columns: Sequence[str], cell: int = _LONGEST_CELL) -> str:
    several = "trace_id" in frame.columns and frame["trace_id"].n_unique() > 1
    wanted = [*(["trace_id"] if several else []), *columns]
    shown = frame.select([name for name in wanted if name in frame.columns]).head(_ROWS)
    if shown.is_empty():
        return "no rows\n"
    texts = pl.selectors.string()
    return render(
        shown.with_columns(
            pl.when(texts.str.len_chars() > cell)
            .then(texts.str.head(cell - 1) + "…")
            .otherwise(texts)
            .name.keep()
        )
    )
