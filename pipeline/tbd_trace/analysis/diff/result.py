"""The result of a comparison, as text, JSON, or one long table."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from html import escape
from typing import Any

import polars as pl

from tbd_trace.analysis.diff.headline import headline
from tbd_trace.analysis.diff.verdict import Verdict
from tbd_trace.analysis.diff.work import Work, differences
from tbd_trace.present import Format, Style, render
from tbd_trace.present.values import capitalized, plain
from tbd_trace.query import Query
from tbd_trace.query.needs import named

_COLUMNS = {
    "comparability": ("field", "a", "b", "matters"),
    "work": ("what", "quantity", "a", "b", "ratio", "a_name", "b_name"),
    "iterations": (
        *("rank", "measure", "n_a", "n_b", "mean_a_ns", "mean_b_ns"),
        *("median_a_ns", "median_b_ns"),
        *("change_pct", "low_pct", "high_pct", "noise_pct", "verdict"),
    ),
    "utilization": ("rank", "measure", "evidence", "a_pct", "b_pct", "change_points"),
    "ranks": (
        *("rank", "place", "measure", "a_ns", "b_ns", "change_ns", "change_pct", "a_last_pct"),
        "b_last_pct",
    ),
    "collectives": (
        *("kind", "bytes", "group_size", "basis", "a_collectives", "b_collectives"),
        *("a_median_ns", "b_median_ns", "change_pct"),
        *("a_busbw_bytes_per_s", "b_busbw_bytes_per_s"),
    ),
    "memory": (
        *("rank", "allocator", "memory_kind", "measure", "a_bytes", "b_bytes"),
        *("change_bytes", "change_pct", "evidence_a", "evidence_b"),
    ),
    "memory_lines": (
        *("rank", "allocator", "class", "line", "a_bytes", "b_bytes", "change_bytes"),
        *("a_allocations", "b_allocations"),
    ),
    "layers": ("layer", "phase", "status", "a_ns", "b_ns", "change_ns", "change_pct"),
    "kernels": (
        *("kernel_name", "grid", "block", "status", "a_calls", "b_calls"),
        *("a_ns", "b_ns", "change_ns", "calls_effect_ns", "duration_effect_ns"),
    ),
}
_OPTIONAL = ("ranks", "collectives", "memory", "memory_lines")  # omitted without rows
_LIMITED = ("collectives", "memory_lines", "layers", "kernels")  # may have thousands of rows
_UNCHANGED = {
    "comparability": "no known difference",
    "work": "no known difference",
    "iterations": "no iterations are known on both sides",
    "utilization": "no GPU utilization is known on both sides",
    "layers": "no layer's time changed",
    "kernels": "no kernel changed beyond noise",
}


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two runs."""

    names: list[str]  # names of its traces without metric runs
    trace_ids: list[str]  # ids of all its traces


@dataclass(frozen=True, slots=True, repr=False)
class Comparison:
    """Result of a comparison."""

    a: Side  # the baseline
    b: Side  # the run that is compared with it
    queries: Mapping[str, Query]  # the queries of ``queries/diff`` by name
    # results by query name; without rows if the traces lack the data
    frames: Mapping[str, pl.DataFrame]
    verdict: Verdict  # verdict on the iteration time of B
    work: Work  # whether a step does the same work

    def to_dict(self) -> dict[str, Any]:
        """Return the verdict and all rows as plain values; unknown ones are None."""
        return as_dict(self)

    def __repr__(self) -> str:
        return f"<Comparison: B against A: {headline(self.verdict, self.work)}>"

    def __str__(self) -> str:
        return as_text(self, Format.TABLE, 10, Style(plain=True))

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a comparison for display."""

    name: str
    title: str
    frame: pl.DataFrame  # changed rows in descending order of importance
    units: Mapping[str, str | None]
    remark: str  # line below the rows, may be empty


def parts(comparison: Comparison, limit: int) -> list[Part]:
    """Return the parts of a comparison with the first ``limit`` layers and kernels, 0 for all."""
    return [
        _part(comparison, name, limit)
        for name in _COLUMNS
        if name not in _OPTIONAL or not comparison.frames[name].is_empty()
    ]


def _part(comparison: Comparison, name: str, limit: int) -> Part:
    query, frame = comparison.queries[name], comparison.frames[name]
    rows = changed(name, frame)
    shown = rows.head(limit) if limit and name in _LIMITED else rows
    remark = "" if rows.height else f"{_UNCHANGED[name]} ({frame.height} compared)"
    if shown.height < rows.height:
        remark = f"{shown.height:,} of {rows.height:,} rows shown; --limit 0 shows all"
    units = {column: doc.unit for column, doc in query.columns.items()}
    return Part(name, query.title, shown.select(_COLUMNS[name]), units, remark)


def changed(name: str, frame: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of a query's result that show a difference."""
    # The others have few rows: all are shown.
    match name:
        case "comparability":
            return frame.filter(pl.col("differs"))
        case "work":
            equal = pl.col("a").eq_missing(pl.col("b"))
            return frame.filter(~(equal & pl.col("a_name").eq_missing(pl.col("b_name"))))
        case "kernels":
            return frame.filter(pl.col("status").is_not_null())
        case "layers":
            return frame.filter((pl.col("change_ns") != 0) | pl.col("change_ns").is_null())
        case _:
            return frame


