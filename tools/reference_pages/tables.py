"""Render the pages of the tables, from queries/canonical, queries/derive and data."""

from __future__ import annotations

import csv
import re
from pathlib import Path

from reference_pages.markdown import column_table, parameter_table, plain, relation_links, table
from reference_pages.topics import DATA, Topic, address, data_files, topics
from tbd_trace.model.canonical_tables import CanonicalTable
from tbd_trace.query import Query
from tbd_trace.query.renamed import WORKING_VERSIONS, renamed

INDEX, OLD_NAMES = "README.md", "old_names.md"


def table_pages() -> dict[str, str]:
    """Return the index, a page for each topic, and those of data tables and old names."""
    topic_pages = {topic.page: topic_page(topic) for topic in topics()}
    return {INDEX: index_page(), DATA: data_page(), OLD_NAMES: old_names_page(), **topic_pages}


def index_page() -> str:
    """Return the page that lists all tables by topic."""
    lines = [
        "# Tables",
        "",
        "All queries read these tables; they are the same for all profilers. Times are in "
        "nanoseconds on the clock of the trace, sizes in bytes. A value missing in a file is NULL, "
        "never 0. All tables except data tables have a column `trace_id`, which belongs in every "
        "join.",
        "",
        "Canonical tables are read from profiler files, derived tables are computed by queries. "
        "Internal tables are derived tables that can change in any release. "
        f"[Data tables]({DATA}) are part of tbd-trace. [Old names]({OLD_NAMES}) of tables and "
        "columns work for some versions.",
    ]
    for topic in topics():
        lines += ["", f"## [{topic.title}]({topic.page})", "", topic.contents, ""]
        rows = [[_link(t.name), "canonical", _first_sentence(t.doc)] for t in topic.canonical]
        rows += [[_link(q.name), "derived", plain(q.question)] for q in topic.derived]
        rows += [[_link(q.name), "internal", plain(q.question)] for q in topic.internal]
        lines += table(["table", "kind", "contents"], rows)
    lines += ["", f"## [Data tables]({DATA})", "", "CSV files that queries read as tables:", ""]
    return "\n".join([*lines, ", ".join(_link(path.stem) for path in data_files())]) + "\n"


def topic_page(topic: Topic) -> str:
    """Return the page of a topic: canonical tables, derived tables, internal tables."""
    lines = [f"# {topic.title}", "", f"{topic.contents} [All tables]({INDEX})"]
    if topic.canonical:
        lines += ["", "## Canonical tables"]
    for description in topic.canonical:
        lines += ["", *canonical_section(description)]
    if topic.derived:
        lines += ["", "## Derived tables"]
    for query in topic.derived:
        lines += ["", *derived_section(query)]
    if topic.internal:
        lines += ["", "## Internal tables", "", "These can change in any release."]
    for query in topic.internal:
        lines += ["", *derived_section(query)]
    return "\n".join(lines) + "\n"


def data_page() -> str:
    """Return the page of the data tables."""
    lines = ["# Data tables", "", f"CSV files that queries read as tables. [All tables]({INDEX})"]
    for path in data_files():
        lines += ["", *data_section(path)]
    return "\n".join(lines) + "\n"


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
        f"## {path.stem}",
        "",
        f"[data/{path.name}](../../../data/{path.name}), {len(rows) - 1} rows: {columns}",
    ]


def old_names_page() -> str:
    """Return the page of tables and columns whose names changed."""
    lines = [
        "# Old names",
        "",
        f"SQL can use the old name of a table for {WORKING_VERSIONS} minor versions: the one that "
        "changed it, and the next. A note then gives the new name. A table has old columns only "
        "under its old name.",
    ]
    for kind, shown in (("relations", "table"), ("columns", "column")):
        rows = [[f"`{old}`", f"`{n.name}`", n.since, n.until] for old, n in renamed(kind).items()]
        lines += ["", *table([f"old {shown}", "new name", "since", "works until"], rows)]
    return "\n".join(lines) + "\n"


def _link(name: str) -> str:
    return f"[{name}]({address(name)})"


def _first_sentence(text: str) -> str:
    return re.split(r"(?<=\.) (?=[A-Z])", plain(text), maxsplit=1)[0]
