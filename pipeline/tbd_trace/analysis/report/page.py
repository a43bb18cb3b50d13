"""A page of numbers, plots and tables: one HTML file that needs no network and no script.

What is on a page comes from profiles, which are other people's text: everything is escaped, and the
page's Content-Security-Policy lets nothing run but its own script, which sorts and filters tables.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import count
from pathlib import Path

import polars as pl
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from tbd_trace.analysis.report.downloads import Download, Downloads
from tbd_trace.analysis.report.html_table import Form, Grid, grid
from tbd_trace.analysis.report.inline_svg import inline_svg
from tbd_trace.present.values import NULL
from tbd_trace.version import __version__

_TEMPLATES = Path(__file__).with_name("templates")


@dataclass(frozen=True, slots=True)
class Figure:
    """One headline number.

    Attributes:
        label: what it is.
        value: the number as text, an en dash where it is not known.
        unit: its unit, empty for none.
        evidence: what it rests on and over what it was measured.
        query: the query that says it, as :class:`Table` has it.
        detail: more about it: its spread, or why it is not known.
        link: id of the section that has more of it.
    """

    label: str
    value: str
    unit: str = ""
    evidence: str = ""
    query: str = ""
    detail: str = ""
    link: str = ""


@dataclass(frozen=True, slots=True)
class Figures:
    """Headline numbers side by side.

    Attributes:
        figures: the numbers.
        title: what they are about, where a page has several such rows.
    """

    figures: Sequence[Figure]
    title: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that stands out.

    Attributes:
        title: what it is.
        severity: how bad it is: note, warning or severe.
        reason: a sentence with the numbers.
        advice: what to change.
        evidence: the rule that found it, and what that rests on.
    """

    title: str
    severity: str
    reason: str
    advice: str = ""
    evidence: str = ""


@dataclass(frozen=True, slots=True)
class Findings:
    """What stands out, the worst first.

    Attributes:
        findings: the findings.
    """

    findings: Sequence[Finding]


@dataclass(frozen=True, slots=True)
class Plot:
    """A drawing.

    Attributes:
        svg: the drawing as matplotlib writes it, a whole SVG file.
        alt: what it shows, for those who do not see it.
        query: the query whose rows are drawn, as :class:`Table` has it.
        frame: the rows that are drawn; they can be downloaded as CSV.
        caption: title of the drawing.
    """

    svg: bytes
    alt: str
    query: str = ""
    frame: pl.DataFrame | None = None
    caption: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows; the page has them as CSV, too, with every column and the numbers as they are.

    A single row is shown as a list of its columns. Columns in which all rows agree are shown above
    the table.

    Attributes:
        frame: the rows.
        units: unit per column; sizes and times are shown in one that reads well.
        query: the query that gave them and the parameters that were set: ``fp32_util by=layer``.
        sortable: whether a click on a column's name sorts by it.
        filterable: whether there is a box that picks rows by a text in them.
        limit: rows that are shown; None means all. The CSV has all.
        caption: title of the table.
        docs: meaning per column, for those who ask.
        columns: the columns that are shown, in order; none means all.
        records: whether each row is shown as a list of its columns, the first of which names it.
    """

    frame: pl.DataFrame
    units: Mapping[str, str | None] = field(default_factory=dict)
    query: str = ""
    sortable: bool = True
    filterable: bool = False
    limit: int | None = None
    caption: str = ""
    docs: Mapping[str, str] = field(default_factory=dict)
    columns: Sequence[str] = ()
    records: bool = False


@dataclass(frozen=True, slots=True)
class Note:
    """A paragraph.

    Attributes:
        text: the words; what is between backquotes is shown as code.
        kind: ``note`` for what a reader should know, ``missing`` for what could not be answered.
    """

    text: str
    kind: str = "note"


Block = Figures | Findings | Plot | Table | Note


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page.

    Attributes:
        id: its address on the page: letters, digits and hyphens.
        title: its heading.
        intro: the question that it answers.
        blocks: what is in it.
    """

    id: str
    title: str
    intro: str = ""
    blocks: Sequence[Block] = ()


@dataclass(frozen=True, slots=True)
class Page:
    """A page.

    Attributes:
        title: its heading.
        subtitle: a line below it.
        sections: its parts, each of which the contents name.
        trace_names: names shown for trace ids.
    """

    title: str
    subtitle: str = ""
    sections: Sequence[Section] = ()
    trace_names: Mapping[str, str] = field(default_factory=dict)


def render_page(page: Page) -> bytes:
    """Return a page as an HTML file, the same for the same page."""
    script = _file("report.js")
    downloads, numbers = Downloads(), count(1)
    sections = [
        (section, [_view(block, page, downloads, f"b{next(numbers)}") for block in section.blocks])
        for section in page.sections
    ]
    digest = hashlib.sha256(script.encode()).digest()
    template = _environment().get_template("page.html.j2")
    html = template.render(
        page=page,
        sections=sections,
        css=Markup(_file("report.css")),
        script=Markup(script),
        script_hash=base64.b64encode(digest).decode(),
        version=__version__,
    )
    return html.encode("utf-8", "replace")  # half a surrogate in a name is no reason to fail


@dataclass(frozen=True, slots=True)
class _View:
    """A block as the template takes it: its kind, itself, and what was made of it."""

    kind: str
    id: str
    block: Block
    svg: Markup | None = None
    grid: Grid | None = None
    download: Download | None = None


def _view(block: Block, page: Page, downloads: Downloads, address: str) -> _View:
    match block:
        case Plot():
            svg = Markup(inline_svg(block.svg, block.alt, f"{address}-"))
            frame = block.frame
            download = None if frame is None else downloads.of(frame, block.query)
            return _View("plot", address, block, svg=svg, download=download)
        case Table():
            form = Form(page.trace_names, block.columns, block.limit, block.records)
            shown = grid(block.frame, block.units, form)
            download = downloads.of(block.frame, block.query)
            return _View("table", address, block, grid=shown, download=download)
        case Figures():
            return _View("figures", address, block)
        case Findings():
            return _View("findings", address, block)
        case Note():
            return _View("note", address, block)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["code"] = _with_code
    environment.globals["null"] = NULL
    return environment


def _with_code(text: str) -> Markup:
    """Return a text with what is between backquotes as code."""
    parts = text.split("`")
    if len(parts) % 2 == 0:  # a backquote without an end
        return Markup.escape(text)
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if number % 2 else Markup.escape(part)
        for number, part in enumerate(parts)
    )


@cache
def _file(name: str) -> str:
    return (_TEMPLATES / name).read_text(encoding="utf-8")
