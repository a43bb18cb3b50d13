"""Format a comparison as an HTML page with plots of the changes."""

from __future__ import annotations

from dataclasses import replace

from tbd_trace.analysis.diff.headline import headline
from tbd_trace.analysis.diff.result import Comparison, Part, changed, parts
from tbd_trace.analysis.report.drawing import plot_block
from tbd_trace.analysis.report.page import (
    Block,
    Figure,
    Figures,
    Note,
    Page,
    Section,
    Table,
    render_page,
)
from tbd_trace.analysis.report.report_query import Answer
from tbd_trace.present.values import capitalized

_ROWS = 50
_UNKNOWN = "\N{EN DASH}"


def render(comparison: Comparison) -> bytes:
    """Format a comparison as a self-contained HTML file."""
    a, b = (", ".join(side.names) for side in (comparison.a, comparison.b))
    sections = [_verdict(comparison)]
    sections += [_section(comparison, part) for part in parts(comparison, 0)]
    return render_page(
        Page(title="Two runs side by side", subtitle=f"A: {a}. B: {b}.", sections=sections)
    )


def _verdict(comparison: Comparison) -> Section:
    verdict, work = comparison.verdict, comparison.work
    interval = _UNKNOWN
    if verdict.low_pct is not None and verdict.high_pct is not None:
        interval = f"{verdict.low_pct:+.2f} to {verdict.high_pct:+.2f}"
    source = {"evidence": "B against A", "query": "diff iterations", "link": "iterations"}
    figures = [
        Figure("Verdict", str(verdict.word), **source),
        Figure(
            "Work of a step",
            str(work.verdict),
            evidence="B against A",
            query="diff work",
            link="work",
        ),
        Figure("Change of an iteration", _percent(verdict.change_pct), "%", **source),
        Figure(f"{verdict.confidence_pct or 95:.3g} % interval", interval, "%", **source),
        Figure("Noise floor", _percent(verdict.noise_pct, signed=False), "%", **source),
    ]
    sentence = capitalized(verdict.sentence)
    words = headline(verdict, work)
    blocks: list[Block] = [Figures(figures), Note(f"{capitalized(words)}.")]
    blocks.append(Note(sentence))
    blocks += [Note(caveat) for caveat in verdict.caveats]
    return Section("verdict", "Verdict", "Is B faster or slower than A, beyond noise?", blocks)


def _percent(value: float | None, *, signed: bool = True) -> str:
    if value is None:
        return _UNKNOWN
    return f"{value:+.2f}" if signed else f"{value:.2f}"


def _section(comparison: Comparison, part: Part) -> Section:
    # The table shows the main columns; its CSV has all of them.
    query = comparison.queries[part.name]
    rows = changed(part.name, comparison.frames[part.name])
    label = f"diff {part.name}"
    blocks: list[Block] = []
    if rows.is_empty():
        blocks.append(Note(f"{capitalized(part.remark)}."))
    else:
        if query.plot is not None:
            blocks.append(plot_block(Answer(replace(query, name=label), {}, rows), {}))
        blocks.append(
            Table(
                rows,
                part.units,
                query=label,
                filterable=part.name in {"layers", "kernels"},
                limit=_ROWS,
                docs={name: column.doc for name, column in query.columns.items()},
                columns=part.frame.columns,
            )
        )
    return Section(part.name, part.title, query.question, blocks)
