"""Render numbers, plots and tables as one HTML file that works offline and without scripts.

Texts come from untrusted profiles, so all are escaped, and the page's Content-Security-Policy
allows only its own script, which sorts and filters tables.
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
from tbd_trace.analysis.report.html_table import Grid, GridOptions, grid
from tbd_trace.analysis.report.inline_svg import inline_svg
from tbd_trace.present.values import NULL
from tbd_trace.version import __version__

_TEMPLATES = Path(__file__).with_name("templates")


@dataclass(frozen=True, slots=True)
class Figure:
    """One headline number."""

    label: str
    value: str  # formatted number, an en dash if unknown
    unit: str = ""
    evidence: str = ""  # method and measured window
    query: str = ""  # query and its parameters, as in `Table`
    detail: str = ""  # spread of the number, or the reason why it is unknown
    link: str = ""  # id of the section with details


@dataclass(frozen=True, slots=True)
class Figures:
    """A row of headline numbers; ``title`` distinguishes several rows of a page."""

    figures: Sequence[Figure]
    title: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding of a rule."""

    title: str
    severity: str  # note, warning or severe
    reason: str  # sentence with the numbers
    advice: str = ""  # change to try
    evidence: str = ""  # rule id, kind of evidence, value and threshold


@dataclass(frozen=True, slots=True)
class Findings:
    """Findings in descending order of severity."""

    findings: Sequence[Finding]


@dataclass(frozen=True, slots=True)
class Plot:
    """A plot."""

    svg: bytes  # SVG file of matplotlib
    alt: str  # description for screen readers
    query: str = ""  # query and its parameters, as in `Table`
    frame: pl.DataFrame | None = None  # the plotted rows, offered as CSV
    caption: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """A table, with a CSV file of all columns and unscaled numbers.

    A single row is shown as a list of its columns. Columns with the same value in all rows are
    shown above the table.
    """

    frame: pl.DataFrame
    # Unit by column; sizes and times are scaled for display.
    units: Mapping[str, str | None] = field(default_factory=dict)
    query: str = ""  # query and its parameters, such as `fp32_util by=layer`
    sortable: bool = True  # sort by a column when its heading is clicked
    filterable: bool = False  # add a filter box
    limit: int | None = None  # number of rows to show, None for all; the CSV is not limited by it
    caption: str = ""
    docs: Mapping[str, str] = field(default_factory=dict)  # description by column, shown on request
    columns: Sequence[str] = ()  # columns to show in order, by default all
    records: bool = False  # show each row as a list of its columns, named by the first


@dataclass(frozen=True, slots=True)
class Note:
    """A paragraph."""

    text: str  # text; parts between backquotes are shown as code
    kind: str = "note"  # `note`, or `missing` for the reason of a missing result


Block = Figures | Findings | Plot | Table | Note


@dataclass(frozen=True, slots=True)
class Section:
    """A section of a page; ``id`` is its HTML id of letters, digits and hyphens."""

    id: str
    title: str
    intro: str = ""
    blocks: Sequence[Block] = ()
    folded: bool = False  # show only the title until the reader opens the section
    count: str = ""  # numbers of the content, beside the title
    beside: bool = False  # consecutive plots side by side on wide screens


@dataclass(frozen=True, slots=True)
class Page:
    """A page.

    Args:
        trace_names: displayed names by trace id.
        redacted: the traces have been redacted.
    """

    title: str
    subtitle: str = ""
    sections: Sequence[Section] = ()
    trace_names: Mapping[str, str] = field(default_factory=dict)
    redacted: bool = False


def render_page(page: Page) -> bytes:
    """Render a page as an HTML file; equal pages give equal bytes."""
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
    return html.encode("utf-8", "replace")  # names from profiles may have lone surrogates


@dataclass(frozen=True, slots=True)
class _View:
    # A block with its rendered parts, for the template.

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
            options = GridOptions(page.trace_names, block.columns, block.limit, block.records)
            shown = grid(block.frame, block.units, options)
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
    parts = text.split("`")
    if len(parts) % 2 == 0:  # unbalanced backquotes
        return Markup.escape(text)
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if number % 2 else Markup.escape(part)
        for number, part in enumerate(parts)
    )


@cache
def _file(name: str) -> str:
    return (_TEMPLATES / name).read_text(encoding="utf-8")
