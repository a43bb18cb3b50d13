"""Render the pages of the metric queries and their index, from queries/metrics."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from reference_pages.markdown import column_table, parameter_table, plain, relation_links, table
from tbd_trace.present.description import division, parameters, refusal
from tbd_trace.query import Plot, Query

ROOT = Path(__file__).resolve().parents[2]


def query_index(metrics: Sequence[Query]) -> str:
    """Return the page that lists the metric queries."""
    rows = [[f"[{q.name}]({q.name}.md)", plain(q.title), plain(q.question)] for q in metrics]
    return "\n".join(
        [
            "# Queries",
            "",
            "`tbd-trace query NAME [TRACE]...` runs one of these queries. Each is a SQL file in "
            "`queries/metrics`; its page describes its inputs, parameters and columns.",
            "",
            *table(["query", "title", "question"], rows),
        ]
    )


def query_page(query: Query) -> str:
    """Return the page of one metric query."""
    shown = query.path.relative_to(ROOT)
    lines = [f"# {query.title}", "", query.question, ""]
    lines += ["```", f"tbd-trace query {query.name} [TRACE]... [--set NAME=VALUE]...", "```", ""]
    facts = [
        ("Grain", query.grain),
        ("Source", query.source),
        ("Needs", relation_links(query.needs, "../tables/")),
        ("Uses if there", relation_links(query.optional, "../tables/")),
        ("Leaves out", relation_links(list(filter(None, [query.leaves_out])), "../tables/")),
        ("Refuses", refusal(query)),
        ("Many traces", division(query)),
        ("Plot", plot_sentence(query)),
        ("SQL", f"[{shown}](../../../{shown})"),
    ]
    lines += [f"- {label}: {text}" for label, text in facts if text]
    taken = parameters(query)
    if taken:
        lines += ["", "## Parameters", "", *parameter_table(taken)]
    lines += ["", "## Columns", "", *column_table(query)]
    return "\n".join(lines) + "\n"


def plot_sentence(query: Query) -> str:
    """Return the sentence about `--plot`, empty for a query without a plot."""
    ways = []
    plot = query.plot
    while plot is not None:
        ways.append(drawn_by(plot))
        plot = plot.otherwise
    return "`--plot FILE.svg` draws " + "; else ".join(ways) if ways else ""


def drawn_by(plot: Plot) -> str:
    """Describe one of a query's plots."""

    def names(columns: Iterable[str]) -> str:
        return ", ".join(f"`{column}`" for column in columns)

    drawn = " and ".join(names(group) for group in plot.groups)
    apart = f", apart by {names(plot.keys)}" if plot.keys else ""
    apart += f", `{plot.secondary}` as a line" if plot.secondary else ""
    where = f", a panel per {names(plot.panels)}" if plot.panels else ""
    return f"{drawn} by {names(plot.places)}{apart}{where} ({plot.kind.replace('_', ' ')})"
