"""Format parts that several pages have: tables, and links to tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from reference_pages.topics import address
from tbd_trace.present.description import meaning
from tbd_trace.query import Param, Query
from tbd_trace.query.header import Need, alternatives


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a Markdown table, with each `|` of a cell escaped, also in code."""
    escaped = [[cell.replace("|", r"\|") for cell in row] for row in (head, *rows)]
    escaped.insert(1, ["---"] * len(head))
    return [f"| {' | '.join(row)} |" for row in escaped]


def plain(text: str) -> str:
    """Return a text on one line, with its `<` escaped so that none begins an HTML tag."""
    return re.sub(r"<(?=[A-Za-z/!])", r"\\\g<0>", " ".join(text.split()))


def parameter_table(taken: Mapping[str, Param]) -> list[str]:
    """Return the table of parameters."""
    rows = [[f"`{name}`", f"`{p.default}`", plain(meaning(p))] for name, p in taken.items()]
    return table(["parameter", "default", "meaning"], rows)


def column_table(query: Query) -> list[str]:
    """Return the table of a query's columns."""
    rows = [[f"`{name}`", c.unit or "", plain(c.doc)] for name, c in query.columns.items()]
    return table(["column", "unit", "meaning"], rows)


def relation_links(needs: Iterable[Need], folder: str = "") -> str:
    """Return links to tables, whose pages are in a folder, with "or" between alternatives."""
    return ", ".join(
        " or ".join(f"[{name}]({folder}{address(name)})" for name in alternatives(need))
        for need in needs
    )