def heading(comparison: Comparison) -> list[str]:
    """Return the names of both sides, the verdict and its caveats as lines."""
    verdict = comparison.verdict
    return [
        f"A: {named(comparison.a.names)}",
        f"B: {named(comparison.b.names)}",
        f"B against A: {headline(verdict, comparison.work)}. {capitalized(verdict.sentence)}",
        *verdict.caveats,
    ]


def as_text(comparison: Comparison, form: Format, limit: int, style: Style) -> str:
    """Format a comparison as tables or Markdown with the first ``limit`` layers and kernels."""
    markdown = form is Format.MARKDOWN
    gap, mark = ("\n\n", "## ") if markdown else ("\n", "")
    blocks = [gap.join(heading(comparison)) + "\n"]
    for part in parts(comparison, limit):
        lines = [f"{mark}{part.title}\n"]
        if not part.frame.is_empty():
            lines.append(render(part.frame, form, units=part.units, style=style).decode())
        if part.remark:
            lines.append(f"{part.remark}\n")
        blocks.append(("\n" if markdown else "").join(lines))
    return "\n".join(blocks)


def as_dict(comparison: Comparison) -> dict[str, Any]:
    """Return the verdict, both sides and all rows of all queries as plain values."""
    rows = {name: plain(frame.to_dicts()) for name, frame in comparison.frames.items()}
    work = {**plain(asdict(comparison.work)), "quantities": rows.pop("work")}
    sides = {"a": asdict(comparison.a), "b": asdict(comparison.b)}
    return {"verdict": plain(asdict(comparison.verdict)), "work": work, **sides, **rows}


def as_json(comparison: Comparison) -> str:
    """Format a comparison as a JSON object with the verdict and all rows of all queries."""
    return json.dumps(as_dict(comparison), ensure_ascii=False, indent=1) + "\n"


def as_frame(comparison: Comparison) -> pl.DataFrame:
    """Return a comparison as one table: part, subject, a, b, change, verdict."""
    verdict, work = comparison.verdict, comparison.work
    head = pl.DataFrame(
        {
            "part": ["verdict", "work"],
            "subject": [verdict.sentence, differences(work.differs) or work.reason],
            "a": [None, None],
            "b": [None, None],
            "change": [verdict.change_pct, None],
            "verdict": [str(verdict.word), str(work.verdict)],
        },
        schema=_LONG_SCHEMA,
    )
    return pl.concat([head, *(_long(name, frame) for name, frame in comparison.frames.items())])


_LONG_SCHEMA: dict[str, type[pl.DataType]] = {
    "part": pl.String,
    "subject": pl.String,
    "a": pl.String,
    "b": pl.String,
    "change": pl.Float64,
    "verdict": pl.String,
}


@dataclass(frozen=True, slots=True)
class _Long:
    # Columns of a query that become the columns of the long table.

    subject: tuple[str, ...]
    a: str
    b: str
    change: str | None
    verdict: str | None


_LONG = {
    "comparability": _Long(("field",), "a", "b", None, "matters"),
    "work": _Long(("quantity",), "a", "b", "ratio", None),
    "iterations": _Long(("rank", "measure"), "mean_a_ns", "mean_b_ns", "change_ns", "verdict"),
    "utilization": _Long(("rank", "measure", "evidence"), "a_pct", "b_pct", "change_points", None),
    "ranks": _Long(("rank", "place", "measure"), "a_ns", "b_ns", "change_ns", "b_verdict"),
    "collectives": _Long(
        ("kind", "bytes", "group_size", "basis"), "a_median_ns", "b_median_ns", "change_pct", None
    ),
    "memory": _Long(
        ("rank", "allocator", "memory_kind", "measure"), "a_bytes", "b_bytes", "change_bytes", None
    ),
    "memory_lines": _Long(
        ("rank", "allocator", "class", "line"), "a_bytes", "b_bytes", "change_bytes", None
    ),
    "layers": _Long(("layer", "phase"), "a_ns", "b_ns", "change_ns", "status"),
    "kernels": _Long(("kernel_name", "grid", "block"), "a_ns", "b_ns", "change_ns", "status"),
}


def _long(name: str, frame: pl.DataFrame) -> pl.DataFrame:
    columns = _LONG[name]
    nothing = pl.lit(None)
    return frame.select(
        part=pl.lit(name),
        subject=pl.concat_str(
            [pl.col(c).cast(pl.String) for c in columns.subject], separator=" ", ignore_nulls=True
        ),
        a=pl.col(columns.a).cast(pl.String),
        b=pl.col(columns.b).cast(pl.String),
        change=(pl.col(columns.change) if columns.change else nothing).cast(pl.Float64),
        verdict=(pl.col(columns.verdict) if columns.verdict else nothing).cast(pl.String),
    )
