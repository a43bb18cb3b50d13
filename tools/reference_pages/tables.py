"""Render the page of the tables, from queries/canonical, queries/derive and data."""

from __future__ import annotations

import csv
from pathlib import Path

from reference_pages.markdown import column_table, parameter_table, plain, relation_links, table
from tbd_trace import resources
from tbd_trace.model.canonical_tables import CanonicalTable, canonical_tables
from tbd_trace.query import Query
from tbd_trace.query.catalogue import derive_relations
from tbd_trace.query.renamed import WORKING_VERSIONS, renamed


def tables_page() -> str:
    """Return the page of all tables that a query may read."""
    canonical, derived = canonical_tables().values(), derive_relations()
    lines = [
        "# Tables",
        "",
        "All queries read these tables; they are the same for all profilers. Times are in "
        "nanoseconds on the clock of the trace, sizes in bytes. A value missing in a file is NULL, "
        "never 0. All tables except data tables have a column `trace_id`, which belongs in every "
        "join.",
        "",
        "- Canonical tables, read from profiler files: "
        + ", ".join(f"[{t.name}](#{t.name})" for t in canonical),
        "- Derived tables, computed by queries: "
        + ", ".join(f"[{q.name}](#{q.name})" for q in derived),
        "- Data tables, part of tbd-trace: "
        + ", ".join(f"[{path.stem}](#{path.stem})" for path in data_files()),
        "- [Old names](#old-names) of tables and columns.",
        "",
        "## Canonical tables",
    ]
    for description in canonical:
        lines += ["", *canonical_section(description)]
    lines += ["", "## Derived tables"]
    for query in derived:
        lines += ["", *derived_section(query)]
    lines += ["", "## Data tables"]
    for path in data_files():
        lines += ["", *data_section(path)]
    return "\n".join([*lines, "", *old_names_section()]) + "\n"


def data_files() -> list[Path]:
    """Return the CSV files that queries can read as tables."""
    return sorted(resources.data().glob("*.csv"))


def canonical_section(description: CanonicalTable) -> list[str]:
    """Return the section of a canonical table."""
    rows = [[f"`{c.name}`", c.type, plain(c.doc)] for c in description.columns]
    return [
        f"### {description.name}",
        "",
        description.doc,
        "",
        *table(["column", "type", "meaning"], rows),
    ]


def derived_section(query: Query) -> list[str]:
    """Return the section of a derived relation."""
    facts = [
        ("Grain", query.grain),
        ("Source", query.source),
        ("Built on", relation_links(query.relations)),
    ]
    lines = [f"### {query.name}", "", query.question, ""]
    lines += [f"- {label}: {text}" for label, text in facts if text]
    if query.params:
        lines += ["", *parameter_table(query.params)]
    return [*lines, "", *column_table(query)]


def data_section(path: Path) -> list[str]:
    """Return the section of a data table."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    columns = ", ".join(f"`{name}`" for name in rows[0])
    return [
        f"### {path.stem}",
        "",
        f"[data/{path.name}](../../data/{path.name}), {len(rows) - 1} rows: {columns}",
    ]


def old_names_section() -> list[str]:
    """Return the section of tables and columns whose names changed."""
    lines = [
        "## Old names",
        "",
        f"SQL can use the old name of a table for {WORKING_VERSIONS} minor versions: the one that "
        "changed it, and the next. A note then gives the new name. A table has old columns only "
        "under its old name.",
    ]
    for kind, shown in (("relations", "table"), ("columns", "column")):
        rows = [[f"`{old}`", f"`{n.name}`", n.since, n.until] for old, n in renamed(kind).items()]
        lines += ["", *table([f"old {shown}", "new name", "since", "works until"], rows)]
    return lines
